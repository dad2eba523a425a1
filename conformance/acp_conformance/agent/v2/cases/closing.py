"""session/close and session/delete, for a session that works and for other sessions."""

from __future__ import annotations

from acp_conformance.agent.subject import Agent, prompt_params
from acp_conformance.agent.v2.registry import SOURCE, case
from acp_conformance.agent.v2.steps import (
    LIFE,
    NOT_FOUND,
    begin,
    nothing_follows,
    refused,
    session_of,
    short,
    states,
    working,
)
from acp_conformance.core.case import MUST, SHOULD, fail, not_applicable
from acp_conformance.core.schema import announced

SECTION = "Session close"
DELETE = "Session delete"


async def _ends_first(agent: Agent, method: str, session: str) -> int:
    """Send the request while the session works, and return the position of its response. The state idle must precede
    the response."""
    ending = await agent.request(method, {"sessionId": session})
    await ending.result()
    answered = ending.position or 0
    if not any(update.position < answered for update in states(agent, session, "idle")):
        fail(f"{method} was answered before the session was idle", at=ending.position)
    return answered


async def _can_delete(agent: Agent) -> None:
    if not announced((await begin(agent)).get("capabilities") or {}, "session.delete"):
        not_applicable("it does not announce session.delete")


@case("v2-closing/close", level=MUST, source=SOURCE, section=SECTION, needs="hang", after=LIFE)
async def close(agent: Agent) -> None:
    """session/close ends the work: the state idle precedes the response, and nothing of the session follows."""
    session = await working(agent)
    await nothing_follows(agent, session, await _ends_first(agent, "session/close", session))


@case("v2-closing/reason", level=MUST, source=SOURCE, section=SECTION, needs="hang", after="v2-closing/close")
async def reason(agent: Agent) -> None:
    """Work that session/close ends has the stop reason cancelled."""
    session = await working(agent)
    await _ends_first(agent, "session/close", session)
    idle = states(agent, session, "idle")[0]
    if (found := idle.body.get("stopReason")) != "cancelled":
        fail(f"the stopReason is {short(found)}", at=idle.position)


@case("v2-closing/closed-is-gone", level=SHOULD, source=SOURCE, section=SECTION)
async def closed_is_gone(agent: Agent) -> None:
    """A prompt for a closed session is refused with -32002."""
    session = await session_of(agent)
    await (await agent.request("session/close", {"sessionId": session})).result()
    await refused(agent, "session/prompt", prompt_params(session, "hello"), NOT_FOUND)


@case("v2-closing/other-session", level=MUST, source=SOURCE, section=SECTION, needs="hang", after=LIFE)
async def other_session(agent: Agent) -> None:
    """Closing a session does not affect the work of other sessions."""
    session, other = await working(agent), await working(agent)
    await (await agent.request("session/close", {"sessionId": session})).result()
    await agent.fence()
    if ended := states(agent, other, "idle"):
        fail("the work of another session was ended as well", at=ended[0].position)


@case("v2-closing/unknown", level=SHOULD, source=SOURCE, section=SECTION)
async def unknown(agent: Agent) -> None:
    """Closing a session that does not exist succeeds."""
    await begin(agent)
    await (await agent.request("session/close", {"sessionId": "no-such-session"})).result()


@case("v2-closing/delete", level=SHOULD, source=SOURCE, section=DELETE, needs="hang", after=LIFE)
async def delete(agent: Agent) -> None:
    """session/delete ends the work like session/close, and nothing of the session follows the response."""
    await _can_delete(agent)
    session = await working(agent)
    await nothing_follows(agent, session, await _ends_first(agent, "session/delete", session))


@case("v2-closing/deleted-is-gone", level=MUST, source=SOURCE, section=DELETE)
async def deleted_is_gone(agent: Agent) -> None:
    """A deleted session is no longer listed."""
    await _can_delete(agent)
    session = await session_of(agent)
    await (await agent.request("session/delete", {"sessionId": session})).result()
    listed = await (await agent.request("session/list", {})).result()
    sessions = listed.get("sessions") if isinstance(listed, dict) else None
    if any(isinstance(each, dict) and each.get("sessionId") == session for each in sessions or ()):
        fail(f"it is listed: {short(session)}")


@case("v2-closing/delete-again", level=SHOULD, source=SOURCE, section=DELETE, after="v2-closing/deleted-is-gone")
async def delete_again(agent: Agent) -> None:
    """Deleting a session that is deleted, or that never existed, succeeds."""
    await _can_delete(agent)
    session = await session_of(agent)
    for id in (session, session, "no-such-session"):
        await (await agent.request("session/delete", {"sessionId": id})).result()
