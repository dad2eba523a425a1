"""Reads the cases that a run may fail: the failures of an earlier run, or a file that accepts cases, each with a
reason.

rules = "6"
skipped = ["terminals/released"]

[[accepted]]
case = "bad-input/not-json"
reason = "garbage is logged, and not answered"
since = "2026-11-28"

A run of the same rules may skip only the cases in `skipped`, because the earlier run has tried all other cases.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from acp_conformance.core import tables
from acp_conformance.core.private import write_private
from acp_conformance.core.result import SUITE, Run, Verdict

from . import jsonfile

_BROKEN = (Verdict.FAIL, Verdict.WARN, Verdict.UNREACHED)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The cases that a run may fail, and the cases that it may skip."""

    known: frozenset[str] = frozenset()
    """The ids of cases that may fail."""
    passed: Container[str] = frozenset()
    """The ids of cases that may not be skipped."""


def read(path: Path) -> Baseline:
    """Return the baseline of a file, which is an accepted list or the JSON of a run.

    Raises:
     OSError: The file cannot be read.
     ValueError: The file is neither an accepted list nor a run.
    """
    text = path.read_text("utf-8")
    if text.lstrip().startswith("{"):
        run = jsonfile.read(path)
        return Baseline(
            frozenset(case.id for case in run.cases if case.verdict in _BROKEN),
            frozenset(case.id for case in run.cases if case.verdict is Verdict.PASS),
        )
    try:
        data = tomllib.loads(text)
        return Baseline(frozenset(_accepted(data, str(path))), _tried(data, str(path)))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: neither a report of this suite nor a list of accepted cases: {error}") from error
    except tables.ProfileError as error:
        raise ValueError(str(error)) from error


class _AllBut(frozenset[str]):
    """A set that contains all cases except the listed ones."""

    def __contains__(self, id: object) -> bool:
        return not super().__contains__(id)


def _tried(data: Mapping[str, object], where: str) -> Container[str]:
    if unknown := data.keys() - {"accepted", "rules", "skipped"}:
        raise ValueError(f"{where}: there is no {', '.join(sorted(unknown))}")
    skipped = data.get("skipped")
    if skipped is None or data.get("rules") != SUITE:
        return frozenset()
    if not isinstance(skipped, list):
        raise ValueError(f"{where}: skipped is not a list of cases")
    return _AllBut(map(str, skipped))


def _accepted(data: Mapping[str, object], where: str) -> Iterator[str]:
    entries = data.get("accepted", [])
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
    """Write the failed cases of the run as a list of accepted cases. Raises OSError."""
    write_private(path, render(run).encode())


def render(run: Run) -> str:
    """Return the list with each finding as the reason. A person replaces the finding by the reason why the failure is
    accepted."""
    skipped = [case.id for case in run.cases if case.verdict is Verdict.SKIP]
    lines = [
        "# Cases that may fail. Replace each reason by why it is accepted. Only the cases in `skipped` may be skipped."
    ]
    lines += [f"rules = {_string(run.suite)}", "skipped = [", *(f"    {_string(id)}," for id in skipped), "]"]
    for case in run.cases:
        if case.verdict in _BROKEN and case.verdict is not Verdict.UNREACHED:
            lines += ["", "[[accepted]]", f"case = {_string(case.id)}", f"reason = {_string(case.reason[:200])}"]
            lines.append(f"since = {_string(run.started[:10])}")
    return "\n".join(lines) + "\n"


def _string(text: str) -> str:
    """Return a basic string of TOML. Its escapes are those of JSON, and DEL is escaped too."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f")
