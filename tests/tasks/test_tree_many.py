"""Cutting thousands of nodes at once: the rest of the program runs meanwhile, and what a cancel promises holds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from acp_server.tasks import tree as tree_module
from acp_server.tasks.cause import Cause
from acp_server.tasks.tree import Node

pytestmark = pytest.mark.anyio

MANY = 50


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_module, "_AT_ONCE", 4)


class Many:
    """Nodes that hang, in tasks of their own, each with one nested in it, in another."""

    def __init__(self) -> None:
        self.tree = Node(None, "connection")
        self.nodes: list[Node] = []
        self.ended: list[str] = []
        self.called: list[str] = []
        self.alone: list[str] = []
        """Those that were cancelled while what is around them was not."""

    async def hang(self, node: Node) -> None:
        async def body() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                self.ended.append(node.label)
                outer = node.parent
                if outer is not None and outer.pair is not None and not outer.pair.outer.cancel_called:
                    self.alone.append(node.label)

        await node.run(body)
        node.close()

    def add(self, parent: Node, label: str) -> Node:
        node = parent.child(label)
        node.on_cancel = lambda node: self.called.append(node.label)
        self.nodes.append(node)
        return node


@asynccontextmanager
async def many() -> AsyncIterator[Many]:
    here = Many()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for number in range(MANY):
                outer = here.add(here.tree, f"{number}")
                inner = here.add(outer, f"{number} inner")
                group.start_soon(here.hang, outer)
                group.start_soon(here.hang, inner)
            await anyio.wait_all_tasks_blocked()
            yield here


async def test_every_cause_is_recorded_at_once_and_scopes_are_cancelled_bit_by_bit() -> None:
    async with many() as here:
        here.tree.cancel(Cause.CLOSED)
        assert {node.cause for node in here.nodes} == {Cause.CLOSED}
        assert not here.tree.cancel(Cause.PEER)
        most = before = 0
        while len(here.ended) < 2 * MANY:
            await anyio.lowlevel.checkpoint()
            most = max(most, len(here.ended) - before)
            before = len(here.ended)
        assert not here.tree._scopes._unfinished
    # trio may see two rounds of the loop as one.
    assert most <= 2 * 4
    assert sorted(here.ended) == sorted(node.label for node in here.nodes)


async def test_a_node_and_what_is_nested_in_it_are_cancelled_in_one_go() -> None:
    """What is around a tool call does not go on because that has ended."""
    async with many() as here:
        here.tree.cancel(Cause.CLOSED)
    assert len(here.ended) == 2 * MANY
    assert not here.alone


async def test_what_runs_in_the_node_is_cancelled_at_once_with_all_that_is_nested() -> None:
    here = Many()
    outer = here.tree.child("outer")
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(here.hang, outer)
            for number in range(MANY):
                group.start_soon(here.hang, here.add(outer, f"{number}"))
            await anyio.wait_all_tasks_blocked()
            outer.cancel(Cause.PEER)
    assert len(here.ended) == 1 + MANY
    assert not here.alone


async def test_callbacks_are_called_once_for_each_that_has_not_ended_by_then() -> None:
    tree = Node(None, "connection")
    called: list[int] = []
    nodes = [tree.child(str(number)) for number in range(MANY)]
    for number, node in enumerate(nodes):
        node.on_cancel = lambda _node, number=number: called.append(number)
    tree.cancel(Cause.CLOSED)
    # With the root itself it is four.
    assert called == [0, 1, 2]
    nodes[-1].close()
    with anyio.fail_after(20):
        while len(called) < MANY - 1:
            await anyio.lowlevel.checkpoint()
    await anyio.wait_all_tasks_blocked()
    assert called == list(range(MANY - 1))


async def test_a_single_node_is_cancelled_at_once_while_a_cancel_of_many_is_under_way() -> None:
    tree = Node(None, "connection")
    called: list[str] = []
    flood, other = tree.child("flood"), tree.child("other")
    for node in (other, *(flood.child("one") for _ in range(MANY))):
        node.on_cancel = lambda node: called.append(node.label)
    flood.cancel(Cause.CLOSED)
    other.cancel(Cause.PEER)
    assert called == ["one", "one", "one", "other"]
    tree.finish_cancels()
    assert called.count("one") == MANY


async def test_what_is_left_of_a_cancel_can_be_finished_at_once() -> None:
    async with many() as here:
        here.tree.cancel(Cause.CLOSED)
        assert len(here.called) < 8
        here.tree.finish_cancels()
        assert here.called == [node.label for node in here.nodes]
        await anyio.wait_all_tasks_blocked()
        assert len(here.ended) == 2 * MANY
    assert len(here.called) == 2 * MANY


async def test_what_runs_on_meanwhile_can_begin_nothing_more() -> None:
    tree = Node(None, "connection")
    began: list[int] = []

    async def note(number: int) -> None:
        began.append(number)

    async def go_on(node: Node) -> None:
        async def body() -> None:
            for number in range(1000):
                await node.child("more").run(note, number)
                if node.cause is not None:
                    assert number not in began
                await anyio.lowlevel.checkpoint()

        await node.run(body)
        node.close()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for number in range(MANY):
                group.start_soon(go_on, tree.child(str(number)))
            await anyio.lowlevel.checkpoint()
            tree.cancel(Cause.CLOSED)
            began.clear()
    assert not began
    assert tree.size == 0
