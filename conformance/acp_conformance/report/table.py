"""Shows several runs in one table: a row for each rule that a subject breaks, a column for each subject.

The table is made as text, as Markdown, or as a page without a script. Rules that no subject breaks are counted, and not
listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources

from acp_conformance.core.result import CaseResult, Run, Verdict

from .links import link_to
from .markdown import harmless
from .words import NAMES, PROBLEMS, columns, counted, printable, subject_of, tried_of

_UNKNOWN = "not in this run"


@dataclass(frozen=True, slots=True)
class Row:
    """One rule, and its result in each run."""

    case: CaseResult
    """The case of one of the runs, for its title and level."""
    verdicts: Sequence[Verdict | None]
    """The verdicts in the order of the runs; None if a run does not have the case."""

    def cell(self, column: int) -> str:
        """Return the cell of one run."""
        verdict = self.verdicts[column]
        return _UNKNOWN if verdict is None else NAMES[verdict]


@dataclass(frozen=True, slots=True)
class Table:
    """The whole table."""

    names: Sequence[str]
    counts: Sequence[str]
    rows: Sequence[Row]
    kept: int
    """Rules that no run breaks."""


def table(runs: Sequence[Run]) -> Table:
    """Combine runs by the ids of their cases. Raises ValueError if some runs judge agents, others clients."""
    if len({run.kind for run in runs}) > 1:
        raise ValueError("some of the runs judge agents, and others clients")
    cases = {case.id: case for run in reversed(runs) for case in run.cases}
    found = [{case.id: case.verdict for case in run.cases} for run in runs]
    rows = [Row(cases[id], [each.get(id) for each in found]) for run in runs for id in _ids(run)]
    rows = list({row.case.id: row for row in rows}.values())
    broken = [row for row in rows if any(verdict in PROBLEMS for verdict in row.verdicts)]
    return Table(
        names=[subject_of(run) or printable(" ".join(run.command))[:40] or run.kind for run in runs],
        counts=[f"{counted(run.cases)}; {tried_of(run)}" for run in runs],
        rows=broken,
        kept=len(rows) - len(broken),
    )


def _ids(run: Run) -> Iterator[str]:
    return (case.id for case in run.cases)


def as_text(shown: Table) -> str:
    """Return the table as columns of text. A list above the table gives the numbers of the subjects."""
    lines = [f"[{number}] {name}: {count}" for number, (name, count) in enumerate(_subjects(shown), 1)]
    width = max([columns(printable(row.case.id)) for row in shown.rows] or [0])
    heads = [f"[{number}]".ljust(_widest(shown, number - 1)) for number in range(1, len(shown.names) + 1)]
    lines += ["", f"{'':{width}}  " + "  ".join(heads)] if shown.rows else [""]
    for row in shown.rows:
        cells = [row.cell(n).ljust(_widest(shown, n)) for n in range(len(shown.names))]
        lines.append(f"{printable(row.case.id):{width}}  " + "  ".join(cells).rstrip())
    return "\n".join(line.rstrip() for line in [*lines, "", _kept(shown)]) + "\n"


def as_markdown(shown: Table) -> str:
    """Return the table for a page of documentation."""
    lines = [f"- {harmless(name)}: {count}" for name, count in _subjects(shown)]
    if shown.rows:
        lines += ["", "| Rule | " + " | ".join(map(harmless, shown.names)) + " |"]
        lines.append("| --- " * (len(shown.names) + 1) + "|")
    for row in shown.rows:
        address = link_to(row.case.source, row.case.section)
        rule = f"{harmless(row.case.title)} " + (f"[{row.case.level}]({address})" if address else str(row.case.level))
        lines.append(f"| {rule} | " + " | ".join(row.cell(n) for n in range(len(shown.names))) + " |")
    return "\n".join([*lines, "", _kept(shown)]) + "\n"


def as_html(shown: Table) -> str:
    """Return a page without a script that loads nothing."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    style = (resources.files("acp_conformance.report") / "table.css").read_text("utf-8")
    lines = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark"><title>Conformance compared</title>',
        f"<style>{style}</style></head><body><h1>Conformance compared</h1><ul>",
        *(f"<li><b>{escape(name)}</b>: {escape(count)}</li>" for name, count in _subjects(shown)),
        '</ul><table><thead><tr><th scope="col">Rule</th>',
        *(f'<th scope="col">{escape(name)}</th>' for name in shown.names),
        "</tr></thead><tbody>",
    ]
    for row in shown.rows:
        address = link_to(row.case.source, row.case.section)
        level = f'<a href="{escape(address)}">{row.case.level}</a>' if address else str(row.case.level)
        title, id = escape(printable(row.case.title)), escape(printable(row.case.id))
        lines.append(f'<tr><th scope="row">{title} {level}<small>{id}</small></th>')
        for column, verdict in enumerate(row.verdicts):
            kind = "wrong" if verdict in (Verdict.FAIL, Verdict.ERROR) else "odd" if verdict in PROBLEMS else "right"
            lines.append(f'<td class="{kind}">{escape(row.cell(column))}</td>')
        lines.append("</tr>")
    return "\n".join([*lines, f"</tbody></table><p>{_kept(shown)}</p></body></html>"]) + "\n"


def _subjects(shown: Table) -> Iterator[tuple[str, str]]:
    return zip(shown.names, shown.counts, strict=True)


def _widest(shown: Table, column: int) -> int:
    return max([len(row.cell(column)) for row in shown.rows], default=0)


def _kept(shown: Table) -> str:
    return f"{shown.kept:,} more rules are broken by none."
