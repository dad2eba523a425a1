"""Cancelling work, and closing a session that works."""

from __future__ import annotations

from conformance.agent.subject import Agent
from conformance.agent.v2.registry import SOURCE, case
from conformance.agent.v2.steps import prompt, reached, session_of, states
from conformance.core.case import MUST, fail


async def _working(agent: Agent) -> str:
    session = await session_of(agent)
    await (await prompt(agent, session, "hang")).result()
    await reached(agent, session, "running")
    return session


@case("v2-cancel/idle-cancelled", level=MUST, source=SOURCE, section="Cancellation", needs="hang")
async def idle_cancelled(agent: Agent) -> None:
    """session/cancel is confirmed by the state idle with the reason cancelled."""
    session = await _working(agent)
    await agent.notify("session/cancel", {"sessionId": session})
    idle = await reached(agent, session, "idle")
    if (reason := idle.body.get("stopReason")) != "cancelled":
        fail(f"the stopReason is {reason!r}"[:200], at=idle.position)


@case("v2-cancel/inserted-stays", level=MUST, source=SOURCE, section="Cancellation", needs="hang")
async def inserted_stays(agent: Agent) -> None:
    """$/cancel_request for a prompt that is inserted changes nothing: it was answered."""
    session = await session_of(agent)
    asked = await prompt(agent, session, "hang")
    await asked.result()
    await reached(agent, session, "running")
    await agent.cancel_request(asked)
    await agent.fence()
    await agent.pause()
    if len(asked.answers) != 1:
        fail(f"{len(asked.answers)} answers to one prompt")
    if ended := states(agent, session, "idle"):
        fail("the work was ended", at=ended[0].position)


@case("v2-cancel/close", level=MUST, source=SOURCE, section="Session close", needs="hang")
async def close(agent: Agent) -> None:
    """session/close ends the work: idle precedes its answer, and nothing of the session follows."""
    session = await _working(agent)
    closing = await agent.request("session/close", {"sessionId": session})
    await closing.result()
    answered = closing.position or 0
    if not any(update.position < answered for update in states(agent, session, "idle")):
        fail("session/close was answered before the session was idle")
    await agent.fence()
    await agent.pause()
    if late := [update for update in agent.updates(session) if update.position > answered]:
        fail(f"{late[0].kind} after the answer to session/close", at=late[0].position)
