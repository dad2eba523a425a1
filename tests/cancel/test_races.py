"""Cancels that meet answers, time-outs and the end of the input."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.errors import RequestTimeout
from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Connection, Limits
from acp_server.testing.streams import FaultyStream, memory_pair
from tests.peer.handlers import CANCELLED
from tests.wire.live import Peer, cancel, request, served

pytestmark = pytest.mark.anyio


def result(id: Any, value: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": value}


@asynccontextmanager
async def stalled(routes: Routes) -> AsyncIterator[tuple[Peer, FaultyStream]]:
    """A connection whose writes can be held up, like in front of a full pipe."""
    here, there = memory_pair()
    stream = FaultyStream(here)
    peer = Peer(Connection(stream, routes, Limits(drain=0)), there)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(peer.connection.run)
            yield peer, stream
            peer.send_eof()
    peer.assert_whole()


async def _echo(call: Call) -> Any:
    return call.params


async def _wait(call: Call) -> None:
    await anyio.sleep_forever()


@pytest.mark.behaviour("E1")
async def test_a_cancel_behind_the_handlers_return_and_before_its_answer_is_written_changes_nothing() -> None:
    async with stalled(Routes({"echo": Route(_echo)})) as (peer, stream):
        stream.stall_sending()
        peer.send(request(1, "echo", {"n": 1}))
        await stream.stalled.wait()
        peer.send(cancel(1))
        await anyio.wait_all_tasks_blocked()
        stream.release()
        assert await peer.answer(1) == {"n": 1}
        peer.send_eof()
        assert await peer.rest() == []


@pytest.mark.behaviour("E1")
async def test_a_handler_that_returns_in_the_moment_of_its_cancel_keeps_its_answer() -> None:
    go = anyio.Event()

    async def handle(call: Call) -> str:
        await go.wait()
        return "done"

    async with served(Routes({"handle": Route(handle)})) as peer:
        peer.send(request(1, "handle"))
        await peer.ping()
        # Woken, but not yet run, when the cancel comes.
        go.set()
        peer.connection._inbound.cancel({"requestId": 1})
        assert await peer.answer(1) == "done"
        assert await peer.ping() == []


@pytest.mark.behaviour("E2")
async def test_a_frame_that_is_being_written_when_its_request_is_cancelled_is_completed_whole() -> None:
    async def talk(call: Call) -> None:
        call.notify_peer("said", {"text": "x" * 1000})
        await anyio.sleep_forever()

    async with stalled(Routes({"talk": Route(talk)})) as (peer, stream):
        stream.stall_sending(after=100)
        peer.send(request(1, "talk"))
        await stream.stalled.wait()
        peer.send(cancel(1), cancel(1))
        await anyio.wait_all_tasks_blocked()
        stream.release()
        assert await peer.next() == {"jsonrpc": "2.0", "method": "said", "params": {"text": "x" * 1000}}
        assert await peer.answer(1) == CANCELLED


@pytest.mark.behaviour("E3", "C5")
async def test_an_answer_that_crosses_our_cancel_is_dropped_and_theirs_likewise() -> None:
    async def ask(call: Call) -> Any:
        return await call.request_peer("question")

    async with served(Routes({"ask": Route(ask), "echo": Route(_echo)})) as peer:
        peer.send(request(1, "ask"))
        id = (await peer.next())["id"]
        peer.send(cancel(1))
        assert (await peer.next())["params"] == {"requestId": id}
        assert await peer.answer(1) == CANCELLED
        # On its way before the peer saw that.
        peer.send(result(id, "crossing"))
        assert await peer.ping() == []
        # Their cancel for what is answered already.
        peer.send(request(2, "echo", {"n": 2}))
        assert await peer.answer(2) == {"n": 2}
        peer.send(cancel(2))
        assert await peer.ping() == []


@pytest.mark.behaviour("E6", "C4")
@pytest.mark.parametrize("order", ["answer first", "cancel first"])
async def test_a_result_that_comes_with_the_cancel_reaches_who_releases_it(order: str) -> None:
    late: list[Any] = []
    got: list[Any] = []

    async def create(call: Call) -> None:
        got.append(await call.request_peer("create", on_late=late.append))
        await anyio.sleep_forever()

    async with served(Routes({"create": Route(create)})) as peer:
        peer.send(request(1, "create"))
        id = (await peer.next())["id"]
        chunk = [result(id, "thing"), cancel(1)]
        peer.send(*(chunk if order == "answer first" else reversed(chunk)))
        # The answer is here before the one who was cancelled can take its request back, so there is nothing to cancel.
        assert await peer.answer(1) == CANCELLED
        assert await peer.ping() == []
    assert (late, got) == (["thing"], [])


@pytest.mark.behaviour("E12")
@pytest.mark.parametrize("order", ["answer first", "cancel first"])
async def test_nothing_is_done_with_an_answer_that_comes_with_the_cancel(order: str) -> None:
    did: list[str] = []

    async def act(call: Call) -> None:
        if await call.request_peer("may I?"):
            did.append("the deed")

    async with served(Routes({"act": Route(act)})) as peer:
        peer.send(request(1, "act"))
        id = (await peer.next())["id"]
        chunk = [result(id, True), cancel(1)]
        peer.send(*(chunk if order == "answer first" else reversed(chunk)))
        while (message := await peer.next()).get("id") != 1:
            pass
        assert message["error"] == CANCELLED
        assert await peer.ping() == []
    assert did == []


@pytest.mark.behaviour("E13", "C3", "C6")
@pytest.mark.parametrize("order", ["answer first", "time first"])
async def test_a_time_out_that_meets_the_answer_has_one_outcome_and_cancels_only_what_is_unanswered(order: str) -> None:
    outcomes: list[Any] = []
    late: list[Any] = []
    scopes: list[anyio.CancelScope] = []

    async def ask(call: Call) -> None:
        # The time limit of a request, but ended by hand, so that it can meet the answer.
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            outcomes.append(await call.request_peer("question", on_late=late.append))
        if scope.cancelled_caught:
            outcomes.append("time out")

    async with served(Routes({"ask": Route(ask)})) as peer:
        peer.send(request(1, "ask"))
        id = (await peer.next())["id"]
        answer = f'{{"jsonrpc":"2.0","id":{id},"result":"answer"}}\n'.encode()
        events = list(peer.connection.endpoint.receive(answer)) if order == "answer first" else []
        for event in events:
            peer.connection._reader._handlers[type(event)](event)
        scopes[0].cancel()
        if order == "time first":
            assert (await peer.next())["params"] == {"requestId": id}
            peer.send(answer)
        assert await peer.next() == result(1, None)
        assert await peer.ping() == []
    assert (outcomes, late) == (["time out"], ["answer"])


@pytest.mark.behaviour("E13", "C6")
async def test_a_request_without_an_answer_in_its_time_is_a_time_out_and_withdrawn_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = anyio.CancelScope()

    async def ask(call: Call) -> str:
        with pytest.raises(RequestTimeout):
            await call.request_peer("question", timeout=60)
        return "went on"

    async with served(Routes({"ask": Route(ask)})) as peer:
        monkeypatch.setattr(anyio, "move_on_after", lambda _seconds: limit)
        peer.send(request(1, "ask"))
        id = (await peer.next())["id"]
        monkeypatch.undo()
        limit.cancel()
        assert (await peer.next())["params"] == {"requestId": id}
        peer.send(result(id, "too late"))
        assert await peer.answer(1) == "went on"
        assert await peer.ping() == []


@pytest.mark.behaviour("E11")
@pytest.mark.parametrize("drain", [0, 60])
async def test_a_cancel_and_the_end_of_the_input_in_one_read_have_one_outcome(
    drain: float, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[str] = []

    async def handle(call: Call) -> None:
        try:
            await call.request_peer("question")
        finally:
            ended.append(call.method)

    async with served(Routes({"handle": Route(handle), "wait": Route(_wait)}), Limits(drain=drain)) as peer:
        peer.send(request(1, "handle"))
        id = (await peer.next())["id"]
        peer.send(request(2, "wait"), cancel(1), cancel(2))
        peer.send_eof()
        messages = {message.get("id", "cancel"): message for message in await peer.rest()}
        assert messages[1]["error"] == messages[2]["error"] == CANCELLED
        assert messages.keys() <= {1, 2, "cancel"}
        assert messages.get("cancel", {"params": {"requestId": id}})["params"] == {"requestId": id}
    assert ended == ["handle"]
    assert caplog.records == []


@pytest.mark.behaviour("E4")
async def test_an_id_that_comes_again_and_again_always_means_its_latest_request() -> None:
    async with served(Routes({"echo": Route(_echo), "wait": Route(_wait)})) as peer:
        for n in range(20):
            peer.send(request(1, "echo", {"n": n}))
            assert await peer.answer(1) == {"n": n}
            peer.send(cancel(1), request(1, "wait"), cancel(1))
            assert await peer.answer(1) == CANCELLED
            peer.raw = b""
