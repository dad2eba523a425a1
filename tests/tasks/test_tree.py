"""Nodes: running, cancelling, and the keys by which they are found."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.tasks.cause import Cause
from acp_server.tasks.tree import NOTHING, Node
from tests.tasks.stray import stray_cancellation

pytestmark = pytest.mark.anyio


async def _seven() -> int:
    return 7


# run


async def test_a_body_that_returns_gives_its_value() -> None:
    assert await Node(None, "connection").child("a").run(_seven) == (7, None)


async def test_a_body_gets_its_arguments_and_none_is_a_value() -> None:
    got: list[Any] = []

    async def body(*args: Any) -> None:
        got.extend(args)

    assert await Node(None, "connection").child("a").run(body, 1, "b") == (None, None)
    assert got == [1, "b"]


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), BaseExceptionGroup("g", [SystemExit()])]
)
async def test_whatever_a_body_raises_is_handed_back_and_not_raised(error: BaseException) -> None:
    async def body() -> None:
        raise error

    assert await Node(None, "connection").child("a").run(body) == (NOTHING, error)


async def test_a_cancellation_that_nobody_asked_the_node_for_is_handed_back_as_an_error() -> None:
    stray = await stray_cancellation()

    async def body() -> None:
        raise stray

    node = Node(None, "connection").child("a")
    assert await node.run(body) == (NOTHING, stray)
    assert node.cause is None


async def test_a_body_that_was_cancelled_before_it_began_is_not_executed() -> None:
    node = Node(None, "connection").child("a")
    node.cancel(Cause.USER)
    assert await node.run(pytest.fail, "it ran") == (NOTHING, None)


async def test_a_body_of_a_closed_node_is_not_executed() -> None:
    node = Node(None, "connection").child("a")
    node.close()
    assert await node.run(pytest.fail, "it ran") == (NOTHING, None)


async def test_a_body_that_gives_in_to_its_cut_has_neither_value_nor_error() -> None:
    node = Node(None, "connection").child("a")

    async def body() -> None:
        node.cancel(Cause.PEER)
        await anyio.lowlevel.checkpoint()
        pytest.fail("it went on")

    assert await node.run(body) == (NOTHING, None)


async def test_a_body_that_returns_although_it_was_cancelled_keeps_its_value() -> None:
    node = Node(None, "connection").child("a")

    async def body() -> str:
        node.cancel(Cause.PEER)
        try:
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class():
            return "partial"
        return "untouched"

    assert await node.run(body) == ("partial", None)


async def test_what_a_cancelled_body_raises_instead_is_handed_back() -> None:
    node = Node(None, "connection").child("a")
    error = ValueError("cleanup")

    async def body() -> None:
        node.cancel(Cause.PEER)
        try:
            await anyio.lowlevel.checkpoint()
        finally:
            raise error

    assert await node.run(body) == (NOTHING, error)


async def test_a_cancel_interrupts_what_the_body_started_itself() -> None:
    node = Node(None, "connection").child("a")
    ended: list[str] = []

    async def child() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("child")

    async def body() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(child)
            await anyio.wait_all_tasks_blocked()
            node.cancel(Cause.PEER)

    assert await node.run(body) == (NOTHING, None)
    assert ended == ["child"]


# cut


async def test_the_first_cause_stands() -> None:
    node = Node(None, "connection").child("a")
    assert node.cancel(Cause.TIMEOUT)
    assert not node.cancel(Cause.PEER)
    assert node.cause is Cause.TIMEOUT


async def test_cutting_takes_the_whole_subtree_and_nothing_else() -> None:
    tree = Node(None, "connection")
    a, b = tree.child("a"), tree.child("b")
    deep = a.child("turn").child("tool")
    a.cancel(Cause.SESSION)
    assert deep.cause is Cause.SESSION
    assert b.cause is None
    assert tree.cause is None


async def test_what_was_cancelled_before_keeps_its_own_cause_when_its_parent_is_cancelled() -> None:
    tree = Node(None, "connection")
    tool = tree.child("turn").child("tool")
    tool.cancel(Cause.USER)
    tree.cancel(Cause.CLOSED)
    assert tool.cause is Cause.USER
    assert tool.parent is not None
    assert tool.parent.cause is Cause.CLOSED


async def test_what_is_nested_in_something_cancelled_is_cancelled_from_the_beginning() -> None:
    node = Node(None, "connection").child("a")
    node.cancel(Cause.SESSION)
    child = node.child("b")
    assert child.cause is Cause.SESSION
    assert not child.cancel(Cause.PEER)
    assert await child.run(pytest.fail, "it ran") == (NOTHING, None)


async def test_a_closed_node_cannot_be_cut() -> None:
    node = Node(None, "connection").child("a")
    node.close()
    assert not node.cancel(Cause.PEER)
    assert node.cause is None


async def test_nodes_in_tasks_of_their_own_end_together() -> None:
    tree = Node(None, "connection")
    outer = tree.child("outer")
    inner = outer.child("inner")
    results: dict[str, Any] = {}

    async def run(node: Node) -> None:
        results[node.label] = await node.run(anyio.sleep_forever)

    async with anyio.create_task_group() as group:
        group.start_soon(run, outer)
        group.start_soon(run, inner)
        await anyio.wait_all_tasks_blocked()
        outer.cancel(Cause.PEER)
    assert results == {"outer": (NOTHING, None), "inner": (NOTHING, None)}


async def test_cutting_an_inner_node_leaves_the_outer_body_running() -> None:
    outer = Node(None, "connection").child("outer")
    inner = outer.child("inner")

    async def body() -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(inner.run, anyio.sleep_forever)
            await anyio.wait_all_tasks_blocked()
            inner.cancel(Cause.USER)
        await anyio.lowlevel.checkpoint()
        return "went on"

    assert await outer.run(body) == ("went on", None)


async def test_size_counts_at_every_depth_and_reprs_say_the_state() -> None:
    tree = Node(None, "connection")
    a = tree.child("a")
    b = a.child("b")
    assert tree.size == 2
    assert a.size == 1
    assert repr(b) == "<Node b open>"
    a.cancel(Cause.PEER)
    assert repr(b) == "<Node b peer>"
    b.close()
    assert repr(b) == "<Node b closed>"
    assert tree.size == 1
    assert repr(NOTHING) == "NOTHING"
