"""The updates of a session during work: messages, tool calls and plans, which are identified by their ids."""

from __future__ import annotations

from acp_conformance.agent.subject import Agent, Update
from acp_conformance.agent.v2.registry import SOURCE, case
from acp_conformance.agent.v2.steps import (
    FINAL,
    LIFE,
    fields,
    offered,
    run,
    said,
    session_of,
    short,
    tool_calls,
    working,
)
from acp_conformance.core.case import MUST, SHOULD, fail, skip

SECTION = "Session updates"
TOOLS = "Tool calls"
GONE = ("tool_call", "plan", "current_mode_update")
"""The kinds of version 1 that version 2 does not have."""


@case("v2-updates/kinds", level=MUST, source=SOURCE, section=SECTION, needs=("tool", "plan"), after=LIFE)
async def kinds(agent: Agent) -> None:
    """No update is of a kind that version 2 has removed."""
    session = await session_of(agent)
    for update in [*await run(agent, session, "tool"), *await run(agent, session, "plan")]:
        if update.kind in GONE:
            fail(f"the kind is {update.kind}", at=update.position)


@case("v2-updates/text", level=MUST, source=SOURCE, section="Messages", needs="stream", after=LIFE)
async def text(agent: Agent) -> None:
    """Chunks append to the message with their id, a whole message replaces it, and together they give the whole
    text."""
    wanted = agent.profile.situations["stream"].says
    if wanted is None:
        skip("the profile has no text (says) of the situation 'stream'")
    told = said(await run(agent, await session_of(agent), "stream"))
    if (found := "".join(told.values())).strip() != wanted.strip():
        fail(f"the messages of the agent are {short(found)} instead of {short(wanted)}")


@case("v2-updates/message-ids", level=MUST, source=SOURCE, section="Messages", needs="stream", after=LIFE)
async def message_ids(agent: Agent) -> None:
    """The agent's message for a later prompt has a new id."""
    session = await session_of(agent)
    first, second = [said(await run(agent, session, "stream")) for _ in range(2)]
    if both := first.keys() & second.keys():
        fail(f"the message {short(next(iter(both)))} goes on in the work of a later prompt")


@case("v2-updates/tool-ids", level=MUST, source=SOURCE, section=TOOLS, needs="tool", after=LIFE)
async def tool_ids(agent: Agent) -> None:
    """A tool call for a later prompt has a new id."""
    session = await session_of(agent)
    await run(agent, session, "tool")
    before, since = tool_calls(agent, session).keys(), len(agent.received)
    await run(agent, session, "tool")
    if both := before & tool_calls(agent, session, since).keys():
        fail(f"the tool call {short(min(both))} goes on in the work of a later prompt")


@case("v2-updates/tool-title", level=SHOULD, source=SOURCE, section=TOOLS, needs="tool", after=LIFE)
async def tool_title(agent: Agent) -> None:
    """The first update of a tool call has its title."""
    seen: set[object] = set()
    for update in _of_tools(await run(agent, await session_of(agent), "tool")):
        if (id := update.body.get("toolCallId")) not in seen and not update.body.get("title"):
            fail(f"the first update of {short(id)} has no title", at=update.position)
        seen.add(id)


@case("v2-updates/tool-final", level=SHOULD, source=SOURCE, section=TOOLS, needs="tool", after=LIFE)
async def tool_final(agent: Agent) -> None:
    """The tool calls of ended work have a final status."""
    session = await session_of(agent)
    await run(agent, session, "tool")
    for id, call in tool_calls(agent, session).items():
        if (status := call.get("status") or "pending") in ("pending", "in_progress", "paused"):
            fail(f"the status of {short(id)} is {status} when the session is idle")


@case("v2-updates/final-stays", level=SHOULD, source=SOURCE, section=TOOLS, needs="tool", after=LIFE)
async def final_stays(agent: Agent) -> None:
    """A final status of a tool call does not change."""
    final: dict[object, object] = {}
    for update in _of_tools(await run(agent, await session_of(agent), "tool")):
        id, status = update.body.get("toolCallId"), update.body.get("status")
        if status is not None and final.get(id, status) != status:
            fail(f"{short(id)} is {status} behind {final[id]}", at=update.position)
        if status in FINAL:
            final[id] = status


@case("v2-updates/plan-id", level=MUST, source=SOURCE, section="Plan", needs="plan", after=LIFE)
async def plan_id(agent: Agent) -> None:
    """A plan and its changes have the same id."""
    plans = [each for each in await run(agent, await session_of(agent), "plan") if each.kind == "plan_update"]
    ids: set[str] = set()
    for update in plans:
        plan = update.body.get("plan")
        if not isinstance(plan, dict) or not isinstance(id := plan.get("planId"), str):
            fail(f"the plan is {short(plan)}", at=update.position)
        ids.add(id)
    if not plans:
        fail("no plan_update came")
    if len(ids) == len(plans) > 1:
        fail(f"each of {len(plans)} updates of the plan has a separate id")


@case("v2-updates/terminal-command", level=SHOULD, source=SOURCE, section="Terminals", needs="shell")
async def terminal_command(agent: Agent) -> None:
    """The agent reports the command of a terminal that a tool call shows."""
    session = await working(agent, "shell")
    id = await offered(agent, session, "terminal_update", "terminalId")
    shown = fields(agent, session, "terminal_update", "terminalId")[id]
    if not isinstance(shown.get("command"), str):
        fail(f"the command of {short(id)} is {short(shown.get('command'))}")


def _of_tools(updates: list[Update]) -> list[Update]:
    return [update for update in updates if update.kind == "tool_call_update"]
