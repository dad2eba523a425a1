"""Each case that fails a side cites a sentence that binds it, and the page of sentences names the cases of each."""

import sys

import pytest

from acp_conformance.agent import cases as agent_cases
from acp_conformance.client import cases as client_cases
from acp_conformance.core.case import Registry
from acp_conformance.core.result import Level
from acp_conformance.core.sentences import Sentence, cited, sentences
from acp_conformance.report.links import link_to
from tests.docs.blocks import DOCS

PAGE = DOCS / "conformance-sentences.md"
REGISTRIES = {"agent": agent_cases.load(), "client": client_cases.load()}

HEAD = """# Sentences and their cases

The cases of version 1 that come from each sentence, for either side. A sentence is shortened where its section says
more. "Binds" is the side that it puts under an obligation: a case fails a side only by a sentence that binds it.

What is not here has no case that fails: what a model thinks, what a user sees, or how long a secret is kept cannot be
seen on the wire. `python -m tests.conformance.core.test_sentences` writes this page.

| Sentence | Binds | Cases for agents | Cases for clients |
| --- | --- | --- | --- |
"""


def cell(sentence: Sentence, kind: str) -> str:
    if sentence.binds not in (kind, "both"):
        return ""
    found = [case.id for case in REGISTRIES[kind] if (case.source, case.section) == (sentence.source, sentence.section)]
    return ", ".join(f"`{id}`" for id in found)


def render() -> str:
    rows: list[str] = []
    for each in sentences():
        text = each.text.replace("*", "\\*").replace("_", "\\_")
        where = f"[{each.source}, {each.section}]({link_to(each.source, each.section)})"
        rows.append(f"| {text} {where} | {each.binds} | {cell(each, 'agent')} | {cell(each, 'client')} |")
    return HEAD + "\n".join(rows) + "\n"


@pytest.mark.parametrize("kind", REGISTRIES)
def test_a_case_that_fails_a_side_cites_a_sentence_that_binds_it(kind: str) -> None:
    registry: Registry = REGISTRIES[kind]
    unbound = [case.id for case in registry if case.level is Level.MUST and not cited(case.source, case.section, kind)]
    assert unbound == []


def test_every_sentence_has_a_case_and_an_anchor() -> None:
    idle = [each for each in sentences() if not cell(each, "agent") and not cell(each, "client")]
    assert [each for each in idle if each.binds != "both"] == []
    assert [each for each in sentences() if not link_to(each.source, each.section)] == []


def test_the_page_has_the_cases_of_each_sentence() -> None:
    assert PAGE.read_text("utf-8") == render(), "python -m tests.conformance.core.test_sentences"


if __name__ == "__main__":
    PAGE.write_text(render(), "utf-8")
    sys.exit(0)
