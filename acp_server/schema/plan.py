"""The plan of a turn: what the agent means to do (protocol: agent plan)."""

from typing import Annotated, Literal

from typing_extensions import TypeAliasType

from acp_server.schema.base import Model
from acp_server.schema.markers import LenientItems, Sent
from acp_server.schema.unions import OpenEnum

__all__ = [
    "Plan",
    "PlanEntry",
    "PlanEntryPriority",
    "PlanEntryStatus",
]

PlanEntryPriority = TypeAliasType("PlanEntryPriority", Annotated[Literal["high", "medium", "low"] | str, OpenEnum()])
"""How much a step matters to the whole."""

PlanEntryStatus = TypeAliasType(
    "PlanEntryStatus", Annotated[Literal["pending", "in_progress", "completed"] | str, OpenEnum()]
)
"""How far a step is."""


class PlanEntry(Model):
    """One step of a plan."""

    content: str
    """What the step achieves, in words for the user."""
    priority: PlanEntryPriority
    """How much it matters."""
    status: PlanEntryStatus
    """How far it is."""


class Plan(Model):
    """The session update `plan`: the whole plan, in the place of the one before."""

    session_update: Sent[Literal["plan"]] = "plan"
    entries: LenientItems[list[PlanEntry]]
    """All steps, in order, each with its present status."""
