"""tool_call/cancel and terminal/cancel, which cancel one tool call or one terminal of the agent while its session
continues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acp_conformance.agent.subject import Agent
from acp_conformance.agent.v2.registry import SOURCE, case
from acp_conformance.agent.v2.steps import (
    FINAL,
    INVALID_PARAMS,
    LIFE,
    can_be_cancelled,
    fields,
    offered,
    reached,
    refused,
    session_of,
    short,
    states,
    working,
)
from acp_conformance.core.case import MUST, SHOULD, fail

TOOL = "Tool call cancellation"
TERMINAL = "Terminal cancellation"
CALL = ("tool_call_update", "toolCallId")
SHELL = ("terminal_update", "terminalId")
CALL_ENDS = "v2-tool-cancel/ends"
SHELL_ENDS = "v2-terminal-cancel/ends"


async def _call(agent: Agent) -> tuple[str, str]:
    """Return a session, and its tool call that can be cancelled."""
    session = await working(agent, "cancellable")
    return session, await offered(agent, session, *CALL)


async def _shell(agent: Agent) -> tuple[str, str]:
    """Return a session, and its terminal whose command can be cancelled."""
    session = await working(agent, "shell")
    return session, await offered(agent, session, *SHELL)


async def _stop_call(agent: Agent, session: str, call: str) -> Mapping[str, Any]:
    """Cancel the tool call, wait for its end, and return its final state."""
    await (await agent.request("tool_call/cancel", {"sessionId": session, "toolCallId": call})).result()

    def find() -> Mapping[str, Any] | None:
        known = fields(agent, session, *CALL)[call]
        return known if known.get("status") in FINAL else None

    return await agent.wait_for(find, "the final status of the tool call")


async def _stop_shell(agent: Agent, session: str, terminal: str) -> Mapping[str, Any]:
    """Cancel the command of the terminal, wait for its end, and return its final state."""
    await (await agent.request("terminal/cancel", {"sessionId": session, "terminalId": terminal})).result()

    def find() -> Mapping[str, Any] | None:
        known = fields(agent, session, *SHELL)[terminal]
        return known if known.get("exitStatus") is not None else None

    return await agent.wait_for(find, "the exitStatus of the terminal")


async def _not_cancelled(agent: Agent, session: str) -> None:
    """Fail the case if the work ends as cancelled. It may continue, or end with another reason."""
    await agent.fence()
    await agent.pause()
    for idle in states(agent, session, "idle"):
        if idle.body.get("stopReason") == "cancelled":
            fail("the whole work ended as cancelled", at=idle.position)


@case(CALL_ENDS, level=MUST, source=SOURCE, section=TOOL, needs="cancellable", after=LIFE)
async def call_ends(agent: Agent) -> None:
    """The agent accepts tool_call/cancel while the tool call offers it, and then sends a final status."""
    await _stop_call(agent, *await _call(agent))


@case("v2-tool-cancel/content-first", level=MUST, source=SOURCE, section=TOOL, needs="cancellable", after=CALL_ENDS)
async def content_first(agent: Agent) -> None:
    """When the status of a cancelled tool call is final, its content is complete, and nothing is added later."""
    session, call = await _call(agent)
    await _stop_call(agent, session, call)
    await agent.fence()
    await agent.pause()
    final = False
    for update in agent.updates(session):
        if update.body.get("toolCallId") == call:
            if final and (update.kind == "tool_call_content_chunk" or "content" in update.body):
                fail("its content is changed after its final status", at=update.position)
            final = final or update.body.get("status") in FINAL


@case("v2-tool-cancel/work-goes-on", level=MUST, source=SOURCE, section=TOOL, needs="cancellable", after=CALL_ENDS)
async def call_alone(agent: Agent) -> None:
    """Cancelling one tool call does not cancel the work."""
    session, call = await _call(agent)
    await _stop_call(agent, session, call)
    await _not_cancelled(agent, session)


@case("v2-tool-cancel/offer-ends", level=SHOULD, source=SOURCE, section=TOOL, needs="cancellable", after=CALL_ENDS)
async def call_offer_ends(agent: Agent) -> None:
    """A tool call that has ended no longer offers to be cancelled."""
    session, call = await _call(agent)
    if can_be_cancelled(await _stop_call(agent, session, call)):
        fail(f"{short(call)} offers it behind its final status")


@case("v2-tool-cancel/ended", level=MUST, source=SOURCE, section=TOOL, needs="cancellable", after=CALL_ENDS)
async def call_ended(agent: Agent) -> None:
    """tool_call/cancel for a call that has ended is refused with -32602."""
    session, call = await _call(agent)
    await _stop_call(agent, session, call)
    await refused(agent, "tool_call/cancel", {"sessionId": session, "toolCallId": call}, INVALID_PARAMS)


@case("v2-tool-cancel/unknown", level=MUST, source=SOURCE, section=TOOL)
async def call_unknown(agent: Agent) -> None:
    """tool_call/cancel for a call that never existed is refused with -32602."""
    params = {"sessionId": await session_of(agent), "toolCallId": "no-such-call"}
    await refused(agent, "tool_call/cancel", params, INVALID_PARAMS)


@case("v2-tool-cancel/other-session", level=MUST, source=SOURCE, section=TOOL, needs="cancellable", after=CALL_ENDS)
async def call_of_another(agent: Agent) -> None:
    """tool_call/cancel for a call of another session is refused with -32602."""
    _, call = await _call(agent)
    params = {"sessionId": await session_of(agent), "toolCallId": call}
    await refused(agent, "tool_call/cancel", params, INVALID_PARAMS)


@case(SHELL_ENDS, level=MUST, source=SOURCE, section=TERMINAL, needs="shell", after=LIFE)
async def shell_ends(agent: Agent) -> None:
    """The agent accepts terminal/cancel while the terminal offers it, and then sends an exitStatus."""
    await _stop_shell(agent, *await _shell(agent))


@case("v2-terminal-cancel/work-goes-on", level=MUST, source=SOURCE, section=TERMINAL, needs="shell", after=SHELL_ENDS)
async def shell_alone(agent: Agent) -> None:
    """Cancelling the command of one terminal does not cancel the work."""
    session, terminal = await _shell(agent)
    await _stop_shell(agent, session, terminal)
    await _not_cancelled(agent, session)


@case("v2-terminal-cancel/offer-ends", level=SHOULD, source=SOURCE, section=TERMINAL, needs="shell", after=SHELL_ENDS)
async def shell_offer_ends(agent: Agent) -> None:
    """A terminal whose command has ended no longer offers to be cancelled."""
    session, terminal = await _shell(agent)
    if can_be_cancelled(await _stop_shell(agent, session, terminal)):
        fail(f"{short(terminal)} offers it behind its exitStatus")


@case("v2-terminal-cancel/ended", level=MUST, source=SOURCE, section=TERMINAL, needs="shell", after=SHELL_ENDS)
async def shell_ended(agent: Agent) -> None:
    """terminal/cancel for a command that has ended is refused with -32602."""
    session, terminal = await _shell(agent)
    await _stop_shell(agent, session, terminal)
    await refused(agent, "terminal/cancel", {"sessionId": session, "terminalId": terminal}, INVALID_PARAMS)


@case("v2-terminal-cancel/unknown", level=MUST, source=SOURCE, section=TERMINAL)
async def shell_unknown(agent: Agent) -> None:
    """terminal/cancel for a terminal that never existed is refused with -32602."""
    params = {"sessionId": await session_of(agent), "terminalId": "no-such-terminal"}
    await refused(agent, "terminal/cancel", params, INVALID_PARAMS)


@case("v2-terminal-cancel/session-cancel", level=MUST, source=SOURCE, section=TERMINAL, needs="shell", after=LIFE)
async def shell_of_cancelled_work(agent: Agent) -> None:
    """session/cancel ends the command of the work, and the agent reports that end before the session is idle."""
    session, terminal = await _shell(agent)
    await agent.notify("session/cancel", {"sessionId": session})
    await reached(agent, session, "idle")
    if fields(agent, session, *SHELL)[terminal].get("exitStatus") is None:
        fail(f"{short(terminal)} has no exitStatus when the session is idle")
