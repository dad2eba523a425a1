"""The interface of the byte streams that a connection reads and writes.

Implementations: file descriptors in `acp_server.agent.fd_stream`, memory streams in `acp_server.testing`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from acp_server.peer.shares import Share


class Stream(Protocol):
    """A bidirectional byte stream. One task receives, and another task sends."""

    async def receive(self) -> bytes:
        """Wait for bytes and return the bytes that have arrived; `b""` at the end of input.

        Raises OSError, or anyio's BrokenResourceError or ClosedResourceError, when reading fails.
        """
        ...

    async def send(self, data: bytes) -> None:
        """Write all of `data`. Raises OSError, or anyio's resource errors, when the peer has closed its end."""
        ...

    async def aclose(self) -> None:
        """Close the stream. Idempotent."""
        ...


@runtime_checkable
class ImmediateStream(Stream, Protocol):
    """A stream that can also write without waiting, which saves a task switch for most messages. Optional."""

    def send_now(self, data: bytes) -> int:
        """Write as much of `data` as is possible without waiting, and return the number of bytes written. On an error
        return 0. The next call is then `send`, which raises the error. This is not called during a `send`."""
        ...


@runtime_checkable
class LanedStream(Stream, Protocol):
    """A stream whose peer reads several lanes of it separately, such as the event streams of sessions. Optional.

    The senders of a lane wait in `room` while the lane is full. `send` waits only at a higher limit, so that other
    lanes are not held up.
    """

    def is_full(self, lane: str) -> bool:
        """Whether the senders of the lane must wait. An unknown lane is not full."""
        ...

    async def room(self, lane: str) -> None:
        """Wait until the lane is not full."""
        ...


@runtime_checkable
class SharingStream(Stream, Protocol):
    """A stream of a server whose connections share bounds. Optional."""

    share: Share
    """The connection's share of the bytes that the agents of all connections hold for their clients."""


@runtime_checkable
class FeedingStream(Stream, Protocol):
    """A stream that can also pass arriving bytes to a callback in the event loop, which saves a round of the loop for
    most messages. Optional."""

    async def feed(self, take: Callable[[bytes], bool]) -> None:
        """Call `take` with each chunk that `receive` would return, until it returns False. Raises the exceptions of
        `receive` and `take`. Also returns if the event loop is re-entered within `take`."""
        ...
