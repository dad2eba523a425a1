"""`Bridge` forwards lines between an editor and a remote agent, unchanged and in both directions.

It reads only the kinds and ids of messages. When the agent's stream ends, it answers each open request with an error
that says why.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio

from acp_server.peer.stream import Stream
from acp_server.remote.client import RemoteStream
from acp_server.remote.labels import Key, failure, key_of, labelled
from acp_server.wire.framing import LineFramer, TooLong
from acp_server.wire.messages import Invalid, classify_head

_GONE: Final = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError)


class OpenRequests:
    """The editor's requests that the agent has not answered."""

    def __init__(self) -> None:
        self._open: dict[Key, Any] = {}
        self._none = anyio.Event()

    def asked(self, line: bytes) -> None:
        """Record the requests in a line of the editor."""
        message = labelled(line)
        if message.kind != "answer":
            self._open |= {key_of(id): id for id in message.ids}

    def answered(self, lines: bytes) -> None:
        """Record the responses in lines of the agent."""
        for line in lines.split(b"\n"):
            # The search for `"id"` spares parsing most notifications.
            if b'"id"' in line and (message := labelled(line)).kind == "answer" and (key := message.key) is not None:
                self._open.pop(key, None)
        if not self._open:
            self._none.set()

    def failures(self, why: str) -> bytes:
        """Return error responses to all open requests, as lines."""
        return b"".join(failure(id, why) + b"\n" for id in self._open.values())

    async def done(self) -> None:
        """Wait until all requests are answered."""
        while self._open:
            self._none = anyio.Event()
            await self._none.wait()


class Bridge:
    """Connects an `editor` to an `agent`.

    `longest`: the most bytes of one line of the editor. `patience`: seconds that open requests have after the editor's
    EOF. `unread` returns when the editor no longer reads.
    """

    def __init__(
        self,
        editor: Stream,
        agent: RemoteStream,
        longest: int,
        patience: float,
        unread: Callable[[], Awaitable[None]] = anyio.sleep_forever,
    ) -> None:
        self._editor = editor
        self._agent = agent
        self._lines = LineFramer(longest)
        self._patience = patience
        self._unread = unread
        self._requests = OpenRequests()
        self._tasks = anyio.create_task_group()
        self._writing = anyio.Lock()

    async def run(self) -> str | None:
        """Forward until one side ends. Returns None if the editor ended, and otherwise why the agent's stream has
        ended."""
        why: list[str] = []
        async with self._tasks:
            self._tasks.start_soon(self._from_agent, why)
            self._tasks.start_soon(self._from_editor)
            self._tasks.start_soon(self._until_unread)
        return why[0] if why else None

    async def _from_editor(self) -> None:
        try:
            while data := await self._editor.receive():
                await self._forward(data)
        except _GONE:
            # If the agent is gone, `_from_agent` meets it, too, and reports why.
            return
        with anyio.move_on_after(self._patience):
            await self._requests.done()
        self._tasks.cancel_scope.cancel()

    async def _until_unread(self) -> None:
        await self._unread()
        self._tasks.cancel_scope.cancel()

    async def _forward(self, data: bytes) -> None:
        lines: list[bytes] = []
        for line in self._lines.feed(data):
            if isinstance(line, TooLong):
                head = classify_head(line.head, "the line is too long")
                id = head.id if isinstance(head, Invalid) else None
                await self._tell(failure(id, "the message is longer than a line may be") + b"\n")
            elif not line.isascii() and not _is_text(line):
                # A text frame of a WebSocket carries UTF-8 only.
                await self._tell(failure(None, "the message is not UTF-8", code=-32700) + b"\n")
            elif line.strip():
                lines.append(bytes(line))
                self._requests.asked(lines[-1])
        if lines:
            await self._agent.send(b"\n".join(lines) + b"\n")

    async def _from_agent(self, why: list[str]) -> None:
        try:
            while data := await self._agent.receive():
                self._requests.answered(data)
                await self._tell(data)
        except _GONE:
            pass
        why.append(self._agent.problem or "the agent has ended the connection")
        if failures := self._requests.failures(why[0]):
            await self._tell(failures)
        self._tasks.cancel_scope.cancel()

    async def _tell(self, lines: bytes) -> None:
        async with self._writing:
            try:
                await self._editor.send(lines)
            except _GONE:
                # The editor is gone.
                self._tasks.cancel_scope.cancel()


def _is_text(line: bytes | bytearray) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
