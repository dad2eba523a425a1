"""Permission requests: their contents, the state of the session meanwhile, and the responses that permit a tool
call."""

from __future__ import annotations

from typing import Any

from acp_conformance.agent.exchange import Incoming
from acp_conformance.agent.subject import Agent
from acp_conformance.agent.v2.registry import SOURCE, case
from acp_conformance.agent.v2.steps import LIFE, ends, question, reached, session_of, short, states, tool_calls
from acp_conformance.core.case import MUST, SHOULD, fail, not_applicable

SECTION = "Permission requests"


async def _question(agent: Agent) -> tuple[str, Incoming]:
    session = await session_of(agent)
    return session, await question(agent, session)


def _options(asked: Incoming) -> list[dict[str, Any]]:
    options = asked.params.get("options") if isinstance(asked.params, dict) else None
    if not isinstance(options, list) or not options or not all(isinstance(each, dict) for each in options):
        fail(f"the options are {short(options)}", at=asked.position)
    return options


@case("v2-permission/title", level=MUST, source=SOURCE, section=SECTION, needs="permission", after=LIFE)
async def title(agent: Agent) -> None:
    """A permission request has a title, and options with different ids."""
    _, asked = await _question(agent)
    if not isinstance(asked.params, dict) or not isinstance(asked.params.get("title"), str):
        fail(f"the parameters are {short(asked.params)}", at=asked.position)
    ids = [each.get("optionId") for each in _options(asked)]
    if len({str(id) for id in ids}) != len(ids):
        fail(f"the ids of the options are {short(ids)}", at=asked.position)


@case("v2-permission/subject", level=MUST, source=SOURCE, section=SECTION, needs="permission", after=LIFE)
async def subject(agent: Agent) -> None:
    """A permission request names its subject in the member `subject`, not in `toolCall`."""
    _, asked = await _question(agent)
    found = asked.params.get("subject") if isinstance(asked.params, dict) else None
    if isinstance(asked.params, dict) and "toolCall" in asked.params:
        fail("it has a toolCall, as in version 1", at=asked.position)
    if found is not None and not (isinstance(found, dict) and isinstance(found.get("type"), str)):
        fail(f"the subject is {short(found)}", at=asked.position)


@case("v2-permission/requires-action", level=MUST, source=SOURCE, section=SECTION, needs="permission", after=LIFE)
async def requires_action(agent: Agent) -> None:
    """The state is requires_action while all work waits for the user, and running after the user's answer."""
    session, asked = await _question(agent)
    await agent.fence()
    since = (await reached(agent, session, "requires_action")).position
    await asked.answer({"outcome": {"outcome": "selected", "optionId": _options(asked)[0].get("optionId")}})
    await reached(agent, session, "idle", since=since)
    if not states(agent, session, "running", since=since):
        fail("it is not running between the answer and its end")


@case("v2-permission/asks-first", level=MUST, source=SOURCE, section=SECTION, needs="permission", after=LIFE)
async def asks_first(agent: Agent) -> None:
    """A tool does not run before it is permitted."""
    session, asked = await _question(agent)
    id = _call(asked).get("toolCallId")
    await agent.fence()
    call = {**tool_calls(agent, session).get(str(id), {})}
    if "status" in _call(asked):
        # The subject is an update of the tool call; reports after it count.
        later = tool_calls(agent, session, since=asked.position).get(str(id), {})
        call["status"] = later.get("status", _call(asked)["status"])
    if call.get("status") in ("in_progress", "completed"):
        fail(f"the tool call is {call['status']} while the user is asked", at=asked.position)


@case("v2-permission/rejected", level=MUST, source=SOURCE, section=SECTION, needs="permission", after=LIFE)
async def rejected(agent: Agent) -> None:
    """After a rejection the tool does not run."""
    session, asked = await _question(agent)
    chosen = next((each for each in _options(asked) if str(each.get("kind")).startswith("reject")), None)
    if chosen is None:
        not_applicable("it offers no option to reject")
    await _permits_nothing(agent, session, asked, {"outcome": "selected", "optionId": chosen.get("optionId")})


@case("v2-permission/cancelled", level=MUST, source=SOURCE, section=SECTION, needs="permission", after=LIFE)
async def cancelled(agent: Agent) -> None:
    """After the outcome cancelled, without a cancel of the session, the tool does not run."""
    session, asked = await _question(agent)
    await _permits_nothing(agent, session, asked, {"outcome": "cancelled"})


@case("v2-permission/withdrawn", level=MUST, source=SOURCE, section="Cancellation", needs="permission", after=LIFE)
async def withdrawn(agent: Agent) -> None:
    """Work that waits for the user ends as cancelled after session/cancel, to which the client adds the outcome
    cancelled."""
    session, asked = await _question(agent)
    await agent.notify("session/cancel", {"sessionId": session})
    if not asked.answered:
        await asked.answer({"outcome": {"outcome": "cancelled"}})
    await ends(agent, session, "cancelled")


@case("v2-permission/says-so", level=SHOULD, source=SOURCE, section="Cancellation", needs="permission", after=LIFE)
async def says_so(agent: Agent) -> None:
    """After session/cancel the agent withdraws its permission request by $/cancel_request."""
    session, asked = await _question(agent)
    await agent.notify("session/cancel", {"sessionId": session})
    await asked.withdrawn()


@case("v2-permission/late", level=MUST, source=SOURCE, section="Cancellation", needs="permission", after=LIFE)
async def late(agent: Agent) -> None:
    """A response after the end of the work does not resume the work."""
    session, asked = await _question(agent)
    agent.yields_to_cancel = False
    await agent.notify("session/cancel", {"sessionId": session})
    await agent.fence()
    await agent.pause()
    if not (idle := states(agent, session, "idle")):
        not_applicable("its work ends with the answer that the client owes")
    behind = idle[-1].position
    await asked.answer({"outcome": {"outcome": "selected", "optionId": _options(asked)[0].get("optionId")}})
    await agent.fence()
    await agent.pause()
    if begun := states(agent, session, "running", "requires_action", since=behind):
        fail(f"it is {begun[0].body['state']} again", at=begun[0].position)


@case("v2-permission/not-offered", level=MUST, source=SOURCE, section=SECTION, needs="permission", after=LIFE)
async def not_offered(agent: Agent) -> None:
    """After an answer with an option that was not offered, the tool does not run."""
    await _no_leave(agent, "selected", "no-such-option")


@case("v2-permission/unknown-outcome", level=MUST, source=SOURCE, section=SECTION, needs="permission", after=LIFE)
async def unknown_outcome(agent: Agent) -> None:
    """After an unknown outcome the tool does not run."""
    await _no_leave(agent, "_later", None)


async def _no_leave(agent: Agent, outcome: str, option: str | None) -> None:
    """Send this response, by default with the first option. The tool call must not be completed."""
    session, asked = await _question(agent)
    chosen = option or _options(asked)[0].get("optionId")
    await _permits_nothing(agent, session, asked, {"outcome": outcome, "optionId": chosen})


def _call(asked: Incoming) -> dict[str, Any]:
    """Return the tool call that the request is about; empty if the subject is something else."""
    found = asked.params.get("subject") if isinstance(asked.params, dict) else None
    call = found.get("toolCall") if isinstance(found, dict) else None
    return call if isinstance(call, dict) else {}


async def _permits_nothing(agent: Agent, session: str, asked: Incoming, outcome: dict[str, Any]) -> None:
    """Send this outcome. The tool call must not be completed."""
    id = _call(asked).get("toolCallId")
    if not isinstance(id, str):
        not_applicable("its subject is not a tool call")
    await asked.answer({"outcome": outcome})
    await reached(agent, session, "idle", since=asked.position)
    if tool_calls(agent, session).get(id, {}).get("status") == "completed":
        fail(f"the tool call {short(id)} was completed")
