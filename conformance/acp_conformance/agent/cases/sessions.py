"""Creating and closing sessions."""

from __future__ import annotations

from acp_conformance.agent.exchange import code_of
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent
from acp_conformance.core.case import CHOICE, MUST, SHOULD, belongs_to, choice, fail, not_applicable

ACP = "ACP v1"
SETUP = "Session Setup, Creating a Session"
CLOSING = "Session Setup, Closing Active Sessions"

NONE = "conformance-no-such-session"


async def _capable(agent: Agent, *capabilities: str) -> None:
    await agent.initialize()
    for capability in capabilities:
        if not agent.can(capability):
            not_applicable(f"{capability} is not announced")


async def end(agent: Agent, session: str) -> None:
    """Send `session/close`, as a step of cases about other rules. The case fails if the agent refuses."""
    with belongs_to("sessions/close"):
        await (await agent.request("session/close", {"sessionId": session})).result()


@case("sessions/new", level=MUST, source=ACP, section=SETUP, shared=True)
async def new(agent: Agent) -> None:
    """session/new is answered with the id of the session."""
    await agent.session()


@case("sessions/unique", level=MUST, source=ACP, section=SETUP, shared=True)
async def unique(agent: Agent) -> None:
    """No two sessions have the same id."""
    ids = [await agent.session() for _ in range(3)]
    if len(set(ids)) != len(ids):
        fail(f"three sessions are named {', '.join(ids)}")


@case(
    "sessions/unknown-members",
    level=MUST,
    source=ACP,
    section="Extensibility, The _meta Field",
    shared=True,
)
async def unknown_members(agent: Agent) -> None:
    """An agent does not refuse a session because of `_meta` or of members of a later revision."""
    await agent.session(_meta={"conformance.example/mark": 1}, ofALaterRevision=[])


@case("sessions/relative-cwd", level=CHOICE, source=ACP, section="Session Setup, Working Directory", shared=True)
async def relative_cwd(agent: Agent) -> None:
    """The specification leaves open whether a relative working directory, which no client may send, is refused."""
    await agent.session()
    answer = await (await agent.request("session/new", {"cwd": "src/conformance", "mcpServers": []})).answer()
    choice("refused" if "error" in answer else "taken")


@case("sessions/unreachable-mcp-server", level=MUST, source="JSON-RPC 2.0", section="5 Response object", shared=True)
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


@case("sessions/cancel-unknown", level=MUST, source="JSON-RPC 2.0", section="4.1 Notification")
async def cancel_unknown(agent: Agent) -> None:
    """A session/cancel for a session that does not exist is not answered, and the next request is served."""
    await agent.initialize()
    since = len(agent.received)
    await agent.notify("session/cancel", {"sessionId": NONE})
    await agent.fence()
    await agent.settle()
    if answers := agent.unasked(since):
        fail(f"it is answered: {answers[0].line[:200].decode('utf-8', 'replace')}", at=answers[0].position)


# Closing.


@case("sessions/close", level=MUST, source=ACP, section=CLOSING, shared=True, after="gating/has-close")
async def close(agent: Agent) -> None:
    """Closing a session succeeds."""
    await _capable(agent, "sessionCapabilities.close")
    await (await agent.request("session/close", {"sessionId": await agent.session()})).result()


@case("sessions/closed-takes-no-prompt", level=SHOULD, source=ACP, section=CLOSING, shared=True)
async def closed_takes_no_prompt(agent: Agent) -> None:
    """A closed session accepts no prompts."""
    await _capable(agent, "sessionCapabilities.close")
    session = await agent.session()
    await end(agent, session)
    await (await agent.say(session, "hello")).error()


@case(
    "sessions/close-cancels",
    level=MUST,
    source=ACP,
    section=CLOSING,
    needs="hang",
    after="gating/has-close",
)
async def close_cancels(agent: Agent) -> None:
    """Closing a session cancels its turn like session/cancel, so that the prompt is answered `cancelled`."""
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
    needs="quick",
    shared=True,
)
async def close_leaves_others(agent: Agent) -> None:
    """Closing a session does not change other sessions."""
    await _capable(agent, "sessionCapabilities.close")
    first, second = await agent.session(), await agent.session()
    await end(agent, first)
    await (await agent.prompt(second, "quick")).result()


@case("sessions/close-leaves-other-turns", level=MUST, source=ACP, section=CLOSING, needs="hang")
async def close_leaves_other_turns(agent: Agent) -> None:
    """When a session is closed, the turns of other sessions continue."""
    await _capable(agent, "sessionCapabilities.close")
    session, other = await agent.session(), await agent.session()
    prompt = await agent.prompt(other, "hang")
    await agent.said_something(prompt)
    await end(agent, session)
    await agent.fence()
    if prompt.answers:
        fail(f"the turn of another session is answered: {str(prompt.answers[0])[:200]}", at=prompt.position)
    await agent.cancel(other)
    await prompt.answer()


@case("sessions/close-unknown", level=CHOICE, source=ACP, section=CLOSING, shared=True)
async def close_unknown(agent: Agent) -> None:
    """Closing a session that does not exist succeeds or is refused."""
    await _capable(agent, "sessionCapabilities.close")
    answer = await (await agent.request("session/close", {"sessionId": NONE})).answer()
    choice(f"refused with {code_of(answer)}" if "error" in answer else "succeeds")
