"""Server-sent events, with the queue of one reader and the response that writes its frames."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import anyio

from acp_server.http.asgi import ABORT, Headers, Receive, Send, while_connected

_HEADERS: Final[Headers] = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class EventQueue:
    """The frames that one client has not read yet. The queue is closed at the end, or when the client is too slow.

    It never holds more than `backlog` bytes and one frame.
    """

    def __init__(self, backlog: int) -> None:
        self.lost: bool = False
        """Whether frames were dropped because the client was too slow."""
        self._backlog = backlog
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._largest = 0
        """The size of the largest frame since the queue was last empty."""
        self.closed: bool = False
        """Whether no more frames will come."""
        self._changed = anyio.Event()

    def put(self, data: bytes) -> None:
        """Add a frame. Never waits."""
        if self.closed:
            return
        self._frames.append(data)
        self._size += len(data)
        self._largest = max(self._largest, len(data))
        # A frame may be larger than the backlog; a client that keeps up gets it and the others.
        if self._size - self._largest > self._backlog:
            self.lost = True
            self._frames.clear()
            self.close()
        self._changed.set()

    def close(self) -> None:
        """Close the queue, because no more frames will come."""
        self.closed = True
        self._changed.set()

    async def next(self) -> bytes | None:
        """Return the next frame, when there is one; None at the end."""
        while not self._frames:
            if self.closed:
                return None
            self._changed = anyio.Event()
            await self._changed.wait()
        data = self._frames.popleft()
        self._size -= len(data)
        if not self._frames:
            self._largest = 0
        return data


class EventStream:
    """A response, as an ASGI application, that lasts until its queue is closed or its client disconnects.

    If the queue has dropped frames, the connection is aborted, so that the client does not take it for a complete
    response.
    """

    def __init__(self, queue: EventQueue) -> None:
        self._queue = queue

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """See ASGI."""
        try:
            await while_connected(receive, lambda: self._write(scope, send))
        finally:
            self._queue.close()

    async def _write(self, scope: Any, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS]})
            while (data := await self._queue.next()) is not None:
                await send({"type": "http.response.body", "body": data, "more_body": True})
            if not self._queue.lost:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            scope["state"][ABORT]()
            # Until the disconnect is noticed.
            await anyio.sleep_forever()
        except OSError:
            pass  # the client has disconnected


__all__ = ["EventQueue", "EventStream"]
