"""Shows people the progress of a run, and a summary at the end.

On a terminal the progress is one line that is rewritten; elsewhere each problem is a line. Text of a subject is made
safe and fits the encoding of the stream. No line is wider than the terminal.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TextIO

import click

from acp_conformance.core.causes import folded
from acp_conformance.core.result import CaseResult, Run, Verdict

from .told import came_of, change_of, sent_of, sentence_of
from .words import (
    NAMES,
    WORST_FIRST,
    clipped,
    columns,
    command_of,
    counted,
    duration,
    grouped,
    printable,
    rule_of,
    schema_of,
    shortened,
    subject_of,
    tried_of,
    wrapped,
)

_COLOURS = {
    Verdict.SUITE_ERROR: "magenta",
    Verdict.ERROR: "magenta",
    Verdict.FAIL: "red",
    Verdict.WARN: "yellow",
    Verdict.SLOW: "yellow",
    Verdict.CHOICE: "cyan",
    Verdict.PASS: "green",
}
_EXPLAINED = {
    Verdict.SUITE_ERROR: "Suite errors: please report them, they prove nothing about the subject",
    Verdict.ERROR: "Could not run",
    Verdict.FAIL: "Failed: a MUST is broken",
    Verdict.WARN: "Warnings: a SHOULD is broken",
    Verdict.SLOW: "Too slow: it came later than the suite waits",
    Verdict.UNREACHED: "Not reached because of a problem above",
    Verdict.CHOICE: "Choices: the specification leaves it open",
    Verdict.SKIP: "Skipped",
    Verdict.NOT_APPLICABLE: "Not applicable",
}
_PROBLEMS = (Verdict.SUITE_ERROR, Verdict.ERROR, Verdict.FAIL, Verdict.WARN, Verdict.SLOW)
_BAR = 20
_BAR_NEEDS = 60
"""Columns."""

_WIDE = 120
_LAST_WORDS = 5
"""Lines."""

_CLEAR = "\r\x1b[K"


class Paper:
    """A stream with a width, and with colours if the terminal has them.

    Colours and rewriting need a terminal that is not `TERM=dumb`; `NO_COLOR` in the environment disables the colours.
    """

    def __init__(self, stream: TextIO, width: int | None = None) -> None:
        self._stream = stream
        self.rewritable = stream.isatty() and os.environ.get("TERM") != "dumb"
        self.width = width or (_width_of(stream) if self.rewritable else _WIDE)
        self._coloured = self.rewritable and not os.environ.get("NO_COLOR")

    def text(self, text: str, verdict: Verdict | None = None, *, indent: str = "", bold: bool = False) -> None:
        """Write foreign text, made safe, in as many lines as it needs."""
        for line in wrapped(printable(text), self.width, indent):
            self._write(self.styled(line, verdict, bold=bold) + "\n")

    def gap(self) -> None:
        """Write an empty line."""
        self._write("\n")

    def heading(self, text: str) -> None:
        """Write a heading, with an empty line above the heading."""
        self.gap()
        self.text(text, bold=True)

    def item(self, name: str, what: str, verdict: Verdict) -> None:
        """Write a name and its description, which is on the next line if it is too long."""
        name, what = printable(name), printable(what)
        if columns(name) + columns(what) + 4 <= self.width:
            self._write(f"  {self.styled(name, verdict)}  {what}\n")
        else:
            self.text(name, verdict, indent="  ")
            self.paragraph(what)

    def paragraph(self, text: str) -> None:
        """Write a detail of the item above."""
        self.text(text, indent="      ")

    def log(self, text: str) -> None:
        """Write a whole line of any length, and show it at once."""
        self._write(text + "\n")
        self._stream.flush()

    def rewrite(self, text: str) -> None:
        """Replace the line that is being rewritten; only where `rewritable`."""
        # The last column stays free: some terminals go to the next line when it is filled.
        self._write(_CLEAR + clipped(text, self.width - 1))
        self._stream.flush()

    def wipe(self) -> None:
        """Remove the rewritten line."""
        if self.rewritable:
            self._write(_CLEAR)

    def flush(self) -> None:
        """Show the written lines."""
        self._stream.flush()

    def styled(self, text: str, verdict: Verdict | None = None, *, bold: bool = False) -> str:
        """Return `text` in the colour of a verdict, if the stream has colours."""
        if not self._coloured:
            return text
        return click.style(text, fg=_COLOURS.get(verdict) if verdict else None, bold=bold or None)

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


class Terminal:
    """Shows one run on a stream, from its first case to its summary.

    `width`: columns; by default that of the terminal.
    """

    def __init__(self, stream: TextIO, width: int | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._paper = Paper(stream, width)
        self._now = now
        self._total = 0
        self._began = 0.0
        self._expected = 0.0
        self._running: dict[str, None] = {}
        self._finished: list[CaseResult] = []

    def begin(self, total: int) -> None:
        """See `Progress.begin`."""
        self._total = total

    def expect(self, seconds: float) -> None:
        """See `Progress.expect`."""
        self._began, self._expected = self._now(), seconds
        if self._paper.rewritable:
            self._paper.wipe()
            self._paper.text(f"{self._total} cases, about {duration(seconds)}")

    def started(self, id: str) -> None:
        """See `Progress.started`."""
        self._running[id] = None
        self._progress()

    def finished(self, result: CaseResult) -> None:
        """See `Progress.finished`. The case may not have been started."""
        self._running.pop(result.id, None)
        self._finished.append(result)
        if self._paper.rewritable:
            self._progress()
        elif result.verdict in _PROBLEMS and not self._is_known(result):
            number = f"{len(self._finished):{len(str(self._total))}}/{self._total}"
            reason = f": {printable(result.reason)}" if result.reason else ""
            self._paper.log(f"{number}  {result.verdict:6}  {printable(result.id)}{reason}")

    def _is_known(self, result: CaseResult) -> bool:
        """Whether the case could not run for the same reason as an earlier case. Usually that reason stops all
        cases."""
        told = (each for each in self._finished if each is not result and each.verdict is Verdict.ERROR)
        return result.verdict is Verdict.ERROR and any(each.reason == result.reason for each in told)

    def end(self, run: Run) -> None:
        """See `Progress.end`. Write the summary."""
        self._paper.wipe()
        _Summary(self._paper, run).write()
        self._paper.flush()

    def _progress(self) -> None:
        if not self._paper.rewritable:
            return
        bad = [case for case in self._finished if case.verdict in (Verdict.FAIL, Verdict.ERROR)]
        said = [
            self._bar(),
            f"{len(self._finished)}/{self._total}",
            self._left(),
            counted(bad) if bad else "",
            ", ".join(self._running),
        ]
        self._paper.rewrite("  ".join(printable(part) for part in said if part))

    def _bar(self) -> str:
        """Return the bar of the progress, which is left out of short lines."""
        if self._paper.width < _BAR_NEEDS:
            return ""
        done = _BAR * len(self._finished) // max(self._total, 1)
        return f"[{'#' * done}{'.' * (_BAR - done)}]"

    def _left(self) -> str:
        """Return the remaining time. At first it is the estimate; as the run continues, the measured times gain
        weight."""
        if not self._expected:
            return ""
        done = len(self._finished) / max(self._total, 1)
        seen = (self._now() - self._began) / done if done else 0.0
        return f"{duration((done * seen + (1 - done) * self._expected) * (1 - done))} left"


class _Summary:
    def __init__(self, paper: Paper, run: Run) -> None:
        self._paper = paper
        self._run = run

    def write(self) -> None:
        subject = subject_of(self._run)
        self._paper.heading(f"Conformance of {subject or self._run.kind}")
        self._paper.text(command_of(self._run))
        self._paper.text(schema_of())
        self._groups()
        for verdict in WORST_FIRST:
            cases = [case for case in self._run.cases if case.verdict is verdict]
            if cases and verdict is not Verdict.PASS:
                self._paper.heading(_EXPLAINED[verdict])
                if verdict is Verdict.UNREACHED:
                    self._by_root(cases)
                elif verdict in (Verdict.ERROR, Verdict.SKIP, Verdict.NOT_APPLICABLE):
                    self._by_reason(cases)
                else:
                    self._each(cases)
        self._paper.gap()
        cases = self._run.cases
        self._paper.text(tried_of(self._run))
        self._paper.text(f"{counted(cases)} in {self._run.seconds:.1f} s", _worst(cases), bold=True)

    def _groups(self) -> None:
        groups = grouped(self._run)
        if all(case.verdict is Verdict.ERROR for case in self._run.cases):
            return
        self._paper.heading("Groups")
        longest = max((columns(printable(group)) for group, _ in groups), default=0)
        for group, cases in groups:
            name = printable(group)
            padding = " " * (longest - columns(name))
            # On a narrow terminal the counts go below the name instead of being padded out of sight.
            self._paper.item(name + padding, counted(cases), _worst(cases))

    def _each(self, cases: Sequence[CaseResult]) -> None:
        for case, others in folded(cases):
            self._paper.item(case.id, case.title, case.verdict)
            if case.verdict is Verdict.CHOICE:
                self._paper.paragraph(case.reason)
            else:
                self._problem(case, others)

    def _problem(self, case: CaseResult, others: Sequence[CaseResult]) -> None:
        self._paper.paragraph(rule_of(case))
        self._paper.paragraph(case.reason)
        kind = self._run.kind
        for name, text in (
            ("sentence", sentence_of(case, kind)),
            ("sent", sent_of(case)),
            ("came", came_of(case)),
            ("change", change_of(case, kind)),
        ):
            if text:
                self._paper.paragraph(f"{name}: {shortened(text)}")
        if others:
            self._paper.paragraph(f"by the same cause, {len(others)} more: {', '.join(each.id for each in others)}")

    def _by_root(self, cases: Sequence[CaseResult]) -> None:
        """Write one problem, and all cases that could not be tried because of the problem."""
        for root in dict.fromkeys(case.root for case in cases):
            hindered = [case.id for case in cases if case.root == root]
            self._paper.text(f"because of {root}: {len(hindered)}", indent="  ")
            self._paper.paragraph(", ".join(hindered))

    def _by_reason(self, cases: Sequence[CaseResult]) -> None:
        """Write each reason for skipped cases once, with all its cases."""
        for reason in dict.fromkeys(case.reason for case in cases):
            hindered = [case for case in cases if case.reason == reason]
            self._paper.text(reason or NAMES[cases[0].verdict], indent="  ")
            for line in _last_words(hindered):
                self._paper.paragraph(f"| {line}")
            everything = len(hindered) == len(self._run.cases) > 1
            self._paper.paragraph("every case" if everything else ", ".join(case.id for case in hindered))


def _last_words(cases: Sequence[CaseResult]) -> list[str]:
    """Write the subject's standard error if several cases have the same text there and no output. It usually has the
    reason of a failed start."""
    words = {case.stderr for case in cases}
    return words.pop().splitlines()[-_LAST_WORDS:] if len(words) == 1 else []


def _worst(cases: Sequence[CaseResult]) -> Verdict:
    return min((case.verdict for case in cases), key=WORST_FIRST.index, default=Verdict.ERROR)


def _width_of(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
