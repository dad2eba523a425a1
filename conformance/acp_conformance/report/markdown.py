"""Writes a summary of a run in Markdown for the page of a pull request, with the counts and the problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from acp_conformance.core.causes import folded
from acp_conformance.core.private import write_private
from acp_conformance.core.result import CaseResult, Run, Verdict

from .links import link_to
from .told import change_of, sent_of, sentence_of
from .words import NAMES, PROBLEMS, command_of, counted, printable, rule_of, schema_of, shortened, subject_of, tried_of

_MOST_PROBLEMS = 50
_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]()<>#|~&@!"})


def write(run: Run, path: Path) -> None:
    """Write the summary. Raises OSError."""
    write_private(path, render(run).encode())


def render(run: Run) -> str:
    """Return the summary. Text of the subject appears without mark-up, links and mentions of persons."""
    return "\n".join(_lines(run)) + "\n"


def _lines(run: Run) -> Iterator[str]:
    yield f"## Conformance of {harmless(subject_of(run) or run.kind)}"
    yield ""
    yield f"{counted(run.cases)} in {run.seconds:.1f} s" + (", interrupted" if run.interrupted else "")
    yield ""
    yield f"{tried_of(run)}; {harmless(schema_of())}"
    yield ""
    yield harmless(command_of(run))
    problems = [case for verdict in PROBLEMS for case in run.cases if case.verdict is verdict]
    own = [case for case in problems if case.verdict is not Verdict.UNREACHED]
    causes = folded(own)
    if own:
        yield ""
        yield "| | Case | Rule | Sent | Received |"
        yield "| --- | --- | --- | --- | --- |"
        yield from (_row(run, case, others) for case, others in causes[:_MOST_PROBLEMS])
    if len(causes) > _MOST_PROBLEMS:
        yield ""
        yield f"{len(causes) - _MOST_PROBLEMS} more problems are in the other reports."


def _row(run: Run, case: CaseResult, others: Sequence[CaseResult]) -> str:
    behind = sum(each.root == case.id for each in run.cases)
    cases = "1 case was" if behind == 1 else f"{behind} cases were"
    more = f" ({cases} not reached because of it)" if behind else ""
    address = link_to(case.source, case.section)
    where = f"[{harmless(rule_of(case))}]({address})" if address else harmless(rule_of(case))
    rule = " ".join(filter(None, (harmless(case.title), where, harmless(sentence_of(case, run.kind)))))
    if others:
        more += f" (by the same cause, {len(others)} more: {harmless(', '.join(each.id for each in others))})"
    if change := change_of(case, run.kind):
        more += f" Change: {harmless(change)}"
    sent, came = harmless(shortened(sent_of(case))), harmless(shortened(case.reason))
    return f"| {NAMES[case.verdict]} | {harmless(case.id)} | {rule} | {sent} | {came}{more} |"


def harmless(text: str) -> str:
    """Return `text` on one line, without mark-up, mentions of persons and addresses."""
    return printable(text).translate(_SPECIAL).replace("://", ":\\//")
