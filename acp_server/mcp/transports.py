"""Transports to a server (MCP, Transports) for the official package: a process (`program`), HTTP (`streamable`), and
the older `sse`. This module also makes error texts about them that are free of secret settings (`Secrets`).

The package has its own transport for processes. Unlike that, `program` limits the input, ends the whole process group
even if its leader has exited, and keeps the process's standard error apart from ours. The HTTP transports are the
official ones with limits.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import anyio.lowlevel

from acp_server.mcp.answers import MESSAGE, Answers
from acp_server.processes.child import ChildProcess, Patience
from acp_server.tasks.grace import grace
from acp_server.wire.framing import LineFramer

if TYPE_CHECKING:
    from acp_server.schema.session import McpServerHttp, McpServerSse, McpServerStdio

logger: logging.Logger = logging.getLogger("acp_server.mcp")

_SHORTEST: Final = 6
"""The least number of characters of a secret. Shorter values are not treated as secrets, since they occur in most texts
by chance."""

_LONGEST_TEXT: Final = 500
"""The most characters of an error text."""

_HIDDEN: Final = "[hidden]"


class SettingsError(Exception):
    """Raised for settings of a server that cannot be used. The text says why, without their values."""


class Secrets:
    """Secret values, which `hide` removes from texts."""

    def __init__(self, values: Iterable[str]) -> None:
        # The longest first, since one may be a part of another. The second word of `Bearer x` is a secret by itself.
        parts = {part for value in values for part in (value, *value.split()) if len(part) >= _SHORTEST}
        self._values = sorted(parts, key=len, reverse=True)

    def hide(self, text: str) -> str:
        """Return the text without the secrets, with a limited length."""
        for value in self._values:
            text = text.replace(value, _HIDDEN)
        return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


def why(error: Any, secrets: Secrets) -> str:
    """Return why a server cannot be reached. If possible the exception's text is not used, since it may have URLs with
    keys."""
    while isinstance(error, ExceptionGroup):
        error = cast("Any", error).exceptions[0]
    response = getattr(error, "response", None)
    if isinstance(error, SettingsError):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return "the program or its folder does not exist"
    if isinstance(error, OSError) and error.strerror:
        return f"it cannot be reached: {error.strerror}"
    if isinstance(error, import_module("mcp").MCPError):
        return secrets.hide(str(error)) or "it refused"
    if response is not None:
        return f"it answered with the status {response.status_code}"
    if isinstance(error, ValueError):
        return "its response is not valid in MCP"
    return f"it cannot be reached ({type(error).__name__})"


def ending(exit_code: int) -> str:
    """Return how the process of a server ended, as text."""
    return f"it was ended by signal {-exit_code}" if exit_code < 0 else f"it has ended with exit status {exit_code}"


stderr_logger: logging.Logger = logging.getLogger("acp_server.mcp.stderr")

_WRITING: Final = 2.0
"""Seconds in which a server must read a message. A server that does not is killed."""

_PATIENCE: Final = Patience(closed=1.5, terminated=1.0, killed=1.0)
"""The patience with a server's process. The process has to end within the time that closing a session takes."""


@asynccontextmanager
async def program(
    spec: McpServerStdio, cwd: str, secrets: Secrets, on_end: Callable[[int | None], None]
) -> AsyncGenerator[tuple[Reader, Writer]]:
    """Start the server, and end it after the block. `on_end` gets its exit status, if known, when its output ends.
    Raises OSError if it cannot be started."""
    _check(spec)
    safe: dict[str, str] = import_module("mcp.client.stdio").get_default_environment()

    def heard(line: str) -> None:
        stderr_logger.info("%r: %s", spec.name, secrets.hide(line))

    process = await ChildProcess.start(
        [spec.command, *spec.args],
        cwd=cwd,
        # Not the whole environment: keys in it do not concern the server, unless the client passes them on.
        env=safe | {variable.name: variable.value for variable in spec.env},
        on_stderr=heard,
    )
    try:
        answers = Answers(spec.name)
        yield Reader(process, answers, on_end), Writer(process, answers)
    finally:
        await process.aclose(_PATIENCE)


def _check(spec: McpServerStdio) -> None:
    """Raise SettingsError for settings that no process can be started with."""
    for variable in spec.env:
        if not variable.name or "=" in variable.name or "\0" in variable.name:
            raise SettingsError(f"its settings contain the invalid environment variable name {variable.name!r}")
        if "\0" in variable.value:
            raise SettingsError(f"the environment variable {variable.name} of its settings contains a NUL character")
    if any("\0" in word for word in (spec.command, *spec.args)):
        raise SettingsError("its command contains a NUL character")


class _Stream:
    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Do nothing, because the owner closes the process."""


_LAST_WORDS: Final = 2.0
"""Seconds to wait for the exit status after the end of the output, because the exit status tells the user more. On a
busy machine a process takes long to exit."""


class Reader(_Stream):
    """Reads the server's messages, one by one. Other lines are dropped, since programs print greetings and warnings."""

    def __init__(self, process: ChildProcess, answers: Answers, on_end: Callable[[int | None], None]) -> None:
        self._process = process
        self._answers = answers
        self._on_end = on_end
        self._framer = LineFramer(MESSAGE)
        self._read: deque[Any] = deque()
        self._envelope: Any = import_module("mcp.shared.message").SessionMessage

    async def receive(self) -> Any:
        """Return the next message. Raises EndOfStream after the last message."""
        await anyio.lowlevel.checkpoint()
        while not self._read:
            data = await self._process.stream.receive()
            if not data:
                await self._process.last_words(_LAST_WORDS)
                self._on_end(self._process.exit_code)
                raise anyio.EndOfStream
            for line in self._framer.feed(data):
                self._read.extend(map(self._envelope, self._answers.read(line)))
        return self._read.popleft()

    def __aiter__(self) -> Reader:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class Writer(_Stream):
    """Writes the messages to the server. Each message is written whole, or the server is killed, because a cancel of
    the sender must not leave half a line in the pipe."""

    def __init__(self, process: ChildProcess, answers: Answers) -> None:
        self._process = process
        self._answers = answers
        self._lock = anyio.Lock()

    async def send(self, item: Any, /) -> None:
        """Write a message. Raises BrokenResourceError if the server does not read it."""
        self._answers.asked(item.message)
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        async with self._lock:
            with grace(_WRITING) as scope:
                await self._process.stream.send(data)
            if scope.cancelled_caught:
                self._process.kill()
                raise anyio.BrokenResourceError


_CONNECTING: Final = 30.0
"""Seconds to connect, and for the server to read the request. There is no limit on the response, because a tool may run
a build."""


@asynccontextmanager
async def streamable(spec: McpServerHttp) -> AsyncGenerator[Any]:
    """Connect by Streamable HTTP."""
    transport = import_module("mcp.client.streamable_http")
    async with (
        _client(headers=_headers(spec)) as client,
        transport.streamable_http_client(spec.url, http_client=client, max_sse_event_size=MESSAGE) as streams,
    ):
        yield _heard(spec.name, *streams)


@asynccontextmanager
async def sse(spec: McpServerSse) -> AsyncGenerator[Any]:
    """Connect by server-sent events, with one HTTP request for each message."""
    transport = import_module("mcp.client.sse")
    async with transport.sse_client(
        spec.url, headers=_headers(spec), timeout=_CONNECTING, sse_read_timeout=None, httpx_client_factory=_client
    ) as streams:
        yield _heard(spec.name, *streams)


class Heard(_Stream):
    """Reads the messages of an official transport, including messages that it could not parse."""

    def __init__(self, stream: Any, answers: Answers) -> None:
        self._stream = stream
        self._answers = answers
        self._read: deque[Any] = deque()

    @property
    def last_context(self) -> Any:
        """Return the context in which the last message was read. The package handles the message in that context."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """Return the next message. Raises EndOfStream after the last message."""
        while not self._read:
            self._read.extend(self._answers.received(await self._stream.receive()))
        return self._read.popleft()

    def __aiter__(self) -> Heard:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """Close the package's stream."""
        await self._stream.aclose()


class Told(_Stream):
    """Writes the messages to an official transport. Their requests are recorded as pending."""

    def __init__(self, stream: Any, answers: Answers) -> None:
        self._stream = stream
        self._answers = answers

    async def send(self, item: Any, /) -> None:
        """Send a message."""
        self._answers.asked(item.message)
        await self._stream.send(item)

    async def aclose(self) -> None:
        """Close the package's stream."""
        await self._stream.aclose()


def _heard(name: str, reading: Any, writing: Any) -> tuple[Heard, Told]:
    answers = Answers(name)
    return Heard(reading, answers), Told(writing, answers)


def _headers(spec: McpServerHttp | McpServerSse) -> dict[str, str]:
    return {header.name: header.value for header in spec.headers}


def _client(headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
    httpx = import_module("httpx2")

    class Bounded(httpx.AsyncByteStream):
        """A body that is read up to a bound."""

        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for data in self._stream:
                size += len(data)
                if size > MESSAGE:
                    raise httpx.StreamError(f"a response of more than {MESSAGE} bytes")
                yield data

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def bound(response: Any) -> None:
        # A compressed response may have any size uncompressed, and none was requested.
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise httpx.StreamError("a response in an encoding that was not requested")
        # A stream of events lasts as long as the session; its events are bounded one by one.
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = Bounded(response.stream)

    return httpx.AsyncClient(
        headers={**(headers or {}), "accept-encoding": "identity"},
        timeout=timeout or httpx.Timeout(_CONNECTING, read=None),
        auth=auth,
        event_hooks={"response": [bound]},
    )
