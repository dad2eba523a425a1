"""A bridge between an editor and a remote agent, in memory on the editor's side."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from acp_server.remote import Backoff
from acp_server.remote.bridge import Bridge
from acp_server.remote.client import stream_to
from acp_server.testing import MemoryStream, memory_pair

from . import PATIENCE, Server, serving
from .talking import answer, chunk

pytestmark = pytest.mark.anyio

INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n'


class Editor:
    """What an editor says and hears, as bytes."""

    def __init__(self, stream: MemoryStream) -> None:
        self._stream = stream
        self.say = stream.send
        self.say_no_more = stream.send_eof
        self.leave = stream.aclose
        self._heard = b""

    async def line(self) -> bytes:
        with anyio.fail_after(PATIENCE):
            while b"\n" not in self._heard:
                data = await self._stream.receive()
                assert data, "the bridge has ended"
                self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        return line


@asynccontextmanager
async def bridged(longest: int = 10_000, patience: float = PATIENCE) -> AsyncIterator[tuple[Editor, Server, list[Any]]]:
    """An editor behind a bridge, and what the bridge has ended with."""
    here, there = memory_pair()
    ended = list[Any]()
    async with serving() as server:
        opening = stream_to(server.url, False, backoff=Backoff(attempts=2, first=0.0))
        agent = opening()
        bridge = Bridge(there, agent, longest, patience)

        async def run() -> None:
            ended.append(await bridge.run())
            await agent.aclose()
            await there.aclose()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            yield Editor(here), server, ended


async def test_messages_pass_unchanged_in_both_directions() -> None:
    odd = b'{ "method":"_odd" ,"jsonrpc":"2.0", "params":{"a":1.10,"b":"\\u00e4","c":"\xc3\xa4","d":12345678901234567}}'
    async with bridged() as (editor, server, ended):
        await editor.say(INITIALIZE + odd[:20])
        await editor.say(odd[20:] + b"\n")
        assert (await editor.line()).startswith(b'{"jsonrpc": "2.0", "id": 0')
        assert (await server.post("_odd")).body == odd
        await (await server.stream()).raw(b"data: " + odd + b"\n\n")
        assert await editor.line() == odd
        await editor.leave()
    assert ended == [None]
    assert len(server.deletes) == 1


async def test_an_open_request_is_answered_with_why_the_line_was_lost_and_no_other_is() -> None:
    async with bridged() as (editor, server, ended):
        await editor.say(INITIALIZE)
        await editor.line()
        for id in (b"1", b'"1"', b"2"):
            await editor.say(b'{"jsonrpc":"2.0","id":%s,"method":"_x"}\n' % id)
        await server.post("_x", 3)
        events = await server.stream()
        await events.say(answer(2))
        assert b'"id": 2' in await editor.line()
        await events.cut()
        lost = [await editor.line() for _ in range(2)]
        heads = [line.partition(b',"error":')[0] for line in lost]
        assert heads == [b'{"jsonrpc":"2.0","id":1', b'{"jsonrpc":"2.0","id":"1"']
        assert all(b"messages are lost" in line for line in lost)
    assert "broke" in ended[0]


async def test_a_line_that_is_too_long_is_answered_and_the_next_one_passes() -> None:
    async with bridged(longest=100) as (editor, server, _):
        await editor.say(INITIALIZE)
        await editor.line()
        await editor.say(b'{"jsonrpc":"2.0","id":7,"method":"_x","params":{"a":"%s"}}\n' % (b"x" * 200))
        refused = await editor.line()
        assert b'"id":7' in refused
        assert b"longer than" in refused
        await editor.say(b'{"jsonrpc":"2.0","method":"_next"}\n')
        await server.post("_next")
        await editor.leave()


@pytest.mark.parametrize("line", [b"garbage", b"[]", b'{"jsonrpc":"2.0"}', b'[{"jsonrpc":"2.0","id":3,"method":"_x"}]'])
async def test_what_the_server_refuses_is_answered_and_does_not_end_the_connection(line: bytes) -> None:
    async with bridged() as (editor, server, _):
        await editor.say(INITIALIZE)
        await editor.line()

        async def react(request: Any) -> bool:
            if request.method != "POST" or (isinstance(request.message, dict) and "method" in request.message):
                return False
            await request.answer(400, b"what is that?")
            return True

        server.react = react
        await editor.say(line + b"\n")
        assert b'"id":3' if b"3" in line else b'"id":null' in await editor.line()
        await editor.say(b'{"jsonrpc":"2.0","method":"_next"}\n')
        await server.until(lambda: any(b"_next" in post.body for post in server.posts))
        await editor.leave()


async def test_what_is_open_is_waited_for_when_the_editor_has_said_all() -> None:
    async with bridged() as (editor, server, ended):
        await editor.say(INITIALIZE + b'{"jsonrpc":"2.0","id":1,"method":"_x"}\n')
        await editor.line()
        asked = await server.post("_x")
        editor.say_no_more()
        await (await server.stream()).say(answer(asked.message["id"]))
    assert ended == [None]


async def test_the_agent_may_say_more_than_the_editor_reads_at_once() -> None:
    async with bridged() as (editor, server, _):
        await editor.say(INITIALIZE)
        await editor.line()
        events = await server.stream()
        for number in range(200):
            await events.say(chunk(str(number)))
        assert [b'"text": "%d"' % number in await editor.line() for number in range(200)] == [True] * 200
        await editor.leave()


async def test_a_request_that_was_answered_since_its_line_broke_is_not_answered_again() -> None:
    async with bridged() as (editor, server, _):
        await editor.say(INITIALIZE)
        await editor.line()

        async def react(request: Any) -> bool:
            if request.method != "POST" or request.message.get("method") != "_x":
                return False
            await request.cut()
            return True

        server.react = react
        await editor.say(b'{"jsonrpc":"2.0","id":5,"method":"_x"}\n')
        assert b"may have reached the agent" in await editor.line()
        events = await server.stream()
        await events.say(answer(5))
        await events.say({"jsonrpc": "2.0", "method": "_next"})
        assert b"_next" in await editor.line()
        await editor.leave()
