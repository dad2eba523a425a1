"""One socket: other tasks run beside one that only writes, and a cancel is met where nothing waits."""

import socket
from collections.abc import Iterator

import anyio
import anyio.lowlevel
import pytest

from acp_server.http.sockets import SocketStream

pytestmark = pytest.mark.anyio


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


async def test_other_tasks_run_beside_a_task_that_only_writes(pair: tuple[socket.socket, socket.socket]) -> None:
    stream = SocketStream(pair[0], 60)
    rounds = 0

    async def count() -> None:
        nonlocal rounds
        while True:
            await anyio.lowlevel.checkpoint()
            rounds += 1

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        for _ in range(160):
            await stream.send(b"x")
        assert 8 <= rounds <= 20
        group.cancel_scope.cancel()
    assert pair[1].recv(1000) == b"x" * 160


async def test_other_tasks_run_beside_a_task_whose_reads_never_wait(pair: tuple[socket.socket, socket.socket]) -> None:
    stream = SocketStream(pair[0], 60)
    pair[1].send(b"x" * 100_000)
    ran = anyio.Event()
    async with anyio.create_task_group() as group:
        await stream.receive()

        async def run() -> None:
            ran.set()

        group.start_soon(run)
        # On trio the order of tasks within a round is random.
        for _ in range(2):
            await stream.receive()
        assert ran.is_set()


async def test_a_cancel_is_met_before_anything_is_read_or_written(pair: tuple[socket.socket, socket.socket]) -> None:
    stream = SocketStream(pair[0], 60)
    async with anyio.create_task_group() as group:
        group.start_soon(stream.receive)
        await anyio.wait_all_tasks_blocked()
        pair[1].send(b"first")
    # The last read has waited, so the next one takes no round of the loop.
    pair[1].send(b"second")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await stream.receive()
    assert scope.cancelled_caught
    with anyio.CancelScope() as scope:
        scope.cancel()
        await stream.send(b"never")
    assert scope.cancelled_caught
    assert await stream.receive() == b"second"
    pair[1].setblocking(False)
    with pytest.raises(BlockingIOError):
        pair[1].recv(1)
