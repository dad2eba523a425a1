"""Arguments of a model's that are megabytes, or have very many members, and names that it makes up."""

import gc
import weakref
from typing import Any

import anyio
import pytest

from acp_server import Agent, ToolContext, ToolResult, Turn
from acp_server.peer.writer import HIGH_WATER
from acp_server.tools.approval import unexplained
from acp_server.tools.view import TITLE
from tests.session.editor import END_TURN, editing
from tests.tools.calls import calling, updates
from tests.tools.kept import PERMISSION

pytestmark = pytest.mark.anyio

LONG = 8 * HIGH_WATER
"""Characters of one call's arguments: more than may be on its way to a client that does not read."""


@pytest.mark.parametrize("tool", ["take", "nothing"])
@pytest.mark.parametrize("tasks", [1, 5])
async def test_calls_wait_for_a_client_that_does_not_read(tool: str, tasks: int) -> None:
    agent = Agent("a")
    begun = 0

    @agent.tool
    async def take(text: str) -> None:
        """Take a text."""

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async def call() -> None:
            nonlocal begun
            for _ in range(10):
                await turn.run_tool(tool, {"text": "x" * LONG})
                begun += 1

        async with anyio.create_task_group() as group:
            for _ in range(tasks):
                group.start_soon(call)

    async with editing(agent) as editor:
        session = await editor.open()
        editor.stream.stall_sending()
        id = await editor.prompt(session)
        await editor.stream.stalled.wait()
        await anyio.wait_all_tasks_blocked()
        assert begun <= 1
        assert editor.connection.writer.size < 2 * LONG
        editor.stream.release()
        assert await editor.answer(id) == END_TURN
    assert begun == 10 * tasks


class Text(str):
    """Can be referred to weakly."""


@pytest.mark.parametrize("tool", ["count", "fail"])
async def test_what_a_call_has_failed_of_does_not_keep_its_arguments(tool: str) -> None:
    agent = Agent("a")

    @agent.tool
    async def count(number: int) -> None:
        """Count."""

    @agent.tool
    async def fail(number: Any) -> None:
        """Fail."""
        raise ValueError(len(number))

    kept: list[bool] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        number = Text("x")
        result = await turn.run_tool(tool, {"number": number})
        assert result.status == "failed"
        assert result.error is not None
        there = weakref.ref(number)
        del number
        gc.collect()
        kept.append(there() is not None)

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
    assert kept == [False]


MANY = {"rows": [[number] for number in range(30_000)]}


async def test_arguments_with_very_many_members_are_not_shown() -> None:
    agent = Agent("a")

    @agent.tool(title=lambda rows: f"Count {len(rows)}")
    async def count(rows: list[list[int]]) -> int:
        """Count."""
        return len(rows)

    results = calling(agent, "count", MANY)
    seen = await updates(agent)
    assert results[0].value == 30_000
    assert "rawInput" not in seen[0]
    assert seen[-1]["status"] == "completed"
    assert any(update.get("title") == "Count 30000" for update in seen)


async def test_a_user_is_not_asked_about_what_cannot_be_shown() -> None:
    agent = Agent("a")

    @agent.tool(approval=True)
    async def count(rows: list[list[int]]) -> None:
        """Count."""
        raise AssertionError

    results = calling(agent, "count", MANY)
    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        assert not editor.client.all(PERMISSION)
    assert results[0].status == "failed"
    assert (
        results[0].message == "The tool was not run, because its arguments have too many members to show to the user."
    )


async def test_as_many_members_as_tools_take_are_shown() -> None:
    agent = Agent("a")

    @agent.tool
    async def fill(rows: list[dict[str, str]]) -> None:
        """Fill."""

    rows = [{f"column {column}": "value" for column in range(10)} for _ in range(2_000)]
    calling(agent, "fill", {"rows": rows})
    assert (await updates(agent))[0]["rawInput"] == {"rows": rows}


async def last_title(agent: Agent, results: list[ToolResult]) -> str:
    seen = await updates(agent)
    return [update["title"] for update in seen if "title" in update][-1]


@pytest.mark.parametrize("length", [1, 1_000_000])
async def test_a_title_made_of_arguments_is_one_line(length: int) -> None:
    agent = Agent("a")

    @agent.tool(title=lambda path: f"Read {path}")
    async def read(path: str) -> None:
        """Read."""

    title = await last_title(agent, calling(agent, "read", {"path": "a\n\x1b[2J**Allow?**" * length}))
    assert title.startswith("Read a\\n\\x1b[2J**Allow?**")
    assert len(title) < 5 * TITLE


async def test_a_title_that_is_set_is_one_line() -> None:
    agent = Agent("a")

    @agent.tool
    async def read(call: ToolContext) -> None:
        call.set_title("one\ntwo")

    assert await last_title(agent, calling(agent, "read")) == "one\\ntwo"


@pytest.mark.parametrize("name", ["read\x1b[2J\u202e\u200b\n", "read" * 100_000])
async def test_a_name_that_a_model_makes_up_is_shown_harmless_and_short(name: str) -> None:
    results = calling(agent := Agent("a"), name)
    title = await last_title(agent, results)
    assert title.isascii()
    assert title.isprintable()
    assert len(title) < 300
    assert len(results[0].message or "") < 500


def test_what_a_question_leaves_out_of_an_argument_is_not_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    escaped: list[int] = []
    monkeypatch.setattr("acp_server.tools.approval.escape", lambda text, **_: escaped.append(len(text)) or text)
    unexplained("Write", {"text": "\x1b" * 1_000_000, "rows": ["\u202e" * 1_000_000]})
    assert max(escaped) < 10_000
