"""Requests of ours inside requests of the peer: a cancel reaches them all, cleanup gets through, one answer each."""

import gc
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.errors import ConnectionClosed, RpcError
from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Connection, Limits
from acp_server.tasks.cause import Cause
from acp_server.tasks.grace import grace
from tests.peer.ends import CANCELLED, End, cancel, error, linked, request, result, serving, until

pytestmark = pytest.mark.anyio

Work = Callable[[Call], Awaitable[Any]]


async def asked(end: End, count: int) -> dict[str, int]:
    """The next requests of ours: their ids by their methods."""
    messages = [await end.next() for _ in range(count)]
    return {message["method"]: message["id"] for message in messages}


def working(work: Work, limits: Limits | None = None) -> AbstractAsyncContextManager[End]:
    return serving(Routes({"work": Route(work)}), limits)


async def ask_three(call: Call) -> Any:
    async with anyio.create_task_group() as group:
        for name in ("a", "b", "c"):
            group.start_soon(call.request_peer, name)


@pytest.mark.behaviour("C1", "C2")
async def test_cancelling_a_request_withdraws_each_request_inside_it_once_and_by_its_own_id() -> None:
    async with working(ask_three) as end:
        end.send(request("outer", "work"))
        ids = await asked(end, 3)
        end.send(cancel("outer"), cancel("outer"))
        came = [await end.next() for _ in range(4)]
        assert sorted(message["params"]["requestId"] for message in came[:3]) == sorted(ids.values())
        assert all(message["method"] == "$/cancel_request" for message in came[:3])
        # The parent does not wait for the peer to agree.
        assert came[3] == {"jsonrpc": "2.0", "id": "outer", "error": CANCELLED}
        end.send(*(error(id, -32800) for id in ids.values()), cancel("outer"))
        assert await end.barrier() == []


@pytest.mark.behaviour("C3")
async def test_of_several_requests_only_those_without_an_answer_are_withdrawn() -> None:
    async with working(ask_three) as end:
        end.send(request("outer", "work"))
        ids = await asked(end, 3)
        end.send(result(ids["b"], None), cancel("outer"))
        came = [await end.next() for _ in range(3)]
        assert sorted(message["params"]["requestId"] for message in came[:2]) == sorted([ids["a"], ids["c"]])
        assert came[2]["id"] == "outer"
        assert await end.barrier() == []


@pytest.mark.behaviour("C11")
async def test_a_cancel_reaches_the_tasks_that_a_handler_started_and_what_they_ask() -> None:
    async def work(call: Call) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(deeper, call, group)
            await anyio.sleep_forever()

    async def deeper(call: Call, group: Any) -> None:
        group.start_soon(call.request_peer, "deep")
        async with anyio.create_task_group() as inner:
            inner.start_soon(call.request_peer, "deepest")

    async with working(work) as end:
        end.send(request("outer", "work"))
        ids = await asked(end, 2)
        end.send(cancel("outer"))
        came = [await end.next() for _ in range(3)]
        assert sorted(message["params"]["requestId"] for message in came[:2]) == sorted(ids.values())
        assert came[2]["error"] == CANCELLED


@pytest.mark.behaviour("C9")
async def test_what_is_asked_for_cleaning_up_behind_the_cancel_is_asked_and_answered() -> None:
    got: list[Any] = []

    async def work(call: Call) -> None:
        try:
            await call.request_peer("work")
        finally:
            with grace():
                got.append(await call.request_peer("terminal/kill"))
                call.notify_peer("last words")
                got.append(await call.request_peer("terminal/release"))

    async with working(work) as end:
        end.send(request("outer", "work"))
        ids = await asked(end, 1)
        end.send(cancel("outer"))
        assert await end.next() == cancel(ids["work"])
        ids = await asked(end, 1)
        end.send(cancel("outer"), result(ids["terminal/kill"], "killed"))
        assert (await end.next())["method"] == "last words"
        ids = await asked(end, 1)
        end.send(result(ids["terminal/release"], "released"))
        assert (await end.next())["error"] == CANCELLED
        assert got == ["killed", "released"]


@pytest.mark.behaviour("C9")
async def test_cleaning_up_that_takes_too_long_is_withdrawn_in_the_end() -> None:
    async def work(call: Call) -> None:
        try:
            await call.request_peer("work")
        finally:
            with grace(0.01):
                await call.request_peer("terminal/release")

    async with working(work) as end:
        end.send(request("outer", "work"))
        await asked(end, 1)
        end.send(cancel("outer"))
        await end.next()
        ids = await asked(end, 1)
        assert await end.next() == cancel(ids["terminal/release"])
        assert (await end.next())["error"] == CANCELLED


@pytest.mark.behaviour("C9")
async def test_what_outlives_its_request_goes_on_after_the_answer_and_may_ask() -> None:
    async def work(call: Call) -> None:
        call.connection.background(release, call.connection)
        await call.request_peer("work")

    async def release(connection: Connection) -> None:
        await connection.request("release")

    async with working(work) as end:
        end.send(request("outer", "work"))
        ids = await asked(end, 2)
        end.send(cancel("outer"))
        assert await end.next() == cancel(ids["work"])
        assert (await end.next())["error"] == CANCELLED
        assert await end.barrier() == []
        assert end.connection.endpoint.ledger.outgoing == 1
        end.send(result(ids["release"], {}))
        assert await end.barrier() == []


@pytest.mark.behaviour("D5")
async def test_cleanup_that_fails_is_logged_and_the_connection_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        await anyio.lowlevel.checkpoint()
        raise ValueError("boom")

    async with serving() as end:
        end.connection.background(fails)
        await until(lambda: caplog.records)
        assert await end.barrier() == []
    (record,) = caplog.records
    assert record.getMessage().endswith("fails failed")
    assert "the cleanup" in record.getMessage()


@pytest.mark.behaviour("C12", "C13")
@pytest.mark.parametrize("answer", ["refused", "answered", "silent"])
async def test_a_cancelled_parent_is_answered_by_its_own_rule_whatever_its_child_is_answered(answer: str) -> None:
    async def work(call: Call) -> None:
        call.partial("as far as I came")
        await call.request_peer("child")

    async with working(work) as end:
        end.send(request("outer", "work"))
        ids = await asked(end, 1)
        child = {"refused": [error(ids["child"], -32800)], "answered": [result(ids["child"], 1)], "silent": []}[answer]
        end.send(cancel("outer"), *child)
        came = await end.barrier()
        assert [message for message in came if "method" not in message] == [result("outer", "as far as I came")]
        assert len(came) == (2 if answer == "silent" else 1)


@pytest.mark.behaviour("C12")
async def test_a_handler_may_go_on_when_the_peer_cancelled_its_request() -> None:
    async def work(call: Call) -> str:
        try:
            await call.request_peer("child")
        except RpcError as refusal:
            return f"went on after {refusal.code}"
        return "unexpected"

    async with working(work) as end:
        end.send(request("outer", "work"))
        end.send(error((await asked(end, 1))["child"], -32800))
        assert await end.next() == result("outer", "went on after -32800")


@pytest.mark.behaviour("C14")
async def test_when_one_of_several_requests_fails_the_others_are_withdrawn_and_the_failure_is_reported() -> None:
    async with working(ask_three) as end:
        end.send(request("outer", "work"))
        ids = await asked(end, 3)
        end.send(error(ids["b"], 77, "no such thing"))
        came = [await end.next() for _ in range(3)]
        assert sorted(message["params"]["requestId"] for message in came[:2]) == sorted([ids["a"], ids["c"]])
        assert came[2] == error("outer", 77, "no such thing")


@pytest.mark.behaviour("C15")
async def test_what_is_let_go_is_withdrawn_by_its_scope_and_not_by_the_garbage_collector() -> None:
    gc.disable()
    try:
        async with serving() as end, anyio.create_task_group() as group:
            # One that was never awaited was never made.
            end.connection.request("never").close()
            group.start_soon(end.connection.request, "kept")
            ids = await asked(end, 1)
            gc.collect()
            # The task that waits is all that refers to it, and that is enough.
            assert await end.barrier() == []
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                assert await end.next() == cancel(ids["kept"])
    finally:
        gc.enable()


@pytest.mark.behaviour("I5")
async def test_a_handler_that_waits_for_its_peer_keeps_nobody_from_being_heard() -> None:
    async def ping_pong(call: Call) -> int:
        depth = call.params["depth"]
        return depth if depth == 0 else 1 + await call.request_peer("work", {"depth": depth - 1})

    routes = Routes({"work": Route(ping_pong)})
    async with linked(routes, routes) as (left, _):
        assert await left.request("work", {"depth": 50}) == 50


@pytest.mark.behaviour("C1")
async def test_a_cancel_goes_down_a_chain_that_crosses_the_wire_many_times() -> None:
    bottom = anyio.Event()
    cut: list[int] = []

    async def down(call: Call) -> None:
        depth = call.params["depth"]
        try:
            if depth:
                await call.request_peer("down", {"depth": depth - 1})
            bottom.set()
            await anyio.sleep_forever()
        finally:
            cut.append(depth)

    routes = Routes({"down": Route(down)})
    async with linked(routes, routes) as (left, right):
        async with anyio.create_task_group() as group:
            group.start_soon(left.request, "down", {"depth": 20})
            await bottom.wait()
            group.cancel_scope.cancel()
        await until(lambda: len(cut) == 21 and left.tree.size == right.tree.size == 0)
        assert sorted(cut) == list(range(21))


@pytest.mark.behaviour("G1", "G16")
async def test_a_handler_may_end_as_it_likes_when_its_peer_is_gone() -> None:
    async def work(call: Call) -> str:
        try:
            await call.request_peer("child")
        except ConnectionClosed as closed:
            return f"lost {closed.method}"
        return "unexpected"

    async with working(work, Limits()) as end:
        end.send(request("outer", "work"))
        await asked(end, 1)
        end.send_eof()
        assert await end.rest() == [result("outer", "lost child")]


@pytest.mark.behaviour("E6", "E12")
async def test_an_answer_is_of_no_use_to_a_handler_that_is_cancelled_before_it_goes_on() -> None:
    calls: list[Call] = []
    used: list[Any] = []

    async def ask(call: Call) -> None:
        calls.append(call)
        used.append(await call.request_peer("question"))

    async with working(ask) as end:
        end.send(request(1, "work"))
        asking = await asked(end, 1)
        end.hear(result(asking["question"], "yes"))
        # In the same step: the handler has been woken and has not gone on.
        calls[0].cancel(Cause.USER)
        assert (await end.next())["error"] == CANCELLED
    assert used == []
