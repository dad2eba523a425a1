"""What holds the event loop is told of, and an agent whose loop is held does not outlive its client."""

import logging
import math
import os
import re
import selectors
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from acp_server.agent import loop_watch
from acp_server.agent.ending import Deadline, Ending
from acp_server.agent.loop_watch import LoopWatch, is_hung_up
from acp_server.peer.limits import Limits
from acp_server.tasks.running import Spawner


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "HELD", 0.0)
    monkeypatch.setattr(loop_watch, "_LATE", math.inf)
    monkeypatch.setattr(LoopWatch, "_waited", lambda _: 0.0)


async def held_by(watch: LoopWatch, looks: int = 2) -> None:
    """Work during which a thread looks, as the watch does: first it asks the loop to call back."""
    for _ in range(looks):
        looking = threading.Thread(target=watch.look)
        looking.start()
        looking.join()


async def run_task(function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
    """Run it as handlers are run: in a task of the runtime's."""
    spawner = Spawner(lambda error: pytest.fail(repr(error)))
    spawner.spawn(function, *args)
    await spawner.wait_idle()
    # On trio what a thread asks for comes a round later.
    await anyio.wait_all_tasks_blocked()


def _watch(*, is_gone: bool = False, gone: list[str] | None = None) -> LoopWatch:
    return LoopWatch(lambda: is_gone, lambda: pytest.fail("it is not held") if gone is None else gone.append("gone"))


@pytest.mark.anyio
@pytest.mark.usefixtures("at_once")
async def test_work_that_holds_the_loop_is_told_of_once_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    gone: list[str] = []
    watch = _watch(is_gone=True, gone=gone)
    for _ in range(3):
        await run_task(held_by, watch)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(f"held_by ({__file__}:")
    assert re.search(r"has blocked the event loop for at least \d+\.\d s", record.getMessage())
    assert record.stack_info is not None
    # From the program's function on, and not from the one that started the loop.
    first = record.stack_info.splitlines()[1]
    assert __file__ in first
    assert first.endswith("in held_by")
    assert gone == ["gone"]


@asynccontextmanager
async def opened_by(watch: LoopWatch) -> AsyncIterator[None]:
    await held_by(watch)
    yield


@pytest.mark.anyio
@pytest.mark.usefixtures("at_once")
async def test_what_the_standard_library_calls_is_blamed_and_not_the_library(caplog: pytest.LogCaptureFixture) -> None:
    opening = opened_by(_watch())
    await run_task(opening.__aenter__)
    await opening.__aexit__(None, None, None)
    assert caplog.records[0].getMessage().startswith("opened_by (")


@pytest.mark.anyio
@pytest.mark.usefixtures("at_once")
async def test_work_that_waits_for_a_selector_of_its_own_holds_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    near, far = socket.socketpair()
    watch = _watch()
    selecting = threading.Event()

    class Selector(selectors.PollSelector):
        def select(self, timeout: float | None = None) -> Any:
            selecting.set()
            return super().select(timeout)

    def look() -> None:
        assert selecting.wait(20)
        watch.look()
        watch.look()
        far.send(b"ready")

    with near, far, Selector() as selector:
        selector.register(near, selectors.EVENT_READ)
        looking = threading.Thread(target=look)
        looking.start()
        assert selector.select(20)
        looking.join()
    assert len(caplog.records) == 1


@pytest.mark.anyio
@pytest.mark.usefixtures("at_once")
async def test_a_loop_that_waits_for_a_processor_is_not_blamed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gone: list[str] = []
    watch = _watch(is_gone=True, gone=gone)
    waits = iter([0.0, 60.0, 60.0, 60.0])
    monkeypatch.setattr(LoopWatch, "_waited", lambda _: next(waits))
    await run_task(held_by, watch)
    assert not caplog.records
    assert gone == ["gone"]  # the client of a busy machine is gone all the same
    # The wait during earlier work is not that of later work.
    await run_task(held_by, watch)
    assert len(caplog.records) == 1


@pytest.mark.anyio
@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the system does not tell")
async def test_the_wait_for_a_processor_is_read_from_the_system() -> None:
    assert 0 <= _watch()._waited() <= _waited_by_this_thread()


def _waited_by_this_thread() -> float:
    return int(Path("/proc/thread-self/schedstat").read_text("ascii").split()[1]) / 1e9


@pytest.mark.anyio
async def test_where_the_system_does_not_tell_a_loop_has_not_waited(tmp_path: Path) -> None:
    watch = _watch()
    watch._schedule = tmp_path / "schedstat"
    assert watch._waited() == 0.0


@pytest.mark.anyio
async def test_nothing_is_told_of_work_that_is_short(caplog: pytest.LogCaptureFixture) -> None:
    await held_by(_watch(is_gone=True))
    assert not caplog.records


@pytest.mark.anyio
@pytest.mark.usefixtures("at_once")
async def test_nothing_is_told_of_work_that_goes_on_between_two_looks(caplog: pytest.LogCaptureFixture) -> None:
    watch = _watch(is_gone=True)
    for _ in range(3):
        await run_task(held_by, watch, 1)
    assert not caplog.records


@pytest.mark.anyio
@pytest.mark.usefixtures("at_once")
async def test_of_several_that_run_in_one_round_none_is_blamed_for_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch = _watch(is_gone=True)
    spawner = Spawner(lambda error: pytest.fail(repr(error)))
    for _ in range(50):
        spawner.spawn(held_by, watch, 1)
    await spawner.wait_idle()
    assert not caplog.records


def late(monkeypatch: pytest.MonkeyPatch, watch: LoopWatch, computed: float) -> Callable[[], Coroutine[Any, Any, None]]:
    """Work during which the second look comes late, and the thread of the loop has computed for so long."""
    clock = iter([0.0, computed])
    monkeypatch.setattr(loop_watch, "HELD", 1.0)
    monkeypatch.setattr(loop_watch, "_LATE", 0.0)
    monkeypatch.setattr(LoopWatch, "_computed", lambda _: next(clock))

    async def late_work() -> None:
        await held_by(watch)

    return late_work


@pytest.mark.anyio
async def test_work_that_lets_no_other_thread_run_is_told_of_by_the_late_look(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gone: list[str] = []
    await run_task(late(monkeypatch, _watch(is_gone=True, gone=gone), 6.3))
    (record,) = caplog.records
    assert ".late_work (" in record.getMessage()
    assert "for at least 6.3 s" in record.getMessage()
    assert gone == ["gone"]


@pytest.mark.anyio
async def test_a_process_that_was_stopped_is_not_blamed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await run_task(late(monkeypatch, _watch(is_gone=True), 0.1))
    assert not caplog.records


@pytest.mark.anyio
async def test_the_processor_time_of_the_loop_is_read_from_the_system() -> None:
    before = time.thread_time()
    assert before <= _watch()._computed() <= time.thread_time() or not hasattr(time, "pthread_getcpuclockid")


@pytest.mark.anyio
@pytest.mark.usefixtures("at_once")
async def test_a_loop_that_is_closed_is_not_asked() -> None:
    def closed(*_: object) -> None:
        raise RuntimeError("the loop is closed")

    watch = _watch()
    watch._soon = closed
    await held_by(watch)
    assert watch._question is None


# The runner of tests drives trio as a guest of a loop of its own, which waits in another way.
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_loop_that_waits_is_not_woken(backend: str) -> None:
    async def wait() -> None:
        watch = _watch(is_gone=True)

        def look_at_the_waiting_loop() -> None:
            while not loop_watch._is_waiting(sys._current_frames()[watch._home]):
                pass
            watch.look()

        with anyio.fail_after(20):
            await anyio.to_thread.run_sync(look_at_the_waiting_loop)
        assert watch._question is None

    anyio.run(wait, backend=backend)


@pytest.mark.anyio
async def test_the_thread_looks_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "HELD", 0.001)
    looked = threading.Event()
    watch = _watch()
    monkeypatch.setattr(watch, "look", looked.set)
    watch.start()
    assert looked.wait(20)
    monkeypatch.setattr(loop_watch, "HELD", 20.0)
    watch.stop()
    watch.stop()
    assert not watch._thread.is_alive()


def _pipe() -> tuple[int, int]:
    return os.pipe()


def _pair() -> tuple[int, int]:
    one, other = socket.socketpair()
    return one.detach(), other.detach()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no poll")
@pytest.mark.parametrize("make", [_pipe, _pair])
def test_a_closed_input_is_noticed_although_it_has_not_been_read(make: Any) -> None:
    near, far = make()
    try:
        assert not is_hung_up(near)
        os.write(far, b"unread")
        assert not is_hung_up(near)
    finally:
        os.close(far)
    try:
        assert is_hung_up(near)
    finally:
        os.close(near)


def test_the_deadline_of_a_held_loop_is_that_of_any_end(monkeypatch: pytest.MonkeyPatch) -> None:
    armed: list[Any] = []
    monkeypatch.setattr(Deadline, "arm", lambda _self, *how: armed.append(how))
    ending = Ending(Limits())
    ending.outside(Deadline())
    ending.begin(0)
    assert armed[0][:2] == armed[1][:2]
