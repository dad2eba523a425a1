"""The sentences of the specification behind the cases. Each sentence binds agents, clients or both, and only cases for
these sides judge it."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FILES = [Path(__file__).with_name(name) for name in ("sentences.toml", "sentences_v2.toml")]


class Sentence(NamedTuple):
    """One sentence, or the shortened content of one section."""

    source: str
    section: str
    """The section of the sentence. Together with the source it is a stable anchor (see `report.links`)."""
    binds: str
    """`agent`, `client` or `both`."""
    text: str
    agent: Sequence[str] = ()
    """The cases for agents that come from the sentence. If neither side has a case here, the cases of its section
    count."""
    client: Sequence[str] = ()
    unseen: str = ""
    """The reason why the sentence cannot be seen from outside, for each side that it binds and that has no case."""

    def names(self, kind: str, id: str) -> bool:
        """Whether a case of this section, for agents or for clients, judges this sentence."""
        return not (self.agent or self.client) or id in (self.agent if kind == "agent" else self.client)


@cache
def sentences() -> Sequence[Sentence]:
    """Return all sentences, in the order of the texts."""
    return [Sentence(**each) for file in _FILES for each in tomllib.loads(file.read_text("utf-8"))["sentence"]]


def cited(source: str, section: str, kind: str, id: str = "") -> Sequence[Sentence]:
    """Return the sentences of a section that have cases and bind the given side. With an id, return only the sentences
    of that case."""
    return [
        each
        for each in sentences()
        if (each.source, each.section) == (source, section)
        and each.binds in (kind, "both")
        and not each.unseen
        and (not id or each.names(kind, id))
    ]
