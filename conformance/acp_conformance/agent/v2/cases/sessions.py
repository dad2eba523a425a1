"""Creating, listing and resuming sessions, their options, and logging in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acp_conformance.agent.exchange import code_of
from acp_conformance.agent.subject import Agent, Update
from acp_conformance.agent.v2.registry import SOURCE, case
from acp_conformance.agent.v2.steps import (
    INVALID_PARAMS,
    LIFE,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    begin,
    is_code,
    prompt,
    reached,
    refused,
    run,
    said,
    session_of,
    short,
)
from acp_conformance.core.case import CHOICE, MUST, SHOULD, choice, fail, not_applicable

SETUP = "Session setup"
RESUME = "Session resume"
STATE = "v2-sessions/resume-state"
OPTIONS = "Config options"
AUTH = "Authentication"
START = {"type": "start"}


@case("v2-sessions/relative-cwd", level=SHOULD, source=SOURCE, section=SETUP)
async def relative_cwd(agent: Agent) -> None:
    """A working directory that is not absolute is refused with -32602."""
    await begin(agent)
    await refused(agent, "session/new", {"cwd": "some/folder"}, INVALID_PARAMS)


@case("v2-sessions/list", level=MUST, source=SOURCE, section="Session list")
async def list_them(agent: Agent) -> None:
    """session/list, which every agent with sessions has, lists sessions with their ids and directories."""
    await session_of(agent)
    result = await (await agent.request("session/list", {})).result()
    sessions = result.get("sessions") if isinstance(result, dict) else None
    if not isinstance(sessions, list):
        fail(f"the result is {short(result)}")
    for each in sessions:
        if not (isinstance(each, dict) and isinstance(each.get("sessionId"), str) and isinstance(each.get("cwd"), str)):
            fail(f"a session is {short(each)}")


async def _resumed(agent: Agent, session: str, replay: Mapping[str, Any] | None) -> list[Update]:
    """Close the session, resume it, and return the updates before the response."""
    await (await agent.request("session/close", {"sessionId": session})).result()
    params: dict[str, Any] = {"sessionId": session, "cwd": str(agent.cwd)}
    resuming = await agent.request("session/resume", params if replay is None else {**params, "replayFrom": replay})
    await resuming.result()
    return [each for each in agent.updates(session, since=resuming.since) if each.position < (resuming.position or 0)]


@case(STATE, level=MUST, source=SOURCE, section=RESUME, needs="quick", after=LIFE)
async def resume_state(agent: Agent) -> None:
    """A resumed session reports its state before the response, and after the replay."""
    session = await session_of(agent)
    await run(agent, session, "quick")
    told = await _resumed(agent, session, START)
    if not (said := [each for each in told if each.kind == "state_update"]):
        fail("no state_update came before the answer")
    replayed = [each for each in told if "message" in each.kind]
    if replayed and replayed[-1].position > said[-1].position:
        fail("messages are replayed after the state", at=replayed[-1].position)


@case("v2-sessions/replay", level=MUST, source=SOURCE, section=RESUME, needs="stream", after=STATE)
async def replay(agent: Agent) -> None:
    """replayFrom start replays the agent's messages, with the same ids and before the response."""
    session = await session_of(agent)
    live = said(await run(agent, session, "stream"))
    again = said(await _resumed(agent, session, START))
    for id, text in live.items():
        if again.get(id) != text:
            fail(f"the message {short(id)} was {short(text)} and is replayed as {short(again.get(id))}")


def _messages(updates: list[Update]) -> list[tuple[str, object]]:
    """Return the author and the id of each message, in the order of the first updates."""
    whose = ("user_message", "agent_message")
    found = [(each.kind.removesuffix("_chunk"), each.body.get("messageId")) for each in updates]
    return list(dict.fromkeys(each for each in found if each[0] in whose))


@case("v2-sessions/replay-user", level=MUST, source=SOURCE, section=RESUME, needs="quick", after=STATE)
async def replay_user(agent: Agent) -> None:
    """replayFrom start also replays the user's messages, with the same ids."""
    session = await session_of(agent)
    live = [each for each in _messages(await run(agent, session, "quick")) if each[0] == "user_message"]
    again = _messages(await _resumed(agent, session, START))
    if lost := [id for whose, id in live if (whose, id) not in again]:
        fail(f"the message {short(lost[0])} of the user is not replayed")


@case("v2-sessions/replay-order", level=MUST, source=SOURCE, section=RESUME, needs="quick", after=STATE)
async def replay_order(agent: Agent) -> None:
    """A conversation of two prompts is replayed completely and in order."""
    session = await session_of(agent)
    live = _messages([*await run(agent, session, "quick"), *await run(agent, session, "quick")])
    again = [each for each in _messages(await _resumed(agent, session, START)) if each in live]
    if again != live:
        fail(f"the messages were {short(live)}, and are replayed as {short(again)}")


@case("v2-sessions/replay-one-session", level=MUST, source=SOURCE, section=RESUME, needs="quick", after=STATE)
async def replay_one_session(agent: Agent) -> None:
    """The replay of a session has no message of another one."""
    session, other = await session_of(agent), await session_of(agent)
    lived = [_messages(await run(agent, each, "quick")) for each in (session, other)]
    again = _messages(await _resumed(agent, session, START))
    if strange := [each for each in again if each in lived[1] and each not in lived[0]]:
        fail(f"the message {short(strange[0][1])} of another session is replayed")


@case("v2-sessions/list-by-cwd", level=MUST, source=SOURCE, section="Session list")
async def list_by_cwd(agent: Agent) -> None:
    """session/list with a cwd lists only the sessions of that directory."""
    session = await session_of(agent)
    result = await (await agent.request("session/list", {"cwd": f"{agent.cwd}/no-such-folder"})).result()
    sessions = result.get("sessions") if isinstance(result, dict) else None
    if any(isinstance(each, dict) and each.get("sessionId") == session for each in sessions or ()):
        fail(f"the session {short(session)} of another directory is listed")


@case("v2-sessions/no-replay", level=MUST, source=SOURCE, section=RESUME, needs="quick", after=STATE)
async def no_replay(agent: Agent) -> None:
    """session/resume without replayFrom replays nothing."""
    session = await session_of(agent)
    await run(agent, session, "quick")
    if told := [each for each in await _resumed(agent, session, None) if "message" in each.kind]:
        fail(f"{told[0].kind} is replayed", at=told[0].position)


@case(
    "v2-sessions/resumed-lives",
    level=MUST,
    source=SOURCE,
    section=RESUME,
    needs="quick",
    after=STATE,
)
async def resumed_lives(agent: Agent) -> None:
    """A resumed session accepts prompts."""
    session = await session_of(agent)
    await run(agent, session, "quick")
    await _resumed(agent, session, None)
    since = len(agent.received)
    await (await prompt(agent, session, "quick")).result()
    await reached(agent, session, "idle", since=since)


@case("v2-sessions/unknown-cursor", level=MUST, source=SOURCE, section=RESUME)
async def unknown_cursor(agent: Agent) -> None:
    """A replayFrom of an unknown type is refused with -32602."""
    session = await session_of(agent)
    params = {"sessionId": session, "cwd": str(agent.cwd), "replayFrom": {"type": "_from-the-middle"}}
    await refused(agent, "session/resume", params, INVALID_PARAMS)


@case("v2-sessions/resume-unknown", level=MUST, source=SOURCE, section=RESUME)
async def resume_unknown(agent: Agent) -> None:
    """Resuming a session that does not exist is refused with -32002."""
    await begin(agent)
    params = {"sessionId": "no-such-session", "cwd": str(agent.cwd)}
    await refused(agent, "session/resume", params, NOT_FOUND)


async def select(agent: Agent) -> tuple[str, dict[str, Any], list[str]]:
    """Return a session, one of its options, and the values of that option."""
    session = await session_of(agent)
    for option in agent.new_session.get("configOptions") or ():
        if isinstance(option, dict) and option.get("type") == "select":
            entries = [each.get("options", [each]) for each in option.get("options") or ()]
            return session, option, [value["value"] for values in entries for value in values]
    return not_applicable("it has no option to select a value for")


def setting(session: str, option: object, value: object) -> dict[str, Any]:
    return {"sessionId": session, "configId": option, "type": "id", "value": value}


@case("v2-options/set", level=MUST, source=SOURCE, section=OPTIONS)
async def set_option(agent: Agent) -> None:
    """An option can be set to each value that it offers, and the response has the value as the current value."""
    session, option, values = await select(agent)
    for value in values:
        asked = await agent.request("session/set_config_option", setting(session, option["configId"], value))
        result = await asked.result()
        found = result.get("configOptions") if isinstance(result, dict) else None
        now = [each for each in found or () if isinstance(each, dict) and each.get("configId") == option["configId"]]
        if not now or now[0].get("currentValue") != value:
            fail(f"the options after it are {short(found)}", at=asked.position)


@case("v2-options/unknown-value", level=MUST, source=SOURCE, section=OPTIONS)
async def unknown_value(agent: Agent) -> None:
    """A value that an option does not offer is refused with -32602."""
    session, option, _ = await select(agent)
    params = setting(session, option["configId"], "no-such-value")
    await refused(agent, "session/set_config_option", params, INVALID_PARAMS)


@case("v2-options/unknown", level=MUST, source=SOURCE, section=OPTIONS)
async def unknown_option(agent: Agent) -> None:
    """An option that does not exist is refused with -32602."""
    session, _, values = await select(agent)
    params = setting(session, "no-such-option", values[0])
    await refused(agent, "session/set_config_option", params, INVALID_PARAMS)


@case("v2-options/one-session", level=MUST, source=SOURCE, section=OPTIONS, needs="quick", after=STATE)
async def one_session(agent: Agent) -> None:
    """Setting an option affects only its session."""
    first, option, values = await select(agent)
    id, before = option["configId"], option.get("currentValue")
    other = await session_of(agent)
    await run(agent, other, "quick")
    wanted = next((value for value in values if value != before), None)
    if wanted is None:
        not_applicable("its option has one value")
    await (await agent.request("session/set_config_option", setting(first, id, wanted))).result()
    # The response to a resume has all options.
    await (await agent.request("session/close", {"sessionId": other})).result()
    params = {"sessionId": other, "cwd": str(agent.cwd)}
    resumed = await (await agent.request("session/resume", params)).result()
    found = resumed.get("configOptions") if isinstance(resumed, dict) else None
    now = [each.get("currentValue") for each in found or () if isinstance(each, dict) and each.get("configId") == id]
    if not now:
        not_applicable("a resumed session does not report its options")
    if now[0] == wanted:
        fail(f"the option {short(id)} of another session is {short(wanted)}, too")


async def _login(agent: Agent) -> list[Mapping[str, Any]]:
    """Begin, and return the ways to log in."""
    methods = (await begin(agent)).get("authMethods")
    if not methods:
        not_applicable("it has no way to log in")
    return methods


@case("v2-auth/login", level=MUST, source=SOURCE, section=AUTH)
async def login(agent: Agent) -> None:
    """Each way to log in has an id, and an agent that offers one has auth/login and auth/logout."""
    for each in await _login(agent):
        if not isinstance(each, dict) or not isinstance(each.get("methodId"), str):
            fail(f"a way to log in is {short(each)}")
    for method in ("auth/login", "auth/logout"):
        asked = await agent.request(method, {"methodId": "no-such-way"} if method == "auth/login" else {})
        if is_code(await asked.answer(), METHOD_NOT_FOUND):
            fail(f"{method} is not there", at=asked.position)


@case("v2-auth/unknown-way", level=MUST, source=SOURCE, section=AUTH)
async def unknown_way(agent: Agent) -> None:
    """auth/login with a way that was not offered is refused with -32602."""
    await _login(agent)
    await refused(agent, "auth/login", {"methodId": "no-such-way"}, INVALID_PARAMS)


@case("v2-auth/no-way", level=CHOICE, source=SOURCE, section=AUTH)
async def no_way(agent: Agent) -> None:
    """Whether an agent that offers no way to log in refuses auth/login and auth/logout is left open."""
    if (await begin(agent)).get("authMethods"):
        not_applicable("it offers a way to log in")
    asked = {"auth/login": {"methodId": "any"}, "auth/logout": {}}
    codes = {method: code_of(await (await agent.request(method, asked[method])).answer()) for method in asked}
    choice("; ".join(f"{method}: {'served' if code is None else code}" for method, code in codes.items()))
