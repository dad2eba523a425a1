"""`session/request_permission`: the contents of the request, and tools that must not run without permission.

The suite notices that a tool runs by its status (in progress, completed) and by its requests to the client (writing,
commands).
"""

from __future__ import annotations

from typing import Any

from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent, Incoming, Pending
from acp_conformance.core.case import MUST, SHOULD, fail, skip

SOURCE = "ACP v1"
SECTION = "Tool Calls, Requesting Permission"
OPTIONS = "Tool Calls, Permission Options"
METHOD = "session/request_permission"
RUNS = ("in_progress", "completed")
DEEDS = ("fs/write_text_file", "terminal/create")
CANCELLED = {"outcome": {"outcome": "cancelled"}}


async def asked(agent: Agent, session: str) -> tuple[Pending, Incoming]:
    """Return a prompt whose turn waits for permission, and the permission request."""
    agent.hold(METHOD)
    prompt = await agent.prompt(session, "permission")
    return prompt, await agent.next_request(METHOD)


def options(request: Incoming) -> list[dict[str, Any]]:
    """Return the options that the user can choose."""
    found = request.params.get("options") if isinstance(request.params, dict) else None
    return [option for option in found if isinstance(option, dict)] if isinstance(found, list) else []


def option(request: Incoming, kind: str) -> dict[str, Any]:
    """Return the response with the first option of a kind, `allow` or `reject`. Skips the case if the request has no
    such option."""
    chosen = next((each for each in options(request) if str(each.get("kind")).startswith(kind)), None)
    if chosen is None:
        skip(f"the agent offers no option to {kind}")
    return {"outcome": {"outcome": "selected", "optionId": chosen.get("optionId")}}


def tool_call(request: Incoming) -> object:
    """Return the id of the tool call that needs the permission."""
    call = request.params.get("toolCall") if isinstance(request.params, dict) else None
    return call.get("toolCallId") if isinstance(call, dict) else None


def _reported(request: Incoming) -> object:
    """Return the status of the tool call in the request itself."""
    call = request.params.get("toolCall") if isinstance(request.params, dict) else None
    return call.get("status") if isinstance(call, dict) else None


def deeds(agent: Agent, request: Incoming, *, since: int) -> list[str]:
    """Return the messages since a position that show that the tool has run. A request that has the tool call as
    `pending` replaces earlier reports of its status."""
    told_since = max(since, request.position) if _reported(request) not in (None, *RUNS) else since
    session = str(request.params.get("sessionId") if isinstance(request.params, dict) else None)
    found = [
        f"its tool call is {update.body['status']}"
        for update in agent.spoken(session, since=told_since)
        if update.body.get("toolCallId") == tool_call(request) and update.body.get("status") in RUNS
    ]
    return found + [
        f"it called {later.method}"
        for later in agent.requests
        if later.position >= since
        and later.method in DEEDS
        and isinstance(later.params, dict)
        and later.params.get("sessionId") == session
    ]


async def does_not_run(agent: Agent, prompt: Pending, request: Incoming) -> None:
    """Wait for the end of the turn. The case fails if the tool has run since the request."""
    await prompt.answer()
    await agent.settle()
    if done := deeds(agent, request, since=request.position):
        fail(f"the tool ran: {done[0]}")


@case(
    "permission/asks-first",
    level=MUST,
    source=SOURCE,
    section="Prompt Turn, 5. Tool Invocation and Status Reporting",
    needs="permission",
    shared=True,
)
async def asks_first(agent: Agent) -> None:
    """A tool does not run before it is permitted."""
    prompt, request = await asked(agent, await agent.session())
    await agent.fence()
    if done := deeds(agent, request, since=prompt.since):
        fail(f"the tool runs already: {done[0]}")


@case("permission/names-its-tool-call", level=SHOULD, source=SOURCE, section=SECTION, needs="permission")
async def names_its_tool_call(agent: Agent) -> None:
    """Permission is requested for a tool call that was reported before, by its id."""
    session = await agent.session()
    _, request = await asked(agent, session)
    reported = {
        update.body.get("toolCallId")
        for update in agent.spoken(session)
        if update.kind == "tool_call" and update.position < request.position
    }
    if tool_call(request) not in reported:
        fail(f"the tool call {tool_call(request)!r} was not reported before; known are {sorted(map(str, reported))}")


@case("permission/has-options", level=MUST, source=SOURCE, section=OPTIONS, needs="permission")
async def has_options(agent: Agent) -> None:
    """A permission request has at least one option."""
    _, request = await asked(agent, await agent.session())
    if not options(request):
        fail("no options")


@case("permission/option-ids-differ", level=MUST, source=SOURCE, section=OPTIONS, needs="permission")
async def option_ids_differ(agent: Agent) -> None:
    """Each option has a separate id."""
    _, request = await asked(agent, await agent.session())
    ids = [each.get("optionId") for each in options(request)]
    if len(set(map(str, ids))) != len(ids):
        fail(f"the ids of the options are {ids}")


@case("permission/option-kinds", level=MUST, source=SOURCE, section=OPTIONS, needs="permission")
async def option_kinds_are_known(agent: Agent) -> None:
    """Each option has a kind of the specification."""
    _, request = await asked(agent, await agent.session())
    for each in options(request):
        if each.get("kind") not in ("allow_once", "allow_always", "reject_once", "reject_always"):
            fail(f"the option {each.get('optionId')!r} is of the kind {each.get('kind')!r}")


@case("permission/names-its-session", level=MUST, source=SOURCE, section=SECTION, needs="permission")
async def names_its_session(agent: Agent) -> None:
    """The permission request has the id of the session whose turn sends it."""
    session, _ = await agent.session(), await agent.session()
    _, request = await asked(agent, session)
    named = request.params.get("sessionId") if isinstance(request.params, dict) else None
    if named != session:
        fail(f"its sessionId is {named!r} instead of {session!r}")


@case(
    "permission/allowed-runs",
    level=SHOULD,
    source=SOURCE,
    section="Prompt Turn, 5. Tool Invocation and Status Reporting",
    needs="permission",
    shared=True,
)
async def what_is_allowed_runs(agent: Agent) -> None:
    """A permitted tool runs, and the agent reports its end."""
    prompt, request = await asked(agent, await agent.session())
    await request.answer(option(request, "allow"))
    await prompt.answer()
    if not deeds(agent, request, since=request.position):
        fail("the turn ended, and the tool call was neither in progress nor completed")


@case(
    "permission/rejected",
    level=MUST,
    source=SOURCE,
    section=OPTIONS,
    needs="permission",
)
async def what_is_rejected_does_not_run(agent: Agent) -> None:
    """A rejected tool does not run."""
    prompt, request = await asked(agent, await agent.session())
    await request.answer(option(request, "reject"))
    await does_not_run(agent, prompt, request)


@case(
    "permission/dismissed",
    level=MUST,
    source=SOURCE,
    section=SECTION,
    needs="permission",
)
async def what_is_dismissed_does_not_run(agent: Agent) -> None:
    """When a permission request is answered `cancelled`, its tool does not run, and the turn ends."""
    prompt, request = await asked(agent, await agent.session())
    await request.answer(CANCELLED)
    await does_not_run(agent, prompt, request)


@case(
    "permission/refused-by-the-client",
    level=MUST,
    source=SOURCE,
    section=SECTION,
    needs="permission",
)
async def an_error_is_no_leave(agent: Agent) -> None:
    """When a permission request is answered with an error, its tool does not run, and the turn ends."""
    prompt, request = await asked(agent, await agent.session())
    await request.refuse(-32603, "The user cannot be asked")
    await does_not_run(agent, prompt, request)


@case("permission/unknown-option", level=SHOULD, source=SOURCE, section=OPTIONS, needs="permission")
async def an_unknown_option_is_no_leave(agent: Agent) -> None:
    """A tool does not run when the response names an option that was not offered."""
    prompt, request = await asked(agent, await agent.session())
    await request.answer({"outcome": {"outcome": "selected", "optionId": "conformance-no-such-option"}})
    await does_not_run(agent, prompt, request)


@case("permission/each-session-its-own", level=MUST, source=SOURCE, section=SECTION, needs="permission")
async def leave_is_for_one_session(agent: Agent) -> None:
    """Permission in one session does not permit a tool in another session."""
    first, question = await asked(agent, await agent.session())
    second, other = await asked(agent, await agent.session())
    await other.answer(option(other, "allow"))
    await second.answer()
    await agent.fence()
    if done := deeds(agent, question, since=question.position):
        fail(f"the tool of the session whose permission request is open ran: {done[0]}")
    if first.answers:
        fail("the turn whose permission request is open has ended")


@case("permission/once-is-once", level=SHOULD, source=SOURCE, section=OPTIONS, needs="permission")
async def once_is_once(agent: Agent) -> None:
    """After `allow_once` the agent asks for permission again the next time."""
    session = await agent.session()
    prompt, request = await asked(agent, session)
    await request.answer(option(request, "allow_once"))
    await prompt.answer()
    again = await agent.prompt(session, "permission")
    asks = await agent.wait_for(
        lambda: len(agent.requests) if agent.held(METHOD) else again.answers or None, "a question"
    )
    if isinstance(asks, list):
        fail("the next turn did not ask")
