"""The cases for clients, a file for each group."""

from __future__ import annotations

import sys

from acp_conformance.client.registry import client_cases
from acp_conformance.core.case import Registry

GROUPS = (
    "initialize",
    "sessions",
    "turns",
    "updates",
    "requests",
    "ids",
    "notifications",
    "framing",
    "bad_input",
    "permission",
    "cancel",
    "cancel_request",
    "files",
    "terminals",
    "closing",
    "whole",
)
"""The modules in the order in which their cases are run and reported."""


def load() -> Registry:
    """Return the registry with all cases for clients."""
    return client_cases.load(sys.modules[__name__], GROUPS)
