"""The queue of notifications: one after the other, in order, whatever becomes of each; and answers behind them."""

import gc
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.peer.notifications import NotificationQueue
from acp_server.peer.outbound import in_notification
from acp_server.tasks.cause import Cause
from acp_server.tasks.running import Spawner
from acp_server.tasks.tree import Scopes
from tests.peer.ends import PATIENCE, until

pytestmark = pytest.mark.anyio

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class Track:
    """A queue, its tasks, and what its handlers did."""

    def __init__(self, limit: int = 1024 * 1024) -> None:
        self.crashes: list[BaseException] = []
        self.house = Spawner(self.crashes.append)
        self.queue = NotificationQueue(Scopes(), self.house.spawn, limit)
        self.did: list[str] = []
        self.gates: dict[str, anyio.Event] = {}

    def plain(self, name: str, size: int = 0) -> None:
        """A notification whose handler is a plain function."""
        if self.queue.has_room(name, size):
            self.queue.notify(name, lambda: self.did.append(name), size)

    def waiting(self, name: str) -> None:
        """A notification whose handler waits until its gate opens."""
        self.gates[name] = anyio.Event()
        self.queue.notify(name, lambda: self._wait(name), 0)

    def raising(self, name: str, error: BaseException, *, later: bool) -> None:
        """A notification whose handler raises."""

        def now() -> None:
            self.did.append(name)
            raise error

        async def soon() -> None:
            await anyio.lowlevel.checkpoint()
            now()

        self.queue.notify(name, soon if later else now, 0)

    def answer(self, name: str) -> None:
        self.queue.deliver(lambda: self.did.append(name))

    async def _wait(self, name: str) -> None:
        self.did.append(f"{name} begins")
        try:
            await self.gates[name].wait()
            self.did.append(f"{name} ends")
        except BaseException:
            self.did.append(f"{name} cut")
            raise

    async def over(self) -> None:
        with anyio.fail_after(PATIENCE):
            await self.house.wait_idle()


# Order


@pytest.mark.behaviour("I2")
async def test_plain_handlers_are_called_on_the_spot() -> None:
    track = Track()
    track.plain("a")
    track.plain("b")
    assert track.did == ["a", "b"]
    assert track.house.running == 0


@pytest.mark.behaviour("I2")
async def test_what_arrives_behind_a_handler_that_waits_is_handled_behind_it() -> None:
    track = Track()
    track.waiting("a")
    track.waiting("b")
    track.plain("c")
    track.waiting("d")
    track.gates["b"].set()
    await until(lambda: track.did)
    await anyio.wait_all_tasks_blocked()
    assert track.did == ["a begins"]
    track.gates["a"].set()
    await until(lambda: "d begins" in track.did)
    track.gates["d"].set()
    await track.over()
    assert track.did == ["a begins", "a ends", "b begins", "b ends", "c", "d begins", "d ends"]
    track.plain("e")
    assert track.did[-1] == "e"


@pytest.mark.behaviour("I3")
async def test_an_answer_is_delivered_behind_what_came_before_it() -> None:
    track = Track()
    track.answer("at once")
    assert track.did == ["at once"]
    track.waiting("a")
    track.answer("first")
    track.plain("b")
    track.answer("second")
    await anyio.wait_all_tasks_blocked()
    assert track.did == ["at once", "a begins"]
    track.gates["a"].set()
    await track.over()
    assert track.did == ["at once", "a begins", "a ends", "first", "b", "second"]


# Failures


def stray() -> BaseException:
    """A cancellation that belongs to nobody, as a cancelled future of a library raises it."""
    kind = anyio.get_cancelled_exc_class()
    return kind() if kind.__module__.startswith("asyncio") else kind._create()  # pyright: ignore[reportAttributeAccessIssue]


FAILURES: list[Callable[[], BaseException]] = [
    lambda: ValueError("boom"),
    lambda: ExceptionGroup("several", [ValueError("boom")]),
    stray,
    lambda: BaseExceptionGroup("several", [stray(), ValueError("boom")]),
]


@pytest.mark.behaviour("D4", "D5")
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("failure", FAILURES, ids=["error", "group", "stray", "mixed"])
async def test_a_handler_that_fails_is_logged_and_the_next_ones_are_called(
    failure: Callable[[], BaseException], later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    track = Track()
    track.raising("first", failure(), later=later)
    track.raising("queued", failure(), later=later)
    track.raising("plain", failure(), later=False)
    track.waiting("last")
    track.gates["last"].set()
    track.answer("answer")
    await track.over()
    assert track.did == ["first", "queued", "plain", "last begins", "last ends", "answer"]
    assert track.crashes == []
    assert [record.getMessage() for record in caplog.records] == [
        f"the handler of {name} failed" for name in ("first", "queued", "plain")
    ]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
async def test_a_handler_that_ends_the_program_is_no_failure(
    kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    track = Track()
    with pytest.raises(kind):
        track.raising("plain", kind(), later=False)
    track.raising("later", kind(), later=True)
    track.answer("answer")
    await track.over()
    assert [type(crash) for crash in track.crashes] == [kind]
    assert track.did == ["plain", "later", "answer"]
    assert not caplog.records


# The end


@pytest.mark.behaviour("G6", "G14")
async def test_stopping_cancels_what_runs_forgets_what_waits_and_delivers_answers_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    track = Track()
    track.waiting("a")
    track.waiting("never")
    track.answer("waiting")
    await until(lambda: track.did)
    track.queue.node.cancel(Cause.CLOSED)
    assert track.did == ["a begins", "waiting"]
    track.waiting("too late")
    track.plain("too late")
    track.answer("late")
    await track.over()
    assert track.did == ["a begins", "waiting", "late", "a cut"]
    track.answer("later")
    assert track.did[-1] == "later"
    track.queue.node.cancel(Cause.CLOSED)
    assert not caplog.records
    gc.collect()


@pytest.mark.behaviour("G14")
async def test_stopping_before_the_first_step_leaves_no_coroutine_that_was_never_awaited() -> None:
    track = Track()
    track.waiting("a")
    track.waiting("never")
    track.queue.node.cancel(Cause.CLOSED)
    await track.over()
    assert track.did == []
    gc.collect()


async def test_a_handler_that_is_cancelled_may_clean_up_and_is_logged_if_that_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    track = Track()

    async def cleans_up_badly() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            track.did.append("cleaned up")
            raise ValueError("boom")

    track.queue.notify("a", cleans_up_badly, 0)
    await anyio.wait_all_tasks_blocked()
    track.queue.node.cancel(Cause.CLOSED)
    await track.over()
    assert track.did == ["cleaned up"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert track.crashes == []


@pytest.mark.behaviour("K5")
async def test_a_handler_that_refuses_to_end_is_left_alone_in_the_end() -> None:
    track = Track()
    cuts = 0
    go_on = anyio.Event()

    async def stubborn() -> None:
        nonlocal cuts
        while not go_on.is_set():
            try:
                await go_on.wait()
            except BaseException:
                cuts += 1

    track.queue.notify("stubborn", stubborn, 0)
    track.waiting("never")
    await anyio.wait_all_tasks_blocked()
    track.queue.node.cancel(Cause.CLOSED)
    await until(lambda: cuts > 3)
    track.queue.node.stop_cancelling()
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    before = cuts
    for _ in range(100):
        await anyio.lowlevel.checkpoint()
    assert cuts == before
    track.answer("not held up")
    assert track.did == ["not held up"]
    go_on.set()
    await track.over()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_cancel_of_the_lane_costs_one_handler_and_no_other() -> None:
    track = Track()
    track.waiting("a")
    track.waiting("b")
    track.answer("answer")
    await until(lambda: track.did)
    (task,) = track.house._tasks
    task.cancel()
    track.gates["b"].set()
    await track.over()
    assert track.did == ["a begins", "a cut", "b begins", "b ends", "answer"]


# The context


@pytest.mark.behaviour("I4")
async def test_handlers_and_what_they_start_know_that_they_are_handlers_of_a_notification() -> None:
    track = Track()
    seen: list[tuple[str, str, bool]] = []

    def look(where: str) -> None:
        seen.append((where, WHO.get(), in_notification.get()))

    async def handler() -> None:
        look("handler")
        await anyio.lowlevel.checkpoint()
        look("handler later")
        async with anyio.create_task_group() as group:
            group.start_soon(child)

    async def child() -> None:
        look("child")

    def later(name: str) -> Callable[[], Coroutine[Any, Any, None]]:
        async def step() -> None:
            look(name)

        return step

    def plain(name: str) -> Callable[[], Awaitable[None] | None]:
        return lambda: look(name)

    WHO.set("reader")
    track.queue.notify("a", plain("plain"), 0)
    track.queue.notify("b", handler, 0)
    track.queue.notify("c", later("queued"), 0)
    track.queue.notify("d", plain("queued plain"), 0)
    await track.over()
    look("outside")
    assert seen == [
        *((name, "reader", True) for name in ("plain", "handler", "handler later", "child", "queued", "queued plain")),
        ("outside", "reader", False),
    ]


# The bound


async def test_notifications_without_room_are_dropped_and_answers_are_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "acp_server.peer")
    track = Track(limit=10_000)
    track.waiting("slow")
    await until(lambda: "slow begins" in track.did)
    for index in range(100):
        track.plain(f"n{index}", 1_500)
        track.answer(f"a{index}")
    track.gates["slow"].set()
    await track.over()
    kept = [name for name in track.did if name.startswith("n")]
    assert kept == [f"n{index}" for index in range(5)]
    assert [name for name in track.did if name.startswith("a")] == [f"a{index}" for index in range(100)]
    assert [record.getMessage() for record in caplog.records] == [
        "the handler of a notification takes too long, so notifications are dropped, beginning with 'n5'",
        "95 notifications were dropped, because the handler of an earlier notification took too long",
    ]


async def test_a_notification_that_is_larger_than_the_bound_waits_alone() -> None:
    track = Track(limit=10_000)
    track.waiting("slow")
    await until(lambda: "slow begins" in track.did)
    track.plain("large", 1_000_000)
    track.plain("behind")
    track.gates["slow"].set()
    await track.over()
    assert track.did == ["slow begins", "slow ends", "large"]
    # The room is free again.
    track.waiting("next")
    track.plain("welcome")
    track.gates["next"].set()
    await track.over()
    assert track.did[-1] == "welcome"
