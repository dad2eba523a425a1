"""What other documents ask for: each statement says whether it holds and where, and is shown by tests that exist."""

import ast
import re
from functools import cache
from typing import NamedTuple

import pytest

from .blocks import DOCS

ROOT = DOCS.parent
VERDICTS = ("holds", "differs", "background")
SECTIONS = {
    "Users who cancel a tool": 55,
    "Tools that need approval": 45,
    "Cancelling single requests": 40,
    "Cancelling a running chat": 30,
}
"""The documents, and the least number of statements that each of them makes."""


class Statement(NamedTuple):
    """A row of a table."""

    section: str
    text: str
    verdict: str
    where: str
    tests: list[tuple[str, str]]


@cache
def statements() -> list[Statement]:
    found: list[Statement] = []
    section = ""
    for line in (DOCS / "statements.md").read_text("utf-8").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        if not line.startswith("| ") or line.startswith("| ---") or line.endswith("| Verdict | Where | Test |"):
            continue
        text, verdict, where, tests = line.strip("| ").split(" | ")
        found.append(Statement(section, text, verdict, where, re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", tests)))
        # Nothing stands in the cell but tests.
        assert len(found[-1].tests) == len(tests.split(", ")) or tests == "-", tests
    return found


@cache
def tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text("utf-8"))


@cache
def functions_in(path: str) -> set[str]:
    """Also those of classes."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree(path)) if isinstance(node, kinds)}


def is_there(path: str, name: str) -> bool:
    """Whether a module has this, or a class in it has."""
    body: list[ast.stmt] = tree(path).body
    for part in name.split("."):
        found = [node for node in body if part in _names(node)]
        if not found:
            return False
        body = found[0].body if isinstance(found[0], ast.ClassDef) else []
    return True


def _names(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.AnnAssign(target=ast.Name(id)):
            return {id}
        case ast.Assign():
            return {target.id for target in node.targets if isinstance(target, ast.Name)}
        case _:
            return set()


@cache
def anchors(guide: str) -> set[str]:
    text = re.sub(r"^```.*?^```", "", (DOCS / guide).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(("section", "least"), SECTIONS.items())
def test_each_document_is_there_with_its_statements(section: str, least: int) -> None:
    of = [statement for statement in statements() if statement.section == section]
    assert len(of) >= least
    assert {statement.section for statement in statements()} == set(SECTIONS)


def test_each_statement_holds_or_says_why_not() -> None:
    for statement in statements():
        word = re.split(r"\W", statement.verdict, maxsplit=1)[0]
        assert word in VERDICTS, statement
        # A difference has a reason.
        assert word != "differs" or len(statement.verdict) > 40, statement


def test_each_statement_is_shown_by_tests_that_exist() -> None:
    missing = [
        f"{statement.text}: {path}::{name}"
        for statement in statements()
        for path, name in statement.tests or ([] if statement.verdict == "background" else [("no test", "")])
        if not (ROOT / path).is_file() or not name.startswith("test_") or name not in functions_in(path)
    ]
    assert not missing, "\n".join(missing)


def test_each_place_that_is_named_exists() -> None:
    missing: list[str] = []
    for statement in statements():
        code = re.findall(r"`(acp_server/[\w/]+\.py)(?:::([\w.]+))?`", statement.where)
        links = re.findall(r"\[\w+\]\((\w+\.md)(?:#([\w-]+))?\)", statement.where)
        assert len(code) + len(links) == len(statement.where.split(", ")), statement
        missing += [f"{path}::{name}" for path, name in code if not (ROOT / path).is_file()]
        missing += [f"{path}::{name}" for path, name in code if name and not is_there(path, name)]
        missing += [f"{guide}#{part}" for guide, part in links if part and part not in anchors(guide)]
    assert not missing, "\n".join(missing)


def test_each_test_of_the_documented_examples_shows_a_statement() -> None:
    used = {name for statement in statements() for _, name in statement.tests}
    for part in ("cancel", "approval", "letter"):
        path = f"tests/apps/assistant/test_seeds_{part}.py"
        assert {name for name in functions_in(path) if name.startswith("test_")} <= used
