"""Rules for the shape of every message that the agent sent in this run, checked against the published schema."""

from __future__ import annotations

from acp_conformance.agent.observed import Observed
from acp_conformance.agent.registry import case
from acp_conformance.core.case import MUST, SHOULD

ACP = "ACP v1"


@case("schema/results", level=MUST, source=ACP, section="Schema", whole_run=True)
async def results(observed: Observed) -> None:
    """Every result has the shape of its method."""
    observed.forbid("result")


@case("schema/requests", level=MUST, source=ACP, section="Schema", whole_run=True)
async def requests(observed: Observed) -> None:
    """The parameters of every request and notification to the client have the shape of its method."""
    observed.forbid("request")


@case("schema/updates", level=MUST, source=ACP, section="Schema, SessionUpdate", whole_run=True)
async def updates(observed: Observed) -> None:
    """Every session/update is of a kind that the schema defines, and has the shape of that kind."""
    observed.forbid("update")


@case("schema/absolute-paths", level=MUST, source=ACP, section="Overview, Argument requirements", whole_run=True)
async def absolute_paths(observed: Observed) -> None:
    """Every file path is absolute."""
    observed.forbid("absolute-path")


@case("schema/line-numbers", level=MUST, source=ACP, section="Overview, Argument requirements", whole_run=True)
async def line_numbers(observed: Observed) -> None:
    """Line numbers begin with 1."""
    observed.forbid("line-number")


@case("schema/sessions", level=MUST, source=ACP, section="Session Setup, Session ID", whole_run=True)
async def sessions(observed: Observed) -> None:
    """Every session that the agent names was created by the agent, or named by the client."""
    observed.forbid("session")


@case("schema/custom-members", level=SHOULD, source=ACP, section="Extensibility, The _meta Field", whole_run=True)
async def custom_members(observed: Observed) -> None:
    """Parameters, results and updates have no custom members outside `_meta`.

    The specification says MUST NOT, but a custom member is only a warning, because it could be a member of a newer
    schema.
    """
    observed.forbid("extra-member")
