"""Handlers that do not end when they are cancelled: answered without them, and not insisted on for ever."""

import time
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Limits
from tests.peer.handlers import CANCELLED
from tests.wire.live import cancel, request, served

pytestmark = pytest.mark.anyio

QUICK = Limits(grace=0.01, drain=0, flush=1)
"""So short that the bounds are met at once."""


class Stubborn:
    """A handler that goes on waiting for `go`, whatever it is told."""

    def __init__(self) -> None:
        self.go = anyio.Event()
        self.told = 0

    async def handle(self, _call: Call) -> str:
        while True:
            try:
                await self.go.wait()
                return "at last"
            except anyio.get_cancelled_exc_class():
                self.told += 1


async def _rest(handler: Stubborn) -> None:
    """Until it is not told any more."""
    told = -1
    while told != handler.told:
        told = handler.told
        await anyio.sleep(0.05)


async def _steps_of_the_loop(backend: str, seconds: float) -> int:
    """How often the event loop turns while there should be nothing to do."""
    import asyncio

    import trio

    count = 0

    class Counter(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            nonlocal count
            count += 1

    if backend == "trio":
        counter = Counter()
        trio.lowlevel.add_instrument(counter)
        await anyio.sleep(seconds)
        trio.lowlevel.remove_instrument(counter)
        return count
    loop: Any = asyncio.get_running_loop()
    once: Callable[[], None] = loop._run_once

    def counting() -> None:
        nonlocal count
        count += 1
        once()

    loop._run_once = counting
    await anyio.sleep(seconds)
    del loop._run_once
    return count


@pytest.mark.behaviour("K5", "B17")
async def test_a_handler_that_swallows_its_cancel_is_answered_for_and_then_left_alone(anyio_backend_name: str) -> None:
    stubborn = Stubborn()
    async with served(Routes({"stubborn": Route(stubborn.handle)}), QUICK) as peer:
        peer.send(request(1, "stubborn"))
        await peer.ping()
        peer.send(cancel(1))
        assert await peer.answer(1) == CANCELLED
        await _rest(stubborn)
        told = stubborn.told
        assert told > 0
        before = time.process_time()
        assert await _steps_of_the_loop(anyio_backend_name, 0.2) < 20
        assert time.process_time() - before < 0.1
        assert stubborn.told == told
        # It is still there, and what it says in the end goes nowhere.
        assert peer.connection.tree.size == 1
        stubborn.go.set()
        while peer.connection.tree.size:
            await anyio.lowlevel.checkpoint()
        assert await peer.ping() == []


@pytest.mark.behaviour("K5")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_handler_behind_a_native_shield_does_not_turn_the_loop_for_ever() -> None:
    import asyncio

    go = asyncio.get_running_loop().create_future()

    async def handle(_call: Call) -> str:
        while not go.done():
            try:
                await asyncio.shield(go)
            except asyncio.CancelledError:
                continue
        return "at last"

    async with served(Routes({"shielded": Route(handle)}), QUICK) as peer:
        peer.send(request(1, "shielded"))
        await peer.ping()
        peer.send(cancel(1))
        assert await peer.answer(1) == CANCELLED
        await anyio.sleep(0.1)
        assert await _steps_of_the_loop("asyncio", 0.2) < 20
        go.set_result(None)


@pytest.mark.behaviour("B19", "K5")
async def test_a_handler_that_was_shielded_for_longer_than_the_grace_is_cancelled_behind_the_shield() -> None:
    """Leaving it alone must not mean that it is never cut at all."""
    go = anyio.Event()
    ends: list[str] = []

    async def handle(call: Call) -> None:
        try:
            with anyio.CancelScope(shield=True):
                await go.wait()
            await anyio.lowlevel.checkpoint()
            ends.append("it went on with its work")
        except anyio.get_cancelled_exc_class():
            ends.append("cut")
            raise

    async with served(Routes({"shielded": Route(handle)}), QUICK) as peer:
        peer.send(request(1, "shielded"))
        await peer.ping()
        peer.send(cancel(1))
        assert await peer.answer(1) == CANCELLED
        # Several times longer than the grace, so that it has been looked after more than twice.
        await anyio.sleep(0.1)
        go.set()
        while peer.connection.tree.size:
            await anyio.lowlevel.checkpoint()
        assert ends == ["cut"]


@pytest.mark.behaviour("B19")
async def test_a_handler_in_a_thread_sees_the_cancel_and_is_answered_without_if_it_does_not_stop() -> None:
    import threading

    release = threading.Event()
    seen: list[bool] = []

    async def handle(call: Call) -> str:
        def work() -> str:
            release.wait(10)
            seen.append(call.is_cancelled)
            return "late"

        return await anyio.to_thread.run_sync(work)

    async with served(Routes({"sync": Route(handle)}), QUICK) as peer:
        peer.send(request(1, "sync"))
        await peer.ping()
        peer.send(cancel(1))
        assert await peer.answer(1) == CANCELLED
        release.set()
        while peer.connection.tree.size:
            await anyio.lowlevel.checkpoint()
        assert seen == [True]
        assert await peer.ping() == []


@pytest.mark.behaviour("B19")
async def test_a_handler_in_a_thread_that_stops_in_time_is_waited_for() -> None:
    import threading

    release = threading.Event()

    async def handle(call: Call) -> dict[str, bool]:
        return {"cancelled": await anyio.to_thread.run_sync(lambda: release.wait(10) and call.is_cancelled)}

    async with served(Routes({"sync": Route(handle)}), Limits(drain=0)) as peer:
        peer.send(request(1, "sync"))
        await peer.ping()
        peer.send(cancel(1))
        await peer.ping()
        release.set()
        assert await peer.answer(1) == {"cancelled": True}


@pytest.mark.behaviour("D6")
@pytest.mark.parametrize("ending", ["close", "eof"])
async def test_closing_is_bounded_and_reports_who_was_left_behind(
    ending: str, caplog: pytest.LogCaptureFixture, anyio_backend_name: str
) -> None:
    stubborn = Stubborn()
    async with served(Routes({"stubborn": Route(stubborn.handle)}), QUICK) as peer:
        connection = peer.connection
        peer.send(request(1, "stubborn"))
        await peer.ping()
        if ending == "close":
            connection.close()
        else:
            peer.send_eof()
        await connection.wait_closed()
        assert connection.leaked == 1
        assert "abandoned" in caplog.text
        assert await peer.answer(1) == CANCELLED
        await _rest(stubborn)
        assert await _steps_of_the_loop(anyio_backend_name, 0.1) < 20
        stubborn.go.set()
        while connection.tree.size:
            await anyio.lowlevel.checkpoint()
