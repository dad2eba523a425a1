"""Config options: the whole list in each response, and values that are refused."""

from __future__ import annotations

from typing import Any

from acp_conformance.agent.subject import Agent
from acp_conformance.agent.v2.cases.sessions import OPTIONS, STATE, select, setting
from acp_conformance.agent.v2.registry import SOURCE, case
from acp_conformance.agent.v2.steps import INVALID_PARAMS, refused, run, short
from acp_conformance.core.case import MUST, belongs_to, fail, not_applicable


def _values(result: object) -> dict[str, Any]:
    """The current values of the options in a result, by their ids."""
    options = result.get("configOptions") if isinstance(result, dict) else None
    return {str(each.get("configId")): each.get("currentValue") for each in options or () if isinstance(each, dict)}


@case("v2-options/complete", level=MUST, source=SOURCE, section=OPTIONS, after="v2-options/set")
async def complete(agent: Agent) -> None:
    """The response has all options, also if an option is set to the value that it has."""
    session, option, _ = await select(agent)
    before = _values(agent.new_session)
    params = setting(session, option["configId"], option.get("currentValue"))
    asked = await agent.request("session/set_config_option", params)
    if missing := before.keys() - _values(await asked.result()).keys():
        fail(f"the response does not have the option {short(min(missing))}", at=asked.position)


@case("v2-options/unknown-type", level=MUST, source=SOURCE, section=OPTIONS)
async def unknown_type(agent: Agent) -> None:
    """A value of a type that the agent does not support is refused with -32602."""
    session, option, values = await select(agent)
    params = {**setting(session, option["configId"], values[0]), "type": "_conformance"}
    await refused(agent, "session/set_config_option", params, INVALID_PARAMS)


@case("v2-options/unchanged", level=MUST, source=SOURCE, section=OPTIONS, needs="quick", after=STATE)
async def unchanged(agent: Agent) -> None:
    """A refused value leaves the options unchanged."""
    session, option, _ = await select(agent)
    before = _values(agent.new_session)
    await run(agent, session, "quick")
    params = setting(session, option["configId"], "no-such-value")
    with belongs_to("v2-options/unknown-value"):
        await refused(agent, "session/set_config_option", params, INVALID_PARAMS)
    # The response to a resume has all options.
    await (await agent.request("session/close", {"sessionId": session})).result()
    resumed = await (await agent.request("session/resume", {"sessionId": session, "cwd": str(agent.cwd)})).result()
    after = _values(resumed)
    if option["configId"] not in after:
        not_applicable("a resumed session does not report its options")
    if changed := [id for id, value in after.items() if before.get(id, value) != value]:
        fail(f"{short(changed[0])} was {short(before[changed[0]])} and is {short(after[changed[0]])}")
