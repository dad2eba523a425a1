"""Plain functions in threads: waited for, and carried out for."""

import contextvars
import gc
import threading
import weakref
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from acp_server.errors import RequestCancelled
from acp_server.tasks import threads as module
from acp_server.tasks.threads import Threads, Worker, in_loop

pytestmark = pytest.mark.anyio

variable: ContextVar[str] = ContextVar("variable")


async def test_a_function_runs_in_a_daemon_thread_of_its_own_in_a_copy_of_the_context() -> None:
    variable.set("outside")

    def function(a: int, b: int) -> tuple[str, int, bool, str]:
        variable_was = variable.get()
        variable.set("inside")
        thread = threading.current_thread()
        return thread.name, a + b, thread.daemon, variable_was

    name, value, daemon, seen = await Threads.current().run("adding", function, 1, 2)
    assert (name, value, daemon, seen) == ("acp_server adding", 3, True, "outside")
    assert variable.get() == "outside"


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(2), KeyboardInterrupt()], ids=repr)
async def test_what_it_raises_is_raised(error: BaseException) -> None:
    def function() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        await Threads.current().run("failing", function)
    assert raised.value is error


async def test_there_is_one_for_each_loop() -> None:
    assert Threads.current() is Threads.current()

    async def other() -> Threads:
        return Threads.current()

    def in_a_loop_of_its_own() -> Threads:
        return anyio.run(other)

    assert await anyio.to_thread.run_sync(in_a_loop_of_its_own) is not Threads.current()


async def test_it_keeps_no_loop_that_has_ended(anyio_backend_name: str) -> None:
    ended: list[weakref.ref[Any]] = []

    async def other() -> None:
        await Threads.current().run("adding", sum, (1, 2))
        ended.append(weakref.ref(anyio.lowlevel.current_token().native_token))

    await anyio.to_thread.run_sync(lambda: anyio.run(other, backend=anyio_backend_name))
    for thread in threading.enumerate():
        if thread.name == "acp_server adding":
            thread.join()  # it has told the loop that it is done, and may be on its way out
    gc.collect()
    assert ended[0]() is None


async def test_it_may_have_the_loop_do_something_and_gets_what_comes_of_it() -> None:
    home = threading.get_ident()

    async def double(number: int) -> int:
        await anyio.lowlevel.checkpoint()
        assert threading.get_ident() == home
        return 2 * number

    async def fail() -> None:
        raise ValueError("not today")

    def function() -> list[Any]:
        said: list[Any] = [in_loop(double, 4), in_loop(threading.get_ident) == home]
        with pytest.raises(ValueError, match="not today"):
            in_loop(fail)
        return said

    assert await Threads.current().run("asking", function) == [8, True]


async def test_nothing_can_be_done_in_the_loop_for_other_threads() -> None:
    with pytest.raises(RuntimeError, match="this thread is not the worker thread"):
        await anyio.to_thread.run_sync(in_loop, anyio.lowlevel.checkpoint)
    with pytest.raises(RuntimeError, match="this thread is not the worker thread"):
        in_loop(anyio.lowlevel.checkpoint)


class Helped:
    """A function that is through before the loop has done what a thread wants that it has started."""

    def __init__(self) -> None:
        self.threads = Threads.current()
        self.worker = Worker(self.threads, "starting another", self.function, ())
        self.said: list[str] = []
        self.over = threading.Event()

    def function(self) -> str:
        threading.Thread(target=contextvars.copy_context().run, args=(self.helper,)).start()
        while not self.worker._jobs:
            self.over.wait(0.001)
        return "through"

    def helper(self) -> None:
        for word in ("first", "second"):
            try:
                in_loop(self.said.append, word)
            except RequestCancelled:
                self.said.append("refused")
        self.over.set()

    async def start(self) -> None:
        self.worker.start()
        assert await anyio.to_thread.run_sync(self.worker.ended.wait, 5)

    async def end(self) -> None:
        assert await anyio.to_thread.run_sync(self.over.wait, 5)


async def test_what_a_thread_of_its_own_making_has_asked_for_is_done_and_nothing_that_comes_later() -> None:
    helped = Helped()
    await helped.start()
    assert await helped.worker.outcome() == "through"
    await helped.end()
    assert helped.said == ["first", "refused"]


async def test_what_a_thread_of_its_own_making_has_asked_for_is_refused_when_nobody_waits() -> None:
    helped = Helped()
    await helped.start()
    helped.worker.abandon()
    await helped.end()
    assert helped.said == ["refused", "refused"]
    assert helped.threads.abandoned == 0


async def test_functions_that_wait_for_others_leave_them_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as run at once, each of which has another run: none waits for the place of its like."""
    monkeypatch.setattr(module, "RUNNING", 2)
    threads = Threads()
    barrier = threading.Barrier(2, timeout=5)

    def outer() -> str:
        barrier.wait()
        return in_loop(threads.run, "inner", lambda: in_loop(threads.run, "innermost", lambda: "deep"))

    found: list[str] = []

    async def one() -> None:
        found.append(await threads.run("outer", outer))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(one)
            group.start_soon(one)
    assert found == ["deep", "deep"]


async def test_more_than_run_at_once_wait_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RUNNING", 2)
    threads = Threads()
    lock = threading.Lock()
    now, most = 0, 0
    # Two meet at a time, which takes two that run at once.
    both = threading.Barrier(2, timeout=5)

    def count() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        both.wait()
        in_loop(anyio.lowlevel.checkpoint)
        with lock:
            now -= 1

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(threads.run, "counting", count)
    assert most == 2


async def test_something_can_be_done_in_the_loop_from_any_thread() -> None:
    threads = Threads.current()
    done: list[int] = []
    heard = anyio.Event()
    threads.soon(lambda: done.append(threading.get_ident()))
    assert done == [threading.get_ident()]

    def hear() -> None:
        done.append(threading.get_ident())
        heard.set()

    await anyio.to_thread.run_sync(threads.soon, hear)
    await heard.wait()
    assert done == [threading.get_ident()] * 2


async def test_what_then_fails_is_logged_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    threads = Threads.current()
    heard = anyio.Event()

    def fail() -> None:
        raise ValueError("not today")

    def from_elsewhere() -> None:
        threads.soon(fail)
        threads.soon(heard.set)

    await anyio.to_thread.run_sync(from_elsewhere)
    with anyio.fail_after(5):
        await heard.wait()
    assert "a call from a thread into the event loop failed" in caplog.text
    with pytest.raises(ValueError, match="not today"):
        threads.soon(fail)
