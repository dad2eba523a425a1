"""Finds the details of a problem for reports: the sent message, the broken sentence, the remedy."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Any

from acp_conformance.core.result import CaseResult, Line
from acp_conformance.core.sentences import cited

_FENCE = "_conformance/"
"""The prefix of the methods by which the suite finds out how far the subject has read: no rule is about them."""

_ID = re.compile(r"\(id (-?\d+|'[^']*')\)")


def sent_of(case: CaseResult) -> str:
    """Return the suite's line to which the finding belongs: the request with the wrong response, or else the last sent
    line."""
    came = _read(case.transcript[case.guilty]) if case.guilty is not None else {}
    before = case.transcript[: case.guilty]
    sent = [line for line in before if line["from"] == "suite"]
    if "method" not in came and "id" in came:
        wanted = repr(came["id"])
    else:
        found = _ID.search(case.reason)
        wanted = found[1] if found else ""
    calls = [(line, _read(line)) for line in reversed(sent)]
    asked = [line for line, message in calls if "method" in message and repr(message.get("id")) == wanted]
    last = [line for line, message in calls if not str(message.get("method", "")).startswith(_FENCE)]
    return next((line["text"] for line in (*asked, *last)), "")


def came_of(case: CaseResult) -> str:
    """Return the line that breaks the rule; None if no single line breaks the rule."""
    return "" if case.guilty is None else case.transcript[case.guilty]["text"]


def sentence_of(case: CaseResult, kind: str) -> str:
    """Return the broken sentence; empty if it is unknown."""
    return " ".join(each.text for each in cited(case.source, case.section, kind, case.id))


def change_of(case: CaseResult, kind: str) -> str:
    """Return the remedy; empty if no simple remedy is known."""
    entries = (each for each in _advice()[kind] if any(fnmatchcase(case.id, fit) for fit in each["cases"]))
    return next((str(each["change"]) for each in entries), "")


def _read(line: Line) -> Mapping[str, Any]:
    try:
        message = json.loads(line["text"])
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


@cache
def _advice() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    return tomllib.loads((resources.files("acp_conformance.report") / "advice.toml").read_text("utf-8"))
