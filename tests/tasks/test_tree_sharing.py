"""Nodes that share the scope of their parent."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.tasks.cause import Cause
from acp_server.tasks.tree import NOTHING, Node, Pair, Scopes
from tests.tasks.stray import stray_cancellation

pytestmark = pytest.mark.anyio


def _scopes_of(node: Node) -> Pair:
    """Those that the node above it runs in."""
    assert node.parent is not None
    assert node.parent.pair is not None
    return node.parent.pair


async def _share(node: Node, body: Any, *args: Any) -> Any:
    """Run it in the scopes of the node above it, as a dispatcher does with those of its task."""
    if not node.enter(_scopes_of(node)):
        return NOTHING, None
    try:
        return await body(*args), None
    except BaseException as error:
        return NOTHING, None if node.gave_in(error) else error
    finally:
        node.pair = None


async def _seven() -> int:
    return 7


async def test_cutting_a_sharing_node_interrupts_its_parents_body_and_is_recorded_on_it_alone() -> None:
    parent = Node(None, "connection").child("request")
    child = parent.child("turn")
    seen: list[Any] = []

    async def body() -> str:
        seen.append(await _share(child, anyio.sleep_forever))
        # The scope is cancelled: who goes on may only do what needs no waiting, or is shielded.
        with pytest.raises(anyio.get_cancelled_exc_class()):
            await anyio.lowlevel.checkpoint()
        return "answer"

    async def cut() -> None:
        child.cancel(Cause.SESSION)

    async with anyio.create_task_group() as group:
        group.start_soon(cut)
        assert await parent.run(body) == ("answer", None)
    assert seen == [(NOTHING, None)]
    assert (parent.cause, child.cause) == (None, Cause.SESSION)


async def test_what_a_sharing_node_returns_or_raises_is_handed_back() -> None:
    parent = Node(None, "connection").child("request")
    error = ValueError("x")
    seen: list[Any] = []

    async def fail() -> None:
        child.cancel(Cause.SESSION)
        raise error

    async def body() -> None:
        seen.append(await _share(parent.child("one"), _seven))
        seen.append(await _share(child, fail))

    child = parent.child("two")
    await parent.run(body)
    assert seen == [(7, None), (NOTHING, error)]


async def test_a_cancellation_in_a_sharing_node_that_was_not_cancelled_is_an_error() -> None:
    stray = await stray_cancellation()
    parent = Node(None, "connection").child("request")

    async def leak() -> None:
        raise stray

    async def body() -> Any:
        turn = parent.child("turn")
        return await _share(turn, leak)

    assert await parent.run(body) == ((NOTHING, stray), None)


async def test_cutting_the_parent_of_a_sharing_node_cancels_both() -> None:
    parent = Node(None, "connection").child("request")
    child = parent.child("turn")

    async def body() -> Any:
        return await _share(child, _cut_and_wait, parent)

    assert await parent.run(body) == ((NOTHING, None), None)
    assert child.cause is Cause.PEER


async def test_letting_a_sharing_node_be_frees_what_its_parent_runs() -> None:
    parent = Node(None, "connection").child("request")
    child = parent.child("turn")

    async def stubborn() -> str:
        child.cancel(Cause.SESSION)
        with pytest.raises(anyio.get_cancelled_exc_class()):
            await anyio.lowlevel.checkpoint()
        parent.stop_cancelling()
        await anyio.lowlevel.checkpoint()
        return "at last"

    assert await parent.run(_share, child, stubborn) == (("at last", None), None)


async def test_a_sharing_node_can_be_cut_before_its_parent_runs() -> None:
    parent = Node(None, "connection").child("request")
    child = parent.child("turn")
    child.cancel(Cause.SESSION)
    child.stop_cancelling()
    assert await parent.run(_share, child, pytest.fail) == ((NOTHING, None), None)


async def test_nodes_that_share_scopes_are_cancelled_once_and_at_the_latest_when_that_is_asked_for() -> None:
    scopes = Scopes()
    parent = Node(None, "connection", scopes).child("request")
    child = parent.child("turn")

    async def cut_both() -> bool:
        pair = child.pair
        assert pair is not None
        child.cancel(Cause.SESSION)
        assert pair.cancelled
        parent.cancel(Cause.PEER)
        scopes.deliver()
        assert pair.outer.cancel_called
        with pytest.raises(anyio.get_cancelled_exc_class()):
            await anyio.lowlevel.checkpoint()
        return True

    async def body() -> Any:
        return await _share(child, cut_both)

    assert await parent.run(body) == ((True, None), None)


async def _cut_and_wait(node: Node) -> None:
    node.cancel(Cause.PEER)
    await anyio.lowlevel.checkpoint()
    pytest.fail("it went on")
