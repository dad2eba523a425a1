"""The life of a prompt: its answer when it is inserted, the states, the one end."""

from __future__ import annotations

from conformance.agent.subject import Agent
from conformance.agent.v2.registry import SOURCE, case
from conformance.agent.v2.steps import prompt, reached, session_of, states
from conformance.core.case import MUST, SHOULD, fail

LIFE = "Prompt lifecycle"


@case("v2-prompts/message-id", level=MUST, source=SOURCE, section=LIFE, needs="quick")
async def message_id(agent: Agent) -> None:
    """A prompt is answered with the id of the message that it became."""
    session = await session_of(agent)
    result = await (await prompt(agent, session, "quick")).result()
    if not (isinstance(result, dict) and isinstance(result.get("messageId"), str)):
        fail(f"the result is {result!r}"[:200])


@case("v2-prompts/answered-at-insertion", level=MUST, source=SOURCE, section=LIFE, needs="hang")
async def answered_at_insertion(agent: Agent) -> None:
    """A prompt is answered when it is inserted, while its work goes on."""
    session = await session_of(agent)
    await (await prompt(agent, session, "hang")).result()
    await reached(agent, session, "running")


@case("v2-prompts/one-idle", level=MUST, source=SOURCE, section=LIFE, needs="quick")
async def one_idle(agent: Agent) -> None:
    """Work begins with the state running and ends with idle, once."""
    session = await session_of(agent)
    await (await prompt(agent, session, "quick")).result()
    begun, ended = await reached(agent, session, "running"), await reached(agent, session, "idle")
    await agent.fence()
    if begun.position > ended.position:
        fail("idle came before running")
    if (count := len(states(agent, session, "idle"))) != 1:
        fail(f"{count} times idle for one run of work")


@case("v2-prompts/stop-reason", level=SHOULD, source=SOURCE, section=LIFE, needs="quick")
async def stop_reason(agent: Agent) -> None:
    """The state idle says why the work ended."""
    session = await session_of(agent)
    await (await prompt(agent, session, "quick")).result()
    if not isinstance((await reached(agent, session, "idle")).body.get("stopReason"), str):
        fail("idle has no stopReason")
