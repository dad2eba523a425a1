"""Which numbered behaviours are promised, and which tests hold them.

Reads the tests' source, so that the answer does not depend on which tests are run. It runs none of them.
`python -m tests.plugins.behaviours` prints every behaviour with its tests.
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "tests" / "behaviours.toml"
TEST_FOLDERS = (ROOT / "tests", ROOT / "conformance")
_NUMBER = re.compile(r"[A-Z][0-9]+")


@dataclass(frozen=True)
class Group:
    """One letter of the catalogue: its numbers with their titles, and why they need no test yet, if so."""

    letter: str
    about: str
    count: int
    titles: dict[str, str]
    deferred: str | None


@dataclass(frozen=True)
class Mark:
    """One `behaviour(...)` in the source. `fault` says what is wrong with it, apart from its numbers."""

    place: str
    numbers: tuple[str, ...]
    fault: str | None = None


def catalogue(path: Path = CATALOGUE) -> list[Group]:
    """The groups in the order of the file."""
    groups: list[Group] = []
    for letter, table in tomllib.loads(path.read_text("utf-8")).items():
        titles = {key: value for key, value in table.items() if _NUMBER.fullmatch(key)}
        groups.append(Group(letter, table["about"], table["count"], titles, table.get("deferred")))
    return groups


@cache
def marks_in_tests() -> Sequence[Mark]:
    """Every mark in every test file."""
    found: list[Mark] = []
    for folder in TEST_FOLDERS:
        for path in sorted(folder.rglob("*.py")):
            if "node_modules" not in path.parts:
                found += marks(path.read_text("utf-8"), path.relative_to(ROOT).as_posix())
    return found


def marks(source: str, path: str) -> Iterator[Mark]:
    """The marks of one file: on tests, on test classes, in `pytestmark` and in `pytest.param(marks=...)`."""
    if "behaviour" not in source:
        return
    nodes = list(ast.walk(ast.parse(source, path)))
    calls = {id(node.func): node for node in nodes if isinstance(node, ast.Call)}
    on_something_else = {
        id(decorator)
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if not node.name.lower().startswith("test")
        for decorator in node.decorator_list
    }
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == "behaviour" and _is_mark(node.value):
            yield from _mark(node, calls.get(id(node)), path, on_something_else)


def _mark(attribute: ast.Attribute, call: ast.Call | None, path: str, on_something_else: set[int]) -> Iterator[Mark]:
    place = f"{path}:{attribute.lineno}"
    values = [arg.value for arg in call.args if isinstance(arg, ast.Constant)] if call else []
    numbers = tuple(value for value in values if isinstance(value, str))
    if call is None or not call.args:
        yield Mark(place, (), "no number")
    elif len(numbers) != len(call.args) or call.keywords:
        yield Mark(place, numbers, "a number that is no literal string")
    elif id(call) in on_something_else:
        yield Mark(place, numbers, "not on a test")
    else:
        yield Mark(place, numbers)


def _is_mark(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "mark") or (
        isinstance(node, ast.Name) and node.id == "mark"
    )


def listing() -> str:
    """Every behaviour with the places that hold it, for a reader."""
    places: dict[str, list[str]] = {}
    for mark in marks_in_tests():
        for number in mark.numbers:
            places.setdefault(number, []).append(mark.place)
    lines: list[str] = []
    for group in catalogue():
        lines.append(f"{group.letter}  {group.about}" + (f" (deferred: {group.deferred})" if group.deferred else ""))
        for number, title in group.titles.items():
            held = ", ".join(places.get(number, [])) or ("deferred" if group.deferred else "NO TEST")
            lines.append(f"  {number:4} {title}\n       {held}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(listing())  # noqa: T201
