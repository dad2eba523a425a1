"""The cases for agents of version 2, a file for each group."""

from __future__ import annotations

import sys

from acp_conformance.agent.v2.registry import v2_cases
from acp_conformance.core.case import Registry

GROUPS = (
    "negotiation",
    "prompts",
    "content",
    "updates",
    "cancel",
    "one_cancel",
    "held",
    "closing",
    "permission",
    "sessions",
    "listing",
    "options",
    "whole",
)
"""The modules in the order in which their cases are run and reported."""


def load() -> Registry:
    """Return the registry with all cases for agents of version 2."""
    return v2_cases.load(sys.modules[__name__], GROUPS)
