"""The sentences that cases come from, and whom they bind: what binds clients alone accuses no agent."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FILE = Path(__file__).with_name("sentences.toml")


class Sentence(NamedTuple):
    """One sentence, or what one section says, shortened."""

    source: str
    section: str
    """With the source, its stable anchor: see `report.links`."""
    binds: str
    """`agent`, `client` or `both`."""
    text: str


@cache
def sentences() -> Sequence[Sentence]:
    """All of them, in the order of the texts."""
    return [Sentence(**each) for each in tomllib.loads(_FILE.read_text("utf-8"))["sentence"]]


def cited(source: str, section: str, kind: str) -> Sequence[Sentence]:
    """The sentences of a section that bind agents, or clients."""
    return [
        each
        for each in sentences()
        if (each.source, each.section) == (source, section) and each.binds in (kind, "both")
    ]
