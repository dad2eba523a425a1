"""The outcome of one case before the report: the verdict, the reason, and the conversation as evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from acp_conformance.core.case import Case, Verdict
from acp_conformance.core.lines import place_of
from acp_conformance.core.result import CaseResult, Line, clean

from .watch import ASKING, Watched


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict of one case with its evidence."""

    verdict: Verdict
    reason: str = ""
    root: str = ""
    """The case about the actual fault, if that is another one."""
    transcript: Sequence[Line] = ()
    stderr: str = ""
    guilty: str = ""
    """The line of the subject that breaks the rule, or the beginning of it."""

    @property
    def stands(self) -> bool:
        """Whether the verdict counts although the process served other cases before."""
        return self.verdict in (Verdict.PASS, Verdict.CHOICE, Verdict.SKIP, Verdict.NOT_APPLICABLE)

    @property
    def accuses(self) -> bool:
        """Whether the verdict is a fault of the subject, or too slow."""
        return self.verdict in (Verdict.FAIL, Verdict.WARN, Verdict.SLOW)


def untried(unknown: Sequence[str], watched: Watched | None) -> Judged:
    """Return the outcome of a case whose situations have no known prompt. `watched`: whether the run has no profile."""
    if watched is None:
        return Judged(Verdict.SKIP, f"the profile has no situation {' and no '.join(map(repr, unknown))}")
    if not watched.asks and watched.turns and set(unknown) <= ASKING:
        return Judged(Verdict.NOT_APPLICABLE, "it sent no request to its client, whatever was tried")
    return Judged(Verdict.SKIP, f"nothing that was tried leads to the situation {' or '.join(map(repr, unknown))}")


def because_of(root: CaseResult, judged: Judged) -> Judged:
    """Return the outcome of a failed case if the case that represents it failed as well."""
    if root.verdict is Verdict.UNREACHED:
        return replace(judged, verdict=Verdict.UNREACHED, root=root.root)
    if root.verdict in (Verdict.FAIL, Verdict.WARN, Verdict.SLOW):
        return replace(judged, verdict=Verdict.UNREACHED, root=root.id)
    return replace(judged, root="")


def result_of(case: Case, judged: Judged, seconds: float) -> CaseResult:
    """Return the result for the reports, with the duration in seconds."""
    return case.result(
        judged.verdict,
        judged.reason,
        seconds,
        judged.transcript,
        root=judged.root if judged.verdict is Verdict.UNREACHED else "",
        guilty=place_of(judged.guilty, judged.transcript) if judged.guilty else None,
        stderr=clean(judged.stderr),
    )
