"""Each case that fails a side cites a sentence that binds it, and the page of sentences names the cases of each.

A case counts for a sentence only if a planted breach was seen to fail it: the tables of faulty agents and clients
say which.
"""

import sys
from collections.abc import Iterable, Sequence

import pytest

from acp_conformance.agent import cases as agent_cases
from acp_conformance.agent.v2 import cases as agent_cases_v2
from acp_conformance.client import cases as client_cases
from acp_conformance.client.v2 import cases as client_cases_v2
from acp_conformance.core.case import Case
from acp_conformance.core.result import Level
from acp_conformance.core.sentences import Sentence, cited, sentences
from acp_conformance.report.links import link_to
from tests.conformance.client.table import FAULTS as CLIENT_FAULTS
from tests.conformance.client.table import SEEN as CLIENT_SEEN
from tests.conformance.faulty.test_faults import FAULTS as AGENT_FAULTS
from tests.conformance.v2.clients.faults import CAUGHT_BY as CLIENT_FAULTS_V2
from tests.conformance.v2.test_faults import CAUGHT_BY as AGENT_FAULTS_V2
from tests.docs.blocks import DOCS

PAGE = DOCS / "conformance-sentences.md"
CASES = {
    "agent": [*agent_cases.load(), *agent_cases_v2.load()],
    "client": [*client_cases.load(), *client_cases_v2.load()],
}
PLANTED = {
    "agent": {*(id for ids in AGENT_FAULTS.values() for id in ids), *AGENT_FAULTS_V2},
    "client": {*CLIENT_FAULTS.values(), *(rule for rule, _ in CLIENT_SEEN.values()), *CLIENT_FAULTS_V2},
}
"""The cases that a planted breach was seen to fail, by the tests of these tables."""

HEAD = """# Sentences and their cases

The sentences of version 1 and of the draft of version 2, and the cases for each, for either side. Long sections are
shortened. "Binds" is the side with the obligation: a case fails a side only by a sentence that binds it. A case is
listed only if an agent, or a client, with a planted breach was seen to fail it; a choice fails no side and is not
listed. A side without a case has the reason instead.

`python -m tests.conformance.core.test_sentences` writes this page.

| Sentence | Binds | Cases for agents | Cases for clients |
| --- | --- | --- | --- |
"""


def of(sentence: Sentence, kind: str) -> Sequence[str]:
    """The cases of a side that come from it and that a planted breach has failed."""
    if sentence.binds not in (kind, "both") or sentence.unseen:
        return []
    return [
        case.id
        for case in CASES[kind]
        if case.id in PLANTED[kind]
        and (case.source == sentence.source or case.id in (*sentence.agent, *sentence.client))
        and (case.section == sentence.section or case.id in (*sentence.agent, *sentence.client))
        and sentence.names(kind, case.id)
    ]


def cell(sentence: Sentence, kind: str) -> str:
    if sentence.unseen and sentence.binds in (kind, "both"):
        return sentence.unseen
    return ", ".join(f"`{id}`" for id in of(sentence, kind))


def render() -> str:
    rows: list[str] = []
    for each in sentences():
        text = each.text.replace("*", "\\*").replace("_", "\\_")
        where = f"[{each.source}, {each.section}]({link_to(each.source, each.section)})"
        rows.append(f"| {text} {where} | {each.binds} | {cell(each, 'agent')} | {cell(each, 'client')} |")
    return HEAD + "\n".join(rows) + "\n"


def binding(kind: str) -> Iterable[Case]:
    return (case for case in CASES[kind] if case.level is not Level.CHOICE)


@pytest.mark.parametrize("kind", CASES)
def test_a_case_that_fails_a_side_cites_a_sentence_that_binds_it(kind: str) -> None:
    unbound = [
        case.id
        for case in binding(kind)
        if case.level is Level.MUST and not cited(case.source, case.section, kind, case.id)
    ]
    assert unbound == []


@pytest.mark.parametrize("kind", CASES)
def test_every_case_that_fails_a_side_was_seen_to_fail_a_planted_breach(kind: str) -> None:
    assert [case.id for case in binding(kind) if case.id not in PLANTED[kind]] == []


@pytest.mark.parametrize("kind", CASES)
def test_every_sentence_that_binds_a_side_has_a_case_or_the_reason_why_it_has_none(kind: str) -> None:
    idle = [each.text for each in sentences() if each.binds in (kind, "both") and not cell(each, kind)]
    assert idle == []


def test_every_sentence_has_an_anchor_and_names_cases_that_exist() -> None:
    assert [each for each in sentences() if not link_to(each.source, each.section)] == []
    for kind, cases in CASES.items():
        named = {id for each in sentences() for id in (each.agent if kind == "agent" else each.client)}
        assert named <= {case.id for case in cases}


def test_the_page_has_the_cases_of_each_sentence() -> None:
    assert PAGE.read_text("utf-8") == render(), "python -m tests.conformance.core.test_sentences"


if __name__ == "__main__":
    PAGE.write_text(render(), "utf-8")
    sys.exit(0)
