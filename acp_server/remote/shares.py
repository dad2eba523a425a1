"""Gives each principal a fair share of connections, requests and bytes, so that one client cannot shut out the others.

`Account` counts bytes by principal and connection. `Requests` limits the requests in progress. `crowding` finds the
owners that have more than a fair share. `Principals` keeps the node of each principal in a tree of shares.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

import anyio

from acp_server.peer.shares import Share

Owner = TypeVar("Owner", bound=Hashable)
Node = TypeVar("Node")


class Full(Exception):
    """Raised if there is no room for another connection or request, or for the bytes of a message."""


def crowding(owners: Iterable[Owner], most: int, newcomer: Owner) -> tuple[set[Owner], bool]:
    """Return the owners that have more than a fair share of `most` places, and whether `newcomer` has less than that.

    `owners` has the owner of each taken place. If all places are taken and the newcomer has less than a fair share,
    there is at least one such owner.
    """
    numbers = Counter(owners)
    numbers.setdefault(newcomer, 0)
    fair = most // len(numbers)
    return {owner for owner, number in numbers.items() if number > fair}, numbers[newcomer] < fair


@dataclass(slots=True, eq=False)
class Place:
    """A request in progress, which counts against the limit."""

    principal: str | None
    connection: str | None
    lasts: bool
    """Whether the request is an event stream, which its client can resume."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """The scope of the request. It is cancelled when another request takes its place."""


class Requests:
    """The requests in progress, at most `most`.

    When all places are taken, a principal with less than a fair share takes the place of a principal with more. Within
    a principal its connections share in the same way, where all requests without a connection count as one connection.
    Event streams give way first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: dict[Place, None] = {}

    @contextmanager
    def take(self, place: Place) -> Generator[None]:
        """Count the request during the block, which runs in the request's scope. Raises Full."""
        if len(self._taken) >= self._most:
            self._make_room(place)
        self._taken[place] = None
        try:
            with place.scope:
                yield
        finally:
            self._taken.pop(place, None)

    def _make_room(self, place: Place) -> None:
        crowd, is_poor = crowding([each.principal for each in self._taken], self._most, place.principal)
        found = [each for each in self._taken if each.principal in crowd]
        if not is_poor:
            own = [each for each in self._taken if each.principal == place.principal]
            names, is_poor = crowding([each.connection for each in own], len(own), place.connection)
            found = [each for each in own if each.connection in names]
            if not is_poor:
                # Only a short request is better served than the client's own streams: it may be a cancel.
                found = [] if place.lasts else found or own
        first = next((each for each in found if each.lasts), next(iter(found), None))
        if first is None:
            raise Full
        del self._taken[first]
        first.scope.cancel()


class Bytes:
    """Counts the bytes of several principals, at most `most` in all. A principal may hold as many bytes as it leaves
    free, so the others always find room. None, which is the only principal without `authenticate`, may hold all
    bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: Counter[str | None] = Counter()
        self._total = 0

    @property
    def size(self) -> int:
        """Return the bytes of all principals."""
        return self._total

    def reserve(self, principal: str | None, size: int) -> None:
        """Count more bytes of a principal. Raises Full."""
        free = self._most - self._total - size
        if free < 0 or (principal is not None and self._held[principal] + size > free):
            raise Full
        self.release(principal, -size)

    def release(self, principal: str | None, size: int) -> None:
        """Subtract bytes that are no longer held. A negative size adds bytes in spite of the limit."""
        self._total -= size
        self._held[principal] -= size
        if not self._held[principal]:
            del self._held[principal]


class Principals(Generic[Node]):
    """The nodes of a tree that has a node for each connection, and above them a node for each principal. `make` makes a
    node below another one."""

    def __init__(self, root: Node, make: Callable[[Node], Node]) -> None:
        self._root = root
        self._make = make
        self._nodes: WeakValueDictionary[str, Node] = WeakValueDictionary()

    def connection(self, principal: str | None) -> Node:
        """Return a new node, for a connection of this principal. None, which is the only principal without
        `authenticate`, has no node between its connections and the root."""
        if principal is None:
            return self._make(self._root)
        above = self._nodes.get(principal)
        if above is None:
            above = self._nodes[principal] = self._make(self._root)
        return self._make(above)


class Part(Protocol):
    """A part of an account: a ring, or an account below the account."""

    @property
    def size(self) -> int:
        """Return the bytes of the part."""
        ...

    def relieve(self) -> None:
        """Reduce the bytes of the part."""
        ...


class Account:
    """Counts the bytes of its parts, and counts itself as a part of the account `above`."""

    def __init__(self, above: Account | None = None, most: float = math.inf) -> None:
        self._above = above
        self._parts: dict[Part, None] = {}
        self.size: int = 0
        """The bytes of all parts."""
        self.unread: Share = Share(most, None if above is None else above.unread)
        """The unread ones of these bytes."""
        self.waiting: Waiting = Waiting(self.unread, most) if above is None else above.waiting
        """The senders that wait for room, of all accounts below the same root."""

    def count(self, part: Part, change: int, unread: int) -> None:
        """Record by how many bytes a part has changed, and by how many unread ones."""
        self.size += change
        self.unread.size += unread
        if part.size:
            self._parts[part] = None
        else:
            self._parts.pop(part, None)
        if self._above is not None:
            self._above.count(self, change, unread)

    def relieve(self) -> None:
        """Reduce the bytes of the largest part."""
        max(self._parts, key=lambda each: each.size).relieve()


class Waiting:
    """The senders that wait because most of `used` is used. They look again whenever a sixty-fourth of `most` bytes was
    released, because each look takes time."""

    def __init__(self, used: Share, most: float) -> None:
        self._used = used
        self._step = most / 64
        self._next = 0.0
        """The number of used bytes at which the senders look again."""
        self._wakes: dict[object, Callable[[], None]] = {}

    @contextmanager
    def here(self, wake: Callable[[], None]) -> Generator[None]:
        """Call `wake` when bytes are released, within the block."""
        self._next = max(self._next, self._used.size - self._step)
        self._wakes[token := object()] = wake
        try:
            yield
        finally:
            del self._wakes[token]

    def look(self) -> None:
        """Wake the senders if enough bytes were released."""
        if not self._wakes:
            return
        size = self._used.size
        is_less = size <= self._next
        self._next = size - self._step if is_less else max(self._next, size - self._step)
        if is_less:
            for wake in [*self._wakes.values()]:
                wake()
