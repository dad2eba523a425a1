"""The order in which messages go out, where each is an exchange of its own: those of one session one after the other,
those of others beside them, and a cancel at once.

A cancel of what has not been taken yet may come before it. So it is sent once more behind it, where it finds nothing
left to do otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

import anyio

from acp_server.remote.labels import Key, Labelled

Spawn: TypeAlias = "Callable[..., None]"
"""Starts a coroutine function with its arguments as a task."""


class _Lane:
    def __init__(self) -> None:
        self.waiting: deque[Labelled] = deque()
        """The first one is on its way."""
        self.is_running = False


class Lanes:
    """Calls `deliver` for each message, in tasks that `spawn` starts. `most`: the bytes above which others wait."""

    def __init__(self, deliver: Callable[[Labelled], Awaitable[None]], spawn: Spawn, most: int) -> None:
        self._deliver = deliver
        self._spawn = spawn
        self._most = most
        self._lanes: dict[str | None, _Lane] = {}
        self._untaken: dict[Key, Labelled] = {}
        """Requests that the server has not taken yet."""
        self._unsent = 0
        self._sent = anyio.Event()
        self._is_over = False

    async def room(self, *, for_cancel: bool = False) -> None:
        """Wait until one more message may be put. Cancels have as much room again for themselves."""
        most = 2 * self._most if for_cancel else self._most
        while self._unsent > most and not self._is_over:
            await self._sent.wait()

    async def empty(self) -> None:
        """Wait until every message has been sent."""
        while self._unsent and not self._is_over:
            await self._sent.wait()

    def put(self, message: Labelled) -> None:
        """Send it behind those of its session."""
        if message.kind == "request" and (key := message.key) is not None:
            self._untaken[key] = message
        self._queue(message, self._lanes.setdefault(message.session, _Lane()))

    def put_cancel(self, cancel: Labelled) -> None:
        """Send it at once, and again behind what it cancels, if that is not taken yet."""
        target = self._untaken.get(cancel.cancels) if cancel.cancels is not None else None
        lane = self._lanes.get(cancel.session if target is None else target.session)
        if lane is not None and lane.waiting and (target is not None or cancel.session is not None):
            self._queue(cancel, lane)
        self._unsent += len(cancel.line)
        self._spawn(self._send, replace(cancel))

    def end(self) -> None:
        """Nothing more is sent: who waits goes on."""
        self._is_over = True
        self._sent.set()

    def _queue(self, message: Labelled, lane: _Lane) -> None:
        lane.waiting.append(message)
        self._unsent += len(message.line)
        if not lane.is_running:
            lane.is_running = True
            self._spawn(self._run, lane, message.session)

    async def _run(self, lane: _Lane, session: str | None) -> None:
        while lane.waiting:
            await self._send(lane.waiting[0])
            lane.waiting.popleft()
        lane.is_running = False
        if self._lanes.get(session) is lane:
            del self._lanes[session]

    async def _send(self, message: Labelled) -> None:
        size = len(message.line)
        try:
            await self._deliver(message)
        finally:
            self._unsent -= size
            # It is remembered until it is answered, and may be large.
            message.line = b""
            if (key := message.key) is not None and self._untaken.get(key) is message:
                del self._untaken[key]
            self._sent.set()
            if not self._is_over:
                self._sent = anyio.Event()
