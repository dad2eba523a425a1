"""What a connection reads from and writes to.

Only the interface: descriptors are in `acp_server.agent.fd_stream`, memory streams in `acp_server.testing`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable


class Stream(Protocol):
    """A two-way byte stream. One task receives and one other sends."""

    async def receive(self) -> bytes:
        """The next bytes, however many there are; `b""` when the input has ended.

        Raises OSError, or anyio's BrokenResourceError or ClosedResourceError, when reading fails.
        """
        ...

    async def send(self, data: bytes) -> None:
        """Write all of `data`. Raises OSError, or anyio's resource errors, when the other side is gone."""
        ...

    async def aclose(self) -> None:
        """Let go of the stream. Idempotent."""
        ...


@runtime_checkable
class ImmediateStream(Stream, Protocol):
    """A stream that can also write without waiting, which spares a task for most messages. It is optional."""

    def send_now(self, data: bytes) -> int:
        """Write as much of `data` as goes without waiting: how many bytes that was. 0 for whatever goes wrong: `send`,
        which is called next, then meets it. Not called while a `send` is under way."""
        ...


@runtime_checkable
class FeedingStream(Stream, Protocol):
    """A stream that can also have what arrives handled by the event loop itself, which spares a round of the loop for
    most messages. It is optional."""

    async def feed(self, take: Callable[[bytes], bool]) -> None:
        """Call `take` with all that arrives, as `receive` would return it, until it returns False. Raises what
        `receive` and `take` raise. Also returns if the loop runs within a call of `take`, which has not returned."""
        ...
