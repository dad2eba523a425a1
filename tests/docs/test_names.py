"""What the guides name in back-ticks is there: members of classes, of the objects that authors get, and files."""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from acp_server import schema
from tests.test_public import offered

from .blocks import DOCS

ROOT = DOCS.parent
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
OBJECTS = {
    "agent": ("Agent", "RemoteAgent"),
    "call": ("Call", "ToolContext"),
    "client": ("Client",),
    "initialization": ("Initialization",),
    "session": ("Session", "RemoteSession", "TurnRecord"),
    "turn": ("Turn", "RemoteTurn"),
}
"""What guides call the objects of these classes."""

OTHERS = {
    "docs/conformance.md": {"agent.fence", "agent.settle"},  # members of a profile
    "docs/schema.md": {"session.compaction", "session.configOptions", "session.notices"},  # capabilities
}
"""What looks like a member of such an object."""


@cache
def classes() -> dict[str, list[Any]]:
    """The public classes and the types of the protocol, by their names."""
    found: dict[str, list[Any]] = {}
    named = [(name.rpartition(".")[2], value) for name, value in offered().items()]
    for name, value in [*named, *((name, getattr(schema, name)) for name in dir(schema) if schema.area_of(name))]:
        if inspect.isclass(value) and value not in found.setdefault(name, []):
            found[name].append(value)
    return found


@cache
def members(kind: type) -> set[str]:
    """What objects of a class have, and what the class is made with."""
    names = set(dir(kind)) | set(getattr(kind, "model_fields", ())) | set(inspect.signature(kind).parameters)
    for each in inspect.getmro(kind):
        names |= set(inspect.get_annotations(each)) | set(each.__dict__.get("__slots__", ()))
        if each.__module__.startswith("acp_server."):
            names |= set(_set_on_self(sys.modules[each.__module__], each.__name__))
    return names


def _set_on_self(module: Any, name: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(Path(module.__file__).read_text("utf-8"))):
        if isinstance(node, ast.ClassDef) and node.name == name:
            for each in ast.walk(node):
                if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                    yield each.attr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_member_that_a_page_names_is_there(page: Path) -> None:
    missing: set[str] = set()
    for owner, member in re.findall(r"`@?(\w+)\.(?!json|md|py|toml)(\w+)[`(.]", page.read_text("utf-8")):
        kinds = [kind for name in OBJECTS.get(owner, (owner,)) for kind in classes().get(name, ())]
        if kinds and not any(member in members(kind) for kind in kinds):
            missing.add(f"{owner}.{member}")
    assert missing == OTHERS.get(page.relative_to(ROOT).as_posix(), set())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_file_that_a_page_names_is_there(page: Path) -> None:
    named = set(re.findall(r"`((?:\w+/)+[a-z_]+\.(?:py|toml))`", page.read_text("utf-8")))
    roots = (ROOT, ROOT / "acp_server", ROOT / "tests")
    assert {name for name in named if not any((root / name).is_file() for root in roots)} == set()


KEYS = {"acp_server.status", "acp_server.stderr"}
"""Not modules: keys of `_meta`."""


def _missing(name: str) -> bool:
    """Whether a dotted name leads to no module, or to a word that is not in the module's file."""
    home, *parts = name.split(".")
    place = ROOT / home if home == "acp_server" else ROOT / "conformance" / home
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    if parts and (place / f"{parts[0]}.py").is_file():
        place /= f"{parts.pop(0)}.py"
    text = (place if place.is_file() else place / "__init__.py").read_text("utf-8")
    return not all(re.search(rf"\b{part}\b", text) for part in parts)


def test_each_dotted_name_in_a_docstring_or_comment_exists() -> None:
    found: set[tuple[str, str]] = set()
    for folder in ("acp_server", "conformance"):
        for path in (ROOT / folder).rglob("*.py"):
            names = re.findall(r"`((?:acp_server|acp_conformance)(?:\.\w+)+)`", path.read_text("utf-8"))
            found |= {(path.relative_to(ROOT).as_posix(), name) for name in names if name not in KEYS}
    assert len(found) > 100
    assert sorted(each for each in found if _missing(each[1])) == []


@pytest.mark.parametrize("name", ["acp_server.peer.elsewhere", "acp_conformance.result", "acp_server.gone.Agent"])
def test_a_dotted_name_that_leads_nowhere_is_found(name: str) -> None:
    assert _missing(name)
