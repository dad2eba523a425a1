"""The watch: calls back when the time is up, for those that are still there."""

import contextvars
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.tasks.grace import Watchdog
from acp_server.tasks.running import Spawner

pytestmark = pytest.mark.anyio

LONG = 3600.0
"""Seconds that no test waits for."""


class Clock(Spawner):
    """A spawner whose clock is set by hand. Whoever sleeps until a time that has come does not sleep."""

    def __init__(self) -> None:
        super().__init__(_raise)
        self.offset = 0.0
        time = self.time
        self.time = lambda: time() + self.offset


def _raise(error: BaseException) -> None:
    raise error


async def test_it_calls_when_the_time_is_up() -> None:
    spawner = Clock()
    watch = Watchdog(0, spawner)
    called = anyio.Event()
    watch.add(called.set)
    assert not called.is_set()
    await called.wait()
    await spawner.wait_idle()


async def test_nothing_is_called_before_its_time() -> None:
    spawner = Clock()
    watch = Watchdog(LONG, spawner)
    called: list[int] = []
    watch.add(lambda: called.append(1))
    await anyio.wait_all_tasks_blocked()
    assert called == []
    assert spawner.running == 1
    watch.finish_now()
    assert called == [1]
    await spawner.wait_idle()


async def test_one_task_serves_all_in_the_order_of_adding() -> None:
    spawner = Clock()
    watch = Watchdog(0, spawner)
    called: list[int] = []
    for number in range(5):
        watch.add(lambda number=number: called.append(number))
    assert spawner.running == 1
    await spawner.wait_idle()
    assert called == [0, 1, 2, 3, 4]


async def test_what_is_dropped_is_not_called_and_nothing_of_it_is_kept() -> None:
    spawner = Clock()
    watch = Watchdog(0, spawner)
    called: list[str] = []

    def first() -> None:
        called.append("first")

    watch.add(first)
    watch.add(lambda: called.append("second"))
    watch.drop(first)
    watch.drop(first)
    await spawner.wait_idle()
    assert called == ["second"]


async def test_the_task_ends_when_all_it_waited_for_was_dropped() -> None:
    spawner = Clock()
    watch = Watchdog(0, spawner)

    def overdue() -> None:
        pytest.fail("it was dropped")

    watch.add(overdue)
    watch.drop(overdue)
    await spawner.wait_idle()


async def test_adding_again_does_not_put_off_the_deadline() -> None:
    spawner = Clock()
    watch = Watchdog(LONG, spawner)
    called: list[str] = []

    def overdue() -> None:
        called.append("now")

    watch.add(overdue)
    spawner.offset = LONG / 2
    watch.add(overdue)
    spawner.offset = LONG
    await spawner.wait_idle()
    assert called == ["now"]


async def test_it_starts_again_for_what_is_added_after_its_end() -> None:
    spawner = Clock()
    watch = Watchdog(0, spawner)
    called: list[int] = []
    for number in range(3):
        watch.add(lambda number=number: called.append(number))
        await spawner.wait_idle()
    assert called == [0, 1, 2]


async def test_a_call_may_add_and_drop_others() -> None:
    spawner = Clock()
    watch = Watchdog(0, spawner)
    called: list[str] = []

    def dropped() -> None:
        called.append("dropped")

    def first() -> None:
        called.append("first")
        watch.drop(dropped)
        watch.add(lambda: called.append("added"))

    watch.add(first)
    watch.add(dropped)
    await spawner.wait_idle()
    assert called == ["first", "added"]


async def test_finishing_before_its_task_began_leaves_no_task() -> None:
    spawner = Clock()
    watch = Watchdog(LONG, spawner)
    called: list[int] = []
    watch.add(lambda: called.append(1))
    watch.finish_now()
    watch.finish_now()
    assert called == [1]
    await spawner.wait_idle()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_it_can_be_set_from_a_plain_callback() -> None:
    import asyncio

    spawner = Clock()
    watch = Watchdog(0, spawner)
    called = anyio.Event()
    # A signal handler of the embedding program, for example: neither a task nor a context that anyio knows.
    asyncio.get_running_loop().call_soon(watch.add, called.set, context=contextvars.Context())
    await called.wait()
    await spawner.wait_idle()


async def test_what_is_added_while_finishing_is_called_by_the_next_finish_and_by_no_task() -> None:
    spawner = Spawner(_raise)
    watch = Watchdog(0, spawner)
    called: list[int] = []

    def again() -> None:
        called.append(len(called))
        watch.add(again)

    watch.add(again)
    watch.finish_now()
    assert called == [0]
    await spawner.wait_idle()
    watch.finish_now()
    assert called == [0, 1]
    assert spawner.running == 0


async def test_a_call_may_drop_others_while_finishing() -> None:
    spawner = Spawner(_raise)
    watch = Watchdog(LONG, spawner)
    called: list[str] = []

    def second() -> None:
        called.append("second")

    def first() -> None:
        called.append("first")
        watch.drop(second)

    watch.add(first)
    watch.add(second)
    watch.finish_now()
    assert called == ["first"]
    await spawner.wait_idle()


async def test_many_whose_time_is_up_are_called_for_in_slices() -> None:
    spawner = Clock()
    called: list[int] = []
    others: list[int] = []

    async def other() -> None:
        while len(called) < 1000:
            others.append(len(called))
            await anyio.lowlevel.checkpoint()

    for gently in (False, True):
        called.clear()
        others.clear()
        watch = Watchdog(LONG if gently else 0, spawner)
        for number in range(1000):
            watch.add(lambda number=number: called.append(number))
        async with anyio.create_task_group() as group:
            group.start_soon(other)
            if gently:
                await watch.finish()
        await spawner.wait_idle()
        assert called == list(range(1000))
        # None of them waits for all, and the loop does not go round once for each.
        assert 5 < len(others) < 100


async def test_a_task_that_cannot_be_started_is_started_by_the_next_who_adds() -> None:
    class Full(Clock):
        full = True

        def spawn(self, function: Any, *args: Any, context: contextvars.Context | None = None) -> None:
            if self.full:
                raise RecursionError
            super().spawn(function, *args, context=context)

    spawner = Full()
    watch = Watchdog(0, spawner)
    called = anyio.Event()
    with pytest.raises(RecursionError):
        watch.add(called.set)
    spawner.full = False
    watch.add(called.set)
    await called.wait()
    await spawner.wait_idle()
