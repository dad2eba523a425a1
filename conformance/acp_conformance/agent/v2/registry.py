"""The cases for agents of version 2: the registry that `cases/` fills."""

from __future__ import annotations

from acp_conformance.core.case import Registry

v2_cases = Registry("agent", protocol=2)
"""The cases for agents of version 2."""

case = v2_cases.case
"""Registers a case for agents of version 2; its argument is a `acp_conformance.agent.subject.Agent`."""

SOURCE = "ACP v2 draft"
"""The text from which the rules come."""
