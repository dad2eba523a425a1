"""Whoever serves a connection is cancelled: it ends properly, within bounds, and the cancellation goes on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.errors import ConnectionClosed
from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Limits
from acp_server.peer.peer import Peer
from acp_server.tasks.cause import Cause
from acp_server.tasks.grace import grace
from tests.peer.ends import CANCELLED, PATIENCE, Answers, End, Handlers, assert_over, request, result, until

pytestmark = pytest.mark.anyio


class Releasing:
    """A handler whose cleanup asks the peer: what it got."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    async def work(self, call: Call) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with grace():
                await self.release(call.connection)

    async def release(self, connection: Peer) -> None:
        try:
            self.got.append(await connection.request("terminal/release"))
        except ConnectionClosed as closed:
            self.got.append(closed.method)

    @asynccontextmanager
    async def serving(self, limits: Limits | None = None) -> AsyncIterator[tuple[End, anyio.CancelScope]]:
        """One that works, and the scope around whoever serves it."""
        end = End(Routes({"work": Route(self.work)}), limits)
        scope = anyio.CancelScope()

        async def serve() -> None:
            with scope:
                await end.connection.run()

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(serve)
                end.send(request(1, "work"))
                await until(lambda: end.connection.tree.size)
                await anyio.wait_all_tasks_blocked()
                yield end, scope
        assert scope.cancelled_caught
        assert_over(end.connection)


@pytest.mark.behaviour("D8", "G14")
async def test_a_cancel_from_outside_cleans_up_within_bounds_and_goes_on() -> None:
    handlers = Handlers()
    closed: list[str] = []
    end = End(handlers.routes(), Limits(drain=60))

    async def closer() -> None:
        await anyio.lowlevel.checkpoint()
        closed.append("closed")

    end.connection.on_close(closer)
    answers = Answers(end.connection)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as others:
            others.start_soon(answers.ask, "a")
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(end.connection.run)
                    await end.next()
                    end.send(request(1, "hang"))
                    await until(lambda: end.connection.tree.size)
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()
    assert scope.cancelled_caught
    assert isinstance(answers.of["a"], ConnectionClosed)
    assert handlers.log == [Cause.SHUTDOWN, "clean"]
    assert closed == ["closed"]
    assert await end.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
    assert_over(end.connection)


@pytest.mark.behaviour("C1", "D8")
async def test_a_cancel_from_outside_withdraws_what_the_requests_have_asked_for() -> None:
    async def ask(call: Call) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(call.request_peer, "a")
            group.start_soon(call.request_peer, "b")

    end = End(Routes({"work": Route(ask)}), None)
    with anyio.fail_after(PATIENCE), anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(end.connection.run)
            end.send(request(1, "work"))
            asked = {(await end.next())["id"], (await end.next())["id"]}
            scope.cancel()
    assert scope.cancelled_caught
    *withdrawals, answer = await end.rest()
    assert {message["params"]["requestId"] for message in withdrawals} == asked
    assert answer == {"jsonrpc": "2.0", "id": 1, "error": CANCELLED}
    assert_over(end.connection)


@pytest.mark.behaviour("C9", "D8")
async def test_while_what_a_cancel_from_outside_has_cancelled_cleans_up_answers_are_heard() -> None:
    releasing = Releasing()
    async with releasing.serving() as (end, scope):
        scope.cancel()
        assert (await end.next())["method"] == "terminal/release"
        end.send(request(2, "work"))
        assert await end.next() == {"jsonrpc": "2.0", "id": 2, "error": CANCELLED}
        end.send(result(0, "released"))
        assert await end.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
    assert releasing.got == ["released"]


@pytest.mark.behaviour("C9", "D8")
async def test_while_cleanup_that_outlived_its_request_asks_answers_are_heard_behind_a_cancel_from_outside() -> None:
    releasing = Releasing()
    async with releasing.serving() as (end, scope):
        end.connection.background(releasing.release, end.connection)
        scope.cancel()
        assert {(await end.next())["method"], (await end.next())["method"]} == {"terminal/release"}
        end.send(result(0, "a"), result(1, "b"))
        assert await end.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
    assert sorted(releasing.got) == ["a", "b"]


@pytest.mark.behaviour("D8", "G1")
@pytest.mark.parametrize("why", ["grace", "end", "hang-up"])
async def test_an_answer_that_cleanup_waits_for_behind_a_cancel_from_outside_is_waited_for_within_bounds(
    why: str,
) -> None:
    releasing = Releasing()
    limits = Limits(grace=0.01) if why == "grace" else None
    async with releasing.serving(limits) as (end, scope):
        scope.cancel()
        assert (await end.next())["method"] == "terminal/release"
        if why == "end":
            end.send_eof()
        elif why == "hang-up":
            end.hang_up()
        await end.rest()
        await end.connection.wait_closed()
    assert releasing.got == ["terminal/release"]


@pytest.mark.behaviour("C9", "D8")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_while_what_a_native_cancel_has_cancelled_cleans_up_answers_are_heard() -> None:
    import asyncio

    releasing = Releasing()
    end = End(Routes({"work": Route(releasing.work)}), None)
    task = asyncio.create_task(end.connection.run())
    end.send(request(1, "work"))
    with anyio.fail_after(PATIENCE):
        await until(lambda: end.connection.tree.size)
        await anyio.wait_all_tasks_blocked()
        task.cancel()
        assert (await end.next())["method"] == "terminal/release"
        end.send(result(0, "released"))
        with pytest.raises(asyncio.CancelledError):
            await task
    assert releasing.got == ["released"]
    assert await end.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
    assert_over(end.connection)


async def test_a_cancel_before_the_first_step_still_ends_properly() -> None:
    end = End(Routes(), None)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await end.connection.run()
    assert scope.cancelled_caught
    await end.connection.wait_closed()
    assert await end.rest() == []
    assert_over(end.connection)


@pytest.mark.behaviour("D8", "G14")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("when", ["reading", "with close", "with the loss"])
async def test_a_native_cancel_cleans_up_and_goes_on(when: str) -> None:
    import asyncio

    handlers = Handlers()
    end = End(handlers.routes(), Limits(drain=60))
    task = asyncio.create_task(end.connection.run())
    end.send(request(1, "hang"))
    await end.barrier()
    if when == "with close":
        end.connection.close()
    elif when == "with the loss":
        end.connection._reading.cancel()
    task.cancel()
    with anyio.fail_after(PATIENCE), pytest.raises(asyncio.CancelledError):
        await task
    assert handlers.log == [Cause.SHUTDOWN, "clean"]
    assert await end.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
    assert_over(end.connection)


@pytest.mark.behaviour("D8", "G14")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_second_native_cancel_ends_the_cleaning_up() -> None:
    import asyncio

    cleaning = asyncio.Event()
    go_on = asyncio.Event()

    async def slow(_call: Call) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with grace():
                cleaning.set()
                await go_on.wait()

    end = End(Routes({"slow": Route(slow)}), Limits(grace=60))
    task = asyncio.create_task(end.connection.run())
    answers = Answers(end.connection)
    asking = asyncio.create_task(answers.ask("a"))
    end.send(request(1, "slow"))
    assert (await end.next())["method"] == "ask"
    await until(lambda: end.connection.tree.size)
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with anyio.fail_after(PATIENCE):
        await cleaning.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await end.connection.wait_closed()
        await asking
        assert isinstance(answers.of["a"], ConnectionClosed)
        with pytest.raises(ConnectionClosed):
            end.connection.notify("say")
        go_on.set()
        await until(lambda: not end.connection.work.running)
    assert_over(end.connection, leaked=1)


@pytest.mark.behaviour("D8", "G14")
async def test_a_cancel_while_the_last_requests_are_awaited_ends_them_properly() -> None:
    handlers = Handlers()
    end = End(handlers.routes(), Limits(drain=60))
    closed: list[str] = []

    async def closer() -> None:
        await anyio.lowlevel.checkpoint()
        closed.append("closed")

    end.connection.on_close(closer)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(end.connection.run)
            end.send(request(1, "hang"))
            end.send_eof()
            await anyio.wait_all_tasks_blocked()
            assert handlers.log == []
            group.cancel_scope.cancel()
    assert handlers.log == [Cause.SHUTDOWN, "clean"]
    assert closed == ["closed"]
    assert await end.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
    assert_over(end.connection)


@pytest.mark.behaviour("D8", "G14")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_cancel_while_the_last_requests_are_awaited_ends_them_properly() -> None:
    import asyncio

    handlers = Handlers()
    end = End(handlers.routes(), Limits(drain=60))
    task = asyncio.create_task(end.connection.run())
    end.send(request(1, "hang"))
    end.send_eof()
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with anyio.fail_after(PATIENCE), pytest.raises(asyncio.CancelledError):
        await task
    assert handlers.log == [Cause.SHUTDOWN, "clean"]
    assert await end.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
    assert_over(end.connection)
