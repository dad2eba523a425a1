"""Memory streams and the faults that can be put around one."""

import errno
import itertools

import anyio
import pytest

from acp_server.testing import FaultyStream, memory_pair

pytestmark = pytest.mark.anyio


async def test_what_one_end_sends_the_other_receives_chunk_by_chunk() -> None:
    here, there = memory_pair()
    await here.send(b"one")
    here.send_nowait(b"two")
    await here.send(b"")
    there.send_nowait(b"back")
    assert await there.receive() == b"one"
    assert await there.receive() == b"two"
    assert await here.receive() == b"back"


async def test_receiving_waits_for_the_next_chunk() -> None:
    here, there = memory_pair()
    received: list[bytes] = []

    async def receive() -> None:
        received.append(await there.receive())

    async with anyio.create_task_group() as group:
        group.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        assert received == []
        await here.send(b"x")
    assert received == [b"x"]


async def test_a_cancelled_receive_takes_nothing() -> None:
    here, there = memory_pair()
    await here.send(b"x")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await there.receive()
    assert await there.receive() == b"x"


async def test_the_end_of_the_input_comes_behind_what_was_sent_and_stays() -> None:
    here, there = memory_pair()
    await here.send(b"x")
    here.send_eof()
    assert [await there.receive() for _ in range(3)] == [b"x", b"", b""]
    await there.send(b"still open")
    assert await here.receive() == b"still open"
    with pytest.raises(anyio.BrokenResourceError):
        await here.send(b"y")


async def test_closing_ends_both_directions() -> None:
    here, there = memory_pair()
    await here.aclose()
    await here.aclose()
    assert await there.receive() == b""
    assert await here.receive() == b""
    with pytest.raises(anyio.BrokenResourceError):
        await there.send(b"x")


async def test_chunks_are_split_at_the_given_sizes() -> None:
    here, there = memory_pair()
    faulty = FaultyStream(there, sizes=[1, 3, 100])
    await here.send(b"abcdef")
    await here.send(b"ghi")
    await here.send(b"jkl")
    assert [await faulty.receive() for _ in range(4)] == [b"a", b"bcd", b"ef", b"ghi"]
    assert await faulty.receive() == b"jkl"


async def test_one_byte_at_a_time() -> None:
    here, there = memory_pair()
    faulty = FaultyStream(there, sizes=itertools.repeat(1))
    await here.send(b"abc")
    here.send_eof()
    assert [await faulty.receive() for _ in range(4)] == [b"a", b"b", b"c", b""]


async def test_a_stalled_send_goes_on_when_it_is_released() -> None:
    here, there = memory_pair()
    faulty = FaultyStream(there)
    await faulty.send(b"before ")
    faulty.stall_sending(after=3)
    async with anyio.create_task_group() as group:
        group.start_soon(faulty.send, b"stalled")
        await faulty.stalled.wait()
        assert [await here.receive(), await here.receive()] == [b"before ", b"sta"]
        assert faulty.sent == 10
        faulty.release()
    assert await here.receive() == b"lled"
    await faulty.send(b" after")
    assert await here.receive() == b" after"


async def test_a_stalled_send_can_be_broken_or_cancelled() -> None:
    here, there = memory_pair()
    faulty = FaultyStream(there)
    faulty.stall_sending()
    with anyio.move_on_after(0.01) as scope:
        await faulty.send(b"never")
    assert scope.cancelled_caught

    async def broken() -> None:
        with pytest.raises(anyio.BrokenResourceError):
            await faulty.send(b"broken")

    async with anyio.create_task_group() as group:
        group.start_soon(broken)
        await anyio.wait_all_tasks_blocked()
        faulty.break_sending()
    here.send_eof()
    assert faulty.sent == 0


@pytest.mark.parametrize("late", [False, True])
async def test_sending_breaks_after_so_many_bytes(late: bool) -> None:
    here, there = memory_pair()
    faulty = FaultyStream(there, break_after=None if late else 5)
    if late:
        faulty.break_sending(after=5)
    await faulty.send(b"abc")
    for _ in range(2):
        with pytest.raises(anyio.BrokenResourceError):
            await faulty.send(b"defg")
    assert [await here.receive(), await here.receive()] == [b"abc", b"de"]


@pytest.mark.parametrize("waiting", [False, True])
async def test_reading_fails_or_ends_when_it_is_told_to_even_while_it_waits(waiting: bool) -> None:
    outcomes: list[object] = []

    async def receive(faulty: FaultyStream) -> None:
        try:
            outcomes.append(await faulty.receive())
        except OSError as error:
            outcomes.append(error.errno)

    for fault in (lambda f: f.end_input(), lambda f: f.fail_reading(OSError(errno.EIO, "no"))):
        here, there = memory_pair()
        faulty = FaultyStream(there)
        if not waiting:
            await here.send(b"too late")
            fault(faulty)
        async with anyio.create_task_group() as group:
            group.start_soon(receive, faulty)
            await anyio.wait_all_tasks_blocked()
            if waiting:
                fault(faulty)
    assert outcomes == [b"", errno.EIO]


async def test_closing_the_faulty_stream_closes_the_other_one() -> None:
    here, there = memory_pair()
    await FaultyStream(there).aclose()
    assert await here.receive() == b""
