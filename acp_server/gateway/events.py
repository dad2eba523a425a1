"""Server-sent events, in the narrow form that the API's clients read, and those who listen to a chat's events.

A frame is an `event:` line and one `data:` line of ASCII; there are no ids and no comments. After `done` the body ends.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any, Final

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from acp_server.gateway.connection import ABORT

CREATED: Final = "conversation.chat.created"
IN_PROGRESS: Final = "conversation.chat.in_progress"
DELTA: Final = "conversation.message.delta"
MESSAGE: Final = "conversation.message.completed"
REQUIRES_ACTION: Final = "conversation.chat.requires_action"
COMPLETED: Final = "conversation.chat.completed"
FAILED: Final = "conversation.chat.failed"
DONE: Final = "done"


def frame(name: str, data: Any) -> bytes:
    """One event as it is written."""
    # Non-ASCII is escaped: some clients end a line at any of Unicode's line breaks.
    return f"event:{name}\ndata:{json.dumps(data, separators=(',', ':'))}\n\n".encode("ascii")


class Listener:
    """What one client has still to be told. Closed by `done`, or cut when the client is too far behind.

    It never holds more than the backlog and one frame.
    """

    def __init__(self, backlog: int) -> None:
        self.lost = False
        """Whether something was not told, for the client was too far behind."""
        self._backlog = backlog
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._largest = 0
        """The size of the largest frame since the client was last told everything."""
        self._closed = False
        self._changed = anyio.Event()

    @property
    def closed(self) -> bool:
        """Whether nothing more will come."""
        return self._closed

    def put(self, data: bytes) -> None:
        """One more frame. Never waits."""
        if self._closed:
            return
        self._frames.append(data)
        self._size += len(data)
        self._largest = max(self._largest, len(data))
        # A frame may be larger than the backlog by itself; a listener that keeps up gets that and the rest.
        if self._size - self._largest > self._backlog:
            self.lost = True
            self._frames.clear()
            self.close()
        self._changed.set()

    def close(self) -> None:
        """Nothing more will come."""
        self._closed = True
        self._changed.set()

    async def next(self) -> bytes | None:
        """The next frame, when it is there; None at the end."""
        while not self._frames:
            if self._closed:
                return None
            self._changed = anyio.Event()
            await self._changed.wait()
        data = self._frames.popleft()
        self._size -= len(data)
        if not self._frames:
            self._largest = 0
        return data


class Feed:
    """The events of one chat, handed to the client that listens at the moment, if there is one."""

    def __init__(self, backlog: int) -> None:
        self._backlog = backlog
        self._listeners: list[Listener] = []

    def listen(self) -> Listener:
        """Hear everything from now on until `done`."""
        listener = Listener(self._backlog)
        self._listeners.append(listener)
        return listener

    def emit(self, name: str, data: Any) -> None:
        """Tell those who listen. Never waits."""
        self._listeners = [listener for listener in self._listeners if not listener.closed]
        if self._listeners:
            data = frame(name, data)
            for listener in self._listeners:
                listener.put(data)

    def done(self) -> None:
        """The end of the stream, for now or for good."""
        self.emit(DONE, "[DONE]")
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()


class EventStream(Response):
    """An answer that lasts as long as there are events. The client may leave; the chat does not notice."""

    media_type = "text/event-stream"

    def __init__(self, listener: Listener) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        # A stream has no length.
        del self.headers["content-length"]
        self._listener = listener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(watch)
            try:
                await self._write(send)
                if self._listener.lost:
                    # Broken off, so that the client does not take it for a whole one. `watch` sees that.
                    scope["state"][ABORT]()
                    await anyio.sleep_forever()
            except OSError:
                pass  # The client has left.
            finally:
                self._listener.close()
            group.cancel_scope.cancel()

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        while (data := await self._listener.next()) is not None:
            await send({"type": "http.response.body", "body": data, "more_body": True})
        if not self._listener.lost:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
