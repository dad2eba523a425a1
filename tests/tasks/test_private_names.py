"""The private names of anyio that the package uses. They may change in any release: a test lists them, and the others
hold their meaning in the versions that pyproject.toml admits."""

import ast
import inspect
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from acp_server.tasks import threads
from acp_server.tasks.tree import stop_cancelling, stop_cancelling_in

ROOT = Path(__file__).resolve().parents[2]
ADMITTED = "anyio>=4.15,<5"
NAMES = {
    "acp_server/tasks/threads.py": {"anyio._core._eventloop.claim_worker_thread"},
    "acp_server/tasks/tree.py": {"_child_scopes", "_deliver_cancellation", "_parent_scope"},
}
"""Each has a test below that fails in a version without it."""


@pytest.fixture
def anyio_backend() -> str:
    # anyio's scopes have these names on asyncio alone; trio has its own scopes.
    return "asyncio"


def private_names() -> set[str]:
    """The private attributes of a scope."""
    return {name for name in dir(anyio.CancelScope()) if name.startswith("_") and not name.startswith("__")}


def used_in(path: Path, private: set[str]) -> Iterator[str]:
    """The private names of anyio in a file. `getattr` alone gets at an attribute: pyright refuses `scope._name`."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("anyio._"):
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.startswith("anyio._"))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            name = node.args[1]
            if isinstance(name, ast.Constant) and name.value in private:
                yield str(name.value)


@pytest.mark.anyio
async def test_each_private_name_is_listed_here() -> None:
    private = private_names()
    found: dict[str, set[str]] = {}
    for room in ("acp_server", "conformance/acp_conformance"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if names := {*used_in(path, private)}:
                found[path.relative_to(ROOT).as_posix()] = names
    assert found == NAMES


@pytest.mark.parametrize("project", ["pyproject.toml", "conformance/pyproject.toml"])
def test_the_versions_are_those_that_these_tests_know(project: str) -> None:
    required = tomllib.loads((ROOT / project).read_text("utf-8"))["project"]["dependencies"]
    assert [each for each in required if each.startswith("anyio")] == [ADMITTED]
    major, minor, *_ = map(int, version("anyio").split(".")[:2])
    assert (4, 15) <= (major, minor) < (5, 0)


@pytest.mark.anyio
async def test_the_child_scopes_are_the_scopes_that_are_open_inside() -> None:
    with anyio.CancelScope() as outer, anyio.CancelScope() as inner:
        children: Any = getattr(outer, "_child_scopes")  # noqa: B009 - pyright refuses the attribute
        assert set(children) == {inner}
        assert not getattr(inner, "_child_scopes")  # noqa: B009
        outer.cancel()
        stop_cancelling_in(inner)
        await anyio.lowlevel.checkpoint()


@pytest.mark.anyio
async def test_a_cancel_can_be_delivered_from_the_parent_scope_once_more() -> None:
    with anyio.CancelScope() as outer, anyio.CancelScope() as inner:
        scope: Any = inner
        assert scope._parent_scope is outer
        assert list(inspect.signature(scope._deliver_cancellation).parameters) == ["origin"]
        outer.cancel()
        stop_cancelling(inner)
        # The inner scope is shielded, so the cancel of the outer one does not arrive.
        await anyio.lowlevel.checkpoint()


@pytest.mark.anyio
async def test_a_thread_of_the_runtime_can_be_claimed_for_the_loop() -> None:
    # Without the name, a plain function that calls `anyio.from_thread.run` would have to pass the loop's token.
    assert threads.claim_worker_thread is not None
    seven: list[int] = []

    def claimed() -> None:
        seven.append(anyio.from_thread.run_sync(lambda: 7))

    await threads.Threads.current().run("a claim", claimed)
    assert seven == [7]
