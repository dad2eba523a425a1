"""What a run may fail: the cases that an earlier one broke, or those that a short file accepts, each with a reason.

[[accepted]]
case = "bad-input/not-json"
reason = "garbage is logged, and not answered"
since = "2026-11-28"
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from acp_conformance.core import tables
from acp_conformance.core.private import write_private
from acp_conformance.core.result import Run, Verdict

from . import jsonfile

_BROKEN = (Verdict.FAIL, Verdict.WARN, Verdict.UNREACHED)


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a run is compared with."""

    known: frozenset[str] = frozenset()
    """The ids of cases that may fail."""
    passed: frozenset[str] = frozenset()
    """The ids of cases that may not be skipped."""


def read(path: Path) -> Baseline:
    """The baseline of a file: an accepted list, or the JSON of a run.

    Raises:
        OSError: It cannot be read.
        ValueError: It is neither.
    """
    text = path.read_text("utf-8")
    if text.lstrip().startswith("{"):
        run = jsonfile.read(path)
        return Baseline(
            frozenset(case.id for case in run.cases if case.verdict in _BROKEN),
            frozenset(case.id for case in run.cases if case.verdict is Verdict.PASS),
        )
    try:
        return Baseline(frozenset(_accepted(text, str(path))))
    except tables.ProfileError as error:
        raise ValueError(str(error)) from error


def _accepted(text: str, where: str) -> Iterator[str]:
    try:
        entries = tomllib.loads(text).get("accepted", [])
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{where}: neither a report of this suite nor a list of accepted cases: {error}") from error
    if not isinstance(entries, list):
        raise ValueError(f"{where}: [[accepted]] is not a list of tables")
    keys = {"case": tables.text, "reason": tables.text, "since": _day}
    for number, entry in enumerate(entries, 1):
        here = f"{where}: [[accepted]] {number}"
        values = tables.read(tables.table(entry, here), keys, here)
        if missing := [key for key in keys if not values.get(key)]:
            raise ValueError(f"{here}: no {', '.join(missing)}")
        yield values["case"]


def _day(value: object, where: str) -> str:
    try:
        return str(value) if isinstance(value, date) else date.fromisoformat(str(value)).isoformat()
    except ValueError as error:
        raise tables.ProfileError(f"{where}: {value!r} is not a date") from error


def write(run: Run, path: Path) -> None:
    """Write what the run broke as a list of accepted cases. Raises OSError."""
    write_private(path, render(run).encode())


def render(run: Run) -> str:
    """The list, with what came as the reason: a text to replace by why that is accepted."""
    lines = ["# What may fail. Replace each reason by why it is accepted."]
    for case in run.cases:
        if case.verdict in _BROKEN and case.verdict is not Verdict.UNREACHED:
            reason = case.reason.encode("utf-16", "surrogatepass").decode("utf-16", "replace")[:200]
            lines += ["", "[[accepted]]", f"case = {_string(case.id)}", f"reason = {_string(reason)}"]
            lines.append(f"since = {_string(run.started[:10])}")
    return "\n".join(lines) + "\n"


def _string(text: str) -> str:
    """A basic string of TOML, whose escapes are those of JSON but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
