"""Cuts the conversations on the page, so that the page is small enough for any phone.

The line that breaks a rule is shown with the lines around it. Omitted lines are in the JSON report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from acp_conformance.core.result import CaseResult, Run, Verdict

from .words import PROBLEMS, printable, printable_lines, shown_lines

_SHOWN = {*PROBLEMS, Verdict.CHOICE} - {Verdict.UNREACHED}
"""The verdicts whose conversations are shown. If a case was not reached, the conversation of its root is shown."""


class _Detail(NamedTuple):
    """The size of one conversation. Texts are measured in bytes of the page."""

    lines: int
    around: int
    """Lines on either side of the guilty one, if it is not among those."""
    line: int
    guilty: int
    stderr: int


_NOTE = 32
"""Bytes of the note about the cut."""

_LEAST = 300
"""Bytes below which a conversation would show nothing useful."""

_PROBLEM = (
    _Detail(40, 5, 900, 6_000, 6_000),
    _Detail(20, 5, 500, 3_000, 2_000),
    _Detail(12, 4, 300, 1_000, 500),
    _Detail(6, 2, 150, 400, 0),
    _Detail(2, 0, 100, 300, 0),
)
_CHOICE = (_Detail(4, 0, 250, 250, 0),)
"""Nothing is wrong there."""


def excerpts(run: Run, room: int) -> Mapping[str, str]:
    """Return the conversations to show, by the ids of their cases. Together they have at most `room` bytes.

    Every conversation has the same share. A short conversation leaves the rest of its share to the longer
    conversations.
    """
    cases = sorted((case for case in run.cases if case.verdict in _SHOWN), key=_length)
    found: dict[str, str] = {}
    for number, case in enumerate(cases):
        share = room // (len(cases) - number) - 1
        drafts = _drafts(case) if share > _LEAST else ()
        found[case.id] = next((draft for draft in drafts if len(draft.encode()) <= share), "")
        room -= len(found[case.id].encode()) + 1
    return found


def text(said: str, room: int | None = None, *, lines: bool = False) -> str:
    """Return foreign text for a page, outside of attributes. The text is made safe and cut to `room` bytes."""
    harmless = printable_lines if lines else printable
    whole = said if room is None else said[:room]
    shown = escape(harmless(whole), quote=False)
    if room is None or (len(whole) == len(said) and len(shown.encode()) <= room):
        return shown
    room, kept = room - _NOTE, whole
    while (size := len(shown.encode())) > room:
        kept = kept[: len(kept) * room // size]
        shown = escape(harmless(kept), quote=False)
    return f"{shown}... ({len(said) - len(kept):,} more characters)"


def _length(case: CaseResult) -> int:
    return sum(len(line["text"]) for line in case.transcript) + len(case.stderr)


def _drafts(case: CaseResult) -> Iterator[str]:
    for detail in _PROBLEM if case.verdict in PROBLEMS else _CHOICE:
        parts = list(_transcript(case, detail))
        if case.stderr and detail.stderr:
            parts.append(f"<h3>Standard error</h3><pre>{text(case.stderr, detail.stderr, lines=True)}</pre>")
        yield "\n".join(parts)


def _transcript(case: CaseResult, detail: _Detail) -> Iterator[str]:
    if not case.transcript:
        yield "<p>Nothing went over the wire.</p>"
        return
    yield '<ol class="wire">'
    before = 0
    for part in _parts(case, detail):
        if left_out := part.start - before:
            yield f'<li class="gap">{left_out:,} lines are left out; all are in the JSON report</li>'
        for number in part:
            yield _line(case, number, detail)
        before = part.stop
    yield "</ol>"


def _parts(case: CaseResult, detail: _Detail) -> Sequence[range]:
    """Return the lines to show. The line that breaks the rule, and the lines before that line, are always among
    them."""
    parts = shown_lines(len(case.transcript), detail.lines)
    if case.guilty is None or any(case.guilty in part for part in parts):
        return parts
    first, last = max(case.guilty - detail.around, parts[0].stop), case.guilty + detail.around + 1
    return [parts[0], range(first, min(last, parts[-1].start)), parts[-1]]


def _line(case: CaseResult, number: int, detail: _Detail) -> str:
    line = case.transcript[number]
    guilty = number == case.guilty
    shown = text(line["text"], detail.guilty if guilty else detail.line)
    sent = line["from"] == "suite"
    kind = "sent" if sent else "came guilty" if guilty else "came"
    code = f"<mark>{shown}</mark>" if guilty else shown
    return (
        f'<li class="{kind}"><span class="at">{line["at"]:.3f}</span>'
        f'<span class="way">{"to it" if sent else "from it"}</span><code>{code}</code></li>'
    )
