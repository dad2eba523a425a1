"""The words of the house: what docstrings, comments, messages and guides do not say, and how long a sentence may be."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LONGEST_SENTENCE = 35
"""Words of a sentence in a docstring. A longer sentence is understood only by a reader who knows the thing already."""

# Each pattern with what stands in its place.
FORBIDDEN = {
    r"\b(?:whoever|nobody|somebody|anybody|everybody)\b": "name the subject: the client, the agent, the caller",
    r"\b(?:whomever|those\s+who)\b": "name them: the callers, the listeners",
    r"\bones?\s+that\b": "name the thing: a session that, a tool that",
    r"(?<!there\s)\b(?:is|are|was|were)\s+none\b": "is not, or there is no",
    r"(?<!there\s)\b(?:is|are|was|were)\s+no\b(?!\s+(?:longer|more|less|fewer)\b)": "is not a",
}


@cache
def _code() -> list[tuple[str, str]]:
    folders = ("acp_server", "conformance", "examples", "benchmarks")
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths]


def _guides() -> Iterator[tuple[str, str]]:
    for path in [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")


def _prose(source: str) -> Iterator[tuple[int, str]]:
    """The comments and strings of Python code with their first lines. Comments that follow each other are one text."""
    comment: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if comment and token.start[0] != last + 1:
                yield first, "\n".join(comment)
                comment.clear()
            first, last = (first if comment else token.start[0]), token.start[0]
            comment.append(token.string.lstrip("# "))
        elif token.type == tokenize.STRING:
            yield token.start[0], token.string
    if comment:
        yield first, "\n".join(comment)


def _sentences(docstring: str) -> Iterator[str]:
    """Without lists, tables and samples: lines that are indented, begin with a sign or a name and a colon, or have
    columns."""
    for block in re.split(r"\n\s*\n|\n(?=[ \t]+\S)|\n(?=[-*{] ?)|\n(?=\w+: )|\n(?=.*\S {2,}\S)", docstring):
        yield from re.split(r"(?<=[.!?])\s+", block)


def _forbidden(text: str) -> Iterator[tuple[int, str, str]]:
    """In which line of `text`, which words, and what to say instead."""
    for pattern, instead in FORBIDDEN.items():
        for match in re.finditer(pattern, text, re.IGNORECASE):
            if "None" not in match.group():
                yield text.count("\n", 0, match.start()), " ".join(match.group().split()), instead


def test_each_sentence_names_its_subject() -> None:
    texts = [(name, line, text) for name, source in _code() for line, text in _prose(source)]
    texts += [(name, 1, text) for name, text in _guides()]
    found = [
        f"{name}:{line + offset}: {words!r}: {instead}"
        for name, line, text in texts
        for offset, words, instead in _forbidden(text)
    ]
    if found:
        pytest.fail(f"{len(found)} places:\n" + "\n".join(found), pytrace=False)


def test_a_sentence_of_a_docstring_can_be_taken_in_at_once() -> None:
    found = [
        f"{name}:{getattr(node, 'lineno', 1)}: {len(words)} words: {' '.join(words[:12])} ..."
        for name, source in _code()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for sentence in _sentences(ast.get_docstring(node) or "")
        if len(words := sentence.split()) > LONGEST_SENTENCE
    ]
    if found:
        pytest.fail(f"{len(found)} places:\n" + "\n".join(found), pytrace=False)


@pytest.mark.parametrize(
    "text",
    [
        "Whoever waits goes on.",
        "It is none of ours.",
        "One that ends.",
        "a session, one that\nis open",
        "it is no number",
    ],
)
def test_the_words_that_the_rules_forbid_are_found(text: str) -> None:
    assert list(_forbidden(text))


@pytest.mark.parametrize("text", ["there is no file", "it is no longer open", "`x is None`", "the open one"])
def test_plain_words_pass(text: str) -> None:
    assert not list(_forbidden(text))
