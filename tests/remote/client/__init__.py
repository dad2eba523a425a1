"""A server of Streamable HTTP under the control of a test: it answers as the rules say unless it is told otherwise, and
it can cut each of its connections at any byte. Nothing of the package is used for it.
"""

import json
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
import anyio.abc

Message: TypeAlias = dict[str, Any]
PATIENCE = 15.0
"""Seconds after which a test has failed."""


class Request:
    """One request of the client's."""

    def __init__(self, stream: anyio.abc.SocketStream, method: str, headers: dict[str, str], body: bytes) -> None:
        self.stream = stream
        self.method = method
        self.headers = headers
        self.body = body
        self.message: Any = _json(body)
        self.is_answered = anyio.Event()

    @property
    def session(self) -> str | None:
        return self.headers.get("acp-session-id")

    async def answer(self, status: int, body: Any = None, **headers: str) -> None:
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        head = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(data)}"]
        head += [f"{name}: {value}" for name, value in named.items()]
        await self.stream.send("\r\n".join(head).encode() + b"\r\n\r\n" + data)
        self.is_answered.set()

    async def cut(self, *, reset: bool = False) -> None:
        """End the connection without an answer; `reset`: as a network does that also loses what was not read yet."""
        if reset:
            raw = self.stream.extra(anyio.abc.SocketAttribute.raw_socket)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await self.stream.aclose()
        self.is_answered.set()


class Events:
    """A stream of events that a client reads."""

    def __init__(self, request: Request) -> None:
        self.request = request

    async def begin(self) -> None:
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        await self.request.stream.send(head.encode())

    async def raw(self, data: bytes) -> None:
        await self.request.stream.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def say(self, message: Message, id: str | None = None) -> None:
        await self.raw((f"id: {id}\n" if id else "").encode() + b"data: " + json.dumps(message).encode() + b"\n\n")

    async def end(self) -> None:
        """The end as the server means it."""
        await self.request.stream.send(b"0\r\n\r\n")
        self.request.is_answered.set()

    async def cut(self) -> None:
        await self.request.cut()


Reaction: TypeAlias = Callable[[Request], Awaitable[bool]]
"""What a test does about a request; False leaves it to the rules."""


class Server:
    """`url` is its address. `posts` are the messages that it got, in their order; `gets` the streams that were asked
    for, with the cursor of each."""

    def __init__(self) -> None:
        self.url = ""
        self.posts: list[Request] = []
        self.gets: list[Request] = []
        self.deletes: list[Request] = []
        self.react: Reaction | None = None
        self.initialized: Message = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
        self._streams = defaultdict[str | None, list[Events]](list)
        self._changed = anyio.Event()

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until something has happened at the server: what `condition` then gives."""
        with anyio.fail_after(PATIENCE):
            while not (value := condition()):
                await self._changed.wait()
        return value

    async def stream(self, session: str | None = None, number: int = 1) -> Events:
        """The `number`th stream of a session, once it was asked for; without a session, of the connection."""

        begun = self._streams[session]
        await self.until(lambda: len(begun) >= number)
        return begun[number - 1]

    async def post(self, method: str, number: int = 1) -> Request:
        """The `number`th message of this method."""
        found = await self.until(lambda: len(self.of(method)) >= number and self.of(method))
        return found[number - 1]

    def of(self, method: str) -> list[Request]:
        return [post for post in self.posts if post.message.get("method") == method]

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        with anyio.CancelScope():
            try:
                while (request := await _read(stream)) is not None:
                    self._note(request)
                    if self.react is None or not await self.react(request):
                        await self._by_the_rules(request)
                    await request.is_answered.wait()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError):
                pass  # the client has gone

    def _note(self, request: Request) -> None:
        {"POST": self.posts, "GET": self.gets, "DELETE": self.deletes}[request.method].append(request)
        self.changed()

    def changed(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _by_the_rules(self, request: Request) -> None:
        if request.method == "GET":
            await self.begin(request)
        elif request.method == "DELETE":
            await request.answer(202)
        elif request.message.get("method") == "initialize":
            body = {"jsonrpc": "2.0", "id": request.message["id"], "result": self.initialized}
            await request.answer(200, body, Content_Type="application/json", Acp_Connection_Id="c1")
        else:
            await request.answer(202)

    async def begin(self, request: Request) -> None:
        """Open a stream of events for a GET."""
        events = Events(request)
        await events.begin()
        self._streams[request.session].append(events)
        self.changed()


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    """A server, while the block runs."""
    server = Server()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    server.url = f"http://127.0.0.1:{port}/acp"
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, _closing(server.serve))
        with anyio.fail_after(2 * PATIENCE):
            yield server
        tasks.cancel_scope.cancel()


def _closing(serve: Callable[[anyio.abc.SocketStream], Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    async def served(stream: anyio.abc.SocketStream) -> None:
        try:
            await serve(stream)
        finally:
            await anyio.aclose_forcefully(stream)

    return served


def _json(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return None


async def _read(stream: anyio.abc.SocketStream) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        try:
            data += await stream.receive()
        except anyio.EndOfStream:
            return None
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(":") for line in lines)}
    headers = {name: value.strip() for name, value in headers.items()}
    while len(body) < int(headers.get("content-length", 0)):
        body += await stream.receive()
    return Request(stream, first.split()[0], headers, body)
