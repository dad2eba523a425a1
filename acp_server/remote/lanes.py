"""`Lanes` decides the order of messages that are each sent as one POST. The messages of a session are sent one after
the other, sessions are independent, and a cancel is sent at once.

A cancel can overtake the message that it cancels and find nothing to cancel. So it is sent a second time after that
message. The second cancel has no effect if the first one had one.
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
        """The messages of the lane. The first one is being sent."""
        self.is_running = False


class Lanes:
    """Calls `deliver` for each message, in tasks that `spawn` starts. `most`: the number of unsent bytes above which
    `room` waits."""

    def __init__(self, deliver: Callable[[Labelled], Awaitable[None]], spawn: Spawn, most: int) -> None:
        self._deliver = deliver
        self._spawn = spawn
        self._most = most
        self._lanes: dict[str | None, _Lane] = {}
        self._untaken: dict[Key, Labelled] = {}
        """The requests whose delivery has not ended."""
        self._unsent = 0
        self._sent = anyio.Event()
        self._is_over = False

    async def room(self, *, for_cancel: bool = False) -> None:
        """Wait until another message may be put. The limit for cancels is twice as high, so other messages cannot block
        them."""
        most = 2 * self._most if for_cancel else self._most
        while self._unsent > most and not self._is_over:
            await self._sent.wait()

    async def empty(self) -> None:
        """Wait until every message was sent, or `end` was called."""
        while self._unsent and not self._is_over:
            await self._sent.wait()

    def put(self, message: Labelled) -> None:
        """Send a message after the earlier ones of its session."""
        if message.kind == "request" and (key := message.key) is not None:
            self._untaken[key] = message
        self._queue(message, self._lanes.setdefault(message.session, _Lane()))

    def put_cancel(self, cancel: Labelled) -> None:
        """Send a cancel at once. Send it a second time after its target, if the target is still waiting or being sent.

        Without a target the cancel follows the messages of its session, if it names one.
        """
        target = self._untaken.get(cancel.cancels) if cancel.cancels is not None else None
        lane = self._lanes.get(cancel.session if target is None else target.session)
        if lane is not None and lane.waiting and (target is not None or cancel.session is not None):
            self._queue(cancel, lane)
        self._unsent += len(cancel.line)
        self._spawn(self._send, replace(cancel))

    def end(self) -> None:
        """Release the callers of `room` and `empty`."""
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
            # The caller keeps a request until it is answered, and its text may be large.
            message.line = b""
            if (key := message.key) is not None and self._untaken.get(key) is message:
                del self._untaken[key]
            self._sent.set()
            if not self._is_over:
                self._sent = anyio.Event()
