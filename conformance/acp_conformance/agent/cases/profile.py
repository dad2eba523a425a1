"""A profile must describe its agent correctly, because otherwise rules would pass without being tried."""

from __future__ import annotations

from acp_conformance.agent.observed import Observed
from acp_conformance.agent.registry import agent_cases, case
from acp_conformance.core.case import MUST


@case("profile/situation", level=MUST, source="acp-conformance", section="Profiles", whole_run=True)
async def situation(observed: Observed) -> None:
    """Every situation that the profile names works."""
    await observed.situations_come_about(1, {need for case in agent_cases for need in case.needs})
