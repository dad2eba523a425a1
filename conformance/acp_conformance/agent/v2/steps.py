"""The steps that cases of version 2 share: negotiating the version, prompting, and waiting for states of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acp_conformance.agent.exchange import Incoming, code_of
from acp_conformance.agent.subject import Agent, Pending, Update, prompt_params
from acp_conformance.core.case import Outcome, Verdict, belongs_to, fail

ANSWERS = "v2-negotiation/answers"
LIFE = "v2-prompts/states"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
NOT_FOUND = -32002
UNSUPPORTED = -32022
CANCELLED = -32800

PERMISSION = "session/request_permission"
FINAL = ("completed", "failed", "cancelled")
"""The states of a tool call after which it does not change."""


def hello(version: object = 2) -> dict[str, Any]:
    """Return the parameters of `initialize` for this version."""
    return {"protocolVersion": version, "info": {"name": "acp-conformance", "version": "1"}, "capabilities": {}}


async def agree(agent: Agent, params: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """Initialize with version 2, and return the result. Cases of version 2 do not judge an agent that answers version
    1."""
    asked = hello() if params is None else params
    agent.version = 2
    agent.checker.client_capabilities = asked.get("capabilities") or {}
    agent.on(PERMISSION, _allow)  # the editor has the forms of version 1
    agent.hold("elicitation/create")
    result = await (await agent.request("initialize", asked)).result()
    answered = result.get("protocolVersion") if isinstance(result, dict) else None
    not_of_version_1(result)
    if answered != 2 or isinstance(answered, bool):
        version = asked.get("protocolVersion")
        root = ANSWERS if version == 2 else ""
        raise Outcome(Verdict.FAIL, f"the answer to {version} is {answered!r}"[:200], root=root)
    agent.initialized = result
    return result


def not_of_version_1(result: object) -> None:
    """End the case if this result of `initialize` is of version 1."""
    if isinstance(result, dict) and result.get("protocolVersion") == 1:
        raise Outcome(Verdict.UNREACHED, "it answered 1", root=ANSWERS)


async def begin(agent: Agent) -> Mapping[str, Any]:
    """Initialize with version 2, log in as in the profile, and return the result of `initialize`."""
    result = await agree(agent)
    method = agent.profile.authenticate
    offered = result.get("authMethods")
    if isinstance(offered, list) and any(isinstance(each, dict) and each.get("methodId") == method for each in offered):
        with belongs_to("v2-auth/login"):
            await (await agent.request("auth/login", {"methodId": method})).result()
    return result


async def session_of(agent: Agent, **params: object) -> str:
    """Create a session, and return its id. Initializes with version 2 first if necessary."""
    if agent.initialized is None:
        await begin(agent)
    result = await (await agent.request("session/new", {"cwd": str(agent.cwd), **params})).result()
    session = result.get("sessionId") if isinstance(result, dict) else None
    if not isinstance(session, str):
        fail("session/new was answered without a sessionId")
    agent.new_session = result
    return session


async def prompt(agent: Agent, session: str, situation: str) -> Pending:
    """Send the prompt of a situation, and return the handle without waiting."""
    return await agent.request("session/prompt", prompt_params(session, agent.text_of(situation)))


async def working(agent: Agent, situation: str = "hang") -> str:
    """Return a session that works on a situation: the prompt was answered, and the state is running."""
    session = await session_of(agent)
    await work(agent, session, situation)
    return session


async def work(agent: Agent, session: str, situation: str = "hang") -> Pending:
    """Begin the work of a situation in a session, and return the prompt."""
    since = len(agent.received)
    asked = await prompt(agent, session, situation)
    with belongs_to(LIFE):
        await asked.result()
        await reached(agent, session, "running", since=since)
    return asked


async def run(agent: Agent, session: str, situation: str) -> list[Update]:
    """Prompt, wait for the end of the work, and return its updates up to the state idle."""
    since = len(agent.received)
    with belongs_to(LIFE):
        await (await prompt(agent, session, situation)).result()
        idle = await reached(agent, session, "idle", since=since)
    return [update for update in agent.updates(session, since=since) if update.position <= idle.position]


def said(updates: list[Update]) -> dict[object, str]:
    """Return the text of each message of the agent, by the rules of patches."""
    said: dict[object, str] = {}
    for update in updates:
        id = update.body.get("messageId")
        if update.kind == "agent_message_chunk":
            said[id] = said.get(id, "") + update.text
        elif update.kind == "agent_message" and "content" in update.body:
            said[id] = "".join(str(block.get("text", "")) for block in update.body["content"] or ())
    return said


def states(agent: Agent, session: str, *names: str, since: int = 0) -> list[Update]:
    """Return the positions at which the session reported one of these states. Without states, return the positions of
    all states."""
    found = agent.updates(session, since=since)
    return [each for each in found if each.kind == "state_update" and (not names or each.body.get("state") in names)]


async def reached(agent: Agent, session: str, *names: str, since: int = 0) -> Update:
    """Wait until the session reports one of these states for the first time."""
    what = f"the state {' or '.join(names)}"
    return await agent.wait_for(lambda: next(iter(states(agent, session, *names, since=since)), None), what)


async def ends(agent: Agent, session: str, reason: str, since: int = 0) -> Update:
    """Wait for the state idle. The case fails if its stop reason is not this."""
    idle = await reached(agent, session, "idle", since=since)
    if (found := idle.body.get("stopReason")) != reason:
        fail(f"the stopReason is {found!r} instead of {reason!r}"[:200], at=idle.position)
    return idle


async def nothing_follows(agent: Agent, session: str, behind: int) -> None:
    """Fail the case if a message of the session follows this position."""
    await agent.fence()
    await agent.pause()
    if late := [update for update in agent.updates(session) if update.position > behind]:
        fail(f"{late[0].kind} comes behind it", at=late[0].position)


async def refused(agent: Agent, method: str, params: object, *codes: int) -> Mapping[str, Any]:
    """Send a request, and return the error. The case fails unless the agent refuses with one of these codes."""
    return await (await agent.request(method, params)).error(*codes)


def fields(agent: Agent, session: str, kind: str, key: str, since: int = 0) -> dict[str, dict[str, Any]]:
    """Return the objects that the patches of this kind have produced so far, by id."""
    found: dict[str, dict[str, Any]] = {}
    for update in agent.updates(session, since=since):
        if update.kind == kind and isinstance(id := update.body.get(key), str):
            found.setdefault(id, {}).update(update.body)
    return found


def tool_calls(agent: Agent, session: str, since: int = 0) -> dict[str, dict[str, Any]]:
    """Return the tool calls of a session in their current state, by id."""
    return fields(agent, session, "tool_call_update", "toolCallId", since)


def can_be_cancelled(thing: Mapping[str, Any]) -> bool:
    """Whether a tool call or terminal offers to be cancelled."""
    capabilities = thing.get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get("cancel") is not None


async def offered(agent: Agent, session: str, kind: str, key: str) -> str:
    """Wait for a tool call or terminal that can be cancelled, and return its id."""

    def find() -> str | None:
        there = fields(agent, session, kind, key).items()
        return next((id for id, thing in there if can_be_cancelled(thing)), None)

    return await agent.wait_for(find, f"{kind} with capabilities.cancel")


async def question(agent: Agent, session: str) -> Incoming:
    """Begin the work of the situation `permission`, and return its request, which is not answered."""
    agent.hold(PERMISSION)
    with belongs_to(LIFE):
        await (await prompt(agent, session, "permission")).result()
    return await agent.next_request(PERMISSION)


def short(value: object) -> str:
    """Return a value of the agent in a short form, for a reason."""
    return f"{value!r}"[:200]


def is_code(answer: object, code: int) -> bool:
    """Whether a response is an error with this code."""
    return code_of(answer) == code


def _allow(request: Incoming) -> object:
    params = request.params if isinstance(request.params, dict) else {}
    for option in params.get("options") or ():
        if option.get("kind") in ("allow_once", "allow_always"):
            return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
    return {"outcome": {"outcome": "cancelled"}}
