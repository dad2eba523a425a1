"""The end of a connection: everything in flight is answered, cleaned up within bounds, and let go of once."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Connection, Limits
from acp_server.tasks.cause import Cause
from acp_server.tasks.grace import grace
from acp_server.tasks.running import Spawner
from acp_server.testing.streams import FaultyStream, memory_pair
from tests.peer.handlers import CANCELLED
from tests.wire.live import Peer, cancel, request, served

pytestmark = pytest.mark.anyio


class Worker:
    """A handler that cleans up for as long as it is told, and notes why it was cancelled."""

    def __init__(self) -> None:
        self.go = anyio.Event()
        self.clean: list[Cause | None] = []

    async def work(self, call: Call) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with grace():
                await self.go.wait()
                self.clean.append(call.cause)

    def peer(self, limits: Limits | None = None) -> Peer:
        here, there = memory_pair()
        routes = Routes({"work": Route(self.work), "close": Route(_close), "echo": Route(_echo)})
        return Peer(Connection(here, routes, limits), there)


async def _close(call: Call) -> str:
    call.connection.close()
    call.connection.close(Cause.USER)
    return "closing"


async def _echo(call: Call) -> Any:
    return call.params


@pytest.mark.behaviour("D3", "D12", "A1")
async def test_closing_cancels_and_answers_all_and_refuses_what_still_comes() -> None:
    worker = Worker()
    async with served(Routes({"work": Route(worker.work)}), Limits()) as peer:
        peer.send(*(request(id, "work") for id in (1, 2)))
        await peer.ping()
        peer.connection.close()
        peer.send(request(3, "work"))
        assert await peer.answer(3) == CANCELLED
        worker.go.set()
        assert sorted([(await peer.next())["id"] for _ in range(2)]) == [1, 2]
        await peer.connection.wait_closed()
    assert worker.clean == [Cause.SHUTDOWN] * 2


@pytest.mark.behaviour("D3", "C9")
async def test_cleanup_can_ask_the_peer_while_the_connection_closes() -> None:
    released: list[Any] = []

    async def work(call: Call) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with grace():
                released.append(await call.request_peer("release"))

    async with served(Routes({"work": Route(work)}), Limits()) as peer:
        peer.send(request(1, "work"))
        await peer.ping()
        peer.connection.close()
        asked = await peer.next()
        peer.send({"jsonrpc": "2.0", "id": asked["id"], "result": "done"})
        assert await peer.answer(1) == CANCELLED
    assert released == ["done"]


@pytest.mark.behaviour("D9")
async def test_a_handler_may_close_its_own_connection_twice_and_is_answered() -> None:
    worker = Worker()
    worker.go.set()
    peer = worker.peer()
    async with anyio.create_task_group() as group:
        group.start_soon(peer.connection.run)
        peer.send(request(1, "work"))
        await anyio.wait_all_tasks_blocked()
        peer.send(request(2, "close"))
        answers = {message["id"]: message.get("result", message.get("error")) for message in await peer.rest()}
    assert answers == {1: CANCELLED, 2: "closing"}
    assert worker.clean == [Cause.SHUTDOWN]


@pytest.mark.behaviour("D9")
async def test_closing_from_several_tasks_at_once_is_closing_once() -> None:
    worker = Worker()
    worker.go.set()
    peer = worker.peer()

    async def close() -> None:
        peer.connection.close()
        await peer.connection.wait_closed()

    async with anyio.create_task_group() as group:
        group.start_soon(peer.connection.run)
        peer.send(request(1, "work"))
        await anyio.wait_all_tasks_blocked()
        for _ in range(3):
            group.start_soon(close)
        assert [message["error"] for message in await peer.rest()] == [CANCELLED]
    peer.connection.close()
    await peer.connection.wait_closed()


@pytest.mark.behaviour("D8")
async def test_a_cancel_of_the_embedding_scope_cleans_up_and_goes_on() -> None:
    worker = Worker()
    peer = worker.peer()
    went_on = False
    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:

            async def end() -> None:
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
                await anyio.wait_all_tasks_blocked()
                assert worker.clean == []
                worker.go.set()

            group.start_soon(end)
            peer.send(request(1, "work"))
            await peer.connection.run()
            went_on = True
    assert scope.cancelled_caught
    assert not went_on
    assert worker.clean == [Cause.SHUTDOWN]
    assert [message["error"] for message in await peer.rest()] == [CANCELLED]


@pytest.mark.behaviour("D8")
async def test_the_time_limit_of_the_embedding_program_is_not_eaten() -> None:
    worker = Worker()
    worker.go.set()
    peer = worker.peer()
    peer.send(request(1, "work"))
    with pytest.raises(TimeoutError):
        with anyio.fail_after(0.05):
            await peer.connection.run()
    assert [message["error"] for message in await peer.rest()] == [CANCELLED]


@pytest.mark.behaviour("D8")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_cancel_of_the_embedding_task_cleans_up_and_goes_on() -> None:
    import asyncio

    worker = Worker()
    peer = worker.peer()
    peer.send(request(1, "work"))
    task = asyncio.create_task(peer.connection.run())
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    await anyio.wait_all_tasks_blocked()
    assert worker.clean == []
    worker.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert worker.clean == [Cause.SHUTDOWN]
    assert [message["error"] for message in await peer.rest()] == [CANCELLED]


@pytest.mark.behaviour("D8")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_cancel_of_everything_ends_everything() -> None:
    """As `asyncio.run` does it when its main task has ended."""
    import asyncio

    worker = Worker()
    worker.go.set()
    peer = worker.peer()
    before = asyncio.all_tasks()
    peer.send(request(1, "work"), request(2, "work"))
    task = asyncio.create_task(peer.connection.run())
    # In the middle: one is running, the reader has others to start.
    for _ in range(2):
        await asyncio.sleep(0)
    peer.send(request(3, "work"))
    for each in asyncio.all_tasks() - before:
        each.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await anyio.wait_all_tasks_blocked()
    assert asyncio.all_tasks() == before
    assert peer.connection.tree.size == 0


@pytest.mark.behaviour("D6", "E2")
async def test_a_peer_that_does_not_read_does_not_keep_the_connection_from_closing() -> None:
    here, there = memory_pair()
    stream = FaultyStream(here)
    peer = Peer(Connection(stream, Routes({"echo": Route(_echo)}), Limits(flush=0.01, drain=0)), there)
    async with anyio.create_task_group() as group:
        group.start_soon(peer.connection.run)
        stream.stall_sending()
        peer.send(request(1, "echo", {"n": 1}))
        await stream.stalled.wait()
        peer.connection.close()
        await peer.connection.wait_closed()
    assert await peer.rest() == []


@pytest.mark.behaviour("D11")
async def test_of_several_causes_the_first_is_the_one_that_can_be_read() -> None:
    calls: list[Call] = []
    worker = Worker()
    async with served(Routes({"work": Route(worker.work, register=calls.append)}), Limits()) as peer:
        for id, first in enumerate((Cause.PEER, Cause.TIMEOUT, Cause.SHUTDOWN)):
            peer.send(request(id, "work"))
            await peer.ping()
            if first is Cause.PEER:
                peer.send(cancel(id))
            elif first is Cause.TIMEOUT:
                calls[id].node.cancel(Cause.TIMEOUT)
            else:
                peer.connection.close()
            peer.send(cancel(id))
            await anyio.wait_all_tasks_blocked()
        peer.send_eof()
        worker.go.set()
        await peer.connection.wait_closed()
    assert [call.cause for call in calls] == [Cause.PEER, Cause.TIMEOUT, Cause.SHUTDOWN]
    assert sorted(cause.value for cause in worker.clean if cause) == ["peer", "shutdown", "timeout"]


async def _serving(peer: Peer) -> AsyncIterator[Peer]:
    async with anyio.create_task_group() as group:
        group.start_soon(peer.connection.run)
        yield peer
        peer.connection.close()


@pytest.mark.behaviour("D13")
async def test_a_connection_can_live_in_a_fixture_and_be_made_used_and_closed_in_different_tasks() -> None:
    peers: list[Peer] = []
    answers: list[Any] = []
    spawner = Spawner(_raise)

    async def make() -> None:
        peers.append(Worker().peer())

    async def use() -> None:
        peers[0].send(request(1, "echo", {"n": 1}))
        answers.append(await peers[0].answer(1))

    async def end() -> None:
        peers[0].connection.close()

    spawner.spawn(make)
    await spawner.wait_idle()
    spawner.spawn(peers[0].connection.run)
    for step in (use, end):
        stepper = Spawner(_raise)
        stepper.spawn(step)
        await stepper.wait_idle()
    await spawner.wait_idle()
    assert answers == [{"n": 1}]


@pytest.mark.behaviour("D13")
async def test_a_connection_can_live_in_an_async_generator() -> None:
    serving = _serving(Worker().peer())
    peer = await anext(serving)
    peer.send(request(1, "echo", {"n": 1}))
    assert await peer.answer(1) == {"n": 1}
    with pytest.raises(StopAsyncIteration):
        await anext(serving)
    assert await peer.rest() == []


def _raise(error: BaseException) -> None:
    raise error
