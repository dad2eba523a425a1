"""Writes JUnit XML for continuous integration: a suite for each group, a test case for each case.

A broken MUST is a failure. JUnit has no verdicts for a broken SHOULD and for a choice, so these are passed cases whose
output names the verdict. The property `verdict` has the exact verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from acp_conformance.core.private import write_private
from acp_conformance.core.result import CaseResult, Run, Verdict

from .told import change_of, sent_of, sentence_of
from .words import (
    NAMES,
    PROBLEMS,
    command_of,
    grouped,
    printable,
    printable_lines,
    rule_of,
    schema_of,
    shortened,
    shown_lines,
    subject_of,
    tried_of,
)

_MOST_LINES = 200
_SKIPPED = (Verdict.SKIP, Verdict.NOT_APPLICABLE, Verdict.UNREACHED, Verdict.SLOW)


def write(run: Run, path: Path) -> None:
    """Write the report. Raises OSError."""
    write_private(path, render(run))


def render(run: Run) -> bytes:
    """Return the report as UTF-8, with the XML declaration."""
    root = _element(
        None, "testsuites", {"name": f"conformance {run.kind}", **_counts(run.cases), "time": _time(run.seconds)}
    )
    about = {"command": command_of(run), "subject": subject_of(run), "suite": run.suite}
    about |= {"schema": schema_of(), "tried": tried_of(run)}
    for group, cases in grouped(run):
        names = {"name": f"conformance.{run.kind}.{group}", **_counts(cases)}
        names |= {"time": _time(sum(case.seconds for case in cases)), "timestamp": _timestamp(run.started)}
        suite = _element(root, "testsuite", names)
        _properties(suite, about)
        for case in cases:
            _case(suite, names["name"], case, run.kind)
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _case(suite: ET.Element, class_name: str, case: CaseResult, kind: str) -> None:
    names = {"classname": class_name, "name": case.id.partition("/")[2] or case.id, "time": _time(case.seconds)}
    element = _element(suite, "testcase", names)
    _properties(
        element,
        {
            "title": case.title,
            "level": str(case.level),
            "source": case.source,
            "section": case.section,
            "protocol": str(case.protocol),
            "verdict": str(case.verdict),
            "cause": case.cause,
        },
    )
    explained = _explained(case, kind)
    if case.verdict is Verdict.FAIL:
        _element(element, "failure", {"type": str(case.level), "message": case.reason}, explained)
    elif case.verdict in (Verdict.ERROR, Verdict.SUITE_ERROR):
        _element(element, "error", {"type": "error", "message": case.reason}, explained)
    elif case.verdict in _SKIPPED:
        reason = case.reason if case.verdict is Verdict.SKIP else f"{NAMES[case.verdict]}: {case.reason}"
        _element(element, "skipped", {"message": reason})
    said = f"{case.verdict}: {case.reason}\n" if case.verdict in (Verdict.WARN, Verdict.CHOICE) else ""
    said += _transcript(case) if case.verdict in PROBLEMS else ""
    if said:
        _element(element, "system-out", {}, said)
    if case.stderr and case.verdict in (Verdict.FAIL, Verdict.ERROR):
        _element(element, "system-err", {}, case.stderr)


def _explained(case: CaseResult, kind: str) -> str:
    parts = {"Sent": shortened(sent_of(case)), "Change": change_of(case, kind)}
    if case.cause not in ("", case.id):
        parts["Same cause as"] = case.cause
    lines = [case.title, rule_of(case), sentence_of(case, kind), "", case.reason]
    lines += [f"{name}: {text}" for name, text in parts.items() if text]
    return "\n".join(line for number, line in enumerate(lines) if line or number == 3)


def _transcript(case: CaseResult) -> str:
    parts = [
        "\n".join(
            f"{line['at']:8.3f}  {'>' if line['from'] == 'suite' else '<'}  {printable(line['text'])}"
            for line in case.transcript[lines.start : lines.stop]
        )
        for lines in shown_lines(len(case.transcript), _MOST_LINES)
    ]
    return "\n... the rest is in the JSON report ...\n".join(parts)


def _properties(parent: ET.Element, values: dict[str, str]) -> None:
    properties = _element(parent, "properties", {})
    for name, value in values.items():
        if value:
            _element(properties, "property", {"name": name, "value": value})


def _element(parent: ET.Element | None, tag: str, attributes: dict[str, str], text: str = "") -> ET.Element:
    """Return an element. Control characters are replaced by text, because XML 1.0 cannot express most of them, not even
    escaped."""
    clean = {key: printable(value) for key, value in attributes.items()}
    element = ET.Element(tag, clean) if parent is None else ET.SubElement(parent, tag, clean)
    element.text = printable_lines(text) or None
    return element


def _counts(cases: Sequence[CaseResult]) -> dict[str, str]:
    verdicts = [case.verdict for case in cases]
    return {
        "tests": str(len(verdicts)),
        "failures": str(verdicts.count(Verdict.FAIL)),
        "errors": str(verdicts.count(Verdict.ERROR) + verdicts.count(Verdict.SUITE_ERROR)),
        "skipped": str(sum(verdict in _SKIPPED for verdict in verdicts)),
    }


def _time(seconds: float) -> str:
    return f"{seconds:.3f}"


def _timestamp(started: str) -> str:
    """Return the time in the format of JUnit: a date and a time without a zone."""
    return started[:19]
