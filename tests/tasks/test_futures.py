"""Signals: one task waits for one thing."""

import asyncio

import anyio
import pytest

from acp_server.tasks.running import Bell, Future, Futures
from tests.peer.ends import until

pytestmark = pytest.mark.anyio


def _set(future: Future) -> None:
    if not future.done():
        future.set_result(None)


async def test_a_future_that_is_set_lets_the_waiter_go_on() -> None:
    future = Futures().make()
    ended: list[str] = []

    async def wait() -> None:
        await future
        ended.append("waiter")

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert ended == []
        assert not future.done()
        _set(future)
        assert future.done()
        _set(future)
    assert ended == ["waiter"]


async def test_a_future_that_was_set_before_is_not_waited_for() -> None:
    future = Futures().make()
    _set(future)
    with anyio.fail_after(5):
        await future


async def test_setting_a_future_whose_waiter_was_cancelled_does_nothing() -> None:
    future = Futures().make()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await future
    assert scope.cancelled_caught
    _set(future)


async def test_a_checkpoint_only_cancels_what_is_cancelled() -> None:
    futures = Futures()
    await futures.checkpoint_if_cancelled()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await futures.checkpoint_if_cancelled()
    assert scope.cancelled_caught


ON_ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class Waiter:
    """A task that waits for a bell again and again, and notes in which task it goes on."""

    def __init__(self) -> None:
        self.bell = Bell()
        self.went_on: list[object] = []
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            await self.bell
            self.went_on.append(asyncio.current_task())


@ON_ASYNCIO
async def test_a_bell_that_the_loop_rings_has_its_task_go_on_before_that_returns() -> None:
    waiter = Waiter()
    await until(lambda: not waiter.bell.done())
    seen: list[int] = []

    def ring() -> None:
        for _ in range(3):
            waiter.bell.ring()
            seen.append(len(waiter.went_on))
            assert asyncio.current_task() is None

    asyncio.get_running_loop().call_soon(ring)
    await until(lambda: seen)
    assert seen == [1, 2, 3]
    assert set(waiter.went_on) == {waiter.task}
    waiter.task.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await waiter.task


@ON_ASYNCIO
async def test_a_bell_that_a_task_rings_has_its_task_go_on_in_the_next_round_and_once() -> None:
    waiter = Waiter()
    await until(lambda: not waiter.bell.done())
    waiter.bell.ring()
    waiter.bell.ring()
    assert waiter.went_on == []
    assert waiter.bell.done()
    await until(lambda: waiter.went_on)
    assert waiter.went_on == [waiter.task]
    waiter.task.cancel()
    await until(waiter.task.done)


@ON_ASYNCIO
async def test_a_bell_can_be_waited_for_again_behind_a_cancel() -> None:
    bell = Bell()
    went_on: list[str] = []

    async def wait() -> None:
        for _ in range(2):
            try:
                await bell
                went_on.append("rung")
            except asyncio.CancelledError:
                went_on.append("cancelled")

    task = asyncio.create_task(wait())
    await until(lambda: not bell.done())
    task.cancel()
    await until(lambda: went_on and not bell.done())
    bell.ring()
    await task
    assert went_on == ["cancelled", "rung"]


@ON_ASYNCIO
@pytest.mark.parametrize("arguments", [(), ("stop",)], ids=["without", "with"])
async def test_a_cancel_has_the_message_of_its_canceller(arguments: tuple[str, ...]) -> None:
    bell = Bell()
    seen: list[tuple[object, ...]] = []

    async def wait() -> None:
        try:
            await bell
        except asyncio.CancelledError as error:
            seen.append(error.args)

    task = asyncio.create_task(wait())
    await until(lambda: not bell.done())
    task.cancel(*arguments)
    await task
    assert seen == [arguments]


@ON_ASYNCIO
async def test_a_bell_whose_task_is_cancelled_rings_for_nothing() -> None:
    waiter = Waiter()
    await until(lambda: not waiter.bell.done())

    def cancel_and_ring() -> None:
        waiter.task.cancel()
        # What cancels may not be done with what it does yet.
        assert not waiter.task.done()
        waiter.bell.ring()

    asyncio.get_running_loop().call_soon(cancel_and_ring)
    await until(waiter.task.done)
    assert waiter.task.cancelled()
    assert waiter.went_on == []


@ON_ASYNCIO
async def test_a_task_that_is_cancelled_as_its_bell_has_rung_is_cancelled_all_the_same() -> None:
    waiter = Waiter()
    await until(lambda: not waiter.bell.done())
    waiter.bell.ring()
    waiter.task.cancel()
    await until(waiter.task.done)
    assert waiter.task.cancelled()


@ON_ASYNCIO
async def test_a_scope_cancels_a_task_that_waits_for_a_bell() -> None:
    bell = Bell()
    with anyio.move_on_after(0) as scope:
        await bell
    assert scope.cancelled_caught
    assert bell.done()


def test_the_end_of_a_program_cancels_a_task_that_waits_for_a_bell_when_no_loop_runs() -> None:
    async def main() -> asyncio.Task[None]:
        async def wait() -> None:
            await Bell()

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        return task

    loop = asyncio.new_event_loop()
    try:
        task = loop.run_until_complete(main())
        # As `asyncio.run` does at its end.
        assert task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        assert task.cancelled()
    finally:
        loop.close()
