"""What a turn runs in, as far as the turn need know."""

from __future__ import annotations

from typing import Protocol

from acp_server.peer.peer import Peer
from acp_server.tasks.tree import Node
from acp_server.wire.messages import Request


class Host(Protocol):
    """What a turn runs in, and what tells the client its end: the request of its prompt, or the work that has outlived
    that."""

    @property
    def connection(self) -> Peer:
        """The client's connection."""
        ...

    @property
    def request(self) -> Request:
        """The request of its prompt."""
        ...

    @property
    def node(self) -> Node:
        """What the turn's node is nested in."""
        ...

    def was_cut(self, _node: Node) -> None:
        """The turn was cut."""
        ...

    def overdue(self) -> None:
        """The client is told the end now, without waiting any longer."""
        ...
