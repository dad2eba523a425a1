"""The modes and config options of new sessions, and of sessions that are opened again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from acp_conformance.agent.cases.sessions_known import reopen
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent
from acp_conformance.core.case import MUST, SHOULD, fail, not_applicable, skip

ACP = "ACP v1"
MODES = "Session Modes"
OPTIONS = "Session Config Options"


async def _new(agent: Agent, **params: object) -> Mapping[str, Any]:
    """Return the whole result of session/new."""
    await agent.session(**params)
    return agent.new_session


def modes_of(result: Mapping[str, Any]) -> tuple[str, Sequence[str]]:
    """Return the current mode and all modes of a session."""
    modes = result.get("modes")
    if not isinstance(modes, dict):
        not_applicable("its sessions have no modes")
    return modes.get("currentModeId", ""), [mode.get("id") for mode in modes.get("availableModes") or ()]


@case("sessions/current-mode", level=MUST, source=ACP, section=f"{MODES}, Initial state", shared=True)
async def current_mode(agent: Agent) -> None:
    """The mode of a new session is one of its modes."""
    current, modes = modes_of(await _new(agent))
    if current not in modes:
        fail(f"the mode is {current!r}, the modes are {modes}")


@case("sessions/set-mode", level=MUST, source=ACP, section=f"{MODES}, From the Client", shared=True)
async def set_mode(agent: Agent) -> None:
    """Each mode that a session offers can be set."""
    result = await _new(agent)
    for mode in modes_of(result)[1]:
        await agent.set_mode(result["sessionId"], mode)


@case("sessions/set-unknown-mode", level=SHOULD, source=ACP, section=f"{MODES}, From the Client", shared=True)
async def set_unknown_mode(agent: Agent) -> None:
    """A mode that a session does not offer is refused."""
    result = await _new(agent)
    modes_of(result)
    params = {"sessionId": result["sessionId"], "modeId": "conformance-no-such-mode"}
    await (await agent.request("session/set_mode", params)).error()


def options_of(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the options of a session."""
    options: list[Mapping[str, Any]] = [each for each in result.get("configOptions") or () if isinstance(each, dict)]
    if not options:
        not_applicable("its sessions have no config options")
    return options


def values_of(option: Mapping[str, Any]) -> list[str]:
    """Return the values of a select, including grouped values."""
    values: list[str] = []
    for entry in option.get("options") or ():
        values += values_of(entry) if "options" in entry else [entry.get("value")]
    return values


@case("sessions/current-option", level=MUST, source=ACP, section=f"{OPTIONS}, Initial State", shared=True)
async def current_option(agent: Agent) -> None:
    """The value of every select option is one of its values."""
    for option in options_of(await _new(agent)):
        if option.get("type") == "select" and option.get("currentValue") not in values_of(option):
            fail(f"{option.get('id')} is {option.get('currentValue')!r}, its values are {values_of(option)}")


@case("sessions/set-option", level=MUST, source=ACP, section=f"{OPTIONS}, From the Client", shared=True)
async def set_option(agent: Agent) -> None:
    """The response to setting an option has the complete list of options with their current values."""
    result = await _new(agent)
    options = options_of(result)
    selects = [option for option in options if option.get("type") == "select" and len(values_of(option)) > 1]
    if not selects:
        not_applicable("it has no option with two values")
    option = selects[0]
    value = next((each for each in values_of(option) if each != option.get("currentValue")), None)
    params = {"sessionId": result["sessionId"], "configId": option["id"], "value": value}
    answer = await (await agent.request("session/set_config_option", params)).result()
    now = {each.get("id"): each.get("currentValue") for each in (answer or {}).get("configOptions") or ()}
    if now.get(option["id"]) != value:
        fail(f"{option['id']} was set to {value!r}, the answer lists {now}")


@case("sessions/set-option-lists-all", level=MUST, source=ACP, section=f"{OPTIONS}, From the Client", shared=True)
async def set_option_lists_all(agent: Agent) -> None:
    """The response to setting an option lists every option, including unchanged ones."""
    result = await _new(agent)
    options = [each for each in options_of(result) if each.get("type") == "select" and values_of(each)]
    if len(options_of(result)) < 2 or not options:
        not_applicable("its sessions have less than two config options")
    params = {"sessionId": result["sessionId"], "configId": options[0]["id"], "value": values_of(options[0])[-1]}
    answer = await (await agent.request("session/set_config_option", params)).result()
    listed = answer.get("configOptions") if isinstance(answer, dict) else None
    now = {each.get("id") for each in listed or () if isinstance(each, dict)}
    if missing := {each.get("id") for each in options_of(result)} - now:
        fail(f"the answer lists {sorted(map(str, now))}, and not {sorted(map(str, missing))}")


@case(
    "sessions/option-update-lists-all",
    level=MUST,
    source=ACP,
    section=f"{OPTIONS}, From the Agent",
    needs="reports",
    shared=True,
)
async def option_update_lists_all(agent: Agent) -> None:
    """When the agent changes an option by itself, the update lists every option, like the response to setting an
    option."""
    session = await agent.session()
    made = agent.new_session
    await (await agent.prompt(session, "reports")).answer()
    selects = [each for each in options_of(made) if each.get("type") == "select" and values_of(each)]
    told = [each.body.get("configOptions") for each in agent.updates(session) if each.kind == "config_option_update"]
    if not told or not selects:
        not_applicable("the turn reported no config options")
    params = {"sessionId": session, "configId": selects[0]["id"], "value": values_of(selects[0])[0]}
    answer = await (await agent.request("session/set_config_option", params)).result()
    last, now = (
        {each.get("id") for each in listed or () if isinstance(each, dict)}
        for listed in (told[-1], answer.get("configOptions") if isinstance(answer, dict) else None)
    )
    if missing := now - last:
        fail(f"the update lists {sorted(map(str, last))}, and not {sorted(map(str, missing))}, which are there")


@case("sessions/set-unknown-option", level=SHOULD, source=ACP, section=f"{OPTIONS}, From the Client", shared=True)
async def set_unknown_option(agent: Agent) -> None:
    """A value that an option does not have is refused."""
    result = await _new(agent)
    option = options_of(result)[0]
    value = "conformance-no-such-value"
    params = {"sessionId": result["sessionId"], "configId": option["id"], "value": value}
    await (await agent.request("session/set_config_option", params)).error()


# Sessions that are opened again.


async def opened_again(agent: Agent, session: str) -> Mapping[str, Any]:
    """Return the result of session/resume, or of session/load if the agent has no session/resume."""
    ways = {"session/resume": "sessionCapabilities.resume", "session/load": "loadSession"}
    method = next((method for method, capability in ways.items() if agent.can(capability)), None)
    if method is None:
        not_applicable("sessionCapabilities.resume is not announced")
    answer = await (await reopen(agent, method, session)).answer()
    if "error" in answer:
        skip(f"{method} refuses a session that has had no prompt")
    return answer["result"] if isinstance(answer["result"], dict) else {}


@case("sessions/current-mode-again", level=MUST, source=ACP, section=f"{MODES}, Initial state", shared=True)
async def current_mode_again(agent: Agent) -> None:
    """The mode of a session that is opened again is one of its modes."""
    current, modes = modes_of(await opened_again(agent, await agent.session()))
    if current not in modes:
        fail(f"the mode is {current!r}, the modes are {modes}")


@case("sessions/current-option-again", level=MUST, source=ACP, section=f"{OPTIONS}, Initial State", shared=True)
async def current_option_again(agent: Agent) -> None:
    """After a session is opened again, the value of every select option is one of its values."""
    for option in options_of(await opened_again(agent, await agent.session())):
        if option.get("type") == "select" and option.get("currentValue") not in values_of(option):
            fail(f"{option.get('id')} is {option.get('currentValue')!r}, its values are {values_of(option)}")


@case("sessions/mode-of-one-session", level=MUST, source=ACP, section=f"{MODES}, From the Client", shared=True)
async def mode_of_one_session(agent: Agent) -> None:
    """Setting the mode of a session does not change the mode of other sessions."""
    other = await _new(agent)
    _, modes = modes_of(other)
    # The profile sets one in each new session, and an agent may have a different default for sessions that are opened
    # again.
    before, _ = modes_of(await opened_again(agent, other["sessionId"]))
    target = next((mode for mode in modes if mode != before), None)
    if target is None:
        not_applicable("its sessions have one mode")
    since = len(agent.received)
    await agent.set_mode(await agent.session(), target)
    await agent.fence()
    told = agent.updates(other["sessionId"], since=since)
    if any(each.kind == "current_mode_update" and each.body.get("currentModeId") == target for each in told):
        fail(f"the mode {target!r}, which was set in one session, is reported for another")
    now, _ = modes_of(await opened_again(agent, other["sessionId"]))
    if now == target:
        fail(f"the mode of another session was {before!r} and is {now!r} now, which was set in the first one")


@case("sessions/option-of-one-session", level=MUST, source=ACP, section=OPTIONS, shared=True)
async def option_of_one_session(agent: Agent) -> None:
    """Setting an option of a session does not change other sessions."""
    other = await _new(agent)
    # As with modes; a mode of the profile may be an option, too.
    again = await opened_again(agent, other["sessionId"])
    before = {each.get("id"): each.get("currentValue") for each in options_of(again)}
    session = await agent.session()
    chosen: dict[object, object] = {}
    for option in options_of(other):
        value = next((each for each in values_of(option) if each != before.get(option.get("id"))), None)
        if option.get("type") == "select" and value is not None:
            params = {"sessionId": session, "configId": option.get("id"), "value": value}
            await (await agent.request("session/set_config_option", params)).result()
            chosen[option.get("id")] = value
    if not chosen:
        not_applicable("it has no option with two values")
    for option in options_of(await opened_again(agent, other["sessionId"])):
        id, now = option.get("id"), option.get("currentValue")
        if id in chosen and now == chosen[id]:
            fail(f"{id} of another session was {before.get(id)!r} and is {now!r} now, which was set in the first one")
