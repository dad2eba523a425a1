"""What a client of a stream is told: everything if it keeps up, whatever the size of an event; else it is cut off."""

from typing import Any

import anyio
import pytest
from starlette.types import Message

from acp_server.apps.gateway.connection import ABORT
from acp_server.apps.gateway.events import EventStream, Feed, Listener

from .serving import PATIENCE

pytestmark = pytest.mark.anyio

BACKLOG = 1000


async def all_of(listener: Listener) -> list[bytes]:
    taken: list[bytes] = []
    with anyio.fail_after(PATIENCE):
        while (data := await listener.next()) is not None:
            taken.append(data)
    return taken


async def test_a_frame_that_is_larger_than_the_backlog_reaches_a_client_that_has_taken_all_before_it() -> None:
    listener = Listener(BACKLOG)
    listener.put(b"a" * BACKLOG)
    assert await listener.next() == b"a" * BACKLOG
    large, small = b"b" * (3 * BACKLOG), b"c" * 100
    for data in (large, small, small):
        listener.put(data)
    listener.close()
    assert not listener.lost
    assert await all_of(listener) == [large, small, small]


async def test_a_frame_that_is_larger_than_the_backlog_reaches_a_client_that_is_behind_by_less() -> None:
    listener = Listener(BACKLOG)
    frames = [b"a" * BACKLOG, b"b" * (3 * BACKLOG)]
    for data in frames:
        listener.put(data)
    listener.close()
    assert await all_of(listener) == frames


@pytest.mark.parametrize("sizes", [[100] * 12, [3 * BACKLOG, *[100] * 11], [*[100] * 10, 3 * BACKLOG, 100]])
async def test_a_client_that_is_behind_by_more_is_cut_off_and_nothing_is_held_for_it(sizes: list[int]) -> None:
    listener = Listener(BACKLOG)
    for size in sizes:
        assert not listener.lost
        listener.put(b"x" * size)
    assert listener.lost
    assert not listener._frames
    assert await all_of(listener) == []


async def test_a_large_frame_that_was_taken_makes_no_room_for_small_ones() -> None:
    listener = Listener(BACKLOG)
    listener.put(b"x" * (3 * BACKLOG))
    await listener.next()
    for _ in range(12):
        listener.put(b"y" * 100)
    assert listener.lost


async def test_the_stream_of_a_chat_with_a_large_message_is_whole() -> None:
    feed = Feed(BACKLOG)
    stream = EventStream(feed.listen())
    left = anyio.Event()
    written = b""

    async def receive() -> Message:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal written
        written += message.get("body", b"")

    scope: dict[str, Any] = {"type": "http", "state": {ABORT: left.set}}
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(stream, scope, receive, send)
            for size in (900, 900, 900, 10_000):
                feed.emit("conversation.message.delta", "x" * size)
                await anyio.wait_all_tasks_blocked()
            feed.emit("conversation.message.completed", "x" * 12_700)
            feed.emit("conversation.chat.completed", {})
            feed.done()
    assert written.count(b"event:conversation.message.delta\n") == 4
    assert written.endswith(b'event:conversation.chat.completed\ndata:{}\n\nevent:done\ndata:"[DONE]"\n\n')
