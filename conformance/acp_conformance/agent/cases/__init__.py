"""The cases for agents, a file for each group."""

from __future__ import annotations

import sys

from acp_conformance.agent.registry import agent_cases
from acp_conformance.core.case import Registry

GROUPS = (
    "initialize",
    "envelope",
    "ids",
    "bad_input",
    "bad_input_survived",
    "gating",
    "sessions",
    "sessions_known",
    "session_settings",
    "session_pages",
    "session_replay",
    "session_in_turn",
    "session_servers",
    "turns",
    "legal_input",
    "session_cancel",
    "cancel_request",
    "cancel_ignored",
    "nested",
    "nested_cancelled",
    "permission",
    "permission_cancelled",
    "cancel_edges",
    "terminals",
    "batch",
    "ordering",
    "closing",
    "schema",
    "profile",
)
"""The modules in the order in which their cases are run and reported."""


def load() -> Registry:
    """Return the registry with all cases for agents."""
    return agent_cases.load(sys.modules[__name__], GROUPS)
