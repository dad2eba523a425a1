"""Plain functions that go on in their threads although nobody waits for them: refused, counted, bounded."""

import logging
import threading

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from acp_server.errors import RequestCancelled, TooManyThreads
from acp_server.tasks import threads as module
from acp_server.tasks.threads import Threads, Worker, in_loop
from tests.tasks.stuck import Stuck, none_left

pytestmark = pytest.mark.anyio


async def test_a_cancel_cancels_what_the_loop_does_for_it_and_refuses_what_it_wants_later() -> None:
    refused: list[str] = []
    waiting = anyio.Event()
    over = threading.Event()

    async def for_ever() -> None:
        waiting.set()
        await anyio.sleep_forever()

    def function() -> None:
        for what in ("first", "second"):
            try:
                in_loop(for_ever)
            except RequestCancelled:
                refused.append(what)
        over.set()

    async with anyio.create_task_group() as group:
        group.start_soon(Threads.current().run, "asking", function)
        await waiting.wait()
        group.cancel_scope.cancel()
    assert await anyio.to_thread.run_sync(over.wait, 5)
    assert refused == ["first", "second"]
    await none_left()


async def test_what_it_wanted_and_was_not_done_before_it_was_left_behind_is_refused() -> None:
    threads = Threads.current()
    refused = threading.Event()

    def function() -> None:
        try:
            in_loop(refused.clear)
        except RequestCancelled:
            refused.set()

    worker = threads._start(Worker(threads, "asking", function, ()))
    with anyio.fail_after(5):
        # Nobody carries it out.
        while not worker._jobs:
            await anyio.lowlevel.checkpoint()
    worker.abandon()
    worker.abandon()
    assert await anyio.to_thread.run_sync(refused.wait, 5)
    await none_left()


async def test_being_cancelled_leaves_it_behind_at_once_and_its_place_is_free(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RUNNING", 1)
    monkeypatch.setattr(Threads.current(), "_limiter", anyio.CapacityLimiter(1))
    stuck = Stuck()
    with caplog.at_level(logging.INFO, "acp_server.tasks"), anyio.fail_after(5):
        async with stuck.left_behind():
            threads = Threads.current()
            assert threads.abandoned == 1
            assert "stuck was cancelled and still runs in its thread; 1 such threads" in caplog.text
            assert await threads.run("another", lambda: "done") == "done"
        await none_left()
    assert "the thread of stuck has ended after its call was cancelled" in caplog.text


@pytest.mark.parametrize(("many", "level"), [(0, "WARNING"), (1, "INFO")])
async def test_many_that_are_left_behind_are_worth_a_warning(
    many: int, level: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_MANY", many)
    with caplog.at_level(logging.INFO, "acp_server.tasks"):
        async with Stuck().left_behind():
            assert [r.levelname for r in caplog.records] == [level]
        await none_left()


async def test_one_that_ends_in_time_is_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    threads = Threads.current()
    with caplog.at_level(logging.INFO, "acp_server.tasks"):
        assert await threads.run("quick", lambda: "value") == "value"
        await threads.ask("quick", lambda: "value").wait()
    assert not caplog.records


async def test_what_ends_the_program_in_the_loop_is_raised_there_and_the_function_is_refused() -> None:
    refused = threading.Event()

    def end() -> None:
        raise SystemExit(3)

    def function() -> None:
        try:
            in_loop(end)
        except RequestCancelled:
            refused.set()

    with pytest.raises(SystemExit):
        await Threads.current().run("ending", function)
    assert await anyio.to_thread.run_sync(refused.wait, 5)
    await none_left()


async def test_too_many_that_are_left_behind_are_a_clear_failure_until_they_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "ABANDONED", 1)
    stuck = Stuck()
    threads = Threads.current()
    async with stuck.left_behind():
        with pytest.raises(TooManyThreads, match="more is not started, because 1 threads still run after their cancel"):
            await threads.run("more", threading.get_ident)
        # Those that are to be quick have a bound of their own.
        assert await threads.ask("quick", lambda: "value").outcome() == "value"
        assert threads.abandoned == 1
    await none_left()
    assert await threads.run("more", lambda: "done") == "done"


async def test_a_system_without_threads_is_a_clear_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = Threads.current()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(TooManyThreads, match="cannot start a thread for it"):
            await threads.run("it", lambda: None)
        with pytest.raises(TooManyThreads, match="cannot start a thread for it"):
            threads.ask("it", lambda: None)
    assert (threads.abandoned, threads.asked) == (0, 0)
    assert await threads.run("it", lambda: "done") == "done"


async def test_one_that_has_ended_is_not_left_behind() -> None:
    threads = Threads.current()
    worker = threads.ask("quick", lambda: "value")
    await worker.wait()
    worker.abandon()
    assert (threads.abandoned, threads.asked) == (0, 0)
    assert await worker.outcome() == "value"


def test_one_that_ends_after_its_loop_did_hurts_nobody(anyio_backend_name: str) -> None:
    go_on = threading.Event()
    workers: list[Worker] = []

    async def main() -> None:
        workers.append(Threads.current().ask("outlasting", lambda: go_on.wait(10)))
        workers[0].abandon()

    anyio.run(main, backend=anyio_backend_name)
    go_on.set()
    assert workers[0].ended.wait(5)
    assert workers[0].value is True


@pytest.fixture
def anyio_backend_name(anyio_backend: str) -> str:
    return anyio_backend
