"""The stream of a chat, as its client gets it."""

from typing import Any

import anyio
import pytest
from starlette.types import Message

from acp_server.apps.gateway.events import Feed
from acp_server.http.asgi import ABORT
from acp_server.http.events import EventStream

from .serving import PATIENCE

pytestmark = pytest.mark.anyio

BACKLOG = 1000


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
