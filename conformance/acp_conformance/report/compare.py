"""Finds the changes between two runs, for a build that must not get worse.

`pass`, `choice` and `n/a` are equally good, because no rule is broken. The worse verdicts are, in this order, `skip`
(the result is unknown), `warn`, `fail` and `error`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from acp_conformance.core.result import CaseResult, Run, Verdict

from .terminal import Paper
from .words import subject_of

_RANK = {
    Verdict.PASS: 0,
    Verdict.CHOICE: 0,
    Verdict.NOT_APPLICABLE: 0,
    Verdict.SKIP: 1,
    Verdict.SLOW: 2,
    Verdict.WARN: 3,
    Verdict.UNREACHED: 4,
    Verdict.FAIL: 5,
    Verdict.ERROR: 6,
    Verdict.SUITE_ERROR: 7,
}

Change = tuple[CaseResult, CaseResult]
"""A case before and after."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between two runs, in the order of the later run."""

    before: Run
    after: Run
    worse: Sequence[Change]
    better: Sequence[Change]
    otherwise: Sequence[Change]
    """Cases that are neither worse nor better, because a rule now applies, or the subject makes another choice."""
    new: Sequence[CaseResult]
    """Cases that only the later run has."""
    gone: Sequence[CaseResult]
    """Cases that only the earlier run has."""

    @property
    def exit_code(self) -> int:
        """Return 1 if something got worse, else 0."""
        return 1 if self.worse else 0


def compare(before: Run, after: Run) -> Comparison:
    """Compare two runs, matching cases by id. Raises ValueError if one judges agents and the other clients."""
    if before.kind != after.kind:
        raise ValueError(f"one run judges an {before.kind}, the other a {after.kind}".replace("an client", "a client"))
    was = {case.id: case for case in before.cases}
    both = [(was[case.id], case) for case in after.cases if case.id in was]
    ids = {case.id for case in after.cases}
    return Comparison(
        before=before,
        after=after,
        worse=[pair for pair in both if _step(pair) > 0],
        better=[pair for pair in both if _step(pair) < 0],
        otherwise=[pair for pair in both if _step(pair) == 0 and _is_otherwise(pair)],
        new=[case for case in after.cases if case.id not in was],
        gone=[case for case in before.cases if case.id not in ids],
    )


def show(comparison: Comparison, stream: TextIO) -> None:
    """Write the differences for people, without the unchanged cases."""
    paper = Paper(stream)
    paper.text(f"before: {_name(comparison.before)}")
    paper.text(f"after: {_name(comparison.after)}")
    for title, pairs in (
        ("Worse", comparison.worse),
        ("Better", comparison.better),
        ("Otherwise", comparison.otherwise),
    ):
        if pairs:
            paper.heading(title)
        for was, now in pairs:
            paper.item(now.id, f"{was.verdict} -> {now.verdict}", now.verdict)
            for reason in dict.fromkeys(reason for reason in (was.reason, now.reason) if reason):
                paper.paragraph(reason)
    for title, cases in (("New", comparison.new), ("Gone", comparison.gone)):
        if cases:
            paper.heading(title)
        for case in cases:
            paper.item(case.id, str(case.verdict), case.verdict)
    paper.gap()
    paper.text(
        f"{len(comparison.worse)} worse, {len(comparison.better)} better, {len(comparison.otherwise)} otherwise, "
        f"{len(comparison.new)} new, {len(comparison.gone)} gone"
    )


def _step(pair: Change) -> int:
    was, now = pair
    return _RANK[now.verdict] - _RANK[was.verdict]


def _is_otherwise(pair: Change) -> bool:
    was, now = pair
    return was.verdict is not now.verdict or (now.verdict is Verdict.CHOICE and was.reason != now.reason)


def _name(run: Run) -> str:
    return f"{subject_of(run) or 'unnamed'}, {run.started}"
