"""The editor's panel of the built-in agent with a model: modes, options, commands and the plan.

The agent enforces a mode itself, and does not rely on instructions to the model. In the mode `plan`, no tool runs that
would need approval. In `accept_edits`, changes of files need no approval if the user could have allowed them for all
later calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, Literal

from acp_server import Agent, Approval, Session, SessionApprovals, ToolContext, ToolFailed, Turn
from acp_server.apps.coder.change import CHANGE
from acp_server.safe_text import one_line
from acp_server.schema import PlanEntry, SessionConfigSelect, SessionConfigSelectOption, SessionMode

ASK: Final = "ask"
PLAN: Final = "plan"
ACCEPT_EDITS: Final = "accept_edits"

_MODES: Final = (
    SessionMode(id=ASK, name="Ask", description="You are asked before a file is changed or a command is run."),
    SessionMode(id=PLAN, name="Plan", description="The agent reads and plans. It changes nothing and runs nothing."),
    SessionMode(
        id=ACCEPT_EDITS,
        name="Accept edits",
        description="Files are changed without asking. You are asked before a command is run.",
    ),
)

PLANNING: Final = (
    "The session is in plan mode: look into the project and say what you would do, step by step. No file is changed "
    "and no command is run until the user leaves that mode, so do not try.\n"
)
"""The instructions for the model in the mode `plan`."""

_NOT_RUN: Final = (
    "The tool was not run, because the session is in plan mode. Read what you need, and describe your plan."
)


class ModeApprovals(SessionApprovals):
    """Decides by the mode before the user is asked. A rejection by the user is kept."""

    async def get(self, session: Session, tool: str) -> bool | None:
        """See `Approvals`."""
        if session.mode == PLAN:
            return False
        known = await super().get(session, tool)
        if known is None and session.mode == ACCEPT_EDITS and tool.startswith(CHANGE):
            return True
        return known


def outside_of_plans(ask: Callable[..., Awaitable[Approval]]) -> Callable[..., Awaitable[Approval]]:
    """Wrap the approval request of a tool that changes something, so that it is not made in the mode `plan`."""

    @wraps(ask)
    async def asking(call: ToolContext, **arguments: Any) -> Approval:
        if call.session.mode == PLAN:
            raise ToolFailed(_NOT_RUN)
        return await ask(call=call, **arguments)

    return asking


THOUGHT_LEVEL: Final = "thought_level"
"""The id of the config option for the amount of thinking."""

_DEFAULT: Final = "default"
_OFF: Final = "off"

_LEVELS: Final = {
    _DEFAULT: "Default",
    _OFF: "Off",
    "low": "Low",
    "medium": "Medium",
    "high": "High",
    "max": "Highest",
}


def offer_thinking(agent: Agent, models: Sequence[Any]) -> None:
    """Offer levels of thinking if one of the models supports them. The other models ignore the level."""
    if any(model.profile.get("supports_thinking") for model in models):
        agent.config_options(
            SessionConfigSelect(
                id=THOUGHT_LEVEL,
                name="Thinking",
                category="thought_level",
                current_value=_DEFAULT,
                options=[SessionConfigSelectOption(value=value, name=name) for value, name in _LEVELS.items()],
            )
        )


def thinking(turn: Turn) -> Mapping[str, Any]:
    """Return the model settings that the user has chosen."""
    level = turn.session.config(THOUGHT_LEVEL, _DEFAULT)
    return {} if level == _DEFAULT else {"thinking": False if level == _OFF else level}


MOST_STEPS: Final = 100
_STEP: Final = 500
"""The most characters of one step."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the plan."""

    content: str
    status: Literal["pending", "in_progress", "completed"]


async def plan(steps: list[Step], call: ToolContext) -> str:
    """Show the user your plan for work of several steps, and how far it is: all steps, each time. Call it again when a
    step begins and when it is done."""
    if len(steps) > MOST_STEPS:
        raise ToolFailed(f"A plan has at most {MOST_STEPS} steps.")
    await call.turn.plan([PlanEntry(content=one_line(step.content, _STEP), status=step.status) for step in steps])
    return "The user sees it."


INIT: Final = "write `AGENTS.md`: what a developer of this project has to know, found by reading it."
REVIEW: Final = "review the uncommitted changes, or the target that follows the command. Change nothing."


def add_commands(agent: Agent, work: Callable[[Turn, str], Awaitable[None]]) -> None:
    """Add the commands. `work` has the model carry out a command's instructions."""

    @agent.command("init", description="Write AGENTS.md for this project")
    async def init(turn: Turn) -> None:
        await work(turn, f"The command `/init` means: {INIT}")

    @agent.command("review", hint="what to look at", description="Review the changes that are not committed")
    async def review(turn: Turn, what: str = "") -> None:
        await work(turn, f"The command `/review` means: {REVIEW}")

    @agent.command("mode", hint=f"{ASK}, {PLAN} or {ACCEPT_EDITS}", description="Change the mode of the session")
    async def mode(turn: Turn, name: Literal["ask", "plan", "accept_edits"]) -> None:
        await turn.session.set_mode(name)
        chosen = next(each for each in _MODES if each.id == name)
        await turn.say(f"{chosen.name}: {chosen.description}\n")

    @agent.command("usage", description="Say what the session has cost")
    async def usage(turn: Turn) -> None:
        await turn.say(_spent(turn.session))


def _spent(session: Session) -> str:
    used = [turn.usage for turn in session.record.turns if turn.usage is not None]
    words = f"{sum(each.total for each in used):,} tokens in {len(used)} turns"
    if (cost := session.record.cost) is not None:
        words += f", {cost[0]:.4f} {cost[1]}"
    return f"{words}.\n"


def offer_modes(agent: Agent) -> None:
    """Offer the modes; a session begins with the first."""
    agent.modes(*_MODES)
