"""A proxy of TCP that cuts a conversation once, behind a frame or in the middle of it, and what has to come of that.

    python -m tests.remote.cuts [http|ws] [asyncio|trio]

tries each frame of both directions, which takes some minutes; the tests try a sample.
"""

import socket
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import anyio
import anyio.abc
from anyio.abc import SocketAttribute, SocketStream

from acp_server import Agent, MemoryStore, ToolContext, Turn
from acp_server.client import Handlers
from acp_server.errors import ConnectionClosed
from acp_server.remote import Backoff, RemoteApp, RemoteLimits, connect_http, connect_ws
from acp_server.schema import ReadTextFileRequest, ReadTextFileResponse, RequestPermissionRequest
from tests.interop.remote_agent import served

Direction = Literal["up", "down"]
PATIENCE = 30.0
RESET = b"\1\0\0\0\0\0\0\0"
FILE = "a line of the file\n" * 20
WORDS = 8


class Frames:
    """Bytes in, whole frames out: a head of HTTP, a body or a chunk of one, a frame of WebSocket."""

    def __init__(self) -> None:
        self._data = b""
        self._rule: Any = self._head

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._data += data
        while (size := self._rule()) and len(self._data) >= size:
            frame, self._data = self._data[:size], self._data[size:]
            yield frame

    def _head(self) -> int:
        head, end, _ = self._data.partition(b"\r\n\r\n")
        if not end:
            return 0
        lines = head.lower().split(b"\r\n")
        named = dict(line.split(b": ", 1) for line in lines[1:])
        if b"sec-websocket-key" in named or b"sec-websocket-accept" in named:
            self._rule = self._websocket
        elif b"transfer-encoding" in named:
            self._rule = self._chunk
        elif length := int(named.get(b"content-length", 0)):
            self._rule = lambda: self._body(length)
        return len(head) + len(end)

    def _body(self, length: int) -> int:
        if len(self._data) >= length:
            self._rule = self._head
        return length

    def _chunk(self) -> int:
        length, end, _ = self._data.partition(b"\r\n")
        if not end:
            return 0
        size = len(length) + 2 + int(length, 16) + 2
        if int(length, 16) == 0 and len(self._data) >= size:
            self._rule = self._head
        return size

    def _websocket(self) -> int:
        if len(self._data) < 2:
            return 0
        length = self._data[1] & 127
        more = {126: 2, 127: 8}.get(length, 0)
        if more:
            length = int.from_bytes(self._data[2 : 2 + more])
        size = 2 + more + 4 * (self._data[1] >> 7) + length
        return size if len(self._data) >= 2 + more else 0


class Cut(NamedTuple):
    """Where: behind the frame of this number in this direction, or in its middle. `reset`: what is not read is lost."""

    direction: Direction
    number: int
    torn: bool

    @property
    def reset(self) -> bool:
        return self.number % 2 == 0


@dataclass
class Proxy:
    port: int
    cut: Cut | None = None
    counts: dict[Direction, int] = field(default_factory=lambda: {"up": 0, "down": 0})
    is_cut: bool = False

    async def serve(self, client: SocketStream) -> None:
        server = await anyio.connect_tcp("127.0.0.1", self.port)
        async with client, server, anyio.create_task_group() as tasks:
            tasks.start_soon(self._pass, client, server, "up", tasks)
            tasks.start_soon(self._pass, server, client, "down", tasks)

    async def _pass(self, source: SocketStream, sink: SocketStream, direction: Direction, tasks: Any) -> None:
        frames = Frames()
        try:
            while True:
                for frame in frames.feed(await source.receive()):
                    self.counts[direction] += 1
                    if self.cut is not None and self.cut[:2] == (direction, self.counts[direction]):
                        await sink.send(frame[: len(frame) // 2] if self.cut.torn else frame)
                        self._break(source, sink)
                        break
                    await sink.send(frame)
                else:
                    continue
                break
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        tasks.cancel_scope.cancel()

    def _break(self, *streams: SocketStream) -> None:
        assert self.cut is not None
        self.is_cut = True
        if self.cut.reset:
            for stream in streams:
                stream.extra(SocketAttribute.raw_socket).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


class Host:
    """An agent behind our own server."""

    def __init__(self) -> None:
        self.port = 0
        self.turns: list[str] = []
        self.agent = agent = Agent("talker", store=MemoryStore())

        @agent.tool(approval=True)
        async def permitted(call: ToolContext) -> str:
            return "yes"

        @agent.prompt
        async def prompt(turn: Turn) -> None:
            self.turns.append(turn.text)
            for number in range(WORDS):
                await turn.say(f"{number} ")
            if turn.text != "stream":
                await turn.say(f"{(await turn.run_tool('permitted')).value} ")
            if turn.text == "ask":
                await turn.say(await turn.client.read_text_file("/project/a.txt"))
            await turn.say("end")


@asynccontextmanager
async def hosting(**limits: Any) -> AsyncGenerator[Host]:
    host = Host()
    app = RemoteApp(host.agent, remote=RemoteLimits(**limits))
    async with served(app) as host.port:
        try:
            yield host
        finally:
            with anyio.CancelScope(shield=True):
                await app.aclose()


async def converse(kind: str, host: Host, cut: Cut | None, version: Literal[1, 2] = 1) -> Proxy:
    """One conversation through a proxy. Raises AssertionError where something is missing or comes twice, and
    ConnectionClosed where the client is told that something is lost."""
    lost: list[ConnectionClosed] = []
    proxy = Proxy(host.port, cut)
    asked: list[str] = []

    async def allow(request: RequestPermissionRequest) -> Any:
        asked.append("permission")
        return request.options[0]

    class Files:
        async def read_text_file(self, request: ReadTextFileRequest) -> ReadTextFileResponse:
            asked.append("read")
            return ReadTextFileResponse(content=FILE)

    host.turns.clear()
    # Version 2 has no files of the client.
    first = "ask" if version == 1 else "permit"
    words = "".join(f"{number} " for number in range(WORDS))
    connect: Any = connect_http if kind == "http" else connect_ws
    handlers = Handlers(permission=allow, files=Files())
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, proxy.serve)
        url = f"{kind}://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/acp"
        with anyio.fail_after(PATIENCE):
            try:
                async with connect(url, handlers, backoff=Backoff(first=0.0)) as agent:
                    info = await agent.initialize(version=version)
                    assert info.protocol_version == version
                    session = await agent.new_session("/project")
                    assert await session.ask(first) == f"{words}yes {FILE * (version == 1)}end"
                    assert await session.ask("stream") == f"{words}end"
            except ConnectionClosed as error:
                lost.append(error)
        tasks.cancel_scope.cancel()
    for error in lost:
        raise error
    assert host.turns == [first, "stream"]
    assert asked == ["permission", "read"][: 3 - version]
    return proxy


async def cuts_of(kind: str, host: Host, version: Literal[1, 2] = 1) -> list[Cut]:
    """Each place where the conversation can be cut."""
    whole = await converse(kind, host, None, version)
    directions: tuple[Direction, ...] = ("up", "down")
    return [
        Cut(direction, number, torn)
        for direction in directions
        for number in range(1, whole.counts[direction] + 1)
        for torn in (False, True)
    ]


async def main(kind: str) -> int:
    failed = 0
    async with hosting() as host:
        cuts = await cuts_of(kind, host)
        for cut in cuts:
            try:
                await converse(kind, host, cut)
            except Exception as error:
                failed += 1
                sys.stdout.write(f"{kind}: {cut}: {error!r}\n")
    sys.stdout.write(f"{kind}: {len(cuts)} cuts, {failed} failed\n")
    return failed


if __name__ == "__main__":
    kinds = [each for each in ("http", "ws") if each in sys.argv or not {"http", "ws"} & {*sys.argv}]
    backends = [each for each in ("asyncio", "trio") if each in sys.argv or not {"asyncio", "trio"} & {*sys.argv}]
    sys.exit(min(1, sum(anyio.run(main, kind, backend=backend) for backend in backends for kind in kinds)))
