"""The task tree. It has a node for each running request, turn and tool call, and the cancel scopes in which nodes run.
A cancel of a node reaches the nodes below it, at any depth of nesting.

The tree knows no messages and no responses. A node records the cause of its cancel, and its owner decides what
follows.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import anyio
import anyio.lowlevel

from acp_server.tasks.cause import Cause, is_cancellation

_STRIDE: Final = 20
"""The most nested scopes that anyio cancels by one recursion. anyio repeats that in every round of the loop until the
cancel has taken effect."""

_ROOM: Final = 5 * _STRIDE
"""The number of stack frames that a cancel needs."""


class Pair:
    """The two cancel scopes around a run. A cancel cancels the outer scope. The inner scope can be shielded from it
    later (see `Node.stop_cancelling`)."""

    __slots__ = ("cancelled", "inner", "nested", "outer")

    def __init__(self, outer: anyio.CancelScope, inner: anyio.CancelScope) -> None:
        self.outer: Any = outer
        self.inner: Any = inner
        self.cancelled: bool = False
        """Whether the outer scope was cancelled, or will be."""
        self.nested: Collection[Any] = getattr(inner, "_child_scopes", ())
        """The scopes that are open inside now. This is empty on trio, which cancels nested scopes without recursion."""


class Scopes:
    """Makes and cancels the scopes of the event loop in which it was created."""

    __slots__ = ("_is_recursive", "_unfinished", "cancelled", "due", "home", "make", "soon")

    def __init__(self) -> None:
        loop: Any = anyio.lowlevel.current_token().native_token
        self.home: Final = threading.get_ident()
        """The id of the loop's thread."""
        # The backend's own class: `anyio.CancelScope()` looks it up each time, which is half of the cost of a scope.
        self.make: Final[Callable[[], anyio.CancelScope]] = type(anyio.CancelScope())
        """A new scope."""
        self.soon: Final[Callable[..., object]] = getattr(loop, "call_soon", None) or loop.run_sync_soon
        """Schedules a function that the loop then calls with an empty stack."""
        self.cancelled: Final = anyio.get_cancelled_exc_class()
        """The exception that the backend raises in a cancelled task."""
        self._is_recursive = hasattr(loop, "call_soon")
        self.due: list[Pair] = []
        """The pairs of scopes that `deliver` will cancel."""
        self._unfinished: dict[Iterator[None], None] = {}

    def cancel(self, pair: Pair) -> None:
        """Cancel the tasks in the two scopes. The caller has checked `has_room`.

        On asyncio the loop does it a moment later, for all scopes that were cancelled by then. anyio formats the name
        of the cancelling task for each cancel, which costs more than the cancel. In a loop callback there is no such
        task.
        """
        pair.cancelled = True
        if not self._is_recursive:
            pair.outer.cancel()
            return
        if not self.due:
            self.soon(self.deliver)
        self.due.append(pair)

    def deliver(self) -> None:
        """Cancel the queued pairs of scopes now, for code that has to see whether its scope was cancelled.

        On asyncio, anyio passes a cancel down by recursion, one frame for each nested scope. At the end of the stack,
        some 980 scopes down, it gives up for good, and a task that it is waking may never wake. So deep scopes are
        cancelled one by one first.
        """
        due, self.due = self.due, []
        for pair in due:
            if pair.nested and not pair.inner.shield:
                for scope in _every_so_deep(pair.inner):
                    scope.cancel()
            pair.outer.cancel()

    def go_through(self, work: Iterator[None]) -> None:
        """Run `work` to its first `yield` now, and from `yield` to `yield` in the next rounds of the loop."""
        for _ in work:
            self._unfinished[work] = None
            self.soon(self.go_through, work)
            return
        self._unfinished.pop(work, None)

    def finish(self) -> None:
        """Run the rest of all such work now."""
        for work in list(self._unfinished):
            for _ in work:
                pass
        self.deliver()


def has_room() -> bool:
    """Whether the stack has room for a cancel and its callbacks."""
    try:
        # Nearly always the stack is less than half full, which is cheaper to check.
        sys._getframe(sys.getrecursionlimit() // 2)  # pyright: ignore[reportPrivateUsage]
    except ValueError:
        return True
    try:
        _descend(_ROOM)
    except RecursionError:
        return False
    return True


def _descend(frames: int) -> None:
    if frames:
        _descend(frames - 1)


def _every_so_deep(inner: anyio.CancelScope) -> Iterable[anyio.CancelScope]:
    """Return the scopes to cancel first, innermost first, so that no recursion of anyio is deeper than `_STRIDE`.

    A recursion ends at a scope that is cancelled already. On its way out, each block also searches for the nearest
    cancelled scope around it. That scope is then near.
    """
    marked: list[anyio.CancelScope] = []
    level, depth = [inner], 0
    while level:
        level = [child for scope in level for child in _children(scope) if not child.shield]
        depth += 1
        if depth % _STRIDE == 0:
            # Never an innermost scope: a task right in it could not be shielded later, see `stop_cancelling_in`.
            marked += [scope for scope in level if _children(scope)]
    return reversed(marked)


def stop_cancelling(scope: anyio.CancelScope) -> None:
    """Shield `scope` from cancels from outside, also from a cancel that is being delivered.

    This is for work that was cancelled and does not end. Its cancel would be delivered again in every round of the
    event loop, or at every checkpoint, and could take all of the CPU.
    """
    scope.shield = True
    # On asyncio, a task inside anyio's `checkpoint_if_cancelled` yields in each round until its cancel arrives, and
    # does not see the new shield. Delivering the cancel once more ends that. anyio has no public function for it.
    deliver = getattr(scope, "_deliver_cancellation", None)
    outside = getattr(scope, "_parent_scope", None)
    if deliver is not None and outside is not None:
        # anyio delivers by recursion, which can be too deep.
        with suppress(RecursionError):
            deliver(outside)


def stop_cancelling_in(scope: anyio.CancelScope) -> None:
    """Shield `scope` and the scopes nested in it from all cancels that were made."""
    stop_cancelling(scope)
    left = [scope]
    while left:
        scope = left.pop()
        for child in _children(scope):
            if scope.cancel_called:
                stop_cancelling(child)
            left.append(child)


def _children(scope: anyio.CancelScope) -> Collection[anyio.CancelScope]:
    # A private attribute: anyio has no public one. trio cancels without recursion and needs none.
    return getattr(scope, "_child_scopes", ())


logger: logging.Logger = logging.getLogger("acp_server.tasks")

_AT_ONCE: Final = 100
"""The most nodes that are cancelled in one round of the event loop, if no running node contains them all."""


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()
"""The value of a run that returned nothing, because it raised or was cancelled."""


class Node:
    """One scope of work, with child nodes.

    It exists from its creation until `close`. In between, `run` executes its body, and `cancel` ends it early.
    """

    __slots__ = (
        "_scopes",
        "cause",
        "children",
        "closed",
        "label",
        "on_cancel",
        "pair",
        "parent",
    )

    def __init__(self, parent: Node | None, label: str, scopes: Scopes | None = None) -> None:
        """`scopes`: for a root node, the scopes of the event loop, if other roots share them."""
        self.parent: Node | None = parent
        self.label: str = label
        self.children: dict[Node, None] | None = None
        self.cause: Cause | None = None
        self.closed = False
        self.on_cancel: Callable[[Node], None] | None = None
        """Called when this node or a node above it is cancelled. It is not called if the node above was cancelled
        before this node was created. It must be quick and must not wait. On RecursionError the event loop calls it once
        more."""
        self.pair: Pair | None = None
        """The scopes of the node's run; None while nothing runs in it."""
        if parent is None:
            self._scopes = scopes or Scopes()
        else:
            if parent.closed:
                raise RuntimeError(f"{parent.label} has ended")
            self._scopes = parent._scopes
            # A child of a cancelled node is cancelled from the beginning.
            self.cause = parent.cause
            if parent.children is None:
                parent.children = {}
            parent.children[self] = None

    def __repr__(self) -> str:
        state = "closed" if self.closed else self.cause.value if self.cause else "open"
        return f"<Node {self.label} {state}>"

    def child(self, label: str) -> Node:
        """Return a new child node. Raises RuntimeError if this node is closed."""
        return Node(self, label)

    async def run(self, body: Callable[..., Awaitable[Any]], *args: Any) -> tuple[Any, BaseException | None]:
        """Execute `body(*args)` in this node's scope. Returns its value or `NOTHING`, and its exception or None.

        A body that was cancelled before it began is not executed. A body that was cancelled and let the cancellation
        through has neither value nor exception. This method never raises, so that the caller can always respond.
        """
        make = self._scopes.make
        try:
            with make() as outer, make() as inner:
                if not self.enter(Pair(outer, inner)):
                    return NOTHING, None
                try:
                    return await body(*args), None
                except BaseException as error:
                    # Exceptions of the body were caught inside, so the scopes have nothing to swallow.
                    return NOTHING, None if self.gave_in(error) else error
                finally:
                    self.pair = None
        except BaseException as error:
            # The body left a cancel scope open, so leaving ours failed.
            return NOTHING, error
        return NOTHING, None

    def enter(self, pair: Pair) -> bool:
        """Let this node run in scopes that the task has entered already, until `pair` is set to None. Returns False if
        the node is cancelled or closed.

        Shared scopes save a third of the cost of a request. Nested nodes may share the two scopes. Then a cancel of any
        of these nodes cancels the scopes."""
        if self.cause is not None or self.closed:
            return False
        self.pair = pair
        return True

    def gave_in(self, error: BaseException) -> bool:
        """Whether this node was cancelled and `error` is that cancellation and nothing else."""
        return self.cause is not None and (type(error) is self._scopes.cancelled or is_cancellation(error))

    def cancel(self, cause: Cause) -> bool:
        """Cancel this node and all nodes below it. Returns False, and keeps the first cause, if the node is closed or
        was cancelled before.

        All nodes have their cause when this returns. With hundreds of nodes, or almost no stack left, the event loop
        cancels their scopes a moment later. Raises RuntimeError outside of the event loop's thread, and RecursionError
        without any stack left; then nothing is cancelled.
        """
        if self.closed or self.cause is not None:
            return False
        scopes = self._scopes
        if threading.get_ident() != scopes.home:
            raise RuntimeError(f"{self.label} can be cancelled only in the thread of its event loop")
        fresh: list[Node] = []
        at_once = has_room()
        if not at_once:
            scopes.soon(self._act, fresh)
        self.cause = cause
        # Depth first: each node before its children.
        left: list[Node] = [self]
        while left:
            node = left.pop()
            fresh.append(node)
            for child in reversed(node.children or ()):
                if child.cause is None:
                    child.cause = cause
                    left.append(child)
        if at_once and len(fresh) <= _AT_ONCE:
            self._cancel_scopes(fresh)
        elif at_once:
            self._act(fresh)
        return True

    def finish_cancels(self) -> None:
        """Carry out pending cancels of this tree now."""
        self._scopes.finish()

    def _act(self, fresh: list[Node]) -> None:
        if len(fresh) <= _AT_ONCE:
            self._cancel_scopes(fresh)
        else:
            self._scopes.go_through(self._acting(fresh))

    def _acting(self, fresh: list[Node]) -> Iterator[None]:
        """Cancel the scopes of `fresh`, with pauses in which cancelled tasks can end."""
        # A running node is cancelled together with its children: it must not see a child end and continue. In a node
        # where nothing runs, the children are independent and can be cancelled in portions.
        in_one_go = self.pair is not None
        portion: list[Node] = []
        for node in fresh:
            if node.parent is self and len(portion) >= _AT_ONCE and not in_one_go:
                self._cancel_scopes(portion)
                portion = []
                yield
            portion.append(node)
        self._cancel_scopes(portion)

    def _cancel_scopes(self, nodes: list[Node]) -> None:
        """Cancel the scopes of cancelled nodes, and call their callbacks."""
        # Innermost first, since most scopes are nested. A node may also run in a task that its parent did not start.
        for node in reversed(nodes):
            if node.pair is not None and not node.pair.cancelled:
                self._scopes.cancel(node.pair)
        for node in nodes:
            node._was_cancelled(again=True)

    def _was_cancelled(self, again: bool) -> None:
        try:
            # An earlier callback may have closed this node and removed its callback.
            if self.on_cancel is not None:
                self.on_cancel(self)
        except Exception as error:
            if again and isinstance(error, RecursionError):
                self._scopes.soon(self._was_cancelled, False)
            else:
                logger.exception("a callback for the cancel of %s failed", self.label)

    def stop_cancelling(self) -> None:
        """Deliver no more cancels to the tasks of this node and of the nodes below it.

        This is for work that ignores its cancel, because the repeated delivery could take all of the CPU. No caller
        waits for the work any more.
        """
        if self.cause is not None and self.pair is not None:
            stop_cancelling_in(self.pair.inner)
        for child in self.children or ():
            child.stop_cancelling()

    def end_children(self) -> None:
        """Cancel the child nodes that have not ended."""
        for child in list(self.children or ()):
            child.cancel(Cause.FINISHED)

    def close(self) -> None:
        """End the node. Cancel the work that still runs in the node or below it, and remove the node from the tree.
        Idempotent."""
        if self.pair is not None:
            self.cancel(Cause.FINISHED)
        if self.children:
            self.end_children()
        self.closed: bool = True
        # Usually a bound method of the owner: without this, a reference cycle.
        self.on_cancel = None
        if self.parent is not None and self.parent.children is not None:
            self.parent.children.pop(self, None)

    @property
    def size(self) -> int:
        """Return the number of nodes below this one, at any depth."""
        return sum(1 + child.size for child in self.children or ())
