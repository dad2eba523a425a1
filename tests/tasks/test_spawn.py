"""Tasks that outlive their starter: counted, guarded, with the right context."""

import contextvars
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.tasks.running import Spawner

pytestmark = pytest.mark.anyio

NAME: ContextVar[str] = ContextVar("NAME", default="nobody")


async def test_a_task_runs_with_its_arguments_and_is_counted_until_it_ends() -> None:
    spawner = Spawner(_unexpected)
    go = anyio.Event()
    got: list[object] = []

    async def task(*args: object) -> None:
        got.extend(args)
        await go.wait()

    spawner.spawn(task, 1, "b")
    spawner.spawn(task)
    assert spawner.running == 2
    await anyio.wait_all_tasks_blocked()
    assert got == [1, "b"]
    go.set()
    await spawner.wait_idle()
    assert spawner.running == 0


async def test_waiting_for_nothing_returns_at_once() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await Spawner(_unexpected).wait_idle()
    assert not scope.cancelled_caught


async def test_several_can_wait_and_tasks_started_by_tasks_are_waited_for() -> None:
    spawner = Spawner(_unexpected)
    ended: list[str] = []

    async def leaf() -> None:
        await anyio.lowlevel.checkpoint()
        ended.append("leaf")

    async def task() -> None:
        await anyio.lowlevel.checkpoint()
        spawner.spawn(leaf)

    async def wait() -> None:
        await spawner.wait_idle()
        ended.append("waiter")

    spawner.spawn(task)
    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        group.start_soon(wait)
    assert ended == ["leaf", "waiter", "waiter"]


async def test_waiting_goes_on_if_another_was_started_before_the_waiter_woke() -> None:
    go = anyio.Event()
    order: list[str] = []

    class Busy(Spawner):
        def rest(self) -> None:
            super().rest()
            if not order:
                order.append("first")
                self.spawn(second)

    async def first() -> None:
        await anyio.lowlevel.checkpoint()

    async def second() -> None:
        await go.wait()
        order.append("second")

    async def wait() -> None:
        await spawner.wait_idle()
        order.append("idle")

    spawner = Busy(_unexpected)
    spawner.spawn(first)
    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert order == ["first", "second", "idle"]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(1)])
async def test_what_escapes_goes_to_the_owner_and_nowhere_else(error: BaseException) -> None:
    crashes: list[BaseException] = []
    spawner = Spawner(crashes.append)

    async def task() -> None:
        raise error

    spawner.spawn(task)
    await spawner.wait_idle()
    assert crashes == [error]


async def test_a_task_has_a_copy_of_the_context_or_the_one_it_is_given() -> None:
    spawner = Spawner(_unexpected)
    seen: list[str] = []

    async def task() -> None:
        seen.append(NAME.get())
        NAME.set("changed")

    context = contextvars.copy_context()
    context.run(NAME.set, "given")
    NAME.set("current")
    spawner.spawn(task)
    await spawner.wait_idle()
    spawner.spawn(task, context=context)
    await spawner.wait_idle()
    assert seen == ["current", "given"]
    assert NAME.get() == "current"


async def test_its_clock_is_that_of_the_event_loop() -> None:
    before = anyio.current_time()
    assert before <= Spawner(_unexpected).time() <= anyio.current_time()


async def test_it_knows_which_tasks_a_cancel_has_a_hold_of() -> None:
    spawner = Spawner(_unexpected)
    seen: dict[str, bool] = {}
    tasks: list[object] = []
    go = anyio.Event()

    async def task() -> None:
        tasks.append(spawner.current())
        with anyio.CancelScope() as scope:
            scope.cancel()
            with anyio.CancelScope(shield=True):
                await go.wait()
            seen["behind the shield"] = spawner.is_reached(tasks[0])

    spawner.spawn(task)
    await anyio.wait_all_tasks_blocked()
    seen["shielded"] = spawner.is_reached(tasks[0])
    go.set()
    await spawner.wait_idle()
    assert seen == {"shielded": False, "behind the shield": True}


@pytest.mark.behaviour("B4")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_cancel_before_the_first_step_does_not_lose_the_task() -> None:
    import asyncio

    spawner = Spawner(_unexpected)
    context = contextvars.copy_context()
    context.run(NAME.set, "given")
    ran: list[str] = []

    async def task(argument: str) -> None:
        ran.append(argument + NAME.get())

    before = asyncio.all_tasks()
    spawner.spawn(task, "as ", context=context)
    (started,) = asyncio.all_tasks() - before
    started.cancel()
    await spawner.wait_idle()
    assert ran == ["as given"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_cancels_itself_natively_in_its_last_step_is_not_begun_again() -> None:
    import asyncio

    spawner = Spawner(_unexpected)
    begun: list[str] = []

    async def task() -> None:
        begun.append("once")
        running = asyncio.current_task()
        assert running is not None
        running.cancel()

    spawner.spawn(task)
    await spawner.wait_idle()
    assert begun == ["once"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_cancel_of_a_running_task_ends_it_and_goes_to_the_owner() -> None:
    import asyncio

    crashes: list[BaseException] = []
    spawner = Spawner(crashes.append)
    before = asyncio.all_tasks()
    spawner.spawn(anyio.sleep_forever)
    await anyio.wait_all_tasks_blocked()
    (started,) = asyncio.all_tasks() - before
    started.cancel()
    await spawner.wait_idle()
    assert [type(crash) for crash in crashes] == [asyncio.CancelledError]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_loops_weak_references_do_not_lose_a_task() -> None:
    import asyncio
    import gc
    import weakref

    spawner = Spawner(_unexpected)
    futures: list[weakref.ref[asyncio.Future[None]]] = []

    async def task() -> None:
        # Nothing but this future knows the task, and nothing but the task knows the future.
        future = asyncio.get_running_loop().create_future()
        futures.append(weakref.ref(future))
        await future

    spawner.spawn(task)
    await anyio.wait_all_tasks_blocked()
    gc.collect()
    future = futures[0]()
    assert future is not None
    future.set_result(None)
    await spawner.wait_idle()


@pytest.mark.behaviour("B3", "B4")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_is_not_begun_on_the_spot_whatever_the_loops_factory() -> None:
    import asyncio

    def eager(loop: asyncio.AbstractEventLoop, coroutine: Any, **_: Any) -> Any:
        # Like `asyncio.eager_task_factory` of Python 3.12, for coroutines that do not wait.
        with pytest.raises(StopIteration):
            coroutine.send(None)
        done = loop.create_future()
        done.set_result(None)
        return done

    spawner = Spawner(_unexpected)
    ran: list[int] = []

    async def task() -> None:
        ran.append(1)

    loop = asyncio.get_running_loop()
    for factory in (eager, getattr(asyncio, "eager_task_factory", eager)):
        loop.set_task_factory(factory)
        try:
            spawner.spawn(task)
            assert ran == []
        finally:
            loop.set_task_factory(None)
        await spawner.wait_idle()
        assert ran.pop() == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_is_closed_from_outside_is_no_crash() -> None:
    import asyncio

    spawner = Spawner(_unexpected)
    failed = asyncio.get_running_loop().create_future()
    failed.set_exception(GeneratorExit())

    async def task() -> None:
        await failed

    spawner.spawn(task)
    await spawner.wait_idle()


def _unexpected(error: BaseException) -> None:
    raise AssertionError("a task failed") from error
