"""Steps of tasks: what is driven in steps behaves as if it were awaited, and long steps leave the loop its turn."""

import re
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import sniffio

from acp_server.peer.context import Call
from acp_server.peer.route import Route, Routes
from acp_server.tasks import steps as steps_module
from acp_server.tasks.steps import Steps
from tests.peer.ends import cancel, request, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
def every_step_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_module, "LONG", -1.0)


async def drive(work: Coroutine[Any, Any, None]) -> None:
    await Steps.current().run(work)


async def counted(times: int) -> AsyncIterator[int]:
    for number in range(times):
        await anyio.lowlevel.checkpoint()
        yield number


async def test_work_returns_and_raises_what_it_does_when_it_is_awaited() -> None:
    async def count() -> list[int]:
        return [number async for number in counted(5)]

    async def fail() -> None:
        await anyio.lowlevel.checkpoint()
        raise LookupError("gone")

    steps = Steps.current()
    assert Steps.current() is steps
    assert await steps.run(count()) == [0, 1, 2, 3, 4]
    with pytest.raises(LookupError, match="gone"):
        await steps.run(fail())
    assert steps.begun == 0.0


async def test_a_step_is_seen_from_outside_while_it_lasts() -> None:
    seen: list[float] = []

    async def work() -> None:
        seen.append(steps.begun)
        await anyio.lowlevel.checkpoint()
        seen.append(steps.begun)

    steps = Steps.current()
    await steps.run(work())
    assert 0 < seen[0] < seen[1]


@pytest.mark.usefixtures("every_step_is_long")
async def test_a_cancel_reaches_work_at_its_await_and_its_cleanup_runs() -> None:
    log: list[str] = []

    async def hang() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            log.append("cut")
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
                log.append("cleaned up")

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(drive, hang())
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
    assert log == ["cut", "cleaned up"]


@pytest.mark.usefixtures("every_step_is_long")
async def test_between_two_long_steps_the_rest_of_the_loop_has_several_rounds() -> None:
    """As many as a message needs to be noticed, read, acted on, and felt."""
    log: list[str] = []

    async def compute(name: str) -> None:
        for _ in range(4):
            log.append(name)
            await anyio.lowlevel.checkpoint()

    async def tick() -> None:
        while True:
            log.append(".")
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as ticking:
            async with anyio.create_task_group() as group:
                ticking.start_soon(tick)
                for name in "abc":
                    group.start_soon(drive, compute(name))
            ticking.cancel_scope.cancel()
    told = "".join(log)
    # They begin in one round, in any order; from then on they take turns.
    later = told[max(map(told.index, "abc")) + 1 :]
    assert sorted(turn for turn in later.split(".") if turn) == sorted("abc" * 3), told
    assert all(len(pause) >= 2 for pause in re.split("[abc]", later)[1:-1]), told


@pytest.mark.behaviour("B6")
@pytest.mark.usefixtures("every_step_is_long")
async def test_handlers_with_long_steps_delay_a_cancel_by_one_step_of_another_and_one_of_its_own() -> None:
    steps: list[Any] = []
    sent: list[int] = []

    async def compute(call: Call) -> None:
        try:
            while True:
                steps.append(call.id)
                if len(steps) == 100:
                    sent.append(len(steps))
                    end.send(cancel(3))
                await anyio.lowlevel.checkpoint()
        finally:
            if call.id == 3:
                sent.append(len(steps))

    async with serving(Routes({"compute": Route(compute)})) as end:
        end.send(*(request(id, "compute") for id in range(5)))
        assert (await end.next())["id"] == 3
        for id in (0, 1, 2, 4):
            end.send(cancel(id))
            assert (await end.next())["id"] == id
    begun, cut = sent
    assert cut - begun <= 2
    # Each had its share until then.
    assert all(15 < steps[:100].count(id) < 25 for id in range(5))


@pytest.mark.usefixtures("every_step_is_long")
async def test_what_was_waited_for_is_not_lost_to_a_cancel_that_comes_before_the_next_step() -> None:
    got: list[str] = []
    ended: list[str] = []
    steps = Steps.current()
    give, take = anyio.create_memory_object_stream[str](0)

    async def receive() -> None:
        try:
            got.append(await take.receive())
            await anyio.sleep_forever()
        finally:
            ended.append("receiver")

    with anyio.fail_after(20), give, take:
        async with anyio.create_task_group() as group:
            group.start_soon(drive, receive())
            await anyio.wait_all_tasks_blocked()
            steps._pause()
            give.send_nowait("letter")
            # It is awake, and waits for its turn.
            while not steps._waiting:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    assert got == ["letter"]
    assert ended == ["receiver"]


@pytest.mark.usefixtures("every_step_is_long")
async def test_a_native_cancel_while_work_waits_for_its_turn_is_delivered_once_and_counted_once() -> None:
    if sniffio.current_async_library() != "asyncio":
        pytest.skip("trio has no such cancel")
    import asyncio

    steps = Steps.current()
    ready = asyncio.get_running_loop().create_future()
    log: list[Any] = []

    async def work() -> None:
        log.append(await ready)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            log.append(error.args)
            task = asyncio.current_task()
            assert task is not None
            log.append(task.cancelling())
        await asyncio.sleep(0)
        log.append("went on")

    task = asyncio.create_task(drive(work()))
    await anyio.wait_all_tasks_blocked()
    steps._pause()
    ready.set_result("value")
    while not steps._waiting:
        await anyio.lowlevel.checkpoint()
    task.cancel("stop")
    await task
    assert log == ["value", ("stop",), 1, "went on"]
    assert not steps._waiting
