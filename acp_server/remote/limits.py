"""The limits and time-outs of a `RemoteApp`. `docs/remote.md` has the same list."""

from __future__ import annotations

from dataclasses import dataclass, fields

from acp_server.errors import UsageError

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLimits:
    """The bounds of a `RemoteApp`, beside the `Limits` of each connection. Raises UsageError for a negative number.

    connections (number): open connections, over HTTP and WebSocket together.
    requests (number): HTTP requests in progress, of all clients. An event stream is one until it ends.
    streams (number): streams of one connection.
    body (bytes): the longest message.
    bodies (bytes): messages that have arrived over HTTP and that no agent has read yet, of all connections.
    waiting (bytes): the same of one connection. Further messages wait, except cancels.
    unread (bytes): messages of one stream that are not written to a reader yet. Above it the updates of its session
        wait; above twice as much, and over WebSocket, the whole connection waits.
    kept (bytes): messages of one stream that are written, kept for a reader that resumes.
    held (bytes): the sum of `unread` and `kept` over all streams. The updates of a session also wait while its stream
        has more unread than the other streams leave free of three quarters of it.
    work (bytes): the requests that are in flight, the setups of open sessions with 16 KiB each, and the records of
        running turns, of all connections.
    grace (seconds): how long a connection lives without a reader, a WebSocket and a message.
    stall (seconds): how long the agent waits for a full stream before it is given up.
    idle (seconds): how long a client that reads may send nothing.
    keep_alive (seconds): the pause between two comments on a silent stream.
    initialize (seconds): how long an agent may take to answer `initialize`.
    receive (seconds): how long a body may take to arrive, plus a second for each 64 KiB; and the first message of a
        WebSocket, without that addition.
    """

    connections: int = 1024
    requests: int = 2048
    streams: int = 1024
    body: int = 32 * _MIB
    bodies: int = 256 * _MIB
    waiting: int = 32 * _MIB
    unread: int = 8 * _MIB
    kept: int = _MIB
    held: int = 512 * _MIB
    work: int = 256 * _MIB
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
                raise UsageError(f"RemoteLimits({each.name}=...) must be a number that is at least 0")
