"""A stream wrapper that passes each message to an observer, for example for a log of the wire.

Bytes pass through unchanged, in chunks of any size.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from acp_server.peer.stream import Stream
from acp_server.wire import codec
from acp_server.wire.framing import LineFramer, TooLong

logger: logging.Logger = logging.getLogger("acp_server.peer")

MessageObserver: TypeAlias = Callable[[Literal["received", "sent"], Any], object]
"""A callback with the direction of a message, as this program sees it, and the decoded message."""


class ObservedStream:
    """A stream that calls `observe("received" or "sent", message)` for each message. For `agent.run(wrap=...)`:
    `wrap=lambda stream: ObservedStream(stream, observe)`.

    The observer is called before a received message is processed, and before a sent message is written. Lines that are
    not JSON or longer than 32 MiB are left out. Exceptions of `observe` are logged. `observe` must be quick, because it
    blocks the event loop.
    """

    def __init__(self, stream: Stream, observe: MessageObserver) -> None:
        self._stream = stream
        self._observe = observe
        self._received = LineFramer()
        self._sent = LineFramer()

    async def receive(self) -> bytes:
        """See `acp_server.peer.stream.Stream`."""
        data = await self._stream.receive()
        self._show("received", self._received, data)
        return data

    async def send(self, data: bytes) -> None:
        """See `acp_server.peer.stream.Stream`."""
        self._show("sent", self._sent, data)
        await self._stream.send(data)

    async def aclose(self) -> None:
        """See `acp_server.peer.stream.Stream`."""
        await self._stream.aclose()

    def _show(self, way: Literal["received", "sent"], framer: LineFramer, data: bytes) -> None:
        for line in framer.feed(data):
            if isinstance(line, TooLong):
                continue
            try:
                message = codec.decode(line)
            except (codec.DecodeError, RecursionError):
                continue
            try:
                self._observe(way, message)
            except Exception:
                logger.exception("an observer of messages failed")
