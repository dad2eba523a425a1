"""The bounds of what a server keeps for its clients, and how long it waits for them. `docs/remote.md` has the same."""

from __future__ import annotations

from dataclasses import dataclass, fields

from acp_server.errors import UsageError

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLimits:
    """The bounds of a `RemoteApp`, beside the `Limits` of each connection. Raises UsageError for negative numbers.

    connections (number): connections that are open at once, of HTTP and of WebSocket.
    streams (number): streams of one connection.
    body (bytes): the longest message.
    bodies (bytes): messages that were received and are not read by their agents, of all connections.
    waiting (bytes): the same of one connection; more wait, cancels excepted.
    unread (bytes): messages of one stream that its reader has not taken.
    kept (bytes): messages of one stream that its reader has taken, for a reader that comes back.
    held (bytes): what all streams hold.
    grace (seconds): how long a connection goes on without a reader or WebSocket, and without a message.
    stall (seconds): how long a stream may be full before it is given up.
    idle (seconds): how long a client may send nothing, though it reads.
    keep_alive (seconds): between two comments on a stream that is silent.
    initialize (seconds): how long an agent may take for the answer to `initialize`.
    receive (seconds): how long a message may take to arrive, and a second more for each 64 KiB; the
        first one of a WebSocket.
    """

    connections: int = 1024
    streams: int = 1024
    body: int = 32 * _MIB
    bodies: int = 256 * _MIB
    waiting: int = 32 * _MIB
    unread: int = 8 * _MIB
    kept: int = _MIB
    held: int = 512 * _MIB
    grace: float = 60.0
    stall: float = 60.0
    idle: float = 24 * 3600.0
    keep_alive: float = 15.0
    initialize: float = 30.0
    receive: float = 60.0

    def __post_init__(self) -> None:
        """Raises UsageError, see the class."""
        for each in fields(self):
            if not getattr(self, each.name) >= 0:
                raise UsageError(f"RemoteLimits({each.name}=...) is a number from 0 on")
