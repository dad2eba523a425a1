"""Makes the scopes of one event loop and cancels them, however deep what runs in them is nested.

What the scopes stand for is the task tree's matter.
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
"""How many scopes within one another anyio is given to cancel at a time. While a cancel has not taken effect, it is
handed down anew in every round of the loop."""

_ROOM: Final = 5 * _STRIDE
"""Frames of the stack that a cancel has for itself."""


class Pair:
    """The two scopes around a run, which its task has entered: a cancel is that of the outer one; the inner one can be
    shielded from that later, see `Node.stop_cancelling`."""

    __slots__ = ("cancelled", "inner", "nested", "outer")

    def __init__(self, outer: anyio.CancelScope, inner: anyio.CancelScope) -> None:
        self.outer: Any = outer
        self.inner: Any = inner
        self.cancelled: bool = False
        """Whether it was cancelled, or is about to be."""
        self.nested: Collection[Any] = _children(inner)
        """The scopes that are open in it now. Empty on trio, which tells when the task leaves the pair."""


class Scopes:
    """The scopes of the event loop that it was made in."""

    __slots__ = ("_is_recursive", "_unfinished", "cancelled", "due", "home", "make", "soon")

    def __init__(self) -> None:
        loop: Any = anyio.lowlevel.current_token().native_token
        self.home: Final = threading.get_ident()
        """The loop's thread."""
        # The running backend's class: anyio's constructor looks it up every time, which costs half of a scope.
        self.make: Final[Callable[[], anyio.CancelScope]] = type(anyio.CancelScope())
        """A new scope."""
        self.soon: Final[Callable[..., object]] = getattr(loop, "call_soon", None) or loop.run_sync_soon
        """Has a function called by the loop itself, with nothing below it on the stack."""
        self.cancelled: Final = anyio.get_cancelled_exc_class()
        """What is raised in a task that is cancelled."""
        self._is_recursive = hasattr(loop, "call_soon")
        self.due: list[Pair] = []
        """What `deliver` is to do."""
        self._unfinished: dict[Iterator[None], None] = {}

    def cancel(self, pair: Pair) -> None:
        """Cancel all that runs in it, unless that has been done. Only with `has_room`.

        On asyncio it is done a moment later, by the loop, for all that are cancelled meanwhile. There anyio notes in
        each cancel by which task it was, in words, and that takes longer than the cancel.
        """
        pair.cancelled = True
        if not self._is_recursive:
            pair.outer.cancel()
            return
        if not self.due:
            self.soon(self.deliver)
        self.due.append(pair)

    def deliver(self) -> None:
        """Do at once what `cancel` has put off: for code that has to see in its scope whether it was cancelled.

        On asyncio, anyio hands a cancel down by recursion, one frame for each scope. Where the stack ends, some 980
        scopes down, it gives up for good, and a task that it is just waking may never wake. So it must not get there.
        """
        due, self.due = self.due, []
        for pair in due:
            if pair.nested and not pair.inner.shield:
                for scope in _every_so_deep(pair.inner):
                    scope.cancel()
            pair.outer.cancel()

    def go_through(self, work: Iterator[None]) -> None:
        """Do `work` up to its first pause now, and the rest, from pause to pause, in the next rounds of the loop."""
        for _ in work:
            self._unfinished[work] = None
            self.soon(self.go_through, work)
            return
        self._unfinished.pop(work, None)

    def finish(self) -> None:
        """Do the rest of all such work at once."""
        for work in list(self._unfinished):
            for _ in work:
                pass
        self.deliver()


def has_room() -> bool:
    """Whether the stack has room for a cancel and for what is called at it."""
    try:
        # Nearly always it is not even half full, which is much cheaper to see.
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
    """The scopes to cancel by themselves first, from the innermost on: the recursion ends at what is cancelled.

    Each block on its way out looks for the nearest cancelled scope around it, which is near then.
    """
    marked: list[anyio.CancelScope] = []
    level, depth = [inner], 0
    while level:
        level = [child for scope in level for child in _children(scope) if not child.shield]
        depth += 1
        if depth % _STRIDE == 0:
            # Not an innermost one: what runs right in it could not be left alone any more, see `stop_cancelling_in`.
            marked += [scope for scope in level if _children(scope)]
    return reversed(marked)


def stop_cancelling(scope: anyio.CancelScope) -> None:
    """From now on, a cancel from outside of `scope` does not reach what runs in it.

    For work that was cancelled and does not end. Its cancel would be delivered anew in every turn of the event loop, or
    at every checkpoint, and that can take all of the processor for as long as the work lasts.
    """
    scope.shield = True
    # On asyncio, work that has just looked for its cancel (anyio's `checkpoint_if_cancelled`) waits for that alone, in
    # every turn of the loop, and does not see the shield: it gets the cancel once more. anyio has no public way.
    deliver = getattr(scope, "_deliver_cancellation", None)
    outside = getattr(scope, "_parent_scope", None)
    if deliver is not None and outside is not None:
        # anyio delivers recursively; nothing can be delivered where that is too deep.
        with suppress(RecursionError):
            deliver(outside)


def stop_cancelling_in(scope: anyio.CancelScope) -> None:
    """From now on no cancel reaches what runs in `scope`, be it from outside or of a scope nested in it."""
    stop_cancelling(scope)
    left = [scope]
    while left:
        scope = left.pop()
        for child in _children(scope):
            if scope.cancel_called:
                stop_cancelling(child)
            left.append(child)


def _children(scope: anyio.CancelScope) -> Collection[anyio.CancelScope]:
    # Private, for anyio has no public way to ask. trio hands a cancel down without recursion, and needs none.
    return getattr(scope, "_child_scopes", ())
