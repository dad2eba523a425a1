"""A cancel reaches what it cuts, however many scopes lie within one another, and however little stack is left."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.tasks.cause import Cause
from acp_server.tasks.tree import NOTHING, Node

pytestmark = pytest.mark.anyio

DEEP = 3000
"""More scopes than the stack has frames."""


class Deep:
    """Bodies that wait at the bottom of many scopes within one another."""

    def __init__(self) -> None:
        self.waiting = anyio.Event()
        self.go_on = anyio.Event()
        self.hits = 0

    async def scopes(self) -> None:
        async with AsyncExitStack() as stack:
            for _ in range(DEEP):
                stack.enter_context(anyio.CancelScope())
            await self._wait()

    async def groups(self) -> None:
        async with AsyncExitStack() as stack:
            for _ in range(DEEP):
                await stack.enter_async_context(anyio.create_task_group())
            await self._wait()

    async def tasks(self, depth: int = 0) -> None:
        if depth == DEEP:
            await self._wait()
        async with anyio.create_task_group() as group:
            group.start_soon(self.tasks, depth + 1)

    async def stubborn(self) -> None:
        async with AsyncExitStack() as stack:
            for _ in range(DEEP):
                stack.enter_context(anyio.CancelScope())
            while not self.go_on.is_set():
                try:
                    self.waiting.set()
                    await self.go_on.wait()
                except anyio.get_cancelled_exc_class():
                    self.hits += 1

    async def shielded(self) -> None:
        async with AsyncExitStack() as stack:
            for _ in range(DEEP):
                stack.enter_context(anyio.CancelScope())
            with anyio.CancelScope(shield=True), ExitStack() as behind:
                # So many that one of them would be cancelled by itself if the shield were not seen.
                for _ in range(100):
                    behind.enter_context(anyio.CancelScope())
                await self._wait_for(self.go_on)
                self.hits += 1
            await anyio.sleep_forever()

    async def _wait(self) -> None:
        await self._wait_for(anyio.Event())

    async def _wait_for(self, event: anyio.Event) -> None:
        self.waiting.set()
        await event.wait()


class Running:
    """A node with such a body in a task of its own."""

    def __init__(self) -> None:
        self.deep = Deep()
        self.root = Node(None, "root")
        self.node = self.root.child("deep")
        self.told: list[Cause | None] = []
        self.node.on_cancel = lambda node: self.told.append(node.cause)
        self.ends: list[object] = []

    async def run(self, body: Callable[[], Awaitable[None]]) -> None:
        self.ends.append(await self.node.run(body))


@pytest.mark.parametrize("body", ["scopes", "groups", "tasks"])
async def test_a_cancel_ends_what_is_nested_deeper_than_the_stack(body: str) -> None:
    running = Running()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(running.run, getattr(running.deep, body))
            await running.deep.waiting.wait()
            assert running.node.cancel(Cause.PEER)
            assert running.told == [Cause.PEER]
    assert running.ends == [(NOTHING, None)]


async def test_what_is_shielded_at_that_depth_is_cancelled_behind_its_shield() -> None:
    running = Running()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(running.run, running.deep.shielded)
            await running.deep.waiting.wait()
            running.node.cancel(Cause.PEER)
            await anyio.wait_all_tasks_blocked()
            assert running.ends == []
            running.deep.go_on.set()
    assert running.ends == [(NOTHING, None)]
    assert running.deep.hits == 1


async def test_what_takes_no_notice_at_that_depth_can_be_left_alone() -> None:
    running = Running()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(running.run, running.deep.stubborn)
            await running.deep.waiting.wait()
            running.node.cancel(Cause.PEER)
            while running.deep.hits < 3:
                await anyio.lowlevel.checkpoint()
            running.node.stop_cancelling()
            await anyio.wait_all_tasks_blocked()
            before = running.deep.hits
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
            assert running.deep.hits == before
            running.deep.go_on.set()


async def test_a_callback_that_fails_for_want_of_stack_is_called_once_more(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(None, "root").child("node")
    calls: list[int] = []
    called = anyio.Event()

    def on_cancel(_: Node) -> None:
        calls.append(1)
        if len(calls) == 2:
            called.set()
        raise RecursionError

    node.on_cancel = on_cancel
    node.cancel(Cause.USER)
    with anyio.fail_after(5):
        await called.wait()
    await anyio.wait_all_tasks_blocked()
    assert len(calls) == 2
    assert [record.getMessage() for record in caplog.records] == ["a callback for the cancel of node failed"]


def _down(frames: int, function: Callable[[], bool]) -> bool:
    return _down(frames - 1, function) if frames else function()


def _deepest() -> int:
    """How many frames the stack has room for."""
    frames = 0
    for step in (512, 256, 128, 64, 32, 16, 8, 4, 2, 1):
        try:
            _down(frames + step, bool)
        except RecursionError:
            continue
        frames += step
    return frames


@pytest.mark.parametrize("around", [0, 1, 30])
async def test_a_cancel_by_a_caller_with_almost_no_stack_left_is_whole_or_none(around: int) -> None:
    refused = 0
    for room in range(130):
        root = Node(None, "root")
        node = root.child("node")
        told: list[Cause | None] = []
        node.on_cancel = lambda node, told=told: told.append(node.cause)
        waiting, ended = anyio.Event(), anyio.Event()

        async def body(waiting: anyio.Event = waiting) -> None:
            with ExitStack() as stack:
                for _ in range(around):
                    stack.enter_context(anyio.CancelScope())
                waiting.set()
                await anyio.sleep_forever()

        async def run(node: Node = node, body: Any = body, ended: anyio.Event = ended) -> None:
            assert await node.run(body) == (NOTHING, None)
            ended.set()

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(run)
                await waiting.wait()
                try:
                    assert _down(_deepest() - room, lambda node=node: node.cancel(Cause.USER))
                except RecursionError:
                    refused += 1
                    assert node.cause is None
                    node.cancel(Cause.USER)
                await ended.wait()
        assert told == [Cause.USER]
    assert 0 < refused < 30
