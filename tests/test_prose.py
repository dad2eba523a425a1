"""The words of the house: the words that docstrings, comments, messages and guides do not use, the length of a
sentence, and how rare some turns of phrase are: in docstrings and comments of the rewritten rooms, in all messages, in
the guides and in the changelog."""

import ast
import inspect
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

FINISHED = (
    "tasks",
    "wire",
    "peer",
    "store",
    "agent",
    "client",
    "mcp",
    "integrations",
    "http",
    "processes",
    "remote",
    "testing",
    "schema",
    "errors.py",
    "paths.py",
    "signatures.py",
    "safe_text.py",
    "apps/assistant",
    "apps/coder",
    "apps/gateway",
    "apps/cli",
    "examples",
    "benchmarks",
    "conformance",
    "session",
    "tools",
)
"""The rooms of `acp_server`, and folders, whose docstrings and comments have been rewritten. Another room joins by a
line here."""
MOST_TICS = 0.4
"""Uses of one turn of phrase in 1,000 words of one kind of text. Not 0, because a pattern also finds good sentences."""

# Turns of phrase that are good English once, and hard to read as a habit. Each with its replacement.
TICS = {
    r"(?:^|[.!?:]\s+)What\b(?!\s+[^.]*\?)": "begin with a noun: the message, the session",
    r"\bthose\s+(?:of|that|which|who|from|with|in)\b": "repeat the noun",
    r"\b(?:of|by)\s+(?:mine|ours|yours|its\s+own|their\s+own)\b": "name the owner: a request of the agent",
    r"\bof\s+(?:the|an?)\s+\w+'s(?=\s*[.,;:)]|$)": "name the owner: a request of the peer",
    r",\s+for\s+(?:it|they|there|this|that|he|she|we|the\s+\w+\s+(?:is|are|has|have|may|can))\b": "because",
    # A question to the user is a question.
    r"(?<!\buser\s)\b(?:is|are|was|were)\s+(?:told|asked)\b(?!\s+(?:for|about)\b)": "gets, receives",
    r"\b(?:is|are|was|were)\s+(?:all\s+)?through\b(?!\s+\w)": "has finished",
    r"\bfrom\s+(?:\w+\s+){1,4}on(?=\s*[.,;:)]|$)": "since, after, at least",
    r"\b(?:is|are)\s+to\s+(?:be|have|do|go|get)\b": "has to, must, will",
    r"\bwhat\s+(?:becomes|became|has\s+become)\s+of\b": "name the outcome",
    r"\b(?:come|comes|came|stand|stands|sent|raised)\s+behind\b": "after",
}


@cache
def _code() -> list[tuple[str, str]]:
    folders = ("acp_server", "conformance", "examples", "benchmarks")
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths]


def _guides() -> Iterator[tuple[str, str]]:
    roots = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")
    for path in [*sorted((ROOT / "docs").rglob("*.md")), *roots]:
        yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")


def _without_samples(page: str) -> str:
    return re.sub(r"^```.*?^```$|^ {4}[^\n]*$", "", page, flags=re.MULTILINE | re.DOTALL)


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


def _docstrings(source: str) -> Iterator[str]:
    """The docstrings of a module, its classes, its functions and its attributes: strings that are statements."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                yield inspect.cleandoc(text)
            case _:
                pass


def _comments(source: str) -> Iterator[str]:
    """The comments, and no strings."""
    for _, text in _prose(source):
        if not re.match(r"""[a-zA-Z]{0,2}["']""", text):
            yield text


def _is_finished(name: str) -> bool:
    room = name.removeprefix("acp_server/")
    return room != name and any(room == each or room.startswith(f"{each}/") for each in FINISHED)


def _tics(text: str) -> Iterator[tuple[str, str]]:
    """The pattern and the words of each tic."""
    for pattern in TICS:
        for match in re.finditer(pattern, text, re.MULTILINE):
            yield pattern, " ".join(match.group().split())


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


@cache
def _texts() -> dict[str, list[tuple[str, str]]]:
    """Of each kind, the texts with their places."""
    finished = [(name, source) for name, source in _code() if _is_finished(name)]
    pages = {name: _without_samples(text) for name, text in _guides()}
    apart = {"messages": "docs/messages.md", "changelog": "CHANGELOG.md"}
    return {
        "docstrings": [(name, text) for name, source in finished for text in _docstrings(source)],
        "comments": [(name, text) for name, source in finished for text in _comments(source)],
        "guides": [(name, text) for name, text in pages.items() if name not in apart.values()],
        **{kind: [(name, pages[name])] for kind, name in apart.items()},
    }


@pytest.mark.parametrize("kind", ["docstrings", "comments", "messages", "guides", "changelog"])
def test_texts_repeat_no_turn_of_phrase(kind: str) -> None:
    texts = _texts()[kind]
    words = sum(len(text.split()) for _, text in texts)
    assert words > 5000, "a kind of text is not found any more"
    found: dict[str, list[str]] = {pattern: [] for pattern in TICS}
    for name, text in texts:
        for pattern, match in _tics(text):
            found[pattern].append(f"  {name}: {match!r} in {text.strip().splitlines()[0]!r}")
    often = [
        f"{len(places)} times in {words} words, {pattern}, instead: {TICS[pattern]}\n" + "\n".join(places)
        for pattern, places in found.items()
        if len(places) > MOST_TICS * words / 1000
    ]
    if often:
        pytest.fail("\n".join(often), pytrace=False)


def test_each_finished_room_exists() -> None:
    assert not [
        room for room in FINISHED if not any((parent / room).exists() for parent in (ROOT, ROOT / "acp_server"))
    ]


@pytest.mark.parametrize(
    "text",
    [
        "What a client sees.",
        "It ends. What comes later\nis dropped.",
        "its limits, and those of the peer",
        "a request of ours",
        "a folder of its own",
        "a request of the peer's, which ends",
        "It waits, for it has to.",
        "The agent is told.",
        "once the task is through.",
        "from the first moment on.",
        "It is to be closed.",
        "what became of the prompt",
        "a message that comes behind it",
    ],
)
def test_the_tics_are_found(text: str) -> None:
    assert list(_tics(text))


@pytest.mark.parametrize(
    "text",
    [
        "it closes what it has opened",
        "the limits of the peer",
        "the peer's request",
        "the end of the agent's input",
        "It waits for it.",
        "the client is asked for its consent",
        "the user is asked before it runs",
        "it is passed through pipes",
        "It is closed.",
        "the name behind the address",
    ],
)
def test_plain_phrases_are_not_tics(text: str) -> None:
    assert not list(_tics(text))


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
