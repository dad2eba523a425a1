"""The tree of running scopes: request, turn, tool call, each a node that can be cancelled with all that is nested in
it.

It knows nothing of messages or answers. A node that was cancelled says so and why; what follows from it is its owner's
matter.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from acp_server.tasks.cause import Cause, is_cancellation
from acp_server.tasks.scopes import Pair, Scopes, has_room, stop_cancelling_in

logger: logging.Logger = logging.getLogger("acp_server.tasks")

_AT_ONCE: Final = 100
"""Nodes that are cancelled in one round of the event loop, if they do not belong together."""


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()
"""The value of a run that did not return."""


class Node:
    """One scope of work and the scopes nested in it.

    It lives from its making until `close`. In between, `run` executes its body, and `cancel` ends it early.
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
        """`scopes`: those that a root and what is nested in it run in, if other roots share them."""
        self.parent: Node | None = parent
        self.label: str = label
        self.children: dict[Node, None] | None = None
        self.cause: Cause | None = None
        self.closed = False
        self.on_cancel: Callable[[Node], None] | None = None
        """Called at once when this very node or one above it is cancelled; not if it is made in a node that is
        cancelled already. It must be quick and must not wait. If the stack is too deep for it, the event loop calls it
        again."""
        self.pair: Pair | None = None
        """The scopes of its run."""
        if parent is None:
            self._scopes = scopes or Scopes()
        else:
            if parent.closed:
                raise RuntimeError(f"{parent.label} has ended")
            self._scopes = parent._scopes
            # What is made in a cancelled node is cancelled from the beginning.
            self.cause = parent.cause
            if parent.children is None:
                parent.children = {}
            parent.children[self] = None

    def __repr__(self) -> str:
        state = "closed" if self.closed else self.cause.value if self.cause else "open"
        return f"<Node {self.label} {state}>"

    def child(self, label: str) -> Node:
        """A new node inside this one. Raises RuntimeError if this one is closed."""
        return Node(self, label)

    async def run(self, body: Callable[..., Awaitable[Any]], *args: Any) -> tuple[Any, BaseException | None]:
        """Execute `body(*args)` in this node's scope: what it returned, or `NOTHING`; and what it raised, or None.

        A body that was cancelled before it began is not executed. A body that was cancelled and gave in to it has
        neither value nor error. Nothing is ever raised from here, so that the caller can always answer.
        """
        make = self._scopes.make
        try:
            with make() as outer, make() as inner:
                if not self.enter(Pair(outer, inner)):
                    return NOTHING, None
                try:
                    return await body(*args), None
                except BaseException as error:
                    # Whatever it raised has ended in here, so the scopes have nothing to swallow.
                    return NOTHING, None if self.gave_in(error) else error
                finally:
                    self.pair = None
        except BaseException as error:
            # The body has left a scope open.
            return NOTHING, error
        return NOTHING, None

    def enter(self, pair: Pair) -> bool:
        """Whether this node may run, and does so in these scopes from now on: until they are taken from it, by setting
        `pair` to None. The task has entered them: scopes of its own are a third of the cost of a request. Other nodes
        may run in them as well, one within the other: a cancel of any of them reaches what runs in the scopes."""
        if self.cause is not None or self.closed:
            return False
        self.pair = pair
        return True

    def gave_in(self, error: BaseException) -> bool:
        """Whether this node was cancelled, and what runs in it has raised `error` for that alone."""
        return self.cause is not None and (type(error) is self._scopes.cancelled or is_cancellation(error))

    def cancel(self, cause: Cause) -> bool:
        """End this node and all that is nested in it. False if it is closed or was cancelled: the first cause stands.

        Each has its cause when this returns. Where hundreds are nested in this one, or the caller has almost no stack
        left, scopes are cancelled a moment later, by the event loop. Raises RuntimeError in a thread that is not the
        event loop's, and RecursionError where no stack is left; nothing is cancelled then.
        """
        if self.closed or self.cause is not None:
            return False
        scopes = self._scopes
        if threading.get_ident() != scopes.home:
            raise RuntimeError(f"{self.label} can only be cancelled in the thread of its event loop")
        fresh: list[Node] = []
        at_once = has_room()
        if not at_once:
            scopes.soon(self._act, fresh)
        self.cause = cause
        # Each node right before what is nested in it.
        left: list[Node] = [self]
        while left:
            node = left.pop()
            fresh.append(node)
            for child in reversed(node.children or ()):
                if child.cause is None:
                    child.cause = cause
                    left.append(child)
        if at_once:
            self._act(fresh)
        return True

    def finish_cancels(self) -> None:
        """Do at once what is left to do of cancels in the tree of this node."""
        self._scopes.finish()

    def _act(self, fresh: list[Node]) -> None:
        if len(fresh) <= _AT_ONCE:
            self._cancel_scopes(fresh)
        else:
            self._scopes.go_through(self._acting(fresh))

    def _acting(self, fresh: list[Node]) -> Iterator[None]:
        """Cancel the scopes of `fresh`. With pauses, for what is cancelled ends in the next round of the loop."""
        # What runs in a node is cancelled with all that is nested in it, so that it does not go on because of the end
        # of that. In a node where nothing runs, one child can be cancelled after the other.
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
        """Cancel the scopes of nodes that were cancelled, and call their callbacks."""
        # Innermost first. Most scopes lie within one another, but a node may run in a task that its parent did not
        # start.
        for node in reversed(nodes):
            if node.pair is not None and not node.pair.cancelled:
                self._scopes.cancel(node.pair)
        for node in nodes:
            node._was_cancelled(again=True)

    def _was_cancelled(self, again: bool) -> None:
        try:
            # One callback may have closed the node of another, which then has none.
            if self.on_cancel is not None:
                self.on_cancel(self)
        except Exception as error:
            if again and isinstance(error, RecursionError):
                self._scopes.soon(self._was_cancelled, False)
            else:
                logger.exception("a callback for the cancel of %s failed", self.label)

    def stop_cancelling(self) -> None:
        """Leave alone what was cancelled, here and in all that is nested, and has not ended: it is not cancelled any
        more.

        Its caller waits no more from now on. Without this it could take all of the processor by refusing to end.
        """
        if self.cause is not None and self.pair is not None:
            stop_cancelling_in(self.pair.inner)
        for child in self.children or ():
            child.stop_cancelling()

    def end_children(self) -> None:
        """Cancel what is nested in this one and has not ended."""
        for child in list(self.children or ()):
            child.cancel(Cause.FINISHED)

    def close(self) -> None:
        """The work is over. What still runs in it, or is nested in it, is cancelled; the node leaves the tree.
        Idempotent."""
        if self.pair is not None:
            self.cancel(Cause.FINISHED)
        if self.children:
            self.end_children()
        self.closed: bool = True
        # Its owner's method, as a rule: a circle that would be left to the garbage collector.
        self.on_cancel = None
        if self.parent is not None and self.parent.children is not None:
            self.parent.children.pop(self, None)

    @property
    def size(self) -> int:
        """How many nodes are nested in this one, at any depth."""
        return sum(1 + child.size for child in self.children or ())
