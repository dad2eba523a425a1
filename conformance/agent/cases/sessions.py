"""Sessions: made, set to modes and options, and closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.agent.exchange import code_of
from conformance.agent.registry import case
from conformance.agent.subject import Agent
from conformance.core.case import CHOICE, MUST, SHOULD, choice, fail, not_applicable

ACP = "ACP v1"
SETUP = "Session Setup, Creating a Session"
CLOSING = "Session Setup, Closing Active Sessions"
MODES = "Session Modes"
OPTIONS = "Session Config Options"

NONE = "conformance-no-such-session"


async def _new(agent: Agent, **params: object) -> Mapping[str, Any]:
    """The whole result of session/new."""
    await agent.session(**params)
    return agent.new_session


async def _capable(agent: Agent, *capabilities: str) -> None:
    await agent.initialize()
    for capability in capabilities:
        if not agent.can(capability):
            not_applicable(f"{capability} is not announced")


@case("sessions/new", level=MUST, source=ACP, section=SETUP, shared=True)
async def new(agent: Agent) -> None:
    """session/new is answered with the id of the session."""
    await agent.session()


@case("sessions/unique", level=MUST, source=ACP, section=SETUP, shared=True)
async def unique(agent: Agent) -> None:
    """Every session has an id of its own."""
    ids = [await agent.session() for _ in range(3)]
    if len(set(ids)) != len(ids):
        fail(f"three sessions are named {', '.join(ids)}")


@case(
    "sessions/unknown-members",
    level=MUST,
    source=ACP,
    section="Extensibility, The _meta Field",
    behaviours=["L3"],
    shared=True,
)
async def unknown_members(agent: Agent) -> None:
    """An agent does not refuse a session for `_meta` and members of a later revision."""
    await agent.session(_meta={"conformance.example/mark": 1}, ofALaterRevision=[])


@case("sessions/relative-cwd", level=SHOULD, source=ACP, section="Session Setup, Working Directory", shared=True)
async def relative_cwd(agent: Agent) -> None:
    """A working directory that is not absolute is refused."""
    await agent.session()
    await (await agent.request("session/new", {"cwd": "src/conformance", "mcpServers": []})).error()


@case("sessions/unreachable-mcp-server", level=MUST, source=ACP, section="Session Setup, MCP Servers", shared=True)
async def unreachable_mcp_server(agent: Agent) -> None:
    """A session with an MCP server that cannot be started is answered, with a result or an error."""
    await agent.session()
    server = {"name": "none", "command": "/conformance/no/such/program", "args": [], "env": []}
    await (await agent.request("session/new", {"cwd": str(agent.cwd), "mcpServers": [server]})).answer()


@case("sessions/prompt-unknown", level=SHOULD, source=ACP, section="Session Setup, Session ID", shared=True)
async def prompt_unknown(agent: Agent) -> None:
    """A prompt to a session that does not exist is answered with an error."""
    await agent.initialize()
    await (await agent.say(NONE, "hello")).error()


@case("sessions/cancel-unknown", level=MUST, source="JSON-RPC 2.0", section="4.1 Notification", behaviours=["F15"])
async def cancel_unknown(agent: Agent) -> None:
    """A session/cancel for a session that does not exist is not answered, and the next request is served."""
    await agent.initialize()
    since = len(agent.received)
    await agent.notify("session/cancel", {"sessionId": NONE})
    await agent.fence()
    await agent.settle()
    if answers := agent.unasked(since):
        fail(f"it is answered: {answers[0].line[:200].decode('utf-8', 'replace')}", at=answers[0].position)


# Modes and options.


def _modes(result: Mapping[str, Any]) -> tuple[str, Sequence[str]]:
    modes = result.get("modes")
    if not isinstance(modes, dict):
        not_applicable("its sessions have no modes")
    return modes.get("currentModeId", ""), [mode.get("id") for mode in modes.get("availableModes") or ()]


@case("sessions/current-mode", level=MUST, source=ACP, section=f"{MODES}, Initial state", shared=True)
async def current_mode(agent: Agent) -> None:
    """The mode of a new session is one of its modes."""
    current, modes = _modes(await _new(agent))
    if current not in modes:
        fail(f"the mode is {current!r}, the modes are {modes}")


@case("sessions/set-mode", level=MUST, source=ACP, section=f"{MODES}, From the Client", shared=True)
async def set_mode(agent: Agent) -> None:
    """Each mode that a session offers can be set."""
    result = await _new(agent)
    for mode in _modes(result)[1]:
        await agent.set_mode(result["sessionId"], mode)


@case("sessions/set-unknown-mode", level=SHOULD, source=ACP, section=f"{MODES}, From the Client", shared=True)
async def set_unknown_mode(agent: Agent) -> None:
    """A mode that a session does not offer is refused."""
    result = await _new(agent)
    _modes(result)
    params = {"sessionId": result["sessionId"], "modeId": "conformance-no-such-mode"}
    await (await agent.request("session/set_mode", params)).error()


def _options(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    options: list[Mapping[str, Any]] = [each for each in result.get("configOptions") or () if isinstance(each, dict)]
    if not options:
        not_applicable("its sessions have no config options")
    return options


def _values(option: Mapping[str, Any]) -> list[str]:
    """The values of a select, also where they are in groups."""
    values: list[str] = []
    for entry in option.get("options") or ():
        values += _values(entry) if "options" in entry else [entry.get("value")]
    return values


@case("sessions/current-option", level=MUST, source=ACP, section=f"{OPTIONS}, Initial State", shared=True)
async def current_option(agent: Agent) -> None:
    """The value of every select option is one of its values."""
    for option in _options(await _new(agent)):
        if option.get("type") == "select" and option.get("currentValue") not in _values(option):
            fail(f"{option.get('id')} is {option.get('currentValue')!r}, its values are {_values(option)}")


@case("sessions/set-option", level=MUST, source=ACP, section=f"{OPTIONS}, From the Client", shared=True)
async def set_option(agent: Agent) -> None:
    """Setting an option is answered with the complete list of options and their values as they are now."""
    result = await _new(agent)
    options = _options(result)
    selects = [option for option in options if option.get("type") == "select" and len(_values(option)) > 1]
    if not selects:
        not_applicable("it has no option with two values")
    option = selects[0]
    value = next((each for each in _values(option) if each != option.get("currentValue")), None)
    params = {"sessionId": result["sessionId"], "configId": option["id"], "value": value}
    answer = await (await agent.request("session/set_config_option", params)).result()
    now = {each.get("id"): each.get("currentValue") for each in (answer or {}).get("configOptions") or ()}
    if now.get(option["id"]) != value:
        fail(f"{option['id']} was set to {value!r}, the answer lists {now}")


@case("sessions/set-option-lists-all", level=MUST, source=ACP, section=f"{OPTIONS}, From the Client", shared=True)
async def set_option_lists_all(agent: Agent) -> None:
    """What answers the setting of an option lists every option, also those that stay as they are."""
    result = await _new(agent)
    options = [each for each in _options(result) if each.get("type") == "select" and _values(each)]
    if len(_options(result)) < 2 or not options:
        not_applicable("its sessions have less than two config options")
    params = {"sessionId": result["sessionId"], "configId": options[0]["id"], "value": _values(options[0])[-1]}
    answer = await (await agent.request("session/set_config_option", params)).result()
    listed = answer.get("configOptions") if isinstance(answer, dict) else None
    now = {each.get("id") for each in listed or () if isinstance(each, dict)}
    if missing := {each.get("id") for each in _options(result)} - now:
        fail(f"the answer lists {sorted(map(str, now))}, and not {sorted(map(str, missing))}")


@case("sessions/set-unknown-option", level=SHOULD, source=ACP, section=f"{OPTIONS}, From the Client", shared=True)
async def set_unknown_option(agent: Agent) -> None:
    """A value that an option does not have is refused."""
    result = await _new(agent)
    option = _options(result)[0]
    value = "conformance-no-such-value"
    params = {"sessionId": result["sessionId"], "configId": option["id"], "value": value}
    await (await agent.request("session/set_config_option", params)).error()


# Closing.


@case("sessions/close", level=MUST, source=ACP, section=CLOSING, shared=True)
async def close(agent: Agent) -> None:
    """Closing a session succeeds."""
    await _capable(agent, "sessionCapabilities.close")
    await (await agent.request("session/close", {"sessionId": await agent.session()})).result()


@case("sessions/closed-takes-no-prompt", level=SHOULD, source=ACP, section=CLOSING, behaviours=["F18"], shared=True)
async def closed_takes_no_prompt(agent: Agent) -> None:
    """A closed session takes no prompts: its resources are freed."""
    await _capable(agent, "sessionCapabilities.close")
    session = await agent.session()
    await (await agent.request("session/close", {"sessionId": session})).result()
    await (await agent.say(session, "hello")).error()


@case("sessions/close-cancels", level=MUST, source=ACP, section=CLOSING, behaviours=["F18"], needs="hang")
async def close_cancels(agent: Agent) -> None:
    """Closing a session cancels its turn as session/cancel does: the prompt is answered `cancelled`."""
    await _capable(agent, "sessionCapabilities.close")
    session = await agent.session()
    prompt = await agent.prompt(session, "hang")
    await agent.said_something(prompt)
    closing = await agent.request("session/close", {"sessionId": session})
    result = await prompt.result()
    if not isinstance(result, dict) or result.get("stopReason") != "cancelled":
        fail(f"the prompt is answered with {result!r:.200}")
    await closing.result()


@case(
    "sessions/close-leaves-others",
    level=MUST,
    source=ACP,
    section=CLOSING,
    behaviours=["F6"],
    needs="quick",
    shared=True,
)
async def close_leaves_others(agent: Agent) -> None:
    """Closing a session leaves the others as they are."""
    await _capable(agent, "sessionCapabilities.close")
    first, second = await agent.session(), await agent.session()
    await (await agent.request("session/close", {"sessionId": first})).result()
    await (await agent.prompt(second, "quick")).result()


@case("sessions/close-unknown", level=CHOICE, source=ACP, section=CLOSING, behaviours=["F20"], shared=True)
async def close_unknown(agent: Agent) -> None:
    """Closing a session that does not exist succeeds or is refused."""
    await _capable(agent, "sessionCapabilities.close")
    answer = await (await agent.request("session/close", {"sessionId": NONE})).answer()
    choice(f"refused with {code_of(answer)}" if "error" in answer else "succeeds")
