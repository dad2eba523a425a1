"""Nodes: running, cutting, closing, and what callbacks may do meanwhile."""

import logging
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.tasks.cause import Cause
from acp_server.tasks.tree import NOTHING, Node, TaskTree

pytestmark = pytest.mark.anyio


async def _seven() -> int:
    return 7


async def _caught_cancel() -> BaseException:
    """A cancellation of somebody else, kept after its scope has ended."""
    kept: list[BaseException] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.lowlevel.checkpoint()
        except BaseException as error:
            kept.append(error)
            raise
    return kept[0]


# run


async def test_a_body_that_returns_gives_its_value() -> None:
    assert await TaskTree().root.child("a").run(_seven) == (7, None)


async def test_a_body_gets_its_arguments_and_none_is_a_value() -> None:
    got: list[Any] = []

    async def body(*args: Any) -> None:
        got.extend(args)

    assert await TaskTree().root.child("a").run(body, 1, "b") == (None, None)
    assert got == [1, "b"]


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), BaseExceptionGroup("g", [SystemExit()])]
)
async def test_whatever_a_body_raises_is_handed_back_and_not_raised(error: BaseException) -> None:
    async def body() -> None:
        raise error

    assert await TaskTree().root.child("a").run(body) == (NOTHING, error)


async def test_a_cancellation_that_nobody_asked_the_node_for_is_handed_back_as_an_error() -> None:
    stray = await _caught_cancel()

    async def body() -> None:
        raise stray

    node = TaskTree().root.child("a")
    assert await node.run(body) == (NOTHING, stray)
    assert node.cause is None


async def test_a_body_that_was_cut_before_it_began_is_not_executed() -> None:
    node = TaskTree().root.child("a")
    node.cut(Cause.USER)
    assert await node.run(pytest.fail, "it ran") == (NOTHING, None)


async def test_a_body_of_a_closed_node_is_not_executed() -> None:
    node = TaskTree().root.child("a")
    node.close()
    assert await node.run(pytest.fail, "it ran") == (NOTHING, None)


async def test_a_body_that_gives_in_to_its_cut_has_neither_value_nor_error() -> None:
    node = TaskTree().root.child("a")

    async def body() -> None:
        node.cut(Cause.PEER)
        await anyio.lowlevel.checkpoint()
        pytest.fail("it went on")

    assert await node.run(body) == (NOTHING, None)


async def test_a_body_that_returns_although_it_was_cut_keeps_its_value() -> None:
    node = TaskTree().root.child("a")

    async def body() -> str:
        node.cut(Cause.PEER)
        try:
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class():
            return "partial"
        return "untouched"

    assert await node.run(body) == ("partial", None)


async def test_what_a_cut_body_raises_instead_is_handed_back() -> None:
    node = TaskTree().root.child("a")
    error = ValueError("cleanup")

    async def body() -> None:
        node.cut(Cause.PEER)
        try:
            await anyio.lowlevel.checkpoint()
        finally:
            raise error

    assert await node.run(body) == (NOTHING, error)


async def test_a_cut_interrupts_what_the_body_started_itself() -> None:
    node = TaskTree().root.child("a")
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
            node.cut(Cause.PEER)

    assert await node.run(body) == (NOTHING, None)
    assert ended == ["child"]


# cut


async def test_the_first_cause_stands() -> None:
    node = TaskTree().root.child("a")
    assert node.cut(Cause.TIMEOUT)
    assert not node.cut(Cause.PEER)
    assert node.cause is Cause.TIMEOUT


async def test_cutting_takes_the_whole_subtree_and_nothing_else() -> None:
    tree = TaskTree()
    a, b = tree.root.child("a"), tree.root.child("b")
    deep = a.child("turn").child("tool")
    a.cut(Cause.SESSION)
    assert deep.cause is Cause.SESSION
    assert b.cause is None
    assert tree.root.cause is None


async def test_what_was_cut_before_keeps_its_own_cause_when_its_parent_is_cut() -> None:
    tree = TaskTree()
    tool = tree.root.child("turn").child("tool")
    tool.cut(Cause.USER)
    tree.root.cut(Cause.CLOSED)
    assert tool.cause is Cause.USER
    assert tool.parent is not None
    assert tool.parent.cause is Cause.CLOSED


async def test_what_is_nested_in_something_cut_is_born_cut() -> None:
    node = TaskTree().root.child("a")
    node.cut(Cause.SESSION)
    child = node.child("b")
    assert child.cause is Cause.SESSION
    assert not child.cut(Cause.PEER)
    assert await child.run(pytest.fail, "it ran") == (NOTHING, None)


async def test_a_closed_node_cannot_be_cut() -> None:
    node = TaskTree().root.child("a")
    node.close()
    assert not node.cut(Cause.PEER)
    assert node.cause is None


async def test_nodes_in_tasks_of_their_own_end_together() -> None:
    tree = TaskTree()
    outer = tree.root.child("outer")
    inner = outer.child("inner")
    results: dict[str, Any] = {}

    async def run(node: Node) -> None:
        results[node.label] = await node.run(anyio.sleep_forever)

    async with anyio.create_task_group() as group:
        group.start_soon(run, outer)
        group.start_soon(run, inner)
        await anyio.wait_all_tasks_blocked()
        outer.cut(Cause.PEER)
    assert results == {"outer": (NOTHING, None), "inner": (NOTHING, None)}


async def test_cutting_an_inner_node_leaves_the_outer_body_running() -> None:
    outer = TaskTree().root.child("outer")
    inner = outer.child("inner")

    async def body() -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(inner.run, anyio.sleep_forever)
            await anyio.wait_all_tasks_blocked()
            inner.cut(Cause.USER)
        await anyio.lowlevel.checkpoint()
        return "went on"

    assert await outer.run(body) == ("went on", None)


# callbacks


async def test_callbacks_are_called_outermost_first_when_every_cause_is_recorded() -> None:
    tree = TaskTree()
    a = tree.root.child("a")
    b, c = a.child("b"), a.child("c")
    seen: list[tuple[str, list[Cause | None]]] = []
    for node in (c, b, a):
        node.on_cut = lambda node: seen.append((node.label, [n.cause for n in (a, b, c)]))
    a.cut(Cause.PEER)
    assert seen == [(label, [Cause.PEER] * 3) for label in "abc"]


async def test_a_callback_is_called_once_however_often_its_node_is_cut() -> None:
    tree = TaskTree()
    node = tree.root.child("a")
    seen: list[Node] = []
    node.on_cut = seen.append
    node.cut(Cause.PEER)
    node.cut(Cause.SESSION)
    tree.root.cut(Cause.CLOSED)
    node.close()
    assert seen == [node]


async def test_a_callback_that_fails_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    tree = TaskTree()
    a, b = tree.root.child("a"), tree.root.child("b")
    seen: list[Node] = []

    def fail(_node: Node) -> None:
        raise ValueError("quick")

    a.on_cut, b.on_cut = fail, seen.append
    assert tree.root.cut(Cause.CLOSED)
    assert seen == [b]
    assert [(r.levelno, r.getMessage()) for r in caplog.records] == [
        (logging.ERROR, "a callback for the cut of a failed")
    ]


async def test_a_callback_may_cut_its_own_node_its_parent_and_its_siblings() -> None:
    tree = TaskTree()
    a, b = tree.root.child("a"), tree.root.child("b")
    tool = a.child("tool")
    seen: list[str] = []

    def cut_all(node: Node) -> None:
        seen.append(node.label)
        for other in (tool, a, b, tree.root):
            other.cut(Cause.USER)

    for node in (tool, a, b):
        node.on_cut = cut_all
    a.cut(Cause.PEER)
    assert seen == ["a", "b", "tool"]
    assert [n.cause for n in (a, tool, b, tree.root)] == [Cause.PEER, Cause.PEER, Cause.USER, Cause.USER]


async def test_a_callback_may_close_nodes_of_the_same_cut_and_their_callbacks_are_spared() -> None:
    tree = TaskTree()
    a = tree.root.child("a")
    b, c = a.child("b"), a.child("c")
    seen: list[str] = []

    def close_b(node: Node) -> None:
        seen.append(node.label)
        b.close()

    a.on_cut = close_b
    b.on_cut = c.on_cut = lambda node: seen.append(node.label)
    a.cut(Cause.PEER)
    assert seen == ["a", "c"]
    assert tree.size == 2


async def test_a_callback_may_open_a_node_which_is_born_cut() -> None:
    node = TaskTree().root.child("a")
    born: list[Node] = []
    node.on_cut = lambda node: born.append(node.child("late"))
    node.cut(Cause.PEER)
    assert [child.cause for child in born] == [Cause.PEER]


# close


async def test_closing_cuts_what_is_still_nested() -> None:
    tree = TaskTree()
    node = tree.root.child("a")
    child = node.child("b")
    node.close()
    assert child.cause is Cause.FINISHED
    assert node.cause is None
    assert tree.size == 0


async def test_closing_a_cut_node_leaves_the_cause_of_its_children() -> None:
    node = TaskTree().root.child("a")
    child = node.child("b")
    node.cut(Cause.SESSION)
    node.close()
    assert child.cause is Cause.SESSION


async def test_closing_is_idempotent() -> None:
    tree = TaskTree()
    node = tree.root.child("a")
    node.close()
    node.close()
    assert node.closed
    assert tree.size == 0


async def test_a_child_may_close_after_its_parent() -> None:
    tree = TaskTree()
    node = tree.root.child("a")
    child = node.child("b")
    node.close()
    child.close()
    assert child.closed
    assert not node.children


async def test_a_closed_node_takes_no_children() -> None:
    node = TaskTree().root.child("request 7")
    node.close()
    with pytest.raises(RuntimeError, match="request 7 has ended"):
        node.child("late")


async def test_a_root_can_be_closed() -> None:
    root = TaskTree().root
    child = root.child("a")
    root.close()
    assert child.cause is Cause.FINISHED


async def test_closing_a_node_cuts_the_body_that_still_runs_in_it() -> None:
    node = TaskTree().root.child("a")

    async def body() -> None:
        node.close()
        await anyio.lowlevel.checkpoint()
        pytest.fail("nothing could have cut it any more")

    assert await node.run(body) == (NOTHING, None)
    assert node.cause is Cause.FINISHED


async def test_a_callback_may_close_its_own_node() -> None:
    tree = TaskTree()
    node = tree.root.child("a")
    node.on_cut = Node.close
    async with anyio.create_task_group() as group:
        group.start_soon(node.run, anyio.sleep_forever)
        await anyio.wait_all_tasks_blocked()
        node.cut(Cause.PEER)
    assert tree.size == 0


# let_be


async def test_what_was_cut_and_is_let_be_can_wait_again() -> None:
    node = TaskTree().root.child("a")
    go = anyio.Event()

    async def body() -> str:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            node.let_be()
        await anyio.lowlevel.checkpoint()
        await go.wait()
        return "at last"

    async def cut() -> None:
        node.cut(Cause.PEER)
        await anyio.wait_all_tasks_blocked()
        go.set()

    async with anyio.create_task_group() as group:
        group.start_soon(cut)
        assert await node.run(body) == ("at last", None)
    assert node.cause is Cause.PEER


async def test_what_was_not_cut_is_not_let_be() -> None:
    outer = TaskTree().root.child("outer")
    outer.child("inner").cut(Cause.USER)

    async def body() -> None:
        outer.let_be()
        outer.cut(Cause.PEER)
        await anyio.lowlevel.checkpoint()
        pytest.fail("it was not cut, so it had to stay cuttable")

    assert await outer.run(body) == (NOTHING, None)


async def test_letting_be_reaches_what_is_nested() -> None:
    outer = TaskTree().root.child("outer")
    inner = outer.child("inner")

    async def stubborn() -> str:
        outer.cut(Cause.PEER)
        with pytest.raises(anyio.get_cancelled_exc_class()):
            await anyio.lowlevel.checkpoint()
        outer.let_be()
        await anyio.lowlevel.checkpoint()
        return "at last"

    assert await outer.run(inner.run, stubborn) == (("at last", None), None)


# keys


async def test_a_key_finds_its_node_until_it_is_released() -> None:
    tree = TaskTree()
    node = tree.open(7, "a")
    assert not tree.cancel("7", Cause.PEER)
    assert node.cause is None
    assert tree.cancel(7, Cause.PEER)
    assert not tree.cancel(7, Cause.PEER)
    tree.release(7, node)
    assert not tree.cancel(7, Cause.PEER)


@pytest.mark.behaviour("E4")
async def test_a_stale_node_does_not_release_the_key_of_its_successor() -> None:
    tree = TaskTree()
    first = tree.open(7, "first")
    tree.release(7, first)
    second = tree.open(7, "second")
    tree.release(7, first)
    assert tree.cancel(7, Cause.PEER)
    assert second.cause is Cause.PEER
    assert first.cause is None


async def test_size_counts_at_every_depth_and_reprs_say_the_state() -> None:
    tree = TaskTree()
    a = tree.open(1, "a")
    b = a.child("b")
    assert tree.size == 2
    assert a.size == 1
    assert repr(b) == "<Node b open>"
    a.cut(Cause.PEER)
    assert repr(b) == "<Node b peer>"
    b.close()
    assert repr(b) == "<Node b closed>"
    assert tree.size == 1
    assert repr(NOTHING) == "NOTHING"


# a child that shares its parent's scope


async def test_cutting_a_sharing_node_interrupts_its_parents_body_and_is_recorded_on_it_alone() -> None:
    parent = TaskTree().root.child("request")
    child = parent.child("turn", shares_scope=True)
    seen: list[Any] = []

    async def body() -> str:
        seen.append(await child.run(anyio.sleep_forever))
        # The scope is cancelled: who goes on may only do what needs no waiting, or is shielded.
        with pytest.raises(anyio.get_cancelled_exc_class()):
            await anyio.lowlevel.checkpoint()
        return "answer"

    async def cut() -> None:
        child.cut(Cause.SESSION)

    async with anyio.create_task_group() as group:
        group.start_soon(cut)
        assert await parent.run(body) == ("answer", None)
    assert seen == [(NOTHING, None)]
    assert (parent.cause, child.cause) == (None, Cause.SESSION)


async def test_what_a_sharing_node_returns_or_raises_is_handed_back() -> None:
    parent = TaskTree().root.child("request")
    error = ValueError("x")
    seen: list[Any] = []

    async def fail() -> None:
        child.cut(Cause.SESSION)
        raise error

    async def body() -> None:
        seen.append(await parent.child("one", shares_scope=True).run(_seven))
        seen.append(await child.run(fail))

    child = parent.child("two", shares_scope=True)
    await parent.run(body)
    assert seen == [(7, None), (NOTHING, error)]


async def test_a_cancellation_in_a_sharing_node_that_was_not_cut_is_an_error() -> None:
    stray = await _caught_cancel()
    parent = TaskTree().root.child("request")

    async def leak() -> None:
        raise stray

    async def body() -> Any:
        return await parent.child("turn", shares_scope=True).run(leak)

    assert await parent.run(body) == ((NOTHING, stray), None)


async def test_cutting_the_parent_of_a_sharing_node_cuts_both() -> None:
    parent = TaskTree().root.child("request")
    child = parent.child("turn", shares_scope=True)

    async def body() -> Any:
        return await child.run(_cut_and_wait, parent)

    assert await parent.run(body) == ((NOTHING, None), None)
    assert child.cause is Cause.PEER


async def test_letting_a_sharing_node_be_frees_what_its_parent_runs() -> None:
    parent = TaskTree().root.child("request")
    child = parent.child("turn", shares_scope=True)

    async def stubborn() -> str:
        child.cut(Cause.SESSION)
        with pytest.raises(anyio.get_cancelled_exc_class()):
            await anyio.lowlevel.checkpoint()
        parent.let_be()
        await anyio.lowlevel.checkpoint()
        return "at last"

    assert await parent.run(child.run, stubborn) == (("at last", None), None)


async def test_a_sharing_node_can_be_cut_before_its_parent_runs() -> None:
    parent = TaskTree().root.child("request")
    child = parent.child("turn", shares_scope=True)
    child.cut(Cause.SESSION)
    child.let_be()
    assert await parent.run(child.run, pytest.fail) == ((NOTHING, None), None)


async def _cut_and_wait(node: Node) -> None:
    node.cut(Cause.PEER)
    await anyio.lowlevel.checkpoint()
    pytest.fail("it went on")
