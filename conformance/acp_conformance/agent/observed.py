"""The evidence for the cases of the whole run: all findings of the background check."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field

import anyio

from acp_conformance.core.case import Outcome, Verdict, fail, not_applicable
from acp_conformance.core.result import Line
from acp_conformance.core.violation import Rule, Violation


@dataclass(frozen=True, slots=True)
class Conduct:
    """The findings of the background check in one conversation."""

    name: str
    messages: int
    violations: Sequence[Violation]
    transcript: Sequence[Line]
    protocol: int = 1
    """The version of the protocol of its cases."""
    agreed: bool = False
    """Whether the agent answered that version."""


@dataclass
class Observed:
    """The evidence for the cases of the whole run."""

    conversations: list[Conduct] = field(default_factory=list)
    exhibit: Sequence[Line] = ()
    """The transcript of the conversation that broke the rule."""
    guilty: str = ""
    """The line in it."""
    affected: Sequence[str] = ()
    """The conversations that broke the rule."""
    failed: Container[str] = ()
    """The ids of the cases that have failed."""
    doubted: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """The situations of the profile that no case has shown to work, by the version of the protocol."""
    missing: Callable[[str, int], Awaitable[str]] | None = None
    """Tries a situation in a version: why it does not work, or nothing. None without a profile."""

    async def situations_come_about(self, protocol: int, needed: Container[str]) -> None:
        """Fail if a situation does not work that the profile names and that cases need."""
        if self.missing is None:
            not_applicable("there is no profile")
        self._agreed(protocol)
        found: dict[str, str] = {}

        async def find_out(missing: Callable[[str, int], Awaitable[str]], name: str) -> None:
            found[name] = await missing(name, protocol)

        names = [name for name in self.doubted.get(protocol, ()) if name in needed]
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(find_out, self.missing, name)
        if reasons := [found[name] for name in names if found[name]]:
            fail("; ".join(reasons))

    def _agreed(self, protocol: int) -> None:
        """End the case if it judges a later version than 1, and the agent never agreed on that version."""
        if protocol != 1 and not any(each.agreed for each in self.conversations if each.protocol == protocol):
            raise Outcome(Verdict.UNREACHED, f"it did not answer {protocol}", root="v2-negotiation/answers")

    def forbid(self, *rules: Rule, protocol: int = 1, told_by: Container[str] = ()) -> None:
        """Fail if any message of any conversation on this version of the protocol broke one of these rules.

        A later version than 1 is not judged if the agent never agreed on that version. A fault is not reported again if
        a case of `told_by` has found it in its own conversation.
        """
        self._agreed(protocol)
        found = [
            (conduct, violation)
            for conduct in self.conversations
            for violation in conduct.violations
            if violation.rule in rules and conduct.protocol == protocol
        ]
        told = [each.name for each, _ in found if each.name in told_by and each.name in self.failed]
        if found and len(told) == len(found):
            raise Outcome(Verdict.UNREACHED, "that case reports all findings", root=told[0])
        if found:
            conduct, violation = found[0]
            self.affected = [each.name for each, _ in found]
            self.exhibit, self.guilty = conduct.transcript, violation.line
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            fail(f"{violation.what}, in {conduct.name}: {violation.line[:300]}{more}")
