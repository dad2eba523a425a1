"""`anyio.from_thread` in a thread of ours is what it is in one of anyio's own. It takes a name of anyio's that is not
public: where a version has it no more, these tests fail."""

import threading

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from acp_server import Agent, ToolContext, Turn
from acp_server.errors import RequestCancelled
from acp_server.tasks.threads import Threads
from tests.session.editor import CANCELLED, END_TURN, editing

pytestmark = pytest.mark.anyio


async def double(number: int) -> int:
    await anyio.lowlevel.checkpoint()
    return 2 * number


async def test_a_plain_tool_awaits_something_in_the_loop_without_a_token() -> None:
    agent = Agent("threads")
    home = threading.get_ident()
    results: list[object] = []

    @agent.tool
    def work() -> None:
        results.append(anyio.from_thread.run(double, 2))
        results.append(anyio.from_thread.run_sync(threading.get_ident) == home)
        anyio.from_thread.check_cancelled()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await turn.call(work)

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
    assert results == [4, True]


async def test_what_it_awaits_so_is_cancelled_with_it() -> None:
    agent = Agent("threads")
    began, ended = anyio.Event(), anyio.Event()
    raised: list[BaseException] = []

    async def wait() -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    @agent.tool
    def work(call: ToolContext) -> None:
        for step in (lambda: anyio.from_thread.run(wait), anyio.from_thread.check_cancelled):
            try:
                step()
            except RequestCancelled as error:
                raised.append(error)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await turn.call(work)

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        with anyio.fail_after(20):
            await began.wait()
            await editor.cancel(session)
            assert await editor.answer(id) == CANCELLED
            await ended.wait()
            while len(raised) < 2:
                await anyio.lowlevel.checkpoint()


async def test_a_thread_that_a_tool_starts_is_another_one() -> None:
    refused: list[BaseException] = []

    def inner() -> None:
        try:
            anyio.from_thread.run(double, 1)
        except RuntimeError as error:
            refused.append(error)

    def outer() -> None:
        thread = threading.Thread(target=inner)
        thread.start()
        thread.join()

    await Threads.current().run("outer", outer)
    assert len(refused) == 1
