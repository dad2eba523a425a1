"""A small proxy: each request goes to the next gateway, over a connection of its own.

A gateway that takes no connection, or answers 503 since it is ending, is passed over, and a GET that got no answer is
sent to the next one. Another request that a gateway may have begun is never sent twice.
"""

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CONNECTION = re.compile(rb"\r\nconnection:[^\r]*", re.IGNORECASE)
_LARGEST = 1 << 20
_NONE = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

Backend = tuple[str, int]


class Proxy:
    """A proxy that listens. `backends` may be changed at any time."""

    def __init__(self) -> None:
        self.backends: list[Backend] = []
        self.url = ""
        self._turns = count()
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self) -> asyncio.Server:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)
        host, port = server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return server

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._serve(reader, writer)
        finally:
            await _closed(writer)
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = await reader.readexactly(int(length[1])) if length else b""
        request = _CONNECTION.sub(b"", head)[:-2] + b"Connection: close\r\n\r\n" + body
        first = next(self._turns)
        backends = list(self.backends)
        for turn in range(len(backends)):
            backend = backends[(first + turn) % len(backends)]
            try:
                answers, asks = await asyncio.open_connection(*backend)
            except OSError:
                continue
            try:
                if await self._exchange(request, answers, asks, reader, writer, last=turn == len(backends) - 1):
                    return
            finally:
                await _closed(asks)
        writer.write(_NONE)

    async def _exchange(
        self,
        request: bytes,
        answers: asyncio.StreamReader,
        asks: asyncio.StreamWriter,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        last: bool,
    ) -> bool:
        asks.write(request)
        left = asyncio.ensure_future(reader.read(1))
        passing = asyncio.ensure_future(self._pass_on(answers, writer, last, request.startswith(b"GET ")))
        try:
            # A client that leaves is to be seen by the gateway.
            await asyncio.wait({left, passing}, return_when=asyncio.FIRST_COMPLETED)
            return not passing.done() or passing.result()
        finally:
            for task in (left, passing):
                task.cancel()
            with suppress(BaseException):
                await asyncio.gather(left, passing, return_exceptions=True)

    async def _pass_on(
        self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter, last: bool, again: bool
    ) -> bool:
        try:
            data = await answers.read(_LARGEST)
        except OSError:
            data = b""
        if not data:
            if again and not last:
                return False
            writer.write(_NONE)
        elif data.startswith(b"HTTP/1.1 503") and not last:
            return False
        while data:
            writer.write(data)
            await writer.drain()
            data = await answers.read(_LARGEST)
        return True

    def settle(self) -> None:
        """Wait until it has closed its connections, since a test is asked what it leaves open."""
        asyncio.run_coroutine_threadsafe(self._settled(), self._loop).result(10)

    async def _settled(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    def run(self, started: threading.Event, stopping: asyncio.Event) -> None:
        async def main() -> None:
            server = await self.listen()
            started.set()
            await stopping.wait()
            server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(main())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


running: list[Proxy] = []
"""All of this process."""


@contextmanager
def proxying() -> Iterator[Proxy]:
    """Run one, in a thread."""
    proxy, started, stopping = Proxy(), threading.Event(), asyncio.Event()
    thread = threading.Thread(target=proxy.run, args=(started, stopping))
    thread.start()
    assert started.wait(10)
    running.append(proxy)
    try:
        yield proxy
    finally:
        running.remove(proxy)
        proxy._loop.call_soon_threadsafe(stopping.set)
        thread.join()
