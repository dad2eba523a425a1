"""docs/tutorial.md: each step of the agent that grows, and its tests, as they stand there."""

import sys
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from acp_server import MemoryStore
from acp_server.schema import Plan, SessionUpdate
from acp_server.testing import talk

from .blocks import DOCS, blocks, run

pytestmark = pytest.mark.anyio
STEPS: dict[str, Callable[[], dict[str, Any]]] = {
    "read": lambda: run("tutorial.md", "read"),
    "tool": lambda: run("tutorial.md", "tool"),
    "plan": lambda: run("tutorial.md", "plan"),
    "whole": lambda: run("tutorial.md", "whole"),
}
LINE = "x = 1  # TODO: a better name"


def step(name: str) -> Any:
    agent = STEPS[name]()["agent"]
    agent.store = MemoryStore()
    return agent


def test_each_block_is_a_step_or_the_tests() -> None:
    assert [name for guide, name in blocks() if guide == "tutorial.md"] == [*STEPS, "test"]


async def test_the_first_step_shows_the_lines() -> None:
    async with talk(step("read"), files={"a.py": LINE}) as session:
        assert await session.ask("a.py") == f"- {LINE}\n"


@pytest.mark.parametrize("name", [*STEPS][1:])
@pytest.mark.parametrize(("permission", "written"), [("allow", "- a better name\n"), ("reject", None)])
async def test_the_list_is_written_with_approval_alone(name: str, permission: Any, written: str | None) -> None:
    files = {"a.py": LINE}
    async with talk(step(name), files=files, permission=permission) as session:
        await session.ask("a.py")
    assert files.get("TODO.md") == written


@pytest.mark.parametrize(("permission", "states"), [("allow", ["completed"] * 2), ("reject", ["completed", "pending"])])
async def test_the_plan_says_how_far_it_came(permission: Any, states: list[str]) -> None:
    seen: list[SessionUpdate] = []
    async with talk(step("plan"), files={"a.py": LINE}, permission=permission) as session:
        await session.run("a.py", on_update=seen.append)
    plan = [update for update in seen if isinstance(update, Plan)][-1]
    assert [entry.status for entry in plan.entries] == states


async def test_the_option_changes_what_is_found() -> None:
    async with talk(step("whole"), files={"a.py": f"{LINE}\n# FIXME: now"}) as session:
        await session.set_mode("show")
        await session.set_config_option("marker", "FIXME")
        assert await session.ask("a.py") == "- now\n"


def its_tests() -> list[str]:
    found = [line for line in blocks()["tutorial.md", "test"].splitlines() if line.startswith("async def ")]
    return [line.removeprefix("async def ").partition("(")[0] for line in found]


@pytest.mark.parametrize("name", its_tests())
async def test_its_own_tests_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "todos", SimpleNamespace(agent=step("whole")))
    test: Callable[[], Awaitable[None]] = run("tutorial.md", "test")[name]
    await test()


def test_it_is_where_a_reader_looks() -> None:
    assert "tutorial.md" in (DOCS.parent / "mkdocs.yml").read_text("utf-8")
    for page in ("index.md", "start-agent.md", "../README.md"):
        assert "tutorial.md" in (DOCS / page).read_text("utf-8")
