"""What a model is told of results that are content, and of mistakes that it, the client or the author has made."""

import functools
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from acp_server import Agent, Approval, ToolContext, ToolResult, Turn
from acp_server.errors import RpcError, UsageError
from acp_server.schema import Diff, TextContent
from tests.session.editor import END_TURN, editing
from tests.tools.calls import calling, updates
from tests.tools.kept import PERMISSION, Kept

pytestmark = pytest.mark.anyio

DIFF = Diff(path="/project/a", old_text="a", new_text="b")
ONE = TextContent(text="one")


async def result_of(agent: Agent, name: str = "t") -> ToolResult:
    results = calling(agent, name)
    await updates(agent)
    return results[0]


@pytest.mark.parametrize(
    ("value", "message"),
    [(ONE, "one"), ([ONE, DIFF], "one"), (["x", ONE], "x\none"), (DIFF, None), ([DIFF, TextContent(text="")], "")],
    ids=["text", "text and diff", "two texts", "diff", "no words"],
)
async def test_a_model_is_told_the_text_of_content(value: Any, message: str | None) -> None:
    agent = Agent("a")

    @agent.tool
    async def t() -> Any:
        return value

    result = await result_of(agent)
    assert (result.status, result.message, result.value) == ("completed", message, value)


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([ONE], "one"),
        (["x", ONE, "y"], "x\none\ny"),
        (["x\n", ONE, ONE], "x\none\none"),
        ([DIFF], ""),
        (["x", "y"], "xy"),
    ],
    ids=["text", "between", "two", "diff", "pieces"],
)
async def test_a_model_is_told_the_text_of_content_that_is_yielded(pieces: list[Any], message: str) -> None:
    agent = Agent("a")

    @agent.tool
    async def t() -> AsyncGenerator[Any]:
        for piece in pieces:
            yield piece

    assert (await result_of(agent)).message == message


async def test_what_cannot_be_shown_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent("a")

    @agent.tool
    async def t() -> AsyncGenerator[int]:
        yield 5

    result = await result_of(agent)
    assert (result.status, result.message) == ("failed", "The tool failed.")
    assert isinstance(result.error, UsageError)
    assert str(result.error) == "a tool cannot show int; expected text, content, a Diff or a Terminal"
    assert caplog.records


async def test_a_wrapper_that_is_async_itself_is_awaited_to_its_end() -> None:
    agent = Agent("a")

    async def inner(word: str = "done") -> str:
        return word

    @functools.wraps(inner)
    async def outer(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    agent.tool(name="t")(outer)
    result = await result_of(agent)
    assert (result.status, result.message) == ("completed", "done")


async def test_a_path_outside_is_told_also_where_the_approval_meets_it(caplog: pytest.LogCaptureFixture) -> None:
    async def ask(path: str, call: ToolContext) -> Approval:
        await call.editor.get_file_content("/etc/passwd")
        return Approval("Never asked.")

    kept = Kept(approval=ask)
    async with editing(kept.agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        assert editor.asked(PERMISSION) == []
    assert (kept.status, kept.ran) == ("failed", 0)
    assert "/etc/passwd" in str(kept.results[0].message)
    assert not caplog.records


@pytest.mark.parametrize("asking", [False, True])
async def test_a_model_is_told_which_capability_the_client_lacks(
    asking: bool, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent("a")

    async def ask(call: ToolContext) -> str:
        return await call.client.read_text_file("/project/secret")

    @agent.tool(approval=ask if asking else False)
    async def t(call: ToolContext) -> str:
        return await call.client.read_text_file("/project/secret")

    results = calling(agent, "t")
    async with editing(agent, capabilities={}) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
    lacks = "fs/read_text_file needs the capability clientCapabilities.fs.readTextFile, which the peer did not announce"
    assert results[0].message == f"The client cannot do what the tool needs: {lacks}"
    assert results[0].status == "failed"
    [record] = caplog.records
    assert record.exc_info is None


async def test_a_function_that_is_no_tool_is_told_to_become_one() -> None:
    agent = Agent("a")

    async def look_up() -> None: ...

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        with pytest.raises(UsageError, match=r"look_up is not a tool of this agent; register it with @agent\.tool"):
            await turn.call(look_up)  # pyright: ignore[reportCallIssue, reportArgumentType]

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"details": "Permission denied for fs/write_text_file"}, ": Permission denied for fs/write_text_file"),
        ("quota\x1b[2J exceeded", ": quota\\x1b[2J exceeded"),
        ({"secret": "key"}, ""),
        (None, ""),
    ],
    ids=["details", "a text", "something else", "nothing"],
)
@pytest.mark.parametrize("received", [True, False], ids=["the client's", "the author's"])
async def test_what_a_client_says_of_its_refusal_is_told_with_it(data: Any, told: str, received: bool) -> None:
    agent = Agent("a")

    @agent.tool
    async def t() -> str:
        error = RpcError.from_wire({"code": -32603, "message": "Internal error", "data": data})
        error.received = received
        raise error

    assert (await result_of(agent)).message == "Internal error" + (told if received else "")
