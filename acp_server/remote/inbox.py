"""What has arrived of the agent and waits for the program: whole messages, in their order, bounded in bytes."""

from __future__ import annotations

from collections import deque
from typing import Final

import anyio

_PORTION: Final = 1024 * 1024
"""Bytes that are handed over at once, or one message."""


class Inbox:
    """Holds about `most` bytes: who has put something waits for `room` before it reads more. One task takes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lines: deque[bytes] = deque()
        self._held = 0
        self._filled = anyio.Event()
        self._taken = anyio.Event()
        self._is_over = False
        self._error: Exception | None = None

    def put(self, line: bytes) -> None:
        """Hand over one message. What comes after the end is dropped."""
        if not self._is_over:
            self._lines.append(line)
            self._held += len(line) + 1
            self._filled.set()

    async def room(self) -> None:
        """Wait until the program has taken enough."""
        while self._held > self._most and not self._is_over:
            if self._taken.is_set():
                self._taken = anyio.Event()
            await self._taken.wait()

    def end(self, error: Exception | None) -> None:
        """Nothing more will come: that is the end of the input, or an `error` once all has been taken."""
        if not self._is_over:
            self._is_over = True
            self._error = error
            self._filled.set()
            self._taken.set()

    async def take(self) -> bytes:
        """What has arrived, as lines; `b""` at the end. Raises the error that it ended with."""
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
