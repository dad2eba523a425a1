"""A session during its turn, whose mode and options can be set, and which must not continue work after the turn."""

from __future__ import annotations

import anyio

from acp_conformance.agent.cases.session_cancel import cancelled, ends_cancelled, running
from acp_conformance.agent.cases.session_settings import MODES, OPTIONS, modes_of, opened_again, options_of, values_of
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent
from acp_conformance.core.case import MUST, SHOULD, fail, not_applicable
from acp_conformance.core.process import processor_time

ACP = "ACP v1"
BUSY = 0.1
"""Seconds of processor time in a second of silence that exceed mere waiting, also on a busy machine."""


async def _set_while_it_runs(agent: Agent, method: str, **params: object) -> None:
    """Send a request of a session whose turn runs. The request must be answered, and the turn must continue until it is
    cancelled."""
    session = str(agent.new_session["sessionId"])
    prompt = await running(agent, session)
    await (await agent.request(method, {"sessionId": session, **params})).result()
    if prompt.answers:
        fail(f"the turn ended with {prompt.answers[0]!s:.200}", at=prompt.position)
    await agent.cancel(session)
    await ends_cancelled(prompt)


@case("sessions/set-mode-in-turn", level=MUST, source=ACP, section=f"{MODES}, Setting the current mode", needs="hang")
async def set_mode_in_turn(agent: Agent) -> None:
    """The mode can be set while a turn runs, and the turn continues."""
    await agent.session()
    current, modes = modes_of(agent.new_session)
    other = next((each for each in modes if each != current), current)
    await _set_while_it_runs(agent, "session/set_mode", modeId=other)


@case("sessions/set-option-in-turn", level=MUST, source=ACP, section=f"{OPTIONS}, From the Client", needs="hang")
async def set_option_in_turn(agent: Agent) -> None:
    """An option can be set while a turn runs, and the turn continues."""
    await agent.session()
    selects = [each for each in options_of(agent.new_session) if each.get("type") == "select" and values_of(each)]
    if not selects:
        not_applicable("it has no option to select from")
    value = next((each for each in values_of(selects[0]) if each != selects[0].get("currentValue")), None)
    value = selects[0].get("currentValue") if value is None else value
    await _set_while_it_runs(agent, "session/set_config_option", configId=selects[0]["id"], value=value)


@case(
    "sessions/mode-and-option-agree",
    level=SHOULD,
    source=ACP,
    section=f"{OPTIONS}, Relationship to Session Modes",
    shared=True,
)
async def mode_and_option_agree(agent: Agent) -> None:
    """An agent with modes and an option of the category `mode` keeps both in sync."""
    session = await agent.session()
    _agree(agent.new_session)
    current, modes = modes_of(agent.new_session)
    if other := next((each for each in modes if each != current), None):
        await agent.set_mode(session, other)
        _agree(await opened_again(agent, session))


def _agree(state: object) -> None:
    result = state if isinstance(state, dict) else {}
    mode, modes = modes_of(result)
    option = next((each for each in options_of(result) if each.get("category") == "mode"), None)
    if option is None or set(values_of(option)) != set(modes):
        not_applicable("it has no option with the same values as its modes")
    if option.get("currentValue") != mode:
        fail(f"the mode is {mode!r}, and the option {option.get('id')!r} is {option.get('currentValue')!r}")


@case(
    "session-cancel/idle-behind-the-answer",
    level=SHOULD,
    source=ACP,
    section="Prompt Turn, Cancellation",
    needs="hang",
)
async def idle_behind_the_answer(agent: Agent) -> None:
    """One second after the response to a cancelled turn, the process of the agent only waits."""
    _, prompt = await cancelled(agent)
    await ends_cancelled(prompt)
    if processor_time(agent.process.pid) is None:
        not_applicable("this system does not tell the processor time of a process")
    spent = [await _spent_in_silence(agent) for _ in range(3)][1:]  # the first second is for cleanup
    if min(spent) > BUSY:
        fail(f"in two seconds of silence it took {sum(spent):.2g} s of processor time")


async def _spent_in_silence(agent: Agent) -> float:
    """Return the processor time that the agent uses during one second without messages."""
    before = processor_time(agent.process.pid) or 0.0
    await anyio.sleep(1)
    return (processor_time(agent.process.pid) or 0.0) - before
