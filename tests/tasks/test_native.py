"""Work in a plain task of asyncio: one cancel, awaited, whoever cancels the caller in whatever way."""

import asyncio
import logging
from typing import Any

import anyio
import pytest

from acp_server import Agent, RequestCancelled, Turn, UsageError, run_native
from tests.session.editor import CANCELLED, QUICK, editing

pytestmark = pytest.mark.anyio
ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class Library:
    """Something that counts how often it is cancelled, and needs some rounds of the loop to end."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.cancels = 0
        self.rounds = 0
        self.scopes: list[Any] = []

    async def work(self) -> None:
        self.begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.cancels += 1
            for _ in range(20):
                try:
                    await asyncio.sleep(0)
                    self.rounds += 1
                except asyncio.CancelledError:
                    self.cancels += 1
            raise


@ASYNCIO
async def test_what_it_returns_and_raises_comes_out() -> None:
    async def give(value: Any) -> Any:
        await asyncio.sleep(0)
        if isinstance(value, BaseException):
            raise value
        return value

    assert await run_native(give(7)) == 7
    with pytest.raises(ValueError, match="no"):
        await run_native(give(ValueError("no")))
    with pytest.raises(SystemExit):
        await run_native(give(SystemExit(3)))


@ASYNCIO
async def test_a_scope_that_cancels_the_caller_cancels_it_once_and_waits_for_its_end() -> None:
    library = Library()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(run_native, library.work())
            await library.begun.wait()
            scope.cancel()
    assert (library.cancels, library.rounds) == (1, 20)


@ASYNCIO
async def test_the_same_for_a_native_cancel_of_the_caller() -> None:
    library = Library()
    caller = asyncio.get_running_loop().create_task(run_native(library.work()))
    await library.begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert (library.cancels, library.rounds) == (1, 20)


@ASYNCIO
async def test_one_that_is_cancelled_before_it_begins_does_not_begin() -> None:
    library = Library()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await run_native(library.work())
    assert not library.begun.is_set()


@ASYNCIO
async def test_a_turn_that_is_cancelled_cancels_it_and_it_can_talk_to_the_client_until_then() -> None:
    library = Library()
    agent = Agent("native")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async def work() -> None:
            await turn.say("begun")
            try:
                await library.work()
            finally:
                await turn.say("ended")

        await run_native(work())

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await library.begun.wait()
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        assert library.cancels == 1
        assert editor.said() == ["begun", "ended"]


@ASYNCIO
async def test_a_failure_of_its_cleanup_is_told_in_place_of_the_cancel() -> None:
    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            raise ValueError("the cleanup failed")

    with pytest.raises(ValueError, match="the cleanup failed"), anyio.move_on_after(0.01):
        await run_native(work())


@ASYNCIO
async def test_one_that_cancels_itself_is_no_cancel_of_the_caller() -> None:
    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    with pytest.raises(RequestCancelled):
        await run_native(work())


@ASYNCIO
async def test_one_that_is_cancelled_by_somebody_else_before_it_begins_is_not_left_unawaited() -> None:
    library = Library()
    known = asyncio.all_tasks()
    caller = asyncio.get_running_loop().create_task(run_native(library.work()))
    asyncio.get_running_loop().call_soon(lambda: [task.cancel() for task in asyncio.all_tasks() - known - {caller}])
    with pytest.raises(RequestCancelled):
        await caller
    assert not library.begun.is_set()


@ASYNCIO
async def test_one_that_refuses_to_end_is_left_behind_and_its_failure_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    through = asyncio.Event()
    over = asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await through.wait()
        asyncio.get_running_loop().call_soon(over.set)
        raise ValueError("at last")

    with anyio.move_on_after(0.01):
        await run_native(stubborn(), patience=0.01)
    assert "stubborn does not end although it was cancelled" in caplog.text
    through.set()
    await over.wait()
    await anyio.wait_all_tasks_blocked()
    assert "at last" in caplog.text


@ASYNCIO
async def test_a_turn_that_holds_one_which_refuses_is_answered_in_time(caplog: pytest.LogCaptureFixture) -> None:
    through = asyncio.Event()
    begun = asyncio.Event()
    agent = Agent("native")

    async def stubborn() -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await through.wait()

    @agent.prompt
    async def prompt(_turn: Turn) -> None:
        await run_native(stubborn(), patience=0.05)

    caplog.set_level(logging.ERROR)
    async with editing(agent, QUICK) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await begun.wait()
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        through.set()
    assert not caplog.records


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_on_trio_it_says_what_to_do() -> None:
    async def work() -> None: ...

    with pytest.raises(UsageError, match="serve the agent on asyncio"):
        await run_native(work())
