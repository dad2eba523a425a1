"""Tools that are generators: what they yield goes out, they wait for slow clients, and let others have their turn."""

import json
import logging
import threading
from collections.abc import AsyncGenerator, Generator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from acp_server import Agent, ToolContext, Turn
from acp_server.peer.writer import HIGH_WATER
from acp_server.schema import AgentMessageChunk, TextContent
from tests.session.editor import CANCELLED, END_TURN, editing
from tests.tools.calls import calling, shown, text, updates
from tests.tools.stage import decorated

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("piece", ["word ", "", TextContent(text="word")], ids=["text", "nothing", "content"])
@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("plain", [False, True])
async def test_a_generator_that_never_waits_is_cancelled_soon_and_lets_others_work(
    piece: Any, reads: bool, plain: bool
) -> None:
    agent = Agent("a")
    count = 0
    closed = threading.Event()

    def threaded() -> Generator[Any]:
        nonlocal count
        try:
            for _ in range(10_000_000):
                count += 1
                yield piece
        finally:
            closed.set()

    async def flood() -> AsyncGenerator[Any]:
        for one in threaded():
            yield one

    agent.tool(name="flood")(threaded if plain else flood)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        if turn.text != "short":
            await turn.run_tool("flood", id="c1")

    async with editing(agent) as editor:
        session, other = await editor.open(), await editor.open()
        if not reads:
            editor.stream.stall_sending()
        id = await editor.prompt(session)
        short = await editor.prompt(other, "short")
        with anyio.fail_after(5):
            while not count:
                await anyio.lowlevel.checkpoint()
        await editor.cancel(session)
        if not reads:
            await editor.stream.stalled.wait()
            editor.stream.release()
        with anyio.fail_after(10):
            assert await editor.answer(short) == END_TURN
            assert await editor.answer(id) == CANCELLED
        assert shown(editor)[-1]["status"] == "failed"
    if plain:
        assert await anyio.to_thread.run_sync(closed.wait, 5)
    assert count < 1_000_000


@pytest.mark.parametrize("plain", [False, True])
async def test_a_generator_waits_for_a_client_that_does_not_read(plain: bool) -> None:
    agent = Agent("a")
    count = 0

    def threaded() -> Generator[str]:
        nonlocal count
        for _ in range(3):
            count += 1
            yield "piece "

    async def pieces() -> AsyncGenerator[str]:
        for piece in threaded():
            yield piece

    agent.tool(name="pieces")(threaded if plain else pieces)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turn.put(AgentMessageChunk(content=TextContent(text="x" * HIGH_WATER)))
        await turn.run_tool("pieces")

    async with editing(agent) as editor:
        session = await editor.open()
        editor.stream.stall_sending()
        id = await editor.prompt(session)
        await editor.stream.stalled.wait()
        with anyio.fail_after(5):
            while not count:
                await anyio.lowlevel.checkpoint()
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        assert count == 1
        editor.stream.release()
        assert await editor.answer(id) == END_TURN
    assert count == 3


@pytest.mark.parametrize("plain", [False, True])
async def test_a_generator_that_yields_what_cannot_be_shown_fails_and_is_closed_by_then(plain: bool) -> None:
    agent = Agent("a")
    closed: list[bool] = []

    def threaded() -> Generator[Any]:
        try:
            yield object()
        finally:
            closed.append(True)

    async def odd() -> AsyncGenerator[Any]:
        try:
            yield object()
        finally:
            closed.append(True)

    agent.tool(name="odd")(threaded if plain else odd)

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        result = await turn.run_tool("odd")
        assert closed == [True]
        return result.status

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        assert editor.said() == ["failed"]


async def test_a_plain_generators_text_is_shown_as_it_comes_and_is_the_result() -> None:
    agent = Agent("a")
    go_on = threading.Event()
    threads: list[int] = []

    @agent.tool
    def count() -> Generator[Any]:
        threads.append(threading.get_ident())
        yield "one "
        go_on.wait(5)
        yield TextContent(text="a picture")
        yield "two"

    results = calling(agent, "count")
    async with editing(agent) as editor:
        prompt = await editor.prompt(await editor.open())
        await editor.client.expect(lambda m: text(m.get("params", {}).get("update", {})) == ["one "])
        go_on.set()
        assert await editor.answer(prompt) == END_TURN
        assert text(shown(editor)[-1]) == ["a picture", "one two"]
    assert (results[0].status, results[0].message) == ("completed", "one \na picture\ntwo")
    assert results[0].value == results[0].message
    assert threads != [threading.get_ident()]


@pytest.mark.parametrize(("value", "words"), [("all of it", "all of it"), ({"sum": 3}, '{"sum":3}'), ("", "")])
async def test_what_a_plain_generator_returns_is_its_result(value: Any, words: str) -> None:
    agent = Agent("a")

    @agent.tool
    def add() -> Generator[str, None, Any]:
        yield "adding\n"
        return value

    results = calling(agent, "add")
    seen = await updates(agent)
    assert (results[0].status, results[0].message, results[0].value) == ("completed", words, value)
    assert text(seen[-1]) == ["adding\nall of it" if value == "all of it" else "adding\n"]
    assert seen[-1].get("rawOutput") == (value if isinstance(value, dict) else None)


async def test_a_plain_generator_knows_its_call_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent("a")

    @agent.tool
    def look(call: ToolContext) -> Generator[str]:
        yield f"{call.run(lambda: call.name)} "
        raise ValueError("secret")

    results = calling(agent, "look")
    seen = await updates(agent)
    assert text(seen[-1]) == ["look \nThe tool failed."]
    assert isinstance(results[0].error, ValueError)
    assert "the tool 'look' failed" in caplog.text


async def test_a_plain_generator_that_is_cancelled_is_closed_between_two_pieces_in_its_thread() -> None:
    agent = Agent("a")
    running, may_go_on, closed = anyio.Event(), threading.Event(), threading.Event()
    threads: list[int] = []
    began: list[str] = []

    @agent.tool
    def work(call: ToolContext) -> Generator[str]:
        call.on_cancel = lambda: "half of it"
        threads.append(threading.get_ident())
        try:
            yield "first "
            call.run(running.set)
            may_go_on.wait(5)
            yield "late"
            began.append("the next step")
        finally:
            threads.append(threading.get_ident())
            closed.set()

    results = calling(agent, "work")
    async with editing(agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session)
        await running.wait()
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": "c1"})
        assert await editor.answer(prompt) == END_TURN
        may_go_on.set()
        assert await anyio.to_thread.run_sync(closed.wait, 5)
        await editor.settled()
        assert "late" not in str(editor.client.received)
    assert (results[0].status, results[0].message) == ("cancelled", "half of it")
    assert not began
    assert len(threads) == 2
    assert len({*threads}) == 1


def _plain() -> Generator[str]:
    yield "real piece"


async def _async() -> AsyncGenerator[str]:
    yield "real piece"


async def _returned() -> str:
    return "real piece"


async def _gives_plain() -> Any:
    return _plain()


async def _gives_async() -> Any:
    return _async()


@pytest.mark.parametrize("function", [_plain, _async, _returned, _gives_plain, _gives_async])
@pytest.mark.parametrize("twice", [False, True])
async def test_a_function_runs_whatever_a_decorator_hides_of_it(function: Any, twice: bool) -> None:
    agent = Agent("a")
    hidden = decorated(function)
    agent.tool(name="hidden")(decorated(hidden) if twice else hidden)
    results = calling(agent, "hidden")
    seen = await updates(agent)
    assert (results[0].status, results[0].message) == ("completed", "real piece")
    assert text(seen[-1]) == ["real piece"]


async def test_what_pydantic_has_a_form_for_in_json_is_a_result() -> None:
    agent = Agent("a")

    @agent.tool
    async def odd() -> Any:
        return {"folder": Path("/a"), "cost": Decimal("1.5"), "seen": {7}, "took": timedelta(seconds=2)}

    results = calling(agent, "odd")
    seen = await updates(agent)
    raw = {"folder": "/a", "cost": "1.5", "seen": [7], "took": "PT2S"}
    assert seen[-1]["rawOutput"] == raw
    assert json.loads(results[0].message or "") == raw
    # Who called it from code gets what it returned.
    assert results[0].value["seen"] == {7}


async def _rows() -> Any:
    return {object()}


@pytest.mark.parametrize(
    "function",
    [lambda: object(), lambda: {"a": {object()}}, _rows, lambda: iter([1]), lambda: b"\xff"],
    ids=["object", "set", "async", "iterator", "bytes"],
)
async def test_what_json_cannot_express_is_no_result_and_the_log_says_why(
    function: Any, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent("a")
    agent.tool(name="odd")(function)
    results = calling(agent, "odd")
    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        assert (shown(editor)[-1]["status"], text(shown(editor)[-1])) == ("failed", ["The tool failed."])
        assert " object at 0x" not in str(editor.client.received)
    assert (results[0].status, results[0].message) == ("failed", "The tool failed.")
    [record] = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert record.getMessage() == "the tool 'odd' failed"
    assert record.exc_info is not None
    assert "which JSON cannot express" in str(record.exc_info[1])
