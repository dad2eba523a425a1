"""One page: a matrix of all cases by group, and each case with its conversation folded under it.

The page runs no script and loads nothing, and its policy forbids both, so nothing that a subject said can do anything.
Its filters are radio buttons that the style sheet reacts to.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from conformance.core.result import CaseResult, Run, Verdict

from .links import link_to
from .words import (
    NAMES,
    PROBLEMS,
    WORST_FIRST,
    command_of,
    counted,
    grouped,
    printable,
    printable_lines,
    rule_of,
    shown_lines,
    subject_of,
)

_MOST_LINES = 40
"""Lines of a conversation that are shown; a flood would make a page that no phone opens."""

_LONGEST_LINE = 600
"""Characters of a line that are shown; of the guilty line all are."""

_AROUND = 5
"""Lines that are shown around the guilty one, where it is not among those."""

_FEW_LINES = 4
"""The lines that are shown where nothing is wrong."""

_SHORT_LINE = 200
"""Characters of a line that are shown there."""

_SHOWN = {*PROBLEMS, Verdict.CHOICE} - {Verdict.UNREACHED}
"""The verdicts whose conversations are shown. What kept a case from being reached is shown where it was found."""

_CLASSES = {verdict: "na" if verdict is Verdict.NOT_APPLICABLE else str(verdict) for verdict in Verdict}
_SIGNS = {
    Verdict.SUITE_ERROR: "S",
    Verdict.ERROR: "E",
    Verdict.FAIL: "\N{MULTIPLICATION SIGN}",
    Verdict.WARN: "!",
    Verdict.SLOW: "\N{HOURGLASS}",
    Verdict.UNREACHED: "\N{MIDLINE HORIZONTAL ELLIPSIS}",
    Verdict.CHOICE: "?",
    Verdict.SKIP: "\N{EN DASH}",
    Verdict.NOT_APPLICABLE: "\N{MIDDLE DOT}",
    Verdict.PASS: "\N{CHECK MARK}",
}
"""So that colours are not needed to tell the verdicts apart."""


def write(run: Run, path: Path) -> None:
    """Write the page. Raises OSError."""
    path.write_text(render(run), "utf-8")


def render(run: Run) -> str:
    """The page."""
    style = (resources.files("conformance.report") / "page.css").read_text("utf-8") + "\n".join(_filter_rules())
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = f"Conformance of {subject_of(run) or 'a subject without a name'}"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{_text(title)}</title>",
            f"<style>{style}</style>",
            "</head>",
            "<body>",
            *_filters(run),
            *_header(run, title),
            "<main>",
            *_matrix(run),
            *(line for group, cases in grouped(run) for line in _group(group, cases)),
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _filters(run: Run) -> Iterator[str]:
    """They come before all that they filter: a style sheet can only look forward."""
    counts = run.counts()
    problems = sum(counts[verdict] for verdict in PROBLEMS)
    choices = [("all", "all", len(run.cases)), ("problems", "problems", problems)]
    choices += [(_CLASSES[verdict], NAMES[verdict], counts[verdict]) for verdict in WORST_FIRST]
    for name, _, _ in choices:
        checked = " checked" if name == ("problems" if problems else "all") else ""
        yield f'<input type="radio" name="only" id="only-{name}"{checked}>'
    yield '<nav aria-label="Show only">'
    for name, label, count in choices:
        empty = "" if count else ' class="none"'
        yield f'<label for="only-{name}"{empty}>{label} <b>{count}</b></label>'
    yield "</nav>"


def _filter_rules() -> Iterator[str]:
    """The style of the buttons, and what each of them hides."""
    classes = [_CLASSES[verdict] for verdict in WORST_FIRST]
    shown = {"all": classes, "problems": [_CLASSES[each] for each in PROBLEMS], **{each: [each] for each in classes}}
    for name, kept in shown.items():
        yield f'#only-{name}:checked ~ nav [for="only-{name}"] {{ background: var(--ink); color: var(--paper); }}'
        yield f'#only-{name}:focus-visible ~ nav [for="only-{name}"] {{ outline: 2px solid var(--link); }}'
        if name != "all":
            cases, parents = (", ".join(f".{prefix}{each}" for each in kept) for prefix in ("", "has-"))
            yield f"#only-{name}:checked ~ main :is(.case, .cell):not({cases}),"
            yield f"#only-{name}:checked ~ main :is(section, tr):not({parents}) {{ display: none; }}"


def _header(run: Run, title: str) -> Iterator[str]:
    yield "<header>"
    yield f"<h1>{_text(title)}</h1>"
    yield f"<p><code>{_text(command_of(run))}</code></p>"
    when = f"{_moment(run.started)}, {run.seconds:.1f} s, rules {run.suite}"
    yield f"<p>{counted(run.cases)}; {_text(when)}</p>"
    yield "</header>"


def _matrix(run: Run) -> Iterator[str]:
    yield '<table class="matrix">'
    yield "<caption>Every case, by group</caption>"
    for group, cases in grouped(run):
        yield f'<tr class="{_verdicts(cases)}"><th scope="row"><a href="#{_anchor(group)}">{_text(group)}</a></th><td>'
        for case in cases:
            said = _text(f"{case.id}: {NAMES[case.verdict]}")
            kind = _CLASSES[case.verdict]
            yield f'<a class="cell {kind}" href="#{_anchor(case.id)}" aria-label="{said}">{_SIGNS[case.verdict]}</a>'
        yield "</td></tr>"
    yield "</table>"


def _group(group: str, cases: Sequence[CaseResult]) -> Iterator[str]:
    yield f'<section id="{_anchor(group)}" class="{_verdicts(cases)}">'
    yield f"<h2>{_text(group)} <small>{counted(cases)}</small></h2>"
    for case in cases:
        yield from _case(case)
    yield "</section>"


def _verdicts(cases: Sequence[CaseResult]) -> str:
    """For the filters, which leave out what would be empty."""
    return " ".join(dict.fromkeys(f"has-{_CLASSES[case.verdict]}" for case in cases))


def _case(case: CaseResult) -> Iterator[str]:
    verdict = _CLASSES[case.verdict]
    yield f'<details id="{_anchor(case.id)}" class="case {verdict}">'
    yield f'<summary><span class="sign {verdict}">{_SIGNS[case.verdict]}</span><span class="what">'
    yield f"<b>{_text(case.title)}</b>"
    if case.reason:
        yield f'<span class="reason">{_text(case.reason)}</span>'
    yield f'<span class="id">{_text(case.id)}</span></span></summary>'
    yield '<div class="body">'
    rest = f"; {NAMES[case.verdict]}, {case.seconds:.2f} s"
    if case.behaviours:
        rest += f"; {', '.join(case.behaviours)}"
    rule, address = _text(rule_of(case)), link_to(case.source, case.section)
    yield f'<p><a href="{escape(address)}">{rule}</a>{_text(rest)}</p>' if address else f"<p>{rule}{_text(rest)}</p>"
    yield from _transcript(case)
    if case.stderr and case.verdict in _SHOWN - {Verdict.CHOICE}:
        yield f"<h3>Standard error</h3><pre>{_text(case.stderr, lines=True)}</pre>"
    yield "</div></details>"


def _transcript(case: CaseResult) -> Iterator[str]:
    if not case.transcript:
        if case.verdict in _SHOWN:
            yield "<p>Nothing went over the wire.</p>"
        return
    if case.verdict not in _SHOWN:
        yield f"<p>{len(case.transcript):,} lines went over the wire; they are in the JSON report.</p>"
        return
    yield '<ol class="wire">'
    parts = _parts(case)
    before = 0
    for part in parts:
        if left_out := part.start - before:
            yield f'<li class="gap">{left_out:,} lines are left out; all are in the JSON report</li>'
        for number in part:
            yield _line(case, number)
        before = part.stop
    yield "</ol>"


def _parts(case: CaseResult) -> Sequence[range]:
    """The lines that are shown: the guilty one with what led to it is always among them."""
    count = len(case.transcript)
    parts = shown_lines(count, _MOST_LINES if case.verdict in PROBLEMS else _FEW_LINES)
    if case.guilty is None or any(case.guilty in part for part in parts):
        return parts
    around = range(max(case.guilty - _AROUND, parts[0].stop), min(case.guilty + _AROUND, parts[-1].start))
    return [parts[0], around, parts[-1]]


def _line(case: CaseResult, number: int) -> str:
    line = case.transcript[number]
    guilty = number == case.guilty
    text = line["text"] if guilty else line["text"][: _LONGEST_LINE if case.verdict in PROBLEMS else _SHORT_LINE]
    if cut := len(line["text"]) - len(text):
        text += f"... ({cut:,} more characters)"
    sent = line["from"] == "suite"
    kind = "sent" if sent else "came guilty" if guilty else "came"
    code = f"<mark>{_text(text)}</mark>" if guilty else _text(text)
    return (
        f'<li class="{kind}"><span class="at">{line["at"]:.3f}</span>'
        f'<span class="way">{"to it" if sent else "from it"}</span><code>{code}</code></li>'
    )


def _moment(started: str) -> str:
    """To the second, which is all that a reader wants."""
    return f"{started[:10]} {started[11:19]} UTC"


def _text(text: str, *, lines: bool = False) -> str:
    return escape(printable_lines(text) if lines else printable(text))


def _anchor(id: str) -> str:
    """An id from another tool may have anything in it; in an address everything but a separator is harmless."""
    return escape("".join(each if each.isascii() and (each.isalnum() or each in "-/") else "_" for each in id))
