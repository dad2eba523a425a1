"""What came of one case, before it is told: verdict and reason, with the conversation that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from acp_conformance.core.case import Case, Verdict
from acp_conformance.core.lines import place_of
from acp_conformance.core.result import CaseResult, Line, clean

from .watch import ASKING, Watched


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict of one case, and what it rests on."""

    verdict: Verdict
    reason: str = ""
    root: str = ""
    """The case that is about what went wrong, where that is another one."""
    transcript: Sequence[Line] = ()
    stderr: str = ""
    guilty: str = ""
    """The line of the subject that breaks the rule, or the beginning of it."""

    @property
    def stands(self) -> bool:
        """Whether it holds although others were served by the same process before."""
        return self.verdict in (Verdict.PASS, Verdict.CHOICE, Verdict.SKIP, Verdict.NOT_APPLICABLE)

    @property
    def accuses(self) -> bool:
        """Whether it says that the subject does something wrong, or is too slow."""
        return self.verdict in (Verdict.FAIL, Verdict.WARN, Verdict.SLOW)


def untried(unknown: Sequence[str], watched: Watched | None) -> Judged:
    """What a case is that needs situations which no prompt is known for. `watched`: a run without a profile."""
    if watched is None:
        return Judged(Verdict.SKIP, f"the profile has no situation {' and no '.join(map(repr, unknown))}")
    if not watched.asks and watched.turns and set(unknown) <= ASKING:
        return Judged(Verdict.NOT_APPLICABLE, "it asked its client for nothing, whatever was tried")
    return Judged(Verdict.SKIP, f"nothing that was tried leads to the situation {' or '.join(map(repr, unknown))}")


def because_of(root: CaseResult, judged: Judged) -> Judged:
    """What a case is that went wrong, if the case that stands for it went wrong as well."""
    if root.verdict is Verdict.UNREACHED:
        return replace(judged, verdict=Verdict.UNREACHED, root=root.root)
    if root.verdict in (Verdict.FAIL, Verdict.WARN, Verdict.SLOW):
        return replace(judged, verdict=Verdict.UNREACHED, root=root.id)
    return replace(judged, root="")


def result_of(case: Case, judged: Judged, seconds: float) -> CaseResult:
    """The case as the reports have it, which took so many seconds."""
    return case.result(
        judged.verdict,
        judged.reason,
        seconds,
        judged.transcript,
        root=judged.root if judged.verdict is Verdict.UNREACHED else "",
        guilty=place_of(judged.guilty, judged.transcript) if judged.guilty else None,
        stderr=clean(judged.stderr),
    )
