"""`check_stream`: the contract test of a `Stream`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final, TypeAlias

import anyio

from acp_server.agent.app import Agent
from acp_server.peer.stream import FeedingStream, ImmediateStream, Stream
from acp_server.session.turn import Turn
from acp_server.testing.scripted import ScriptedClient

Connected: TypeAlias = Callable[[], AbstractAsyncContextManager[tuple[Stream, Stream]]]
"""Connects two streams: each receives what the other one sends."""

_GONE: Final = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError)
"""The exceptions that `receive` and `send` may raise."""

_BLOCK: Final = b'"' + b"x" * 65_533 + b'"\n'
_MOST_BUFFERED: Final = 1024
"""The most blocks that `send` may accept while the other end does not read: 64 MiB."""


async def check_stream(connected: Connected, *, patience: float = 20.0) -> None:
    """Check a stream against the contract of `Stream`, and of `ImmediateStream` and `FeedingStream` if it has their
    methods, directly and with an agent.

    `connected`: a function that returns an async context manager of two connected streams. Each check connects two and
    checks both ends. The data are whole messages, each a line of JSON. `patience`: seconds for each check.

    Raises AssertionError with the broken rule. Its cause is the exception of the stream, if there was one.
    """
    for check, rule in _RULES.items():
        for swap in (False, True):
            async with connected() as (one, other):
                try:
                    with anyio.fail_after(patience):
                        await (check(other, one) if swap else check(one, other))
                except TimeoutError:
                    raise AssertionError(f"{rule} (still waiting after {patience:g} s)") from None
                except Exception as error:
                    raise AssertionError(rule) from error


async def _content(here: Stream, there: Stream) -> None:
    """Both directions carry data at once."""
    sent = [_line(size) for size in (0, 1, 1000, 65_536, 1_000_000)] + [b"".join(map(_line, range(200)))]
    expected = b"".join(sent)

    async def send(stream: Stream) -> None:
        for data in sent:
            await stream.send(data)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send, here)
        tasks.start_soon(send, there)
        for stream in (here, there):
            _expect(await _received(stream, len(expected)) == expected)


async def _end_of_input(here: Stream, there: Stream) -> None:
    await there.send(_BLOCK)
    await there.aclose()
    _expect(await _received(here, len(_BLOCK)) == _BLOCK)
    for _ in range(2):
        with suppress(*_GONE):
            _expect(await here.receive() == b"")


async def _peer_gone(here: Stream, there: Stream) -> None:
    await there.aclose()
    for _ in range(_MOST_BUFFERED):
        try:
            await here.send(_BLOCK)
        except _GONE:
            return
    raise AssertionError("all was sent")


async def _closed(here: Stream, there: Stream) -> None:
    async def receive() -> None:
        with suppress(*_GONE):
            await here.receive()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        await here.aclose()
        await here.aclose()
        tasks.cancel_scope.cancel()


async def _cancelled(here: Stream, there: Stream) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(here.receive)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    # Only the direction that was cancelled may have lost bytes.
    await here.send(_BLOCK)
    _expect(await _received(there, len(_BLOCK)) == _BLOCK)


async def _backpressure(here: Stream, there: Stream) -> None:
    sent = 0

    async def send() -> None:
        nonlocal sent
        while sent < _MOST_BUFFERED:
            await here.send(_BLOCK)
            sent += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        # A socket that anyio has accepted reads without end before the first receive.
        await there.receive()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    _expect(sent < _MOST_BUFFERED)


async def _immediate(here: Stream, there: Stream) -> None:
    if not isinstance(here, ImmediateStream):
        return
    lines = [_line(1), _BLOCK, b"".join(map(_line, range(100)))]

    async def send() -> None:
        for data in lines * 50:
            count = here.send_now(data)
            _expect(0 <= count <= len(data))
            if count < len(data):
                await here.send(data[count:])

    expected = b"".join(lines) * 50
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        _expect(await _received(there, len(expected)) == expected)
    await there.aclose()
    for _ in range(_MOST_BUFFERED):
        here.send_now(_BLOCK)


async def _fed(here: Stream, there: Stream) -> None:
    if not isinstance(here, FeedingStream):
        return
    taken = bytearray()
    lines = [_line(10), _line(100_000), _line(1)]

    def take(data: bytes) -> bool:
        taken.extend(data)
        return len(taken) < len(b"".join(lines))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(here.feed, take)
        for data in lines:
            await there.send(data)
    _expect(bytes(taken) == b"".join(lines))
    await there.send(_BLOCK)
    _expect(await _received(here, len(_BLOCK)) == _BLOCK)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(here.feed, take)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    before = len(taken)
    await there.send(_BLOCK)
    await anyio.wait_all_tasks_blocked()
    _expect(len(taken) == before)


async def _conversation(here: Stream, there: Stream) -> None:
    agent = Agent("checked")
    agent.prompt(_echo)
    long = "long \N{SNOWMAN} " * 50_000
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(agent.connect(here).run)
        async with ScriptedClient(there) as client:
            await client.result("initialize", {"protocolVersion": 1})
            session = (await client.result("session/new", {"cwd": "/", "mcpServers": []}))["sessionId"]
            await client.result("session/prompt", _prompt(session, long))
            _expect("".join(update["content"]["text"] for update in client.updates(session)) == long)
            id = await client.request("session/prompt", _prompt(session, "wait"))
            await client.notify("session/cancel", {"sessionId": session})
            _expect((await client.response(id))["result"] == {"stopReason": "cancelled"})


_Check: TypeAlias = Callable[[Stream, Stream], Awaitable[None]]

_RULES: Final[dict[_Check, str]] = {
    _content: "bytes must arrive complete and in order, in both directions at once",
    _end_of_input: 'receive must return the bytes that were sent before the other end closed, and b"" after them',
    _peer_gone: "send must raise OSError, BrokenResourceError or ClosedResourceError when the other end has closed",
    _closed: "aclose may be called twice, and while receive waits",
    _cancelled: "a cancelled receive must end, and must not affect send",
    _backpressure: "send must wait, with at most 64 MiB buffered, while the other end does not read",
    _immediate: "send_now must return the number of bytes that it has written, and must not raise",
    _fed: "feed must call `take` with all bytes until it returns False, and not after a cancel",
    _conversation: "an agent must be able to use the stream",
}


def _expect(holds: bool) -> None:
    # Not `assert`, which `python -O` omits.
    if not holds:
        raise AssertionError


def _line(size: int) -> bytes:
    return b'"' + b"y" * size + b'"\n'


async def _received(stream: Stream, size: int) -> bytes:
    """The next `size` bytes, or fewer if the input ends before."""
    data = bytearray()
    while len(data) < size and (chunk := await stream.receive()):
        data += chunk
    return bytes(data)


async def _echo(turn: Turn) -> str:
    if turn.text == "wait":
        await anyio.sleep_forever()
    return turn.text


def _prompt(session: str, text: str) -> dict[str, Any]:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
