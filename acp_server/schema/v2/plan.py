"""Plans: what the agent means to do (ACP v2, agent plan). A session may have several, by id."""

from typing import Annotated, Literal

from typing_extensions import TypeAliasType

from acp_server.schema.base import Model, Sent, Unknown, Wire
from acp_server.schema.unions import OpenEnum, Tagged
from acp_server.schema.v2.types import PlanId

PlanEntryPriority = TypeAliasType(
    "PlanEntryPriority", Annotated[Literal["high", "medium", "low"] | str, OpenEnum(extensible=True)]
)
"""How much a step matters to the whole. Names of one's own begin with `_`."""

PlanEntryStatus = TypeAliasType(
    "PlanEntryStatus",
    Annotated[Literal["pending", "in_progress", "completed", "cancelled"] | str, OpenEnum(extensible=True)],
)
"""How far a step is. Names of one's own begin with `_`."""


class PlanEntry(Model):
    """One step of a plan."""

    content: str
    """What the step achieves, in words for the user."""
    priority: PlanEntryPriority
    """How much it matters."""
    status: PlanEntryStatus
    """How far it is."""


class PlanItems(Model):
    """A plan that is a list of steps."""

    type: Sent[Literal["items"]] = "items"
    plan_id: PlanId
    """The plan."""
    entries: Annotated[list[PlanEntry], Wire(skip_items=True)]
    """All steps, in order, each with its present status."""


class UnknownPlan(Unknown):
    """A plan in a form that this version does not have; it replaces what the plan was before."""

    type: str
    plan_id: PlanId
    """The plan."""


PlanUpdateContent = TypeAliasType(
    "PlanUpdateContent", Annotated[PlanItems | UnknownPlan, Tagged("type", extensible=True)]
)
"""A whole plan, told apart by `type`."""


class PlanUpdate(Model):
    """The session update `plan_update`: a plan, in the place of the one with the same id."""

    session_update: Sent[Literal["plan_update"]] = "plan_update"
    plan: PlanUpdateContent
    """The plan."""
