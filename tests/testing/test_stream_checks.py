"""`check_stream`: the streams that it accepts, and the broken rules that it notices."""

import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import repeat

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketStream

from acp_server import ObservedStream, Stream
from acp_server.agent.fd_stream import FdStream
from acp_server.testing import FaultyStream, MemoryStream, check_stream, memory_pair
from examples.embed import Wire

pytestmark = pytest.mark.anyio

Connected = Callable[[], AbstractAsyncContextManager[tuple[Stream, Stream]]]


def in_memory(wrap: Callable[[MemoryStream], Stream] = lambda stream: stream) -> Connected:
    @asynccontextmanager
    async def connected() -> AsyncGenerator[tuple[Stream, Stream]]:
        here, there = memory_pair()
        yield wrap(here), wrap(there)

    return connected


@asynccontextmanager
async def by_tcp() -> AsyncGenerator[tuple[Stream, Stream]]:
    accepted: list[SocketStream] = []
    came = anyio.Event()

    async def accept(stream: SocketStream) -> None:
        accepted.append(stream)
        came.set()
        await anyio.sleep_forever()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, accept)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await came.wait()
            async with accepted[0]:
                yield Wire(stream), Wire(accepted[0])
        tasks.cancel_scope.cancel()


class Owner(FdStream):
    """A stream on a descriptor that it closes."""

    def __init__(self, end: socket.socket) -> None:
        super().__init__(end.fileno(), end.fileno())
        self._end = end

    async def aclose(self) -> None:
        await super().aclose()
        self._end.close()


@asynccontextmanager
async def by_descriptors() -> AsyncGenerator[tuple[Stream, Stream]]:
    here, there = map(Owner, socket.socketpair())
    try:
        yield here, there
    finally:
        await here.aclose()
        await there.aclose()


class Wrapped:
    """Does what the stream below it does."""

    def __init__(self, below: MemoryStream) -> None:
        self._below = below

    async def receive(self) -> bytes:
        return await self._below.receive()

    async def send(self, data: bytes) -> None:
        await self._below.send(data)

    async def aclose(self) -> None:
        await self._below.aclose()


class SwapsPieces(Wrapped):
    async def receive(self) -> bytes:
        first = await super().receive()
        return (await super().receive() + first) if first[1:2] == b"y" else first


class LosesTheEnd(Wrapped):
    """Raises at EOF, as a WebSocket library does."""

    async def receive(self) -> bytes:
        if data := await super().receive():
            return data
        raise RuntimeError("closed")


class SendsToNobody(Wrapped):
    async def send(self, data: bytes) -> None:
        try:
            await super().send(data)
        except anyio.BrokenResourceError:
            await anyio.lowlevel.checkpoint()


class ClosesOnce(Wrapped):
    _closed = False

    async def aclose(self) -> None:
        assert not self._closed, "closed twice"
        self._closed = True
        await super().aclose()


class DoesNotWakeReceive(Wrapped):
    async def aclose(self) -> None:
        pass


class SharesACancel(Wrapped):
    """A cancelled receive closes the stream, as an asyncio stream under a time-out may."""

    async def receive(self) -> bytes:
        try:
            return await super().receive()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise


class BuffersAll(Wrapped):
    async def send(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        self._below.send_nowait(data)


class Immediate(Wrapped):
    def send_now(self, data: bytes) -> int:
        try:
            self._below.send_nowait(data[:1000])
        except anyio.BrokenResourceError:
            return 0
        return min(1000, len(data))


class CountsTooMuch(Immediate):
    def send_now(self, data: bytes) -> int:
        return min(len(data), super().send_now(data) + 1)


class RaisesAtOnce(Immediate):
    def send_now(self, data: bytes) -> int:
        self._below.send_nowait(data)
        return len(data)


class Fed(Wrapped):
    async def feed(self, take: Callable[[bytes], bool]) -> None:
        while take(await self.receive()):
            pass


class FedTooMuch(Wrapped):
    async def feed(self, take: Callable[[bytes], bool]) -> None:
        while True:
            take(await self.receive())


@pytest.mark.parametrize(
    "connected",
    [
        in_memory(),
        in_memory(lambda stream: ObservedStream(stream, lambda *_: None)),
        in_memory(lambda stream: FaultyStream(stream, sizes=repeat(4096))),
        in_memory(Immediate),
        in_memory(Fed),
        by_tcp,
        by_descriptors,
    ],
    ids=["memory", "observed", "split", "immediate", "fed", "tcp", "descriptors"],
)
async def test_a_stream_keeps_the_contract(connected: Connected) -> None:
    await check_stream(connected)


@pytest.mark.parametrize(
    ("wrap", "rule"),
    [
        (SwapsPieces, "complete and in order"),
        (LosesTheEnd, 'b"" after them'),
        (SendsToNobody, "when the other end has closed"),
        (DoesNotWakeReceive, "receive must return the bytes"),
        (ClosesOnce, "aclose may be called twice"),
        (SharesACancel, "must not affect send"),
        (BuffersAll, "send must wait"),
        (CountsTooMuch, "number of bytes that it has written"),
        (RaisesAtOnce, "must not raise"),
        (FedTooMuch, "until it returns False"),
    ],
)
async def test_a_broken_rule_is_named(wrap: Callable[[MemoryStream], Stream], rule: str) -> None:
    with pytest.raises(AssertionError, match=rule):
        await check_stream(in_memory(wrap), patience=1)
