"""Messages of the agent that are too long, or have too much in them. A turn that has lost one does not look complete,
and other sessions go on."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from acp_server.client import RemoteAgent, connect_agent
from acp_server.client.link import MeasuredStream
from acp_server.errors import MalformedResponse
from acp_server.peer.connection import Limits
from acp_server.testing import memory_pair
from acp_server.wire.state_machine import MOST_NESTED
from tests.client.talking import SESSION, Scripted, said, shown, text

pytestmark = pytest.mark.anyio

LIMIT = 2000
LONG = shown(said("x" * LIMIT))


@asynccontextmanager
async def talking(*ids: str, limit: int = LIMIT) -> AsyncIterator[tuple[RemoteAgent, Scripted]]:
    here, there = memory_pair()
    async with Scripted(there) as peer, connect_agent(here, limits=Limits(line=limit)) as agent:
        peer.answer("initialize", {"protocolVersion": 1})
        await agent.initialize()
        for id in ids:
            peer.answer("session/new", {"sessionId": id})
            await agent.new_session("/project")
        yield agent, peer


def line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


@pytest.mark.parametrize("chunk", [1 << 20, 700, LIMIT, LIMIT + 1])
async def test_a_turn_of_which_an_update_was_too_long_does_not_look_complete(
    chunk: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with talking(SESSION) as (agent, peer), agent.sessions[SESSION].prompt("hello") as turn:
        prompt = await peer.expect_request("session/prompt")
        data = line(shown(said("before"))) + line(LONG) + line(shown(said("after")))
        for start in range(0, len(data), chunk):
            await peer.stream.send(data[start : start + chunk])
        await peer.finish(prompt)
        assert [text(await anext(turn)) for _ in range(2)] == ["before", "after"]
        with pytest.raises(MalformedResponse, match="a line of more than 2000 bytes came before it"):
            await anext(turn)
        with pytest.raises(MalformedResponse):
            assert turn.stop_reason
    assert caplog.text.count("a line of more than 2000 bytes of the agent was dropped, session 'sess_1'") == 1


@pytest.mark.parametrize("in_a_batch", [False, True])
async def test_a_turn_of_which_an_update_had_too_much_in_it_does_not_look_complete(
    in_a_batch: bool, caplog: pytest.LogCaptureFixture
) -> None:
    table = {"sessionUpdate": "tool_call_update", "toolCallId": "a", "rawOutput": [[]] * MOST_NESTED}
    async with talking("a", "b", limit=1 << 20) as (agent, peer):
        async with agent.sessions["a"].prompt("hello") as one, agent.sessions["b"].prompt("hello") as two:
            prompts = [await peer.expect_request("session/prompt") for _ in range(2)]
            await peer.stream.send(line([shown(table, "a")] if in_a_batch else shown(table, "a")))
            for prompt in prompts:
                await peer.finish(prompt)
            with pytest.raises(MalformedResponse, match="more than 100000 objects and arrays came before it"):
                await one.wait()
            assert (await two.wait()).stop_reason == "end_turn"
        assert not [message for message in peer.received if "error" in message]
    assert "objects and arrays of the agent was dropped, session 'a'" in caplog.text


@pytest.mark.parametrize("bad", [b"\xff", b"[" * 1500])
async def test_a_turn_of_which_an_update_cannot_be_read_does_not_look_complete(bad: bytes) -> None:
    async with talking(SESSION) as (agent, peer), agent.sessions[SESSION].prompt("hello") as turn:
        prompt = await peer.expect_request("session/prompt")
        await peer.stream.send(line(shown(said("before"))))
        await peer.stream.send(b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":' + bad + b"}}\n")
        await peer.finish(prompt)
        assert text(await anext(turn)) == "before"
        with pytest.raises(MalformedResponse, match="bytes that are not JSON came before it"):
            await anext(turn)


@pytest.mark.behaviour("A12")
async def test_an_answer_in_a_batch_with_too_much_in_it_is_an_error_to_who_waits_for_it() -> None:
    async with talking("a", limit=1 << 20) as (agent, peer), agent.sessions["a"].prompt("hello") as turn:
        prompt = await peer.expect_request("session/prompt")
        result = {"stopReason": "end_turn", "_meta": {"table": [[]] * MOST_NESTED}}
        await peer.stream.send(line([{"jsonrpc": "2.0", "id": prompt["id"], "result": result}]))
        with anyio.fail_after(10), pytest.raises(MalformedResponse, match="more than 100000 objects and arrays"):
            await turn.wait()


async def test_the_next_turn_and_those_of_other_sessions_are_not_concerned() -> None:
    async with talking("a", "b") as (agent, peer):
        a, b = agent.sessions["a"], agent.sessions["b"]
        async with a.prompt("hello") as one, b.prompt("hello") as two:
            prompts = [await peer.expect_request("session/prompt") for _ in range(2)]
            await peer.send(shown(said("x" * LIMIT), "a"), shown(said("x" * LIMIT), "unknown"))
            for prompt in prompts:
                await peer.finish(prompt)
            with pytest.raises(MalformedResponse):
                await one.wait()
            assert (await two.wait()).stop_reason == "end_turn"
        async with a.prompt("again") as turn:
            await peer.finish(await peer.expect_request("session/prompt"))
            assert (await turn.wait()).stop_reason == "end_turn"


async def test_an_update_that_does_not_say_early_whose_it_is_may_be_anybodys() -> None:
    async with talking("a", "b") as (agent, peer), agent.sessions["b"].prompt("hello") as turn:
        prompt = await peer.expect_request("session/prompt")
        params = {"update": said("x" * LIMIT), "sessionId": "a"}
        await peer.send({"jsonrpc": "2.0", "method": "session/update", "params": params})
        await peer.finish(prompt)
        with pytest.raises(MalformedResponse):
            await turn.wait()


async def test_a_cancelled_turn_is_a_cancelled_one_all_the_same() -> None:
    async with talking(SESSION) as (agent, peer), agent.sessions[SESSION].prompt("hello") as turn:
        prompt = await peer.expect_request("session/prompt")
        await peer.send(LONG)
        turn.cancel()
        await peer.finish(prompt, "cancelled")
        assert (await turn.wait()).stop_reason == "cancelled"


async def test_a_long_line_that_is_no_update_costs_no_turn(caplog: pytest.LogCaptureFixture) -> None:
    async with talking(SESSION) as (agent, peer), agent.sessions[SESSION].prompt("hello") as turn:
        prompt = await peer.expect_request("session/prompt")
        await peer.send({"jsonrpc": "2.0", "id": 7, "method": "_big", "params": {"data": "x" * LIMIT}})
        await peer.finish(prompt)
        assert (await turn.wait()).stop_reason == "end_turn"
    assert "a line of more than 2000 bytes of the agent was dropped" in caplog.text


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
async def test_each_line_over_the_limit_is_noticed_once_however_it_is_cut(size: int) -> None:
    data = b"aaaa\nbbbbb\n\n\ncccccccccccc\ndddd\neeeee\nffff\ngggggggg"
    heads: list[bytes] = []
    here, there = memory_pair()
    watched = MeasuredStream(here, 4, heads.append)
    received = b""
    for start in range(0, len(data), size):
        await there.send(data[start : start + size])
        with anyio.fail_after(1):
            received += await watched.receive()
    assert received == data
    assert watched.heard == len(data)
    assert [head[:1] for head in heads] == [b"b", b"c", b"e", b"g"]
    await here.aclose()
    await there.aclose()
