"""Cancel scopes of one event loop, and cancelling them at any depth of nesting.

The task tree decides which scopes are cancelled.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import anyio
import anyio.lowlevel

_STRIDE: Final = 20
"""Nested scopes that anyio cancels by one recursion. It repeats that in every round of the loop until the cancel has
taken effect."""

_ROOM: Final = 5 * _STRIDE
"""Stack frames that a cancel needs."""


class Pair:
    """The two scopes around a run. A cancel cancels the outer one; the inner one can be shielded from it later, see
    `Node.stop_cancelling`."""

    __slots__ = ("cancelled", "inner", "nested", "outer")

    def __init__(self, outer: anyio.CancelScope, inner: anyio.CancelScope) -> None:
        self.outer: Any = outer
        self.inner: Any = inner
        self.cancelled: bool = False
        """Whether the pair was cancelled, or is queued for it."""
        self.nested: Collection[Any] = getattr(inner, "_child_scopes", ())
        """The scopes that are open inside now. Empty on trio, which cancels nested scopes without recursion."""


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
        """The pairs that `deliver` will cancel."""
        self._unfinished: dict[Iterator[None], None] = {}

    def cancel(self, pair: Pair) -> None:
        """Cancel the tasks in a pair. The caller has checked `has_room`.

        On asyncio the loop does it a moment later, for all pairs that were cancelled by then. anyio formats the name of
        the cancelling task for each cancel, which costs more than the cancel; in a loop callback there is no such task.
        """
        pair.cancelled = True
        if not self._is_recursive:
            pair.outer.cancel()
            return
        if not self.due:
            self.soon(self.deliver)
        self.due.append(pair)

    def deliver(self) -> None:
        """Cancel the queued pairs now, for code that has to see whether its scope was cancelled.

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
    """The scopes to cancel first, innermost first, so that no recursion of anyio is deeper than the stride.

    A recursion ends at a scope that is cancelled already. Each block on its way out also searches for the nearest
    cancelled scope around it, which is near then.
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

    For work that was cancelled and does not end. Its cancel would be delivered again in every round of the event loop,
    or at every checkpoint, and could take all of the CPU.
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
