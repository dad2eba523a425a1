"""Plain functions that are to be quick: the loop stands still for them for a moment, and no longer."""

import threading
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from acp_server.errors import RequestCancelled, TooManyThreads
from acp_server.tasks import threads as module
from acp_server.tasks.threads import Threads, in_loop
from tests.tasks.stuck import none_left

pytestmark = pytest.mark.anyio


class Slow:
    """Stands for a worker that does not end, and tells for how long it was waited for."""

    def __init__(self, now: list[float]) -> None:
        self._now = now
        self.waited: list[float] = []
        self.ended: Any = self

    def wait(self, timeout: float) -> bool:
        self.waited.append(timeout)
        self._now[0] += timeout
        return False


async def test_all_that_are_asked_in_one_round_share_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    threads = Threads()
    slow: Any = Slow(now)
    assert not threads.briefly(slow)
    assert not threads.briefly(slow)
    now[0] -= 0.02
    assert not threads.briefly(slow)
    assert slow.waited == pytest.approx([0.05, 0.0, 0.02])
    # The next round has a moment of its own.
    with anyio.fail_after(5):
        while threads._until is not None:
            await anyio.lowlevel.checkpoint()
    assert not threads.briefly(slow)
    assert slow.waited[3:] == pytest.approx([0.05])


async def test_one_that_is_quick_is_through_before_the_loop_goes_on() -> None:
    threads = Threads.current()
    worker = threads.ask("quick", lambda: "value")
    worker.ended.wait(5)
    assert threads.briefly(worker)
    assert worker.value == "value"
    await worker.wait()
    assert threads.asked == 0


async def test_they_cannot_have_the_loop_do_anything() -> None:
    def function() -> str:
        with pytest.raises(RequestCancelled):
            in_loop(anyio.lowlevel.checkpoint)
        return "refused"

    worker = Threads.current().ask("asking", function)
    # The loop stands still for it: it would wait for ever otherwise.
    assert worker.ended.wait(5)
    assert await worker.outcome() == "refused"


async def test_too_many_of_them_at_once_are_a_clear_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ASKED", 2)
    threads = Threads.current()
    go_on = threading.Event()
    workers = [threads.ask("slow", lambda: go_on.wait(10)) for _ in range(2)]
    with pytest.raises(TooManyThreads, match="third is not started, because 2 threads for quick functions still run"):
        threads.ask("third", lambda: None)
    # Others are started all the same, as long as nobody has given these up.
    assert await threads.run("another", lambda: "done") == "done"
    go_on.set()
    for worker in workers:
        await worker.wait()
    await none_left()
    await threads.ask("third", lambda: None).wait()
