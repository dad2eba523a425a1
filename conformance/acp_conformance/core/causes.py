"""Groups the problems of a run that have the same cause. One fault may break many rules, and a report shows such a
fault once.

Cases have the same cause if their reasons differ only in values: the same member is missing, the same method was
refused with the same code, or the messages differ in the same way. Output that is not JSON is the cause of all failures
in its conversation. The causes do not change any verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from .result import CaseResult, Verdict

ACCUSING = (Verdict.FAIL, Verdict.WARN, Verdict.SLOW)

_REFUSED = re.compile(r"([a-z_$]+/[a-z_]+|authenticate|initialize|logout) (?:is|was) answered with .*?(-32\d{3})")
_WHERE = re.compile(r",? in [a-z0-9-]+/[a-z0-9-]+: .*|,? in the (?:first|tour|end) .*", re.DOTALL)
_VALUE = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|\b(?:None|True|False|null|true|false)\b|-?\d[\d.,]*""")
_FAMILIES = ("the replay has",)
"""Words of reasons that name one thing, however different the other words are."""

_TELLING = 4
"""The least words of a phrase that can represent a cause in another group."""


def with_causes(results: Iterable[CaseResult], broken_in: Mapping[str, str] | None = None) -> list[CaseResult]:
    """Return the results. If several cases have the same cause, the `cause` of each is the id of the first of these
    cases.

    Args:
     results: In the order of the report.
     broken_in: For the id of a case, the id of the case about the wire that its conversation broke.
    """
    told = list(results)
    about = broken_in or {}
    groups: dict[str, list[str]] = {}
    for case in told:
        if case.verdict in ACCUSING:
            groups.setdefault(about.get(case.id) or phrase(case), []).append(case.id)
    leading = {id: _leader(key, ids) for key, ids in groups.items() for id in ids}
    shared = {leader for id, leader in leading.items() if id != leader}
    return [replace(case, cause=leading[case.id]) if leading.get(case.id) in shared else case for case in told]


def _leader(key: str, ids: Sequence[str]) -> str:
    return key if key in ids else ids[0]


def phrase(case: CaseResult) -> str:
    """Return the common part of two reasons that differ only in values."""
    reason = case.reason
    if refused := _REFUSED.search(reason):
        return f"{refused[1]} refused with {refused[2]}"
    if family := next((each for each in _FAMILIES if each in reason), ""):
        return family
    words = _VALUE.sub("#", re.split(r"[{\[]", _WHERE.sub("", reason), maxsplit=1)[0]).split()
    return " ".join(words) if len(words) > _TELLING else f"{case.group}: {' '.join(words)}"


def folded(cases: Sequence[CaseResult]) -> list[tuple[CaseResult, Sequence[CaseResult]]]:
    """Return each cause once, in order, with the other cases that failed because of it."""
    there = {case.id: case for case in cases}
    found: dict[str, list[CaseResult]] = {}
    for case in cases:
        found.setdefault(case.cause if case.cause in there else case.id, []).append(case)
    return [(there[first], [each for each in members if each.id != first]) for first, members in found.items()]
