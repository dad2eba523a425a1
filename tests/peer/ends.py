"""Connections under test: one whose other end is the test itself, and two back to back."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel

from acp_server.errors import ConnectionClosed
from acp_server.peer.call import Call, Notice, Route, Routes
from acp_server.peer.connection import Connection, Limits
from acp_server.tasks.grace import grace
from acp_server.testing import FaultyStream, memory_pair

PATIENCE = 40.0
"""Seconds after which a test has failed that waits for anything. None ever waits that long."""

CANCELLED = {"code": -32800, "message": "Request cancelled"}


def request(id: Any, method: str, params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method} | ({} if params is None else {"params": params})


def notification(method: str, params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})


def cancel(id: Any) -> dict[str, Any]:
    return notification("$/cancel_request", {"requestId": id})


def result(id: Any, value: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def error(id: Any, code: int, message: str = "refused") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def line(message: Any) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"


async def ping(_call: Call) -> str:
    return "pong"


async def hang(_call: Call) -> None:
    await anyio.sleep_forever()


def listen(routes: Routes, method: str, handler: Callable[[Any], Any], *, inline: bool = False) -> None:
    """Have `handler` called with the parameters of a notification."""
    routes.on_notice(method, Notice(lambda _connection, params: handler(params), inline))


async def until(true: Callable[[], object]) -> None:
    """Let others go on until it is true."""
    while not true():
        await anyio.lowlevel.checkpoint()


class End:
    """A connection, and the other end of its stream. `faults` lies in between."""

    def __init__(self, routes: Routes, limits: Limits | None) -> None:
        ours, self.stream = memory_pair()
        self.faults = FaultyStream(ours)
        self.connection = Connection(self.faults, routes, limits)
        self.raised: BaseException | None = None
        """What running the connection raised."""
        self._unread = b""

    async def run(self) -> None:
        try:
            await self.connection.run()
        except Exception as error:
            self.raised = error

    def send(self, *messages: Any) -> None:
        """Put messages in front of the connection as one chunk; bytes as they are."""
        self.stream.send_nowait(b"".join(map(line, messages)))

    def hear(self, *messages: Any) -> None:
        """Have the reader handle messages in this very moment."""
        for event in self.connection.endpoint.receive(b"".join(map(line, messages))):
            self.connection._reader._handlers[type(event)](event)
        self.connection._inbound.dispatcher.settle()

    def send_eof(self) -> None:
        self.stream.send_eof()

    def hang_up(self) -> None:
        """Take nothing and say nothing any more."""
        self.faults.break_sending()
        self.stream.send_eof()

    async def next(self) -> Any:
        """The next message that comes out."""
        while b"\n" not in self._unread:
            data = await self.stream.receive()
            assert data, "the connection closed its output"
            self._unread += data
        first, self._unread = self._unread.split(b"\n", 1)
        return json.loads(first)

    async def barrier(self) -> list[Any]:
        """Everything that comes out until what was sent before has been seen: until the answer to a request."""
        self.send(request("barrier", "ping"))
        before: list[Any] = []
        while (message := await self.next()).get("id") != "barrier":
            before.append(message)
        return before

    async def rest(self) -> list[Any]:
        """What comes out until the connection closes its output: whole lines only."""
        while data := await self.stream.receive():
            self._unread += data
        lines, self._unread = self._unread.splitlines(keepends=True), b""
        assert all(line.endswith(b"\n") for line in lines), "a torn frame"
        return [json.loads(line) for line in lines]


@asynccontextmanager
async def serving(routes: Routes | None = None, limits: Limits | None = None) -> AsyncIterator[End]:
    """A connection that answers `ping` and the given routes. At the end its input ends, and nothing may be left."""
    routes = routes or Routes()
    routes.requests["ping"] = Route(ping)
    end = End(routes, limits or Limits(drain=0))
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(end.run)
            yield end
            end.send_eof()
            await end.connection.wait_closed()
    assert_over(end.connection)


@asynccontextmanager
async def linked(
    here: Routes | None = None, there: Routes | None = None, limits: Limits | None = None
) -> AsyncIterator[tuple[Connection, Connection]]:
    """Two connections back to back, closed at the end, when nothing may be left of either."""
    one, other = memory_pair()
    left = Connection(one, here or Routes(), limits or Limits(drain=0))
    right = Connection(other, there or Routes(), limits or Limits(drain=0))
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(left.run)
            group.start_soon(right.run)
            yield left, right
            left.close()
            await left.wait_closed()
            await right.wait_closed()
    assert_over(left)
    assert_over(right)


def assert_over(connection: Connection, leaked: int = 0) -> None:
    """Nothing is left in any table, and no task."""
    ledger = connection.endpoint.ledger
    assert (len(connection.endpoint.incoming), ledger.outgoing, ledger.withdrawn) == (0, 0, 0)
    assert connection.tree.size == connection.cleanups.size == connection.writer.size == 0
    assert connection.leaked == leaked
    assert connection._house.running == 0


class Answers:
    """Requests that a test makes in tasks of their own: what became of each, by the name that it was given."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.of: dict[str, Any] = {}
        """The result, or the exception."""
        self.scopes: dict[str, anyio.CancelScope] = {}

    async def ask(self, name: str, method: str = "ask", **how: Any) -> None:
        """Ask, in a scope that `cancel` cancels."""
        with anyio.CancelScope() as self.scopes[name]:
            try:
                self.of[name] = await self.connection.request(method, {"name": name}, **how)
            except Exception as error:
                self.of[name] = error
            except BaseException:
                self.of[name] = "cancelled"
                raise

    def cancel(self, name: str) -> None:
        self.scopes[name].cancel()


class Handlers:
    """Handlers that note how they end."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.go = anyio.Event()

    def routes(self) -> Routes:
        return Routes({"wait": Route(self.wait), "nested": Route(self.nested), "hang": Route(self.hang)})

    async def wait(self, call: Call) -> str:
        await self.go.wait()
        call.notify_peer("progress")
        return "done"

    async def nested(self, call: Call) -> Any:
        try:
            return await call.request_peer("ask")
        except ConnectionClosed as closed:
            self.log.append(closed.method)
            raise

    async def hang(self, call: Call) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self.log.append(call.cause)
            with grace():
                await anyio.lowlevel.checkpoint()
                self.log.append("clean")
