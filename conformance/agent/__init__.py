"""The cases for agents, a file a group."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from conformance.case import Registry, agent_cases

GROUPS = (
    "initialize",
    "envelope",
    "ids",
    "bad_input",
    "gating",
    "sessions",
    "sessions_known",
    "turns",
    "session_cancel",
    "cancel_request",
    "nested",
    "permission",
    "terminals",
    "batch",
    "ordering",
    "closing",
    "schema",
)
"""The modules in the order in which their cases are run and reported."""


def load() -> Registry:
    """The registry with every case for agents in it."""
    there = {module.name for module in iter_modules(__path__)}
    for group in GROUPS:
        if group in there:
            import_module(f"{__name__}.{group}")
    return agent_cases
