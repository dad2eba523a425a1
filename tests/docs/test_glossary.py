"""The glossary: one row for each term, in order, and each term in use."""

import re
from pathlib import Path

import pytest

from .blocks import DOCS

ROOT = DOCS.parent
TEXT = (DOCS / "glossary.md").read_text("utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in TEXT.split("\n## ")[1:]}
ROWS = {
    name: re.findall(r"^\| ([a-zA-Z][^|]*?) \| [^|]+ \| ([^|]+) \|$", part, re.MULTILINE)
    for name, part in SECTIONS.items()
}
TERMS = [term for rows in ROWS.values() for term, _ in rows if term != "term"]


def _words(paths: list[Path]) -> str:
    return "\n".join(path.read_text("utf-8") for path in paths).lower()


def test_each_term_has_one_row_and_the_rows_are_in_order() -> None:
    assert len(TERMS) == len(set(TERMS)) >= 60
    for name, rows in ROWS.items():
        terms = [term for term, _ in rows if term != "term"]
        assert terms == sorted(terms, key=str.lower), name


def test_each_meaning_is_one_or_more_sentences() -> None:
    for _, meaning in (row for rows in ROWS.values() for row in rows if row[0] != "term"):
        assert re.fullmatch(r"[A-Z`].*\.", meaning), meaning


@pytest.mark.parametrize("term", TERMS)
def test_each_term_is_used_outside_of_the_glossary(term: str) -> None:
    pages = [path for path in DOCS.rglob("*.md") if path.name != "glossary.md"]
    code = [path for folder in ("acp_server", "conformance/acp_conformance") for path in (ROOT / folder).rglob("*.py")]
    words = _words([*pages, *code, ROOT / "README.md"])
    assert any(each.strip() in words for each in term.lower().split(",")), term
