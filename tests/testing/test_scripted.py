"""The scripted client and agent, driving each other and real connections."""

import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Connection
from acp_server.peer.stream import Stream
from acp_server.testing import FaultyStream, MemoryStream, ScriptedAgent, ScriptedClient, memory_pair, scripted

pytestmark = [pytest.mark.anyio, pytest.mark.odd_shapes]


@asynccontextmanager
async def both(patience: float = 5.0) -> AsyncIterator[tuple[ScriptedClient, ScriptedAgent, MemoryStream]]:
    here, there = memory_pair()
    async with ScriptedClient(here, patience=patience) as client, ScriptedAgent(there) as agent:
        yield client, agent, there


async def echo(call: Call) -> object:
    call.notify_peer("session/update", {"sessionId": "s", "update": {"n": 1}})
    call.notify_peer("session/update", {"sessionId": "t", "update": {"n": 2}})
    return await call.request_peer("_ask", call.params)


def serve(stream: Stream) -> Coroutine[Any, Any, None]:
    return Connection(stream, Routes({"echo": Route(echo)})).run()


async def test_messages_arrive_as_they_were_sent_and_are_kept_in_order() -> None:
    async with both() as (client, agent, _):
        await client.send({"odd": 1}, [1], {"jsonrpc": "2.0", "method": "a"})
        await client.notify("b", [1])
        id = await client.request("c", {"x": None})
        await agent.expect("c")
        assert agent.received == [
            {"odd": 1},
            {"line": [1]},
            {"jsonrpc": "2.0", "method": "a"},
            {"jsonrpc": "2.0", "method": "b", "params": [1]},
            {"jsonrpc": "2.0", "id": id, "method": "c", "params": {"x": None}},
        ]


async def test_expect_passes_over_what_does_not_fit_and_never_goes_back() -> None:
    async with both(patience=0.05) as (client, agent, _):
        for name in ("a", "b", "a"):
            await agent.notify(name)
        assert (await client.expect("b"))["method"] == "b"
        assert await client.expect(lambda message: message.get("method") == "a") is client.received[2]
        with pytest.raises(AssertionError, match="no message fits 'a', after"):
            await client.expect("a")
        assert len(client.all("a")) == 2


async def test_responses_are_found_whenever_they_came_and_by_the_type_of_their_id() -> None:
    async with both() as (client, agent, _):
        ids = [await client.request("x"), await client.request("x", id="0"), await client.request("x", id="a")]
        requests = [await agent.expect_request("x") for _ in ids]
        await agent.refuse(requests[2], -1, "no")
        await agent.respond(requests[1], "one")
        await agent.respond(requests[0], "zero")
        assert ids[0] == 0
        assert (await client.response(0))["result"] == "zero"
        assert (await client.response("0"))["result"] == "one"
        assert (await client.response("a"))["error"] == {"code": -1, "message": "no"}


async def test_an_id_of_another_type_is_another_id() -> None:
    async with both(patience=0.05) as (client, agent, _):
        await client.request("x", id=0)
        for id in (False, 0.0, "0", None, [0]):
            await agent.send({"jsonrpc": "2.0", "id": id, "result": repr(id)})
        await agent.send({"jsonrpc": "2.0", "id": 0, "method": "x"})
        await client.expect("x")
        with pytest.raises(AssertionError, match="request 0 has no answer, after"):
            await client.response(0)
        for id in (False, 0.0, "0", None, [0]):
            assert (await client.response(id))["result"] == repr(id)


async def test_the_first_of_two_answers_counts() -> None:
    async with both() as (client, agent, _):
        for result in ("first", "second"):
            await agent.send({"jsonrpc": "2.0", "id": 0, "result": result})
        await agent.notify("end")
        await client.expect("end")
        assert (await client.response(0))["result"] == "first"


async def test_a_failure_shows_the_beginning_and_the_end_of_a_long_wire() -> None:
    async with both() as (client, agent, _):
        for number in range(1000):
            await agent.notify(f"n{number}")
        await client.expect("n999")
        with pytest.raises(AssertionError) as failure:
            client.fail("too much")
        lines = str(failure.value).split("\n")
        assert (lines[0], len(lines)) == ("too much", 202)
        assert lines[1].endswith("n0")
        assert lines[101] == "     ... 800 lines omitted; `transcript` has them ..."
        assert lines[201].endswith("n999")


async def test_requests_are_answered_by_script_until_they_are_left_alone_again() -> None:
    async def later(message: dict[str, object]) -> object:
        await anyio.lowlevel.checkpoint()
        return [message["params"]]

    async with both() as (client, agent, _):
        agent.answer("plain", {"a": 1})
        agent.answer("function", lambda message: message["id"])
        agent.answer("coroutine", later)
        assert await client.result("plain") == {"a": 1}
        assert await client.result("function") == 1
        assert await client.result("coroutine", {"p": 2}) == [{"p": 2}]
        agent.leave_unanswered("plain")
        agent.answer("done", None)
        id = await client.request("plain")
        await client.result("done")
        assert not [message for message in client.received if message["id"] == id]


async def test_a_failure_shows_the_wire() -> None:
    async with both(patience=0.05) as (client, agent, _):
        await client.request("session/prompt", {"x": 1})
        await client.send_raw(b"garbage\n")
        await agent.expect("session/prompt")
        await agent.notify("session/update")
        with pytest.raises(AssertionError) as failed:
            await client.response(0)
        lines = str(failed.value).splitlines()
        assert lines[0] == "request 0 has no answer, after 0.05 s"
        assert [line[9:] for line in lines[1:]] == [
            '-> 0 session/prompt {"x":1}',
            "-> not JSON: 'garbage'",
            "<- session/update",
        ]


async def test_asking_for_a_result_fails_for_an_error_and_asking_for_a_response_does_not() -> None:
    async with scripted(serve) as client:
        assert (await client.ask("nothing"))["error"]["code"] == -32601
        with pytest.raises(AssertionError, match="nothing was answered with an error"):
            await client.result("nothing")


async def test_a_notification_is_not_taken_for_a_request() -> None:
    async with both() as (client, agent, _):
        await client.notify("x")
        with pytest.raises(AssertionError, match="came as a notification"):
            await agent.expect_request("x")


async def test_the_end_of_the_other_side_fails_what_still_waits_at_once() -> None:
    async with both(patience=60) as (client, agent, there):
        there.send_eof()
        with anyio.fail_after(1):
            with pytest.raises(AssertionError, match="no message fits 'x', and the other end has closed"):
                await client.expect("x")
            await client.wait_ended()
        client.patience = 0.01
        agent.patience = 0.01
        with pytest.raises(AssertionError, match="did not close the connection"):
            await agent.wait_ended()


async def test_a_script_that_fails_fails_the_test() -> None:
    def fails(_message: object) -> None:
        raise ZeroDivisionError

    async def run() -> None:
        async with both() as (client, agent, _):
            agent.answer("x", fails)
            await client.request("x")
            await agent.wait_ended()

    with pytest.raises(ZeroDivisionError):
        await run()


@pytest.mark.behaviour("I10")
async def test_behind_a_barrier_everything_that_was_sent_before_has_been_read() -> None:
    async with scripted(serve) as client:
        id = await client.request("echo")
        await client.notify("$/cancel_request", {"requestId": id})
        await client.barrier()
        assert (await client.response(id))["error"]["code"] == -32800


@pytest.mark.parametrize("sizes", [None, 1, 7])
async def test_a_connection_is_served_in_memory_through_any_fault(sizes: int | None) -> None:
    def wrap(stream: Stream) -> Stream:
        return stream if sizes is None else FaultyStream(stream, sizes=itertools.repeat(sizes))

    async with scripted(serve, wrap=wrap) as client:
        client.answer("_ask", lambda message: message["params"])
        assert await client.result("echo", {"a": "é"}) == {"a": "é"}
        assert client.updates() == [{"n": 1}, {"n": 2}]
        assert client.updates("t") == [{"n": 2}]


async def test_a_server_that_fails_or_does_not_end_fails_the_test() -> None:
    async def broken(stream: Stream) -> None:
        await stream.receive()
        raise ZeroDivisionError

    async def endless(_stream: Stream) -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await anyio.sleep_forever()

    async def run(serve: Callable[[Stream], Coroutine[Any, Any, None]], patience: float = 5) -> None:
        async with scripted(serve, patience=patience):
            pass

    scopes: list[anyio.CancelScope] = []
    with pytest.raises(ZeroDivisionError):
        await run(broken)
    with pytest.raises(AssertionError, match="the server did not end"):
        await run(endless, 0.01)
    scopes[0].cancel()
    await anyio.wait_all_tasks_blocked()
