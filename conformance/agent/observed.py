"""What cases of the whole run judge: all that the background check of every message has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from conformance.core.case import fail
from conformance.core.result import Line
from conformance.core.violation import Rule, Violation


@dataclass(frozen=True, slots=True)
class Conduct:
    """What the background check saw in one conversation."""

    name: str
    messages: int
    violations: Sequence[Violation]
    transcript: Sequence[Line]


@dataclass
class Observed:
    """What cases of the whole run judge."""

    conversations: list[Conduct] = field(default_factory=list)
    exhibit: Sequence[Line] = ()
    """The transcript of the conversation that broke the rule."""
    guilty: str = ""
    """The line in it."""

    def forbid(self, *rules: Rule) -> None:
        """Fail if any message of any conversation broke one of these rules."""
        found = [
            (conduct, violation)
            for conduct in self.conversations
            for violation in conduct.violations
            if violation.rule in rules
        ]
        if found:
            conduct, violation = found[0]
            self.exhibit, self.guilty = conduct.transcript, violation.line
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            fail(f"{violation.what}, in {conduct.name}: {violation.line[:300]}{more}")
