"""The tree of running scopes: request, turn, tool call, each a node that can be cut with all that is nested in it.

It knows nothing of messages or answers. A node that was cut says so and why; what follows from it is its owner's
matter.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio

from acp_server.tasks.cause import Cause

logger = logging.getLogger("acp_server.tasks")


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()
"""The value of a run that did not return."""


class Node:
    """One scope of work and the scopes nested in it.

    It lives from its making until `close`. In between, `run` executes its body at most once, and `cut` ends it early.
    """

    __slots__ = ("_scope", "cause", "children", "closed", "label", "on_cut", "parent")

    def __init__(self, parent: Node | None, label: str) -> None:
        self.parent = parent
        self.label = label
        self.children: dict[Node, None] | None = None
        self.cause: Cause | None = None
        self.closed = False
        self.on_cut: Callable[[Node], None] | None = None
        """Called at once when this very node or one above it is cut. It must be quick and must not wait."""
        self._scope: anyio.CancelScope | None = None
        if parent is not None:
            if parent.closed:
                raise RuntimeError(f"{parent.label} has ended")
            # What is nested in something cut is born cut.
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

        A body that was cut before it began is not executed. One that was cut and gave in to it has neither value nor
        error. Nothing is ever raised from here, so that whoever called can always answer.
        """
        value: Any = NOTHING
        if self.cause is not None or self.closed:
            return value, None
        try:
            with anyio.CancelScope() as self._scope:
                value = await body(*args)
        except BaseException as error:
            return value, error
        finally:
            self._scope = None
        return value, None

    def cut(self, cause: Cause) -> bool:
        """End this node and everything nested in it. False if it is closed or was cut before: the first cause stands."""
        if self.closed or self.cause is not None:
            return False
        fresh: list[Node] = []
        pending: list[Node] = [self]
        while pending:
            node = pending.pop()
            if node.cause is None:
                node.cause = cause
                fresh.append(node)
            if node.children:
                pending.extend(node.children)
        # Innermost first. Most scopes lie within one another, but a node may run in a task that its parent did not
        # start.
        for node in reversed(fresh):
            if node._scope is not None:
                node._scope.cancel()
        for node in fresh:
            if node.on_cut is not None:
                try:
                    node.on_cut(node)
                except Exception:
                    logger.exception("a callback for the cut of %s failed", node.label)
        return True

    def close(self) -> None:
        """The work is over. What is still nested in it is cut; the node leaves the tree. Idempotent."""
        if self.closed:
            return
        for child in list(self.children or ()):
            child.cut(self.cause or Cause.FINISHED)
        self.closed = True
        if self.parent is not None and self.parent.children is not None:
            self.parent.children.pop(self, None)

    @property
    def size(self) -> int:
        """How many nodes are nested in this one, at any depth."""
        return sum(1 + child.size for child in self.children or ())


class TaskTree:
    """All nodes of one connection, and those that stand for a request by its key."""

    __slots__ = ("_keyed", "root")

    def __init__(self) -> None:
        self.root = Node(None, "connection")
        self._keyed: dict[object, Node] = {}

    def open(self, key: object, label: str) -> Node:
        """A node right below the root, found by `key` until it is released."""
        node = self.root.child(label)
        self._keyed[key] = node
        return node

    def cancel(self, key: object, cause: Cause) -> bool:
        """Cut the node with this key. False if there is none, or it was cut before."""
        node = self._keyed.get(key)
        return node is not None and node.cut(cause)

    def release(self, key: object, node: Node) -> None:
        """The key is free again, whatever still becomes of the node. A node only ever releases its own key."""
        if self._keyed.get(key) is node:
            del self._keyed[key]

    @property
    def size(self) -> int:
        """How many nodes there are below the root."""
        return self.root.size
