"""Requests of ours: each ends once, and is withdrawn when, and only when, the peer may still be busy with it."""

from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from acp_server.errors import (
    ConnectionClosed,
    EncodeError,
    InvalidParams,
    MalformedResponse,
    RequestCancelled,
    RequestTimeout,
    RpcError,
)
from tests.peer.ends import Answers, cancel, error, notification, request, result, serving, until

pytestmark = pytest.mark.anyio


# How a request ends


async def test_a_result_and_an_error_reach_the_one_who_asked() -> None:
    async with serving() as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        for name in "abcd":
            group.start_soon(answers.ask, name)
        ids = {(asked := await end.next())["params"]["name"]: asked["id"] for _ in range(4)}
        end.send(result(ids["c"], {"x": 1}), error(ids["a"], -32602, "no"), result(ids["d"], None))
        end.send(error(ids["b"], 77, "mine"))
        await until(lambda: len(answers.of) == 4)
        assert answers.of["c"] == {"x": 1}
        assert answers.of["d"] is None
        assert isinstance(answers.of["a"], InvalidParams)
        assert isinstance(answers.of["b"], RpcError)
        assert answers.of["b"].to_wire() == {"code": 77, "message": "mine"}


@pytest.mark.parametrize(
    "answer",
    [
        {"jsonrpc": "2.0", "id": 0, "error": "nope"},
        {"jsonrpc": "2.0", "id": 0, "error": {"code": "x", "message": 1}},
        {"jsonrpc": "2.0", "id": 0, "result": 1, "error": {"code": 1, "message": "both"}},
        {"jsonrpc": "2.0", "id": 0},
        b'{"jsonrpc":"2.0","id":0,"result":{"a":\n',
    ],
)
async def test_an_answer_that_makes_no_sense_ends_its_request_and_nothing_else(answer: Any) -> None:
    async with serving() as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        group.start_soon(answers.ask, "a")
        group.start_soon(answers.ask, "b")
        names = {(asked := await end.next())["id"]: asked["params"]["name"] for _ in range(2)}
        end.send(answer)
        await until(lambda: answers.of)
        assert isinstance(answers.of[names[0]], MalformedResponse)
        end.send(result(1, "well"))
        await until(lambda: len(answers.of) == 2)
        assert answers.of[names[1]] == "well"


async def test_parameters_that_cannot_be_written_leave_nothing_behind() -> None:
    async with serving() as end:
        with pytest.raises(EncodeError):
            await end.connection.request("ask", {"what": object()})
        with pytest.raises(EncodeError):
            end.connection.notify("say", {"what": object()})
        assert end.connection.endpoint.ledger.outgoing == 0
        assert await end.barrier() == []


@pytest.mark.behaviour("C12")
async def test_a_peer_that_says_it_was_cancelled_cancels_nothing_here() -> None:
    async with serving() as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        group.start_soon(answers.ask, "a")
        end.send(error((await end.next())["id"], -32800))
        await until(lambda: answers.of)
        assert isinstance(answers.of["a"], RequestCancelled)
        assert not answers.scopes["a"].cancel_called
        assert await end.barrier() == []


# Withdrawing


@pytest.mark.behaviour("C2", "C16")
async def test_whatever_ends_the_wait_the_peer_hears_it_once_and_with_the_very_id() -> None:
    async with serving() as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)

        async def ask() -> None:
            with anyio.move_on_after(0.1):
                await answers.ask("a", timeout=0.1)

        group.start_soon(ask)
        asked = await end.next()
        answers.cancel("a")
        answers.cancel("a")
        assert await end.next() == cancel(asked["id"])
        await until(lambda: answers.of)
        answers.cancel("a")
        assert await end.barrier() == []


@pytest.mark.behaviour("C6")
async def test_a_time_out_withdraws_the_request_and_is_no_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = anyio.CancelScope()
    monkeypatch.setattr(anyio, "move_on_after", lambda _seconds: limit)
    async with serving() as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        group.start_soon(lambda: answers.ask("a", timeout=60))
        asked = await end.next()
        monkeypatch.undo()
        limit.cancel()
        assert await end.next() == cancel(asked["id"])
        await until(lambda: answers.of)
        assert isinstance(answers.of["a"], RequestTimeout)
        assert isinstance(answers.of["a"], TimeoutError)
        assert (answers.of["a"].method, answers.of["a"].seconds) == ("ask", 60)
        end.send(result(asked["id"], "too late"))
        assert await end.barrier() == []
        assert isinstance(answers.of["a"], RequestTimeout)


async def test_a_request_that_may_take_no_time_is_asked_and_cancelled_or_not_at_all() -> None:
    async with serving() as end:
        with pytest.raises(RequestTimeout):
            await end.connection.request("ask", timeout=0)
        assert await end.barrier() in ([], [request(0, "ask"), cancel(0)])


@pytest.mark.behaviour("C3", "E13")
@pytest.mark.parametrize("answer", [result(0, "in time"), error(0, 77)], ids=["result", "error"])
@pytest.mark.parametrize("answered_first", [True, False])
async def test_an_answer_in_the_moment_of_the_time_out_is_the_outcome(
    answered_first: bool, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = anyio.CancelScope()
    monkeypatch.setattr(anyio, "move_on_after", lambda _seconds: limit)
    async with serving() as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        late: list[Any] = []
        group.start_soon(lambda: answers.ask("a", timeout=60, on_late=late.append))
        await end.next()
        monkeypatch.undo()
        if answered_first:
            end.hear(answer)
        limit.cancel()
        if not answered_first:
            end.hear(answer)
        await until(lambda: answers.of)
        outcome = answers.of["a"]
        assert outcome == "in time" if "result" in answer else outcome.code == 77
        assert late == []
        assert await end.barrier() == []


@pytest.mark.behaviour("C3", "C4", "E6")
@pytest.mark.parametrize("creates", [True, False])
@pytest.mark.parametrize("answered_first", [True, False])
async def test_an_answer_in_the_moment_of_the_cancel_is_released_and_not_withdrawn(
    answered_first: bool, creates: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        late: list[Any] = []
        group.start_soon(lambda: answers.ask("a", on_late=late.append if creates else None))
        await end.next()
        if answered_first:
            end.hear(result(0, "created"))
        answers.cancel("a")
        if not answered_first:
            end.hear(result(0, "created"))
        await until(lambda: answers.of)
        assert answers.of["a"] == "cancelled"
        assert await end.barrier() == []
        assert late == ["created"] * creates
    assert caplog.records == []


@pytest.mark.behaviour("C3", "C4")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("answered_first", [True, False])
async def test_an_answer_in_the_moment_of_a_native_cut_is_released_and_not_withdrawn(answered_first: bool) -> None:
    import asyncio

    async with serving() as end:
        late: list[Any] = []
        task = asyncio.create_task(end.connection.request("ask", on_late=late.append))
        await end.next()
        if answered_first:
            end.hear(result(0, "created"))
        task.cancel()
        if not answered_first:
            end.hear(result(0, "created"))
        with pytest.raises(asyncio.CancelledError):
            await task
        assert late == ["created"]
        assert await end.barrier() == []


# Before it is sent, while it is sent, after


@pytest.mark.behaviour("C8")
async def test_what_is_cancelled_already_asks_nothing() -> None:
    async with serving() as end:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await end.connection.request("ask")
        assert scope.cancelled_caught
        assert end.connection.endpoint.ledger.next_id == 0
        assert await end.barrier() == []


@pytest.mark.behaviour("C7")
async def test_a_request_that_is_cancelled_while_it_is_queued_was_never_made() -> None:
    async with serving() as end, anyio.create_task_group() as group:
        end.faults.stall_sending()
        end.connection.notify("first")
        await end.faults.stalled.wait()
        answers = Answers(end.connection)
        late: list[Any] = []
        for name in "abc":
            group.start_soon(lambda name=name: answers.ask(name, on_late=late.append))
        await until(lambda: end.connection.endpoint.ledger.outgoing == 3)
        answers.cancel("b")
        await until(lambda: answers.of)
        # Nothing will come for it, so nothing is remembered.
        assert end.connection.endpoint.ledger.withdrawn == 0
        end.faults.release()
        came = await end.barrier()
        assert came[0] == notification("first")
        assert sorted(message["params"]["name"] for message in came[1:]) == ["a", "c"]
        answers.cancel("a")
        answers.cancel("c")


@pytest.mark.behaviour("C7", "E2")
@pytest.mark.parametrize("half", [1, 20, 43])
async def test_a_request_that_is_cancelled_while_it_is_written_is_completed_and_then_cancelled(half: int) -> None:
    async with serving() as end, anyio.create_task_group() as group:
        end.faults.stall_sending(after=half)
        answers = Answers(end.connection)
        group.start_soon(answers.ask, "a")
        await end.faults.stalled.wait()
        answers.cancel("a")
        await until(lambda: answers.of)
        assert end.faults.sent == half
        end.faults.release()
        assert (await end.next())["params"] == {"name": "a"}
        assert await end.next() == cancel(0)


@pytest.mark.behaviour("C10")
async def test_a_cancel_that_cannot_be_sent_holds_up_nobody() -> None:
    async with serving() as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        group.start_soon(answers.ask, "a")
        await end.next()
        end.faults.stall_sending()
        end.connection.notify("in the way")
        await end.faults.stalled.wait()
        answers.cancel("a")
        await until(lambda: answers.of)
        assert answers.of["a"] == "cancelled"
        end.faults.break_sending()
        await end.connection.wait_closed()
        group.start_soon(answers.ask, "b")
        await until(lambda: "b" in answers.of)
        assert isinstance(answers.of["b"], ConnectionClosed)
    assert end.raised is None


@pytest.mark.behaviour("C16")
async def test_no_id_is_ever_used_twice() -> None:
    async with serving() as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        ids: list[int] = []
        for number in range(30):
            name = str(number)
            group.start_soon(lambda name=name, n=number: answers.ask(name, timeout=0.001 if n % 3 == 2 else None))
            if number % 3 == 2:
                await until(lambda name=name: name in answers.of)
                # On a busy machine its time may be over before it is written. Then it is taken back.
                came = await end.barrier()
                ids.append(came[0]["id"] if came else number)
                assert came[1:] == [cancel(ids[-1])] * bool(came)
                continue
            ids.append((await end.next())["id"])
            if number % 3:
                answers.cancel(name)
                assert await end.next() == cancel(ids[-1])
            else:
                end.send(result(ids[-1], number))
            await until(lambda name=name: name in answers.of)
        assert ids == list(range(30))


# Many


@pytest.mark.behaviour("K2")
@pytest.mark.parametrize("on_late", [None, lambda _result: None])
async def test_ten_thousand_requests_that_nobody_answers_leave_nothing(on_late: Any) -> None:
    async with serving() as end:
        connection = end.connection
        ledger = connection.endpoint.ledger
        for turn in range(20):
            async with anyio.create_task_group() as group:
                for _ in range(500):
                    group.start_soon(lambda: connection.request("ask", on_late=on_late))
                await until(lambda: not connection.writer.size and ledger.outgoing == 500)
                group.cancel_scope.cancel()
            assert ledger.outgoing == 0
            assert ledger.withdrawn == (0 if on_late is None else min((turn + 1) * 500, 1000))
        assert len(await end.barrier()) == 20_000
        assert len(connection._notifications._steps) == 0


async def test_a_flood_of_answers_to_nothing_is_not_remembered() -> None:
    async with serving() as end:
        end.send(*(result(id, "x") for id in range(10_000)))
        assert await end.barrier() == []
        ledger = end.connection.endpoint.ledger
        assert (len(end.connection.endpoint.incoming), ledger.outgoing, ledger.withdrawn) == (0, 0, 0)


async def test_a_request_from_another_event_loop_is_refused_before_it_is_registered(anyio_backend: str) -> None:
    async with serving() as end:

        async def ask() -> None:
            await end.connection.request("ask")

        with pytest.raises(RuntimeError, match=r"use call\.run\(\.\.\.\) in a tool, anyio\.from_thread\.run"):
            await anyio.to_thread.run_sync(lambda: anyio.run(ask, backend=anyio_backend))
        assert end.connection.endpoint.ledger.outgoing == 0
        assert await end.barrier() == []
