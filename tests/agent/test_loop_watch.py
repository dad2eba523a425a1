"""What holds the event loop is told of, and an agent whose loop is held does not outlive its client."""

import logging
import os
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from acp_server.agent import loop_watch
from acp_server.agent.ending import Deadline, Ending
from acp_server.agent.loop_watch import LoopWatch, is_hung_up
from acp_server.peer.limits import Limits
from acp_server.tasks.spawn import Steps


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "HELD", 0.0)
    monkeypatch.setattr(LoopWatch, "_waited", lambda _: 0.0)


async def held_by(watch: LoopWatch) -> None:
    """Work during which a thread looks, as the watch does."""
    looking = threading.Thread(target=watch.look)
    looking.start()
    looking.join()


@pytest.mark.anyio
@pytest.mark.usefixtures("at_once")
async def test_work_that_holds_the_loop_is_told_of_once_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    gone: list[str] = []
    steps = Steps.current()
    watch = LoopWatch(steps, lambda: True, lambda: gone.append("gone"))
    watch.look()
    assert not caplog.records
    for _ in range(3):
        await steps.run(held_by(watch))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(f"held_by ({__file__}:")
    assert "has held the event loop for 0.0 s" in record.getMessage()
    assert record.stack_info is not None
    # From the program's function on.
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
    steps = Steps.current()
    opening = opened_by(LoopWatch(steps, lambda: False, lambda: None))
    await steps.run(opening.__aenter__())
    await opening.__aexit__(None, None, None)
    assert caplog.records[0].getMessage().startswith("opened_by (")


@pytest.mark.anyio
@pytest.mark.usefixtures("at_once")
async def test_a_step_that_waits_for_a_processor_is_not_blamed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gone: list[str] = []
    steps = Steps.current()
    watch = LoopWatch(steps, lambda: True, lambda: gone.append("gone"))
    watch.look()
    monkeypatch.setattr(LoopWatch, "_waited", lambda _: 60.0)
    await steps.run(held_by(watch))
    assert not caplog.records
    assert gone == ["gone"]  # the client of a busy machine is gone all the same
    # The wait of an earlier step is not that of a later one.
    watch.look()
    await steps.run(held_by(watch))
    assert len(caplog.records) == 1


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the system does not tell")
def test_the_wait_for_a_processor_is_read_from_the_system() -> None:
    waits = LoopWatch(Steps(), lambda: False, lambda: None)._waited()
    with open("/proc/thread-self/schedstat") as file:
        assert 0 <= waits <= int(file.read().split()[1]) / 1e9


def test_where_the_system_does_not_tell_a_step_has_not_waited(tmp_path: Path) -> None:
    watch = LoopWatch(Steps(), lambda: False, lambda: None)
    watch._schedule = tmp_path / "schedstat"
    assert watch._waited() == 0.0


@pytest.mark.anyio
async def test_nothing_is_told_of_short_work_or_of_a_loop_that_waits(caplog: pytest.LogCaptureFixture) -> None:
    steps = Steps.current()
    watch = LoopWatch(steps, lambda: True, lambda: pytest.fail("it is not held"))
    await steps.run(held_by(watch))
    watch.look()
    assert not caplog.records


@pytest.mark.anyio
async def test_the_thread_looks_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "HELD", 0.001)
    looked = threading.Event()
    watch = LoopWatch(Steps.current(), lambda: False, lambda: None)
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
