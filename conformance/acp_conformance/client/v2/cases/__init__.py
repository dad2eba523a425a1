"""The cases for clients of version 2, a file for each group."""

from __future__ import annotations

import sys

from acp_conformance.client.v2.registry import v2_cases
from acp_conformance.core.case import Registry

GROUPS = ("negotiation", "sessions", "prompts", "updates", "cancel", "requests", "whole")
"""The modules in the order in which their cases are run and reported."""


def load() -> Registry:
    """Return the registry with all cases for clients of version 2."""
    return v2_cases.load(sys.modules[__name__], GROUPS)
