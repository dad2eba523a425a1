"""Writes a page with a matrix of all cases by group, and with each case above its folded conversation.

The page runs no script and loads nothing. Its content policy forbids both, so that text of a subject is harmless. The
filters are radio buttons, and the style sheet hides the cases that do not match.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from acp_conformance.core.private import write_private
from acp_conformance.core.result import CaseResult, Run, Verdict

from .excerpts import excerpts, text
from .links import link_to
from .told import change_of, sentence_of
from .words import (
    NAMES,
    PROBLEMS,
    WORST_FIRST,
    command_of,
    counted,
    grouped,
    printable,
    rule_of,
    schema_of,
    subject_of,
    tried_of,
)

_LIMIT = 400_000
"""The most bytes of a page, whatever the subject has sent."""

_REASONS = (2_000, 500, 100, 50)
"""The most bytes of a reason. There are fewer if there are very many reasons."""

_ROOMY = 500
"""Bytes of a reason that leaves room for its sentence as well."""

_NAME = 500
"""The most bytes of the subject's name, and of its command."""

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
"""A sign for each verdict, so that colours are not needed."""


def write(run: Run, path: Path) -> None:
    """Write the page. Raises OSError."""
    write_private(path, render(run).encode())


def render(run: Run) -> str:
    """Return the page."""
    reason = next((each for each in _REASONS if len(_page(run, each, {}).encode()) < _LIMIT), _REASONS[-1])
    room = _LIMIT - len(_page(run, reason, {}).encode())
    return _page(run, reason, excerpts(run, room))


def _page(run: Run, reason: int, conversations: Mapping[str, str]) -> str:
    style = (resources.files("acp_conformance.report") / "page.css").read_text("utf-8") + "\n".join(_filter_rules())
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = text(f"Conformance of {subject_of(run) or 'a subject without a name'}", _NAME)
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
            f"<title>{title}</title>",
            f"<style>{style}</style>",
            "</head>",
            "<body>",
            *_filters(run),
            *_header(run, title),
            "<main>",
            *_matrix(run),
            *(line for group, cases in grouped(run) for line in _group(run, group, cases, reason, conversations)),
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _filters(run: Run) -> Iterator[str]:
    """Yield the filters. They precede the cases, because a style sheet selects only later elements."""
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
    """Yield the style of the buttons, and the rules that hide cases."""
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
    yield f"<h1>{title}</h1>"
    yield f"<p><code>{text(command_of(run), _NAME)}</code></p>"
    when = f"{_moment(run.started)}, {run.seconds:.1f} s, rules {run.suite}"
    yield f"<p>{counted(run.cases)}; {text(when)}</p>"
    yield f"<p>{tried_of(run)}; {text(schema_of())}</p>"
    yield "<p>What has no conversation here, or not all of it, has it in the JSON report.</p>"
    yield "</header>"


def _matrix(run: Run) -> Iterator[str]:
    yield '<table class="matrix">'
    yield "<caption>Every case, by group</caption>"
    for group, cases in grouped(run):
        yield f'<tr class="{_verdicts(cases)}"><th scope="row"><a href="#{_anchor(group)}">{text(group)}</a></th><td>'
        for case in cases:
            said = escape(printable(f"{case.id}: {NAMES[case.verdict]}"))
            kind = _CLASSES[case.verdict]
            yield f'<a class="cell {kind}" href="#{_anchor(case.id)}" aria-label="{said}">{_SIGNS[case.verdict]}</a>'
        yield "</td></tr>"
    yield "</table>"


def _group(
    run: Run, group: str, cases: Sequence[CaseResult], reason: int, conversations: Mapping[str, str]
) -> Iterator[str]:
    yield f'<section id="{_anchor(group)}" class="{_verdicts(cases)}">'
    yield f"<h2>{text(group)} <small>{counted(cases)}</small></h2>"
    for case in cases:
        yield from _case(run, case, reason, conversations.get(case.id, ""))
    yield "</section>"


def _verdicts(cases: Sequence[CaseResult]) -> str:
    """Return the classes by which the filters hide empty groups."""
    return " ".join(dict.fromkeys(f"has-{_CLASSES[case.verdict]}" for case in cases))


def _case(run: Run, case: CaseResult, reason: int, conversation: str) -> Iterator[str]:
    verdict = _CLASSES[case.verdict]
    yield f'<details id="{_anchor(case.id)}" class="case {verdict}">'
    yield f'<summary><span class="sign {verdict}">{_SIGNS[case.verdict]}</span><span class="what">'
    yield f"<b>{text(case.title)}</b>"
    if case.reason:
        yield f'<span class="reason">{text(case.reason, reason)}</span>'
    yield f'<span class="id">{text(case.id)}</span></span></summary>'
    yield '<div class="body">'
    rest = f"; {NAMES[case.verdict]}, {case.seconds:.2f} s"
    rule, address = text(rule_of(case)), link_to(case.source, case.section)
    yield f'<p><a href="{escape(address)}">{rule}</a>{text(rest)}</p>' if address else f"<p>{rule}{text(rest)}</p>"
    if case.verdict in PROBLEMS and reason >= _ROOMY:
        yield from _explained(run, case, reason)
    if conversation:
        yield conversation
    yield "</div></details>"


def _explained(run: Run, case: CaseResult, room: int) -> Iterator[str]:
    """Yield the broken sentence, the remedy, and the other cases with the same cause."""
    others = [each.id for each in run.cases if case.id == each.cause != each.id]
    same = f"{len(others)} more: {', '.join(others)}" if others else case.cause if case.cause != case.id else ""
    told = {"Sentence": sentence_of(case, run.kind), "Change": change_of(case, run.kind)}
    for name, what in {**told, "Same cause": same}.items():
        if what:
            yield f"<p>{name}: {text(what, room)}</p>"


def _moment(started: str) -> str:
    """Return the time to the second."""
    return f"{started[:10]} {started[11:19]} UTC"


def _anchor(id: str) -> str:
    """Return the anchor of a case. An id from another tool may contain any character, so separators are replaced."""
    return escape("".join(each if each.isascii() and (each.isalnum() or each in "-/") else "_" for each in id))
