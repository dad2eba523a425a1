"""The cases for clients of version 2: the registry that `cases/` fills."""

from __future__ import annotations

from acp_conformance.core.case import Case, Level, Registry

v2_cases = Registry("client", protocol=2)
"""The cases for clients of version 2."""

case = v2_cases.case
"""Registers a case for clients of version 2; its argument is a `acp_conformance.client.subject.Client`."""

SOURCE = "ACP v2 draft"
"""The text from which the rules come."""


def same_as(old: Case, id: str, section: str, *, level: Level | None = None) -> None:
    """Register a rule of version 1 that version 2 also has. Its `Dialect` gives the messages their form."""
    case(id, level=level or old.level, source=SOURCE, section=section, needs=old.needs)(old.function)
