"""Initialization: versions, capabilities, who the agent is."""

from __future__ import annotations

from conformance.case import MUST, case, fail
from conformance.peer import Agent

SOURCE = "ACP v1"
SECTION = "Initialization"


@case("initialize/answers", level=MUST, source=SOURCE, section=SECTION)
async def answers(agent: Agent) -> None:
    """The initialize request is answered with a result."""
    result = await agent.initialize()
    if not isinstance(result, dict):
        fail("the result is no object")
