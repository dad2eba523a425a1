"""Steps of tasks: what is driven in steps behaves as if it were awaited."""

from collections.abc import AsyncIterator, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.tasks.spawn import Steps

pytestmark = pytest.mark.anyio


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
