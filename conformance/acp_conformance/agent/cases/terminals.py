"""Terminals of the client: the agent must release each terminal, however the turn ends, and must not use it after
that."""

from __future__ import annotations

import os
from typing import Any

from acp_conformance.agent.cases.cancel_request import cancelled_by_id
from acp_conformance.agent.cases.session_cancel import ends_cancelled
from acp_conformance.agent.cases.sessions import end
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent, Incoming, Pending, Refuse
from acp_conformance.core.case import MUST, SHOULD, fail, not_applicable

SOURCE = "ACP v1"
RELEASE = "Terminals, Releasing Terminals"
CREATE = "Terminals, Executing Commands"
CANCELLATION = "Prompt Turn, Cancellation"


def member(request: Incoming, name: str) -> Any:
    """Return a parameter of a request; None if it is missing."""
    return request.params.get(name) if isinstance(request.params, dict) else None


async def at_work(agent: Agent, session: str) -> Pending:
    """Return a prompt whose turn waits for a command that does not end by itself."""
    agent.editor.commands_end = False
    prompt = await agent.prompt(session, "terminal")
    await agent.wait_for(
        lambda: (
            [each for each in agent.requests if each.method in ("terminal/wait_for_exit", "terminal/output")] or None
        ),
        "terminal/wait_for_exit or terminal/output",
    )
    return prompt


async def all_released(agent: Agent) -> None:
    """Wait until every created terminal is released. The case fails if a terminal is not released."""
    await agent.wait_for(
        lambda: True if all(terminal.released for terminal in agent.editor.terminals.values()) else None,
        "the release of its terminal",
    )


@case("terminals/names-its-session", level=MUST, source=SOURCE, section=CREATE, needs="terminal")
async def names_its_session(agent: Agent) -> None:
    """A terminal is created for the session whose turn needs it."""
    session, _ = await agent.session(), await agent.session()
    await agent.prompt(session, "terminal")
    named = member(await agent.next_request("terminal/create"), "sessionId")
    if named != session:
        fail(f"its sessionId is {named!r} instead of {session!r}")


@case("terminals/released", level=MUST, source=SOURCE, section=RELEASE, needs="terminal")
async def releases(agent: Agent) -> None:
    """A terminal is released when its command has ended."""
    prompt = await agent.prompt(await agent.session(), "terminal")
    await agent.next_request("terminal/create")
    await prompt.answer()
    await all_released(agent)


@case("terminals/known", level=MUST, source=SOURCE, section=CREATE, needs="terminal")
async def uses_its_own(agent: Agent) -> None:
    """Only terminals that the client has created are used."""
    prompt = await agent.prompt(await agent.session(), "terminal")
    await prompt.answer()
    await agent.settle()
    for request in agent.requests:
        id = member(request, "terminalId")
        if (
            request.method.startswith("terminal/")
            and request.method != "terminal/create"
            and id not in agent.editor.terminals
        ):
            fail(f"{request.method} for the terminal {id!r}, which was never created")


@case("terminals/not-used-after-release", level=MUST, source=SOURCE, section=RELEASE, needs="terminal")
async def does_not_use_the_released(agent: Agent) -> None:
    """A released terminal is no longer used."""
    prompt = await agent.prompt(await agent.session(), "terminal")
    await prompt.answer()
    await agent.settle()
    released: set[object] = set()
    for request in agent.requests:
        id = member(request, "terminalId")
        if request.method.startswith("terminal/") and id in released:
            fail(f"{request.method} for the terminal {id!r} after its release")
        if request.method == "terminal/release":
            released.add(id)


@case("terminals/shown", level=MUST, source=SOURCE, section="Terminals, Embedding in Tool Calls", needs="terminal")
async def shows_its_own(agent: Agent) -> None:
    """A terminal that a tool call shows was created by the client."""
    await _shows_its_own(agent, "terminal")


@case("terminals/shown-by-tools", level=MUST, source=SOURCE, section="Terminals, Embedding in Tool Calls", needs="tool")
async def tools_show_their_own(agent: Agent) -> None:
    """In other situations too, a terminal that a tool call shows was created by the client."""
    await _shows_its_own(agent, "tool")


async def _shows_its_own(agent: Agent, situation: str) -> None:
    session = await agent.session()
    await (await agent.prompt(session, situation)).answer()
    shown = [
        content.get("terminalId")
        for update in agent.spoken(session)
        if isinstance(update.body.get("content"), list)
        for content in update.body["content"]
        if isinstance(content, dict) and content.get("type") == "terminal"
    ]
    if not shown:
        not_applicable("no tool call shows a terminal")
    for id in shown:
        if id not in agent.editor.terminals:
            fail(f"a tool call shows the terminal {id!r}, which was never created")


@case("terminals/not-created", level=MUST, source="JSON-RPC 2.0", section="5", needs="terminal")
async def survives_that_none_is_created(agent: Agent) -> None:
    """A turn is answered although the client cannot create a terminal."""

    def refuse(_: Incoming) -> object:
        raise Refuse(-32603, "The command cannot be started")

    agent.on("terminal/create", refuse)
    prompt = await agent.prompt(await agent.session(), "terminal")
    await agent.next_request("terminal/create")
    await prompt.answer()


@case("terminals/released-after-an-error", level=MUST, source=SOURCE, section=RELEASE, needs="terminal")
async def releases_after_an_error(agent: Agent) -> None:
    """A terminal is released even if the client could not wait for its command."""

    def refuse(_: Incoming) -> object:
        raise Refuse(-32603, "It cannot be waited for")

    agent.on("terminal/wait_for_exit", refuse)
    prompt = await agent.prompt(await agent.session(), "terminal")
    await prompt.answer()
    if not any(request.method == "terminal/wait_for_exit" for request in agent.requests):
        not_applicable("the agent does not use terminal/wait_for_exit")
    await all_released(agent)


@case(
    "terminals/cancelled-turn-ends",
    level=MUST,
    source=SOURCE,
    section=CANCELLATION,
    needs="terminal",
)
async def a_cancelled_turn_ends(agent: Agent) -> None:
    """A turn that is cancelled while its command runs is answered `cancelled`."""
    session = await agent.session()
    prompt = await at_work(agent, session)
    await agent.cancel(session)
    await ends_cancelled(prompt)


@case(
    "terminals/released-at-cancel",
    level=MUST,
    source=SOURCE,
    section=RELEASE,
    needs="terminal",
)
async def releases_at_cancel(agent: Agent) -> None:
    """The terminal of a cancelled turn is released."""
    session = await agent.session()
    prompt = await at_work(agent, session)
    await agent.cancel(session)
    await prompt.answer()
    await all_released(agent)


@case(
    "terminals/late-one-released",
    level=MUST,
    source=SOURCE,
    section=RELEASE,
    needs="terminal",
)
async def releases_the_late_one(agent: Agent) -> None:
    """A terminal is released if the client creates it after its turn was cancelled."""
    agent.editor.commands_end = False
    agent.yields_to_cancel = False
    agent.hold("terminal/create")
    session = await agent.session()
    await agent.prompt(session, "terminal")
    create = await agent.next_request("terminal/create")
    await agent.cancel(session)
    await agent.fence()
    await create.answer(agent.editor.handle(create))
    await all_released(agent)


@case("terminals/failing-release", level=MUST, source=SOURCE, section=CANCELLATION, needs="terminal")
async def survives_a_failing_release(agent: Agent) -> None:
    """A cancelled turn is answered `cancelled` although its terminal can neither be killed nor released."""

    def refuse(_: Incoming) -> object:
        raise Refuse(-32603, "It cannot be reached")

    agent.on("terminal/kill", refuse)
    agent.on("terminal/release", refuse)
    session = await agent.session()
    prompt = await at_work(agent, session)
    await agent.cancel(session)
    await ends_cancelled(prompt)


@case(
    "terminals/released-at-close",
    level=MUST,
    source=SOURCE,
    section="Session Setup, Closing Active Sessions",
    needs="terminal",
)
async def releases_at_close(agent: Agent) -> None:
    """The terminal of a session that is closed is released."""
    session = await agent.session()
    if not agent.can("sessionCapabilities.close"):
        not_applicable("sessionCapabilities.close is not announced")
    await at_work(agent, session)
    await end(agent, session)
    await all_released(agent)


@case(
    "terminals/released-when-cancelled-by-id",
    level=SHOULD,
    source="RFD request-cancellation",
    section="FAQ, How should implementations handle cascading cancellation?",
    needs="terminal",
)
async def releases_when_cancelled_by_id(agent: Agent) -> None:
    """The terminal of a prompt that is cancelled by its id is released."""
    session = await agent.session()
    prompt = await at_work(agent, session)
    await cancelled_by_id(agent, session, prompt)
    await all_released(agent)


@case(
    "terminals/session-folder", level=MUST, source=SOURCE, section="Session Setup, Working Directory", needs="terminal"
)
async def session_folder(agent: Agent) -> None:
    """A session uses its own working directory, wherever the agent was started."""
    (agent.cwd / "elsewhere").mkdir()
    session = await agent.session(cwd=str(agent.cwd / "elsewhere"))
    await agent.prompt(session, "terminal")
    request = await agent.next_request("terminal/create")
    where = request.params.get("cwd") if isinstance(request.params, dict) else None
    if where in (os.getcwd(), str(agent.cwd)):
        fail(f"the command of a session in {agent.cwd}/elsewhere is to run in {where}")
