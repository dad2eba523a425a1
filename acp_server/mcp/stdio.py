"""A transport for the official package: a server as a process, one JSON text a line (MCP, Transports: stdio).

The package has one, too. This one bounds what it reads, ends the whole process group, also if its leader ended by
itself, and keeps what the process says on standard error apart from our own.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel

from acp_server.processes.child import ChildProcess, Patience
from acp_server.tasks.grace import grace
from acp_server.wire.framing import LineFramer, TooLong
from acp_server.wire.messages import Response, classify_head

if TYPE_CHECKING:
    from acp_server.mcp.secret import Secrets
    from acp_server.schema.session import McpServerStdio

logger = logging.getLogger("acp_server.mcp")
stderr_logger = logging.getLogger("acp_server.mcp.stderr")

MESSAGE: Final = 16 * 1024 * 1024
"""Bytes of the longest message that is read."""

_WRITING: Final = 2.0
"""Seconds for a server to take a message. A server that does not read is of no use, and is ended."""

_PATIENCE: Final = Patience(closed=1.5, terminated=1.0, killed=1.0)
"""It has to end within the time that a session has to close."""


@asynccontextmanager
async def program(
    spec: McpServerStdio, cwd: str, secrets: Secrets, on_end: Callable[[int | None], None]
) -> AsyncGenerator[tuple[Reader, Writer]]:
    """Start the server, and end it behind the block. `on_end` gets its exit status, if that is known, when its output
    ends. Raises OSError if it cannot be started."""
    safe: dict[str, str] = import_module("mcp.client.stdio").get_default_environment()

    def heard(line: str) -> None:
        stderr_logger.info("%r: %s", spec.name, secrets.hide(line))

    process = await ChildProcess.start(
        [spec.command, *spec.args],
        cwd=cwd,
        # Not all of ours: keys in it do not concern the server, unless the client passes them on.
        env=safe | {variable.name: variable.value for variable in spec.env},
        on_stderr=heard,
    )
    try:
        yield Reader(process, spec.name, on_end), Writer(process)
    finally:
        await process.aclose(_PATIENCE)


class _Stream:
    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Nothing: the process is closed by its owner."""


class Reader(_Stream):
    """What the server says, message by message. Lines that are not messages are left out: programs greet, and warn."""

    def __init__(self, process: ChildProcess, name: str, on_end: Callable[[int | None], None]) -> None:
        self._process = process
        self._name = name
        self._on_end = on_end
        self._framer = LineFramer(MESSAGE)
        self._read: deque[Any] = deque()
        types, message = import_module("mcp_types"), import_module("mcp.shared.message")
        self._parse: Any = types.jsonrpc_message_adapter.validate_json
        self._types: Any = types
        self._message: Any = message.SessionMessage

    async def receive(self) -> Any:
        """The next message. Raises EndOfStream behind the last one."""
        await anyio.lowlevel.checkpoint()
        while not self._read:
            data = await self._process.stream.receive()
            if not data:
                await self._process.last_words(0.2)
                self._on_end(self._process.exit_code)
                raise anyio.EndOfStream
            for line in self._framer.feed(data):
                message = self._too_long(line) if isinstance(line, TooLong) else self._parsed(line)
                if message is not None:
                    self._read.append(self._message(message))
        return self._read.popleft()

    def _parsed(self, line: bytes | bytearray) -> Any:
        try:
            return self._parse(bytes(line), by_name=False)
        except ValueError:
            logger.debug("the MCP server %r wrote a line that is not a message", self._name)
            return None

    def _too_long(self, line: TooLong) -> Any:
        """An error in place of the answer that a caller waits for."""
        words = f"a message of more than {MESSAGE} bytes"
        logger.warning("the MCP server %r sent %s", self._name, words)
        head = classify_head(line.head, words)
        if not isinstance(head, Response) or head.id is None:
            return None
        error = self._types.ErrorData(code=self._types.INTERNAL_ERROR, message=f"The answer is {words}.")
        return self._types.JSONRPCError(jsonrpc="2.0", id=head.id, error=error)

    def __aiter__(self) -> Reader:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class Writer(_Stream):
    """What the server is told. A message is written whole, or the server is ended: a cancel of who sends it must not
    leave half a line in the pipe."""

    def __init__(self, process: ChildProcess) -> None:
        self._process = process
        self._lock = anyio.Lock()

    async def send(self, item: Any, /) -> None:
        """Write a message. Raises BrokenResourceError if the server does not take it."""
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        async with self._lock:
            with grace(_WRITING) as scope:
                await self._process.stream.send(data)
            if scope.cancelled_caught:
                self._process.kill()
                raise anyio.BrokenResourceError
