"""The cases for agents: the registry that `cases/` fills."""

from __future__ import annotations

from acp_conformance.core.case import Registry

agent_cases = Registry("agent")
"""The cases for agents."""

case = agent_cases.case
"""Registers a case for agents; its argument is a `acp_conformance.agent.subject.Agent`."""
