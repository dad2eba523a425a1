"""Nodes: what callbacks may do, closing, and letting be."""

import logging

import anyio
import anyio.lowlevel
import pytest

from acp_server.tasks.cause import Cause
from acp_server.tasks.tree import NOTHING, Node

pytestmark = pytest.mark.anyio


async def _seven() -> int:
    return 7


# callbacks


async def test_callbacks_are_called_outermost_first_when_every_cause_is_recorded() -> None:
    tree = Node(None, "connection")
    a = tree.child("a")
    b, c = a.child("b"), a.child("c")
    seen: list[tuple[str, list[Cause | None]]] = []
    for node in (c, b, a):
        node.on_cancel = lambda node: seen.append((node.label, [n.cause for n in (a, b, c)]))
    a.cancel(Cause.PEER)
    assert seen == [(label, [Cause.PEER] * 3) for label in "abc"]


async def test_a_callback_is_called_once_however_often_its_node_is_cancelled() -> None:
    tree = Node(None, "connection")
    node = tree.child("a")
    seen: list[Node] = []
    node.on_cancel = seen.append
    node.cancel(Cause.PEER)
    node.cancel(Cause.SESSION)
    tree.cancel(Cause.CLOSED)
    node.close()
    assert seen == [node]


async def test_a_callback_that_fails_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    tree = Node(None, "connection")
    a, b = tree.child("a"), tree.child("b")
    seen: list[Node] = []

    def fail(_node: Node) -> None:
        raise ValueError("quick")

    a.on_cancel, b.on_cancel = fail, seen.append
    assert tree.cancel(Cause.CLOSED)
    assert seen == [b]
    assert [(r.levelno, r.getMessage()) for r in caplog.records] == [
        (logging.ERROR, "a callback for the cancel of a failed")
    ]


async def test_a_callback_may_cut_its_own_node_its_parent_and_its_siblings() -> None:
    tree = Node(None, "connection")
    a, b = tree.child("a"), tree.child("b")
    tool = a.child("tool")
    seen: list[str] = []

    def cancel_all(node: Node) -> None:
        seen.append(node.label)
        for other in (tool, a, b, tree):
            other.cancel(Cause.USER)

    for node in (tool, a, b):
        node.on_cancel = cancel_all
    a.cancel(Cause.PEER)
    assert seen == ["a", "b", "tool"]
    assert [n.cause for n in (a, tool, b, tree)] == [Cause.PEER, Cause.PEER, Cause.USER, Cause.USER]


async def test_a_callback_may_close_nodes_of_the_same_cut_and_their_callbacks_are_spared() -> None:
    tree = Node(None, "connection")
    a = tree.child("a")
    b, c = a.child("b"), a.child("c")
    seen: list[str] = []

    def close_b(node: Node) -> None:
        seen.append(node.label)
        b.close()

    a.on_cancel = close_b
    b.on_cancel = c.on_cancel = lambda node: seen.append(node.label)
    a.cancel(Cause.PEER)
    assert seen == ["a", "c"]
    assert tree.size == 2


async def test_a_callback_may_open_a_node_which_is_born_cut() -> None:
    node = Node(None, "connection").child("a")
    born: list[Node] = []
    node.on_cancel = lambda node: born.append(node.child("late"))
    node.cancel(Cause.PEER)
    assert [child.cause for child in born] == [Cause.PEER]


# close


async def test_closing_cancels_what_is_still_nested() -> None:
    tree = Node(None, "connection")
    node = tree.child("a")
    child = node.child("b")
    node.close()
    assert child.cause is Cause.FINISHED
    assert node.cause is None
    assert tree.size == 0


async def test_closing_a_cancelled_node_leaves_the_cause_of_its_children() -> None:
    node = Node(None, "connection").child("a")
    child = node.child("b")
    node.cancel(Cause.SESSION)
    node.close()
    assert child.cause is Cause.SESSION


async def test_closing_is_idempotent() -> None:
    tree = Node(None, "connection")
    node = tree.child("a")
    node.close()
    node.close()
    assert node.closed
    assert tree.size == 0


async def test_a_child_may_close_after_its_parent() -> None:
    tree = Node(None, "connection")
    node = tree.child("a")
    child = node.child("b")
    node.close()
    child.close()
    assert child.closed
    assert not node.children


async def test_a_closed_node_takes_no_children() -> None:
    node = Node(None, "connection").child("request 7")
    node.close()
    with pytest.raises(RuntimeError, match="request 7 has ended"):
        node.child("late")


async def test_a_root_can_be_closed() -> None:
    root = Node(None, "connection")
    child = root.child("a")
    root.close()
    assert child.cause is Cause.FINISHED


async def test_closing_a_node_cancels_the_body_that_still_runs_in_it() -> None:
    node = Node(None, "connection").child("a")

    async def body() -> None:
        node.close()
        await anyio.lowlevel.checkpoint()
        pytest.fail("nothing could have cut it any more")

    assert await node.run(body) == (NOTHING, None)
    assert node.cause is Cause.FINISHED


async def test_a_callback_may_close_its_own_node() -> None:
    tree = Node(None, "connection")
    node = tree.child("a")
    node.on_cancel = Node.close
    async with anyio.create_task_group() as group:
        group.start_soon(node.run, anyio.sleep_forever)
        await anyio.wait_all_tasks_blocked()
        node.cancel(Cause.PEER)
    assert tree.size == 0


# stop_cancelling


async def test_what_was_cancelled_and_is_left_alone_can_wait_again() -> None:
    node = Node(None, "connection").child("a")
    go = anyio.Event()

    async def body() -> str:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            node.stop_cancelling()
        await anyio.lowlevel.checkpoint()
        await go.wait()
        return "at last"

    async def cut() -> None:
        node.cancel(Cause.PEER)
        await anyio.wait_all_tasks_blocked()
        go.set()

    async with anyio.create_task_group() as group:
        group.start_soon(cut)
        assert await node.run(body) == ("at last", None)
    assert node.cause is Cause.PEER


async def test_what_was_not_cancelled_is_not_left_alone() -> None:
    outer = Node(None, "connection").child("outer")
    outer.child("inner").cancel(Cause.USER)

    async def body() -> None:
        outer.stop_cancelling()
        outer.cancel(Cause.PEER)
        await anyio.lowlevel.checkpoint()
        pytest.fail("it was not cancelled, so it had to stay within reach")

    assert await outer.run(body) == (NOTHING, None)


async def test_letting_be_reaches_what_is_nested() -> None:
    outer = Node(None, "connection").child("outer")
    inner = outer.child("inner")

    async def stubborn() -> str:
        outer.cancel(Cause.PEER)
        with pytest.raises(anyio.get_cancelled_exc_class()):
            await anyio.lowlevel.checkpoint()
        outer.stop_cancelling()
        await anyio.lowlevel.checkpoint()
        return "at last"

    assert await outer.run(inner.run, stubborn) == (("at last", None), None)
