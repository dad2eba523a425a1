"""session/cancel and $/cancel_request during the work on a prompt."""

from __future__ import annotations

import json

from acp_conformance.agent.exchange import code_of
from acp_conformance.agent.subject import Agent, prompt_params
from acp_conformance.agent.v2.registry import SOURCE, case
from acp_conformance.agent.v2.steps import (
    CANCELLED,
    LIFE,
    ends,
    offered,
    reached,
    run,
    session_of,
    short,
    states,
    tool_calls,
    work,
    working,
)
from acp_conformance.core.case import MUST, SHOULD, fail, not_applicable

SECTION = "Cancellation"
CONFIRMED = "v2-cancel/idle-cancelled"


async def _cancel(agent: Agent, session: str) -> None:
    await agent.notify("session/cancel", {"sessionId": session})


@case(CONFIRMED, level=MUST, source=SOURCE, section=SECTION, needs="hang")
async def idle_cancelled(agent: Agent) -> None:
    """After session/cancel the agent reports the state idle with the stop reason cancelled."""
    session = await working(agent)
    await _cancel(agent, session)
    await ends(agent, session, "cancelled")


@case("v2-cancel/silent-after", level=MUST, source=SOURCE, section=SECTION, needs="hang", after=CONFIRMED)
async def silent_after(agent: Agent) -> None:
    """The content and the tool calls of cancelled work are reported before the idle that confirms the cancel."""
    session = await working(agent)
    await _cancel(agent, session)
    idle = await reached(agent, session, "idle")
    await agent.fence()
    await agent.pause()
    if begun := states(agent, session, "running", "requires_action", since=idle.position):
        not_applicable(f"it is {begun[0].body['state']} again, by itself")
    kinds = ("agent_message", "agent_message_chunk", "agent_thought", "agent_thought_chunk")
    if late := [each for each in agent.updates(session) if each.position > idle.position and each.kind in kinds]:
        fail(f"{late[0].kind} comes behind idle", at=late[0].position)


@case("v2-cancel/slow-stop", level=MUST, source=SOURCE, section=SECTION, needs="stubborn", after=CONFIRMED)
async def slow_stop(agent: Agent) -> None:
    """Work that stops slowly also ends as cancelled, and the session is not idle before that."""
    session = await working(agent, "stubborn")
    await _cancel(agent, session)
    idle = await ends(agent, session, "cancelled")
    await agent.fence()
    await agent.pause()
    if late := [each for each in agent.spoken(session) if each.position > idle.position]:
        fail(f"{late[0].kind} comes behind idle", at=late[0].position)


@case("v2-cancel/once", level=SHOULD, source=SOURCE, section=SECTION, needs="hang", after=CONFIRMED)
async def once(agent: Agent) -> None:
    """The end of work that was cancelled twice is reported once."""
    session = await working(agent)
    await _cancel(agent, session)
    await _cancel(agent, session)
    await reached(agent, session, "idle")
    await agent.fence()
    await agent.pause()
    if (count := len(states(agent, session, "idle"))) != 1:
        fail(f"{count} times idle for one run of work")


@case("v2-cancel/not-answered", level=MUST, source="JSON-RPC 2.0", section="4.1 Notification", needs="hang")
async def not_answered(agent: Agent) -> None:
    """The notification session/cancel itself is not answered, and the prompt is not answered again."""
    session = await session_of(agent)
    asked = await work(agent, session)
    await _cancel(agent, session)
    await reached(agent, session, "idle")
    await agent.fence()
    if found := agent.null_answers():
        fail(f"a notification was answered: {short(found[0])}")
    if len(asked.answers) != 1:
        fail(f"{len(asked.answers)} answers to one prompt")


@case("v2-cancel/session-lives", level=MUST, source=SOURCE, section=SECTION, needs=("hang", "quick"), after=CONFIRMED)
async def session_lives(agent: Agent) -> None:
    """After a cancel the session accepts the next prompt, whose work is not cancelled."""
    session = await working(agent)
    await _cancel(agent, session)
    await reached(agent, session, "idle")
    idle = (await run(agent, session, "quick"))[-1]
    if idle.body.get("stopReason") == "cancelled":
        fail("the next work ended as cancelled, too", at=idle.position)


@case("v2-cancel/idle-session", level=MUST, source=SOURCE, section=SECTION, needs="quick", after=LIFE)
async def idle_session(agent: Agent) -> None:
    """A cancel for an idle session does not cancel the next prompt."""
    session = await session_of(agent)
    await _cancel(agent, session)
    idle = (await run(agent, session, "quick"))[-1]
    if idle.body.get("stopReason") == "cancelled":
        fail("the work of a later prompt ended as cancelled", at=idle.position)


@case("v2-cancel/other-session", level=MUST, source=SOURCE, section=SECTION, needs="hang", after=CONFIRMED)
async def other_session(agent: Agent) -> None:
    """The work of other sessions continues."""
    session, other = await working(agent), await working(agent)
    await _cancel(agent, session)
    await reached(agent, session, "idle")
    await agent.fence()
    if ended := states(agent, other, "idle"):
        fail("the work of another session was ended as well", at=ended[0].position)


@case("v2-cancel/right-behind", level=MUST, source=SOURCE, section=SECTION, needs="hang", after=CONFIRMED)
async def right_behind(agent: Agent) -> None:
    """A cancel that arrives together with its prompt takes effect: before the insertion by -32800, after it by idle."""
    session = await session_of(agent)
    id = agent.new_id()
    asked = agent.expect(id, "session/prompt")
    params = prompt_params(session, agent.text_of("hang"))
    messages = (
        {"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params},
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}},
    )
    await agent.raw(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    answer = await asked.answer()
    if "error" not in answer:
        await ends(agent, session, "cancelled")
    elif code_of(answer) != CANCELLED:
        fail(f"the prompt is answered with {short(answer['error'])}", at=asked.position)


@case("v2-cancel/inserted-stays", level=MUST, source=SOURCE, section=SECTION, needs="hang")
async def inserted_stays(agent: Agent) -> None:
    """$/cancel_request for an inserted prompt has no effect, because that request was answered."""
    session = await session_of(agent)
    asked = await work(agent, session)
    await agent.cancel_request(asked)
    await agent.fence()
    await agent.pause()
    if len(asked.answers) != 1:
        fail(f"{len(asked.answers)} answers to one prompt")
    if ended := states(agent, session, "idle"):
        fail("the work was ended", at=ended[0].position)


@case("v2-cancel/tools-first", level=SHOULD, source=SOURCE, section=SECTION, needs="cancellable", after=CONFIRMED)
async def tools_first(agent: Agent) -> None:
    """The tool calls of cancelled work have a final status before the session is idle."""
    session = await working(agent, "cancellable")
    call = await offered(agent, session, "tool_call_update", "toolCallId")
    await _cancel(agent, session)
    await reached(agent, session, "idle")
    if (status := tool_calls(agent, session)[call].get("status")) in (None, "pending", "in_progress", "paused"):
        fail(f"the status of {short(call)} is {status} when the session is idle")
