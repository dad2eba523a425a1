"""We end the connection: in any state, from anywhere, any number of times."""

import gc
from contextlib import AsyncExitStack
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.errors import ConnectionClosed
from acp_server.peer.call import Call, Notice, Route, Routes
from acp_server.peer.connection import Connection, Limits
from acp_server.peer.peer import Peer
from acp_server.tasks.cause import Cause
from acp_server.tasks.grace import grace
from acp_server.testing import memory_pair
from tests.peer.ends import (
    CANCELLED,
    PATIENCE,
    Answers,
    End,
    Handlers,
    assert_over,
    listen,
    notification,
    request,
    result,
    serving,
    until,
)
from tests.storm.jumping import run

pytestmark = pytest.mark.anyio


# close()


@pytest.mark.behaviour("D3", "D11", "G13", "G14")
async def test_closing_cancels_answers_and_fails_what_waits() -> None:
    handlers = Handlers()
    async with serving(handlers.routes(), Limits(drain=60)) as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        group.start_soon(answers.ask, "a")
        await end.next()
        end.send(request(1, "hang"))
        await end.barrier()
        end.connection.close(Cause.SHUTDOWN)
        end.connection.close(Cause.CLOSED)
        assert await end.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
        await until(lambda: answers.of)
        assert isinstance(answers.of["a"], ConnectionClosed)
    assert handlers.log == [Cause.SHUTDOWN, "clean"]
    assert end.raised is None
    end.connection.close()
    gc.collect()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_leaves_its_shield_when_the_patience_is_over_still_ends(backend: str, seed: int) -> None:
    """It needs some rounds of the event loop for that, in which it must not be left alone as one that does not end."""
    awaited: list[int] = []

    async def unwind(_call: Call) -> None:
        async with AsyncExitStack() as stack:
            for number in range(5):
                stack.push_async_callback(wait, number)
            try:
                await anyio.sleep_forever()
            finally:
                with grace(1):
                    await anyio.sleep_forever()
                await anyio.sleep_forever()

    async def wait(number: int) -> None:
        awaited.append(number)
        await anyio.sleep_forever()

    async def close() -> None:
        async with serving(Routes({"unwind": Route(unwind)}), Limits(drain=60, grace=1)) as end:
            end.send(request(1, "unwind"))
            await end.barrier()
            end.connection.close()
            assert [message["error"] for message in await end.rest()] == [CANCELLED]

    run(backend, seed, close)
    assert awaited == [4, 3, 2, 1, 0]


@pytest.mark.behaviour("C9", "D12")
async def test_while_what_was_cancelled_cleans_up_answers_are_heard_and_requests_refused() -> None:
    async def work(call: Call) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with grace():
                await call.request_peer("terminal/release")
                call.notify_peer("last words")

    heard: list[Any] = []
    routes = Routes({"work": Route(work)})
    listen(routes, "note", heard.append)
    async with serving(routes) as end:
        end.send(request(1, "work"))
        await end.barrier()
        end.connection.close()
        assert (await end.next())["method"] == "terminal/release"
        end.send(request(2, "ping"), notification("note"))
        assert await end.next() == {"jsonrpc": "2.0", "id": 2, "error": CANCELLED}
        end.send(result(0, {}))
        assert [message.get("method", message.get("id")) for message in await end.rest()] == ["last words", 1]
    assert heard == []


@pytest.mark.behaviour("C9")
async def test_while_cleanup_that_outlived_its_request_asks_answers_are_heard() -> None:
    got: list[Any] = []

    async def release() -> None:
        got.append(await end.connection.request("terminal/release"))

    async with serving() as end:
        await end.barrier()
        end.connection.background(release)
        end.connection.close()
        assert (await end.next())["method"] == "terminal/release"
        end.send(result(0, "released"))
        await until(lambda: got)
        assert await end.rest() == []
    assert got == ["released"]


@pytest.mark.behaviour("D3", "D6")
async def test_what_does_not_end_when_we_close_is_waited_for_once_and_answered() -> None:
    go_on = anyio.Event()

    async def stubborn(_call: Call) -> None:
        with anyio.CancelScope(shield=True):
            await go_on.wait()

    end = End(Routes({"stubborn": Route(stubborn)}), Limits(drain=60, grace=1.5))
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(end.run)
            end.send(request(1, "stubborn"))
            await until(lambda: end.connection.tree.size)
            await anyio.wait_all_tasks_blocked()
            began = anyio.current_time()
            end.connection.close()
            assert [answer["error"] for answer in await end.rest()] == [CANCELLED]
            await end.connection.wait_closed()
            # Not once more for each step of the ending.
            assert 1.5 <= anyio.current_time() - began < 3
        assert end.connection.leaked == 1
        go_on.set()
        await until(lambda: not end.connection.work.running)
    assert_over(end.connection, leaked=1)


@pytest.mark.behaviour("D9")
@pytest.mark.parametrize("where", ["request", "notification", "inline", "callback", "background"])
async def test_the_connection_can_be_closed_from_inside(where: str) -> None:
    reached: list[str] = []

    async def closes(connection: Peer, _params: Any = None) -> None:
        await anyio.lowlevel.checkpoint()
        reached.append(where)
        connection.close()
        await anyio.lowlevel.checkpoint()
        reached.append("went on")

    async def handler(call: Call) -> None:
        await closes(call.connection)

    routes = Routes({"closes": Route(handler)})
    routes.on_notice("closes", Notice(closes))
    routes.on_notice("closes inline", Notice(lambda connection, _params: connection.close(), inline=True))
    async with serving(routes, Limits(drain=60)) as end:
        match where:
            case "request":
                end.send(request(1, "closes"))
            case "notification":
                end.send(notification("closes"))
            case "inline":
                end.send(notification("closes inline"), request(1, "ping"))
            case "callback":
                end.connection.on_close(lambda: closes(end.connection))
                end.connection.close()
            case _:
                end.connection.background(closes, end.connection)
        came = await end.rest()
        await end.connection.wait_closed()
    answer = [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
    assert came == (answer if where in ("request", "inline") else [])
    # What cleans up is not cancelled by it.
    assert ("went on" in reached) == (where in ("callback", "background"))
    assert end.raised is None


@pytest.mark.behaviour("D9")
async def test_closing_from_many_tasks_at_once_is_closing_once() -> None:
    closed: list[int] = []
    async with serving(Handlers().routes()) as end:
        end.send(request(1, "hang"))
        await end.barrier()

        async def close(number: int) -> None:
            end.connection.close()
            await end.connection.wait_closed()
            closed.append(number)

        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(close, number)
        assert len(await end.rest()) == 1
    assert sorted(closed) == list(range(10))


async def test_a_connection_that_was_closed_before_it_ran_ends_as_soon_as_it_runs() -> None:
    end = End(Routes(), Limits(drain=60))
    async with anyio.create_task_group() as group:
        answers = Answers(end.connection)
        group.start_soon(answers.ask, "a")
        end.connection.notify("say")
        await anyio.wait_all_tasks_blocked()
        end.send(request(1, "ping"))
        end.connection.close()
        await until(lambda: answers.of)
        assert isinstance(answers.of["a"], ConnectionClosed)
        with pytest.raises(ConnectionClosed):
            await end.connection.request("ask")
        assert end.connection._house.running == 0
        with anyio.fail_after(PATIENCE):
            await end.connection.run()
        await end.connection.wait_closed()
    # What was put into the queue before is sent; of what the peer says, nothing is heard.
    assert [message["method"] for message in await end.rest()] == ["say", "ask"]
    assert_over(end.connection)


async def test_a_connection_that_never_runs_leaves_nothing_when_it_is_closed() -> None:
    stream, _ = memory_pair()
    connection = Connection(stream, Routes())
    answers = Answers(connection)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(answers.ask, "a")
            await anyio.wait_all_tasks_blocked()
            connection.close()
    assert isinstance(answers.of["a"], ConnectionClosed)
    assert connection.endpoint.ledger.outgoing == 0


async def test_running_a_connection_twice_is_refused_and_disturbs_nothing() -> None:
    async with serving() as end:
        assert await end.barrier() == []
        with pytest.raises(RuntimeError, match="only once"):
            await end.connection.run()
        assert await end.barrier() == []
    with pytest.raises(RuntimeError, match="only once"):
        await end.connection.run()


# Callbacks for the end


@pytest.mark.behaviour("G12")
async def test_callbacks_run_once_in_order_behind_everything_else(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []
    names = [str(number) for number in range(20)]

    def note(name: str, error: BaseException | None = None) -> Any:
        async def closer() -> None:
            assert all(isinstance(answers.of[name], ConnectionClosed) for name in names)
            assert handlers.log == [Cause.SHUTDOWN, "clean"]
            with pytest.raises(ConnectionClosed):
                end.connection.notify("say")
            await anyio.lowlevel.checkpoint()
            log.append(name)
            if name == "first":
                end.connection.on_close(note("added"))
            if error is not None:
                raise error

        return closer

    handlers = Handlers()
    async with serving(handlers.routes()) as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        for name in names:
            group.start_soon(answers.ask, name)
            await end.next()
        end.send(request(1, "hang"))
        await end.barrier()
        end.connection.on_close(note("first"))
        end.connection.on_close(note("second", ValueError("boom")))
        end.connection.on_close(note("third", BaseExceptionGroup("stray", [GeneratorExit()])))
        end.connection.on_close(note("fourth"))
        end.connection.close()
        await end.connection.wait_closed()
        with pytest.raises(ConnectionClosed):
            end.connection.on_close(note("too late"))
    assert log == ["first", "second", "third", "fourth", "added"]
    assert [record.getMessage() for record in caplog.records] == ["a callback for the end of the connection failed"] * 2
    assert end.raised is None


@pytest.mark.behaviour("G12")
async def test_a_callback_that_hangs_is_cancelled_and_the_next_ones_still_run(caplog: pytest.LogCaptureFixture) -> None:
    log: list[str] = []

    async def hangs() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            log.append("cut")

    async def fails() -> None:
        log.append("later")
        raise ValueError("boom")

    async with serving(limits=Limits(drain=0, grace=0.01)) as end:
        end.connection.on_close(hangs)
        end.connection.on_close(fails)
    assert log == ["cut", "later"]
    assert end.connection.leaked == 0
    # Of the cancel there is nothing to be said.
    [record] = caplog.records
    assert "failed while it was being cancelled (shutdown)" in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


# The program ends


@pytest.mark.behaviour("D5")
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize(
    "where", ["plain notification", "inline notification", "notification", "background", "callback"]
)
async def test_whatever_ends_the_program_ends_the_connection_first(where: str, kind: type[BaseException]) -> None:
    async def ends(*_args: Any) -> None:
        await anyio.lowlevel.checkpoint()
        raise kind

    def plain(_params: Any) -> None:
        raise kind

    handlers = Handlers()
    routes = handlers.routes()
    listen(routes, "plain", plain)
    listen(routes, "inline", plain, inline=True)
    listen(routes, "ends", ends)
    end = End(routes, Limits(drain=0))
    end.send(request(1, "hang"))
    match where:
        case "plain notification":
            end.send(notification("plain"))
        case "inline notification":
            end.send(notification("inline"))
        case "notification":
            end.send(notification("ends"))
        case "background":
            end.connection.background(ends)
        case _:
            end.connection.on_close(ends)
            end.send_eof()
    with anyio.fail_after(PATIENCE), pytest.raises(kind):
        await end.connection.run()
    assert [answer["id"] for answer in await end.rest()] == [1]
    assert_over(end.connection)


@pytest.mark.behaviour("D5")
async def test_of_several_that_end_the_program_the_first_one_counts() -> None:
    first, second = SystemExit(1), SystemExit(2)

    async def ends(call: Call) -> None:
        if call.id == 1:
            raise first
        try:
            await anyio.sleep_forever()
        finally:
            raise second

    end = End(Routes({"ends": Route(ends)}), Limits(drain=0))
    end.send(request(2, "ends"), request(1, "ends"))
    with anyio.fail_after(PATIENCE), pytest.raises(SystemExit) as raised:
        await end.connection.run()
    assert raised.value is first
    assert_over(end.connection)
