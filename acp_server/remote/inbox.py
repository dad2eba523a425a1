"""`Inbox` holds the messages of the agent that wait for the program, in order and limited in bytes."""

from __future__ import annotations

from collections import deque
from typing import Final

import anyio

_PORTION: Final = 1024 * 1024
"""The number of bytes after which `take` adds no further message."""


class Inbox:
    """Holds about `most` bytes, because its writers await `room` after `put`, before they read more. One task calls
    `take`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lines: deque[bytes] = deque()
        self._held = 0
        self._filled = anyio.Event()
        self._taken = anyio.Event()
        self._is_over = False
        self._error: Exception | None = None

    def put(self, line: bytes) -> None:
        """Add one message, without waiting. A message after `end` is dropped."""
        if not self._is_over:
            self._lines.append(line)
            self._held += len(line) + 1
            self._filled.set()

    async def room(self) -> None:
        """Wait until at most `most` bytes are held, or `end` was called."""
        while self._held > self._most and not self._is_over:
            if self._taken.is_set():
                self._taken = anyio.Event()
            await self._taken.wait()

    def end(self, error: Exception | None) -> None:
        """End the input. `take` returns the held messages first, then EOF, or raises `error`."""
        if not self._is_over:
            self._is_over = True
            self._error = error
            self._filled.set()
            self._taken.set()

    async def take(self) -> bytes:
        """Wait for messages and return them as lines; `b""` at EOF. Raises the error of `end`."""
        while not self._lines and not self._is_over:
            if self._filled.is_set():
                self._filled = anyio.Event()
            await self._filled.wait()
        portion: list[bytes] = []
        size = 0
        while self._lines and size < _PORTION:
            line = self._lines.popleft()
            size += len(line) + 1
            portion += (line, b"\n")
        self._held -= size
        self._taken.set()
        if not portion and self._error is not None:
            raise self._error
        return b"".join(portion)
