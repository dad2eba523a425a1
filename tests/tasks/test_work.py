"""A job: work for one that waits, and that is left behind if it is cancelled and does not end."""

import logging
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.tasks import grace as module
from acp_server.tasks.cause import Cause
from acp_server.tasks.grace import Job, SupervisedWork, Watchdog, grace
from acp_server.tasks.running import Spawner
from acp_server.tasks.tree import NOTHING, Node

pytestmark = pytest.mark.anyio

LONG = 3600.0
"""Seconds that no test waits for."""


class Told(Job):
    """A job that tells what came of it."""

    def __init__(self, kept: "Kept") -> None:
        super().__init__(kept.node, kept.spawner, kept.watchdog)
        self._kept = kept

    def over(self, value: Any, error: BaseException | None) -> None:
        self._kept.then(value, error)


class Kept:
    """A job in a node of its own, and what came of it."""

    def __init__(self, patience: float = LONG) -> None:
        self.crashes: list[BaseException] = []
        self.spawner = Spawner(self.crashes.append)
        self.watchdog = Watchdog(patience, self.spawner)
        self.root = Node(None, "root")
        self.node = self.root.child("the work")
        self.job = Told(self)
        self.ends: list[tuple[Any, BaseException | None]] = []
        self.begun = anyio.Event()
        self.go_on = anyio.Event()

    def then(self, value: Any, error: BaseException | None) -> None:
        self.ends.append((value, error))
        assert not self.node.closed

    async def run(self, body: Any) -> None:
        self.job.start(body)
        await self.job.wait()

    async def waits(self) -> str:
        self.begun.set()
        await self.go_on.wait()
        return "through"

    async def stubborn(self) -> str:
        while not self.go_on.is_set():
            try:
                await self.waits()
            except anyio.get_cancelled_exc_class():
                continue
        return "late"

    async def shielded(self) -> str:
        with grace(LONG):
            await self.waits()
        await anyio.lowlevel.checkpoint()
        return "late"

    async def idle(self) -> None:
        with anyio.fail_after(5):
            await self.spawner.wait_idle()
        assert not self.crashes


async def test_the_value_of_the_work_is_handed_over_and_the_node_is_closed() -> None:
    kept = Kept()
    kept.go_on.set()
    await kept.run(kept.waits)
    assert kept.ends == [("through", None)]
    assert kept.node.closed
    assert kept.root.size == 0
    await kept.idle()


async def test_its_error_is_handed_over_and_raised_nowhere() -> None:
    kept = Kept()
    error = ValueError("not today")

    async def fail() -> None:
        raise error

    await kept.run(fail)
    assert kept.ends == [(NOTHING, error)]
    await kept.idle()


async def test_a_handover_that_fails_is_reported_and_nobody_waits_for_ever() -> None:
    kept = Kept()
    kept.go_on.set()
    problem = ValueError("not today")

    def then(value: Any, error: BaseException | None) -> None:
        raise problem

    kept.then = then
    with anyio.fail_after(5):
        await kept.run(kept.waits)
        await kept.spawner.wait_idle()
    assert kept.crashes == [problem]
    assert kept.node.closed


async def test_work_that_is_cancelled_ends_and_only_then_its_waiting_is_over() -> None:
    kept = Kept()
    order: list[str] = []

    async def body() -> None:
        try:
            await kept.waits()
        finally:
            with grace(LONG):
                await anyio.lowlevel.checkpoint()
            order.append("cleaned up")

    async def wait() -> None:
        await kept.run(body)
        order.append("waited")

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await kept.begun.wait()
        kept.node.cancel(Cause.USER)
    assert order == ["cleaned up", "waited"]
    assert kept.ends == [(NOTHING, None)]
    # The watch has nothing left to look after.
    assert not kept.watchdog._entries
    kept.watchdog.finish_now()
    await kept.idle()


async def test_work_that_is_cancelled_before_it_begins_is_not_begun() -> None:
    kept = Kept()
    kept.node.cancel(Cause.USER)
    await kept.run(kept.waits)
    assert kept.ends == [(NOTHING, None)]
    assert not kept.begun.is_set()
    kept.watchdog.finish_now()
    await kept.idle()


@pytest.mark.parametrize("how", ["stubborn", "shielded"])
async def test_work_that_does_not_end_is_left_behind_when_its_time_is_over(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Kept(patience=0.02)

    async with anyio.create_task_group() as group:
        group.start_soon(kept.run, getattr(kept, how))
        await kept.begun.wait()
        kept.node.cancel(Cause.USER)
    # It still runs, and nothing was handed over.
    assert kept.ends == []
    assert kept.spawner.running
    assert not kept.node.closed
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == [
        "the work does not end although it was cancelled; the runtime no longer waits for it"
    ]
    kept.go_on.set()
    await kept.idle()
    # What was behind a shield is cancelled there; what took no notice has a value, which its owner ignores.
    assert [value for value, _ in kept.ends] == (["late"] if how == "stubborn" else [NOTHING])
    assert kept.node.closed
    assert len(caplog.records) == 1


async def test_work_that_takes_no_notice_is_told_twice_and_then_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    stop_cancelling: list[int] = []

    class Watched(Node):
        def stop_cancelling(self) -> None:
            stop_cancelling.append(1)
            super().stop_cancelling()

    kept.node = Watched(kept.root, "the work")
    kept.job = Told(kept)
    async with anyio.create_task_group() as group:
        group.start_soon(kept.run, kept.stubborn)
        await kept.begun.wait()
        kept.node.cancel(Cause.USER)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        kept.watchdog.finish_now()
    # At the first look it is left behind; being reached at the second one as well, it is left alone.
    assert stop_cancelling == []
    kept.watchdog.finish_now()
    assert stop_cancelling == [1]
    # The watch has nothing left to look after.
    kept.watchdog.finish_now()
    assert stop_cancelling == [1]
    kept.go_on.set()
    await kept.idle()
    # Its caller went on at the first look, which is said once.
    assert len(caplog.records) == 1


async def test_work_that_was_behind_a_shield_at_one_look_is_not_left_alone_at_the_next() -> None:
    kept = Kept()
    behind, go_on = anyio.Event(), anyio.Event()

    async def body() -> None:
        with grace(LONG):
            await kept.waits()
        behind.set()
        while not go_on.is_set():
            with suppress(anyio.get_cancelled_exc_class()):
                await go_on.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(kept.run, body)
        await kept.begun.wait()
        kept.node.cancel(Cause.USER)
        kept.watchdog.finish_now()
        kept.go_on.set()
        await behind.wait()
        kept.watchdog.finish_now()
        # Its cancel has reached it for the first time.
        assert kept.node.pair is not None
        left_alone = kept.node.pair.inner.shield
        go_on.set()
        await kept.idle()
    assert not left_alone


async def test_whoever_waits_and_is_cancelled_cancels_the_work_and_waits_for_its_cleanup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As long as the watch does.
    monkeypatch.setattr(module, "_SLACK", 0.0)
    kept = Kept()
    cleaned: list[Cause | None] = []

    async def body() -> None:
        try:
            await kept.waits()
        finally:
            with grace(LONG):
                for _ in range(10):
                    await anyio.lowlevel.checkpoint()
            cleaned.append(kept.node.cause)

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(kept.run, body)
            await kept.begun.wait()
            scope.cancel()
    assert cleaned == [Cause.FINISHED]
    kept.watchdog.finish_now()
    await kept.idle()


async def test_whoever_waits_and_is_cancelled_does_not_wait_for_work_that_does_not_end() -> None:
    kept = Kept(patience=0.02)
    with anyio.fail_after(5), anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(kept.run, kept.stubborn)
            await kept.begun.wait()
            scope.cancel()
    assert kept.spawner.running
    kept.go_on.set()
    await kept.idle()


async def test_nor_when_nobody_watches_over_it_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLACK", 0.02)
    kept = Kept(patience=0.02)
    kept.watchdog.finish_now()
    with anyio.fail_after(5), anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(kept.run, kept.stubborn)
            await kept.begun.wait()
            scope.cancel()
    assert kept.spawner.running
    kept.go_on.set()
    await kept.idle()


async def test_work_that_ends_when_it_is_given_up_is_not_looked_after_any_more() -> None:
    kept = Kept()

    class Ends(SupervisedWork):
        def give_up(self) -> None:
            self.node.close()

    work = Ends(kept.root.child("the work"), kept.watchdog)
    work.node.cancel(Cause.USER)
    kept.watchdog.finish_now()
    assert work.node.closed
    assert not kept.watchdog._entries
    await kept.idle()


async def test_a_cancel_behind_the_end_is_not_looked_after() -> None:
    kept = Kept()
    kept.go_on.set()
    await kept.run(kept.waits)
    assert not kept.node.cancel(Cause.USER)
    assert kept.node.on_cancel is None
    await kept.idle()


async def test_work_whose_time_is_over_before_it_begins_is_not_waited_for_and_does_not_begin() -> None:
    kept = Kept()
    kept.node.cancel(Cause.USER)
    kept.watchdog.finish_now()
    with anyio.fail_after(5):
        await kept.run(kept.waits)
    await kept.idle()
    assert kept.ends == [(NOTHING, None)]
    assert not kept.begun.is_set()
