"""A stream that remembers what only it can know: how much came, what was too long to be read, why reading failed.

It hands on every byte as it is; what a line means, it only guesses from the beginning of one that is too long.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from acp_server.peer.stream import Stream

_HEAD: Final = 1024
_UPDATE: Final = re.compile(rb'"method"\s*:\s*"session/update"')
_SESSION: Final = re.compile(rb'"sessionId"\s*:\s*"([^"\\]*)"')


class Watched:
    """`stream`, in which a line may have `limit` bytes. `on_loss` is called with the beginning of each longer one."""

    def __init__(self, stream: Stream, limit: int, on_loss: Callable[[bytes], None]) -> None:
        self.error: Exception | None = None
        """Why reading failed. Those who wait for an answer are told of the end before the reader is."""
        self.heard = 0
        """How many bytes came."""
        self.send = stream.send
        self.aclose = stream.aclose
        self._stream = stream
        self._limit = limit
        self._on_loss = on_loss
        self._head = b""
        self._length = 0

    async def receive(self) -> bytes:
        """See `acp_server.peer.stream.Stream`."""
        try:
            data = await self._stream.receive()
        except Exception as error:
            self.error = error
            raise
        self.heard += len(data)
        self._measure(data)
        return data

    def _measure(self, data: bytes) -> None:
        if self._length + len(data) <= self._limit:
            # No line can end too long in here, so only the last one matters.
            start = data.rfind(b"\n") + 1
            if start:
                self._begin()
            self._add(data[start : start + _HEAD], len(data) - start)
            return
        first, *others = data.split(b"\n")
        self._add(first[:_HEAD], len(first))
        for line in others:
            self._begin()
            self._add(line[:_HEAD], len(line))

    def _begin(self) -> None:
        self._head = b""
        self._length = 0

    def _add(self, head: bytes, length: int) -> None:
        self._head += head[: _HEAD - len(self._head)]
        if self._length <= self._limit < self._length + length:
            self._on_loss(self._head)
        self._length += length


def lost_update(head: bytes) -> tuple[bool, str | None]:
    """Whether the line that begins so is an update, and its session, if that comes early enough to be seen."""
    session = _SESSION.search(head)
    return _UPDATE.search(head) is not None, None if session is None else session[1].decode(errors="replace")
