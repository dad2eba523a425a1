"""A second prompt during work, which an agent may hold until it is inserted."""

from __future__ import annotations

from acp_conformance.agent.subject import Agent, Pending
from acp_conformance.agent.v2.registry import SOURCE, case
from acp_conformance.agent.v2.steps import (
    CANCELLED,
    LIFE,
    PERMISSION,
    ends,
    prompt,
    question,
    reached,
    session_of,
    short,
    states,
    work,
)
from acp_conformance.core.case import CHOICE, MUST, choice, fail, not_applicable

SECTION = "Prompt lifecycle, Second prompts"


async def _held(agent: Agent, session: str, situation: str = "quick") -> Pending:
    """Send a second prompt, which the agent holds. If it does not hold the prompt, the case does not apply."""
    second = await prompt(agent, session, situation)
    await agent.fence()
    await agent.pause()
    if second.answers:
        not_applicable(f"it does not hold a second prompt: {short(second.answers[0])}")
    return second


async def _ended(second: Pending) -> None:
    """Fail the case unless the held prompt is answered once, with -32800."""
    await second.error(CANCELLED)
    if len(second.answers) != 1:
        fail(f"{len(second.answers)} answers to one prompt")


@case("v2-held/how", level=CHOICE, source=SOURCE, section=SECTION, needs=("hang", "quick"), after=LIFE)
async def how(agent: Agent) -> None:
    """The specification leaves open how an agent answers a prompt during work."""
    session = await session_of(agent)
    await work(agent, session)
    second = await prompt(agent, session, "quick")
    await agent.fence()
    await agent.pause()
    if not second.answers:
        choice("it is held")
    choice("it is refused" if "error" in second.answers[0] else "it is inserted into the work that is under way")


@case("v2-held/cancel", level=MUST, source=SOURCE, section=SECTION, needs=("hang", "quick"), after=LIFE)
async def cancel(agent: Agent) -> None:
    """session/cancel also ends held prompts, which are answered with -32800."""
    session = await session_of(agent)
    await work(agent, session)
    second = await _held(agent, session)
    await agent.notify("session/cancel", {"sessionId": session})
    await ends(agent, session, "cancelled")
    await _ended(second)


@case("v2-held/close", level=MUST, source=SOURCE, section=SECTION, needs=("hang", "quick"), after=LIFE)
async def close(agent: Agent) -> None:
    """session/close answers held prompts with -32800 before its own response."""
    session = await session_of(agent)
    await work(agent, session)
    second = await _held(agent, session)
    closing = await agent.request("session/close", {"sessionId": session})
    await closing.result()
    await _ended(second)
    if (second.position or 0) > (closing.position or 0):
        fail("the prompt was answered after the close", at=second.position)


@case("v2-held/withdrawn", level=MUST, source=SOURCE, section=SECTION, needs=("hang", "quick"), after=LIFE)
async def withdrawn(agent: Agent) -> None:
    """$/cancel_request withdraws a held prompt (-32800), and the work before it continues."""
    session = await session_of(agent)
    await work(agent, session)
    second = await _held(agent, session)
    await agent.cancel_request(second)
    await _ended(second)
    await agent.fence()
    if ended := states(agent, session, "idle"):
        fail("the work before it was ended", at=ended[0].position)


@case("v2-held/inserted", level=MUST, source=SOURCE, section=SECTION, needs=("permission", "quick"), after=LIFE)
async def inserted(agent: Agent) -> None:
    """A held prompt is answered when it is inserted, and the end of its work is a separate state idle."""
    session = await session_of(agent)
    asked = await question(agent, session)
    second = await _held(agent, session)
    agent.let_go()
    agent.hold(PERMISSION)
    await asked.answer({"outcome": {"outcome": "cancelled"}})
    result = await second.result()
    if not isinstance(result, dict) or not isinstance(result.get("messageId"), str):
        fail(f"the result is {short(result)}", at=second.position)
    since = second.position or 0
    await reached(agent, session, "idle", since=since)
