"""The steps that cases of version 2 share: agreeing on it, prompting, and what a session says of its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.agent.subject import Agent, Pending, Update, prompt_params
from conformance.core.case import Outcome, Verdict, fail

ANSWERS = "v2-negotiation/answers"


async def agree(agent: Agent) -> Mapping[str, Any]:
    """Initialize with version 2: the result. An agent that answers 1 is not judged by a case of version 2."""
    agent.version = 2
    agent.hold("session/request_permission", "elicitation/create")  # the suite answers in the form of version 1
    params = {"protocolVersion": 2, "info": {"name": "acp-conformance", "version": "1"}, "capabilities": {}}
    result = await (await agent.request("initialize", params)).result()
    answered = result.get("protocolVersion") if isinstance(result, dict) else None
    if answered == 1:
        raise Outcome(Verdict.UNREACHED, "it answered 1", root=ANSWERS)
    if answered != 2 or isinstance(answered, bool):
        raise Outcome(Verdict.FAIL, f"the answer to 2 is {answered!r}"[:200], root=ANSWERS)
    return dict(result)


async def session_of(agent: Agent) -> str:
    """A new session, after agreeing on version 2: its id."""
    await agree(agent)
    result = await (await agent.request("session/new", {"cwd": str(agent.cwd)})).result()
    session = result.get("sessionId") if isinstance(result, dict) else None
    if not isinstance(session, str):
        fail("session/new was answered without a sessionId")
    return session


async def prompt(agent: Agent, session: str, situation: str) -> Pending:
    """Send the prompt of a situation; its handle, at once."""
    return await agent.request("session/prompt", prompt_params(session, agent.text_of(situation)))


def states(agent: Agent, session: str, state: str) -> list[Update]:
    """Each time that the session said it is in this state."""
    found = agent.updates(session)
    return [update for update in found if update.kind == "state_update" and update.body.get("state") == state]


async def reached(agent: Agent, session: str, state: str) -> Update:
    """Await the first time that the session is in this state."""
    return await agent.wait_for(lambda: next(iter(states(agent, session, state)), None), f"the state {state}")
