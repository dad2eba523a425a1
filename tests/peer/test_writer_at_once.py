"""The writer with a stream that takes bytes without waiting: no task wakes, nothing is lost, torn or repeated."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from acp_server.peer import writer as module
from acp_server.peer.writer import Writer
from tests.peer.ends import until
from tests.peer.test_writer import Broken, Pipe

pytestmark = pytest.mark.anyio

ON_ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class Quick(Pipe):
    """Takes up to `room` bytes at a time without waiting."""

    def __init__(self, room: int = 1_000_000_000) -> None:
        super().__init__()
        self.room = room
        self.at_once: list[bytes] = []

    def send_now(self, data: bytes) -> int:
        taken = data[: self.room]
        self.at_once.append(taken)
        return len(taken)


@asynccontextmanager
async def idle(room: int = 1_000_000_000) -> AsyncGenerator[tuple[Quick, Writer]]:
    """A writer whose task waits for something to write."""
    pipe, broken = Quick(room), Broken()
    writer = Writer(pipe, broken)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            await anyio.wait_all_tasks_blocked()
            yield pipe, writer
            writer.close()
    assert (writer.size, broken.count) == (0, 0)


@ON_ASYNCIO
async def test_what_is_put_in_one_round_of_the_loop_is_written_at_its_end_in_one_go() -> None:
    async with idle() as (pipe, writer):
        waits_for = writer._wake
        for frames in ((b"a\n", b"b\n"), (b"c\n",)):
            for frame in frames:
                writer.put(frame)
            await anyio.wait_all_tasks_blocked()
        assert writer.size == 0
        # The task was not woken.
        assert writer._wake is waits_for
    assert pipe.at_once == [b"a\nb\n", b"c\n"]
    assert pipe.sent == []


@ON_ASYNCIO
@pytest.mark.parametrize("room", [0, 1, 3])
async def test_what_does_not_go_without_waiting_is_written_behind_it_and_before_what_comes_later(room: int) -> None:
    async with idle(room) as (pipe, writer):
        pipe.shut()
        tickets = [writer.put(b"a\n"), writer.put(b"b\n")]
        await pipe.reached.wait()
        assert writer.size == 4 - room
        # What may have begun cannot be taken back.
        assert not any(map(writer.take_back, tickets))
        writer.put(b"c\n")
        await anyio.wait_all_tasks_blocked()
        pipe.open.set()
        await until(lambda: not writer.size)
    assert b"".join(pipe.at_once + pipe.sent) == b"a\nb\nc\n"
    assert pipe.at_once == [b"a\nb\n"[:room]]


@ON_ASYNCIO
async def test_who_waits_for_room_goes_on_when_all_of_it_is_written_at_once() -> None:
    async with idle() as (pipe, writer):
        writer.put(b"x" * module.HIGH_WATER + b"\n")
        await writer.room()
        assert writer.size == 0
    assert pipe.sent == []


@ON_ASYNCIO
async def test_frames_that_were_all_taken_back_are_not_written_at_once_either() -> None:
    async with idle() as (pipe, writer):
        assert writer.take_back(writer.put(b"a\n"))
        await anyio.wait_all_tasks_blocked()
        again = writer.put(b"b\n")
        await anyio.wait_all_tasks_blocked()
        assert not writer.take_back(again)
    assert pipe.at_once == [b"b\n"]
    assert pipe.sent == []


@ON_ASYNCIO
async def test_more_than_one_portion_is_left_to_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PORTION", 4)
    async with idle() as (pipe, writer):
        for frames in ((b"aaa\n", b"bbb\n"), (b"ccc\n",)):
            for frame in frames:
                writer.put(frame)
            await anyio.wait_all_tasks_blocked()
    assert pipe.sent == [b"aaa\n", b"bbb\n"]
    assert pipe.at_once == [b"ccc\n"]


@ON_ASYNCIO
async def test_a_writer_that_is_closed_or_aborted_in_the_same_round_writes_nothing_twice() -> None:
    for abort in (False, True):
        pipe, broken = Quick(), Broken()
        writer = Writer(pipe, broken)
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(writer.run)
                await anyio.wait_all_tasks_blocked()
                writer.put(b"a\n")
                (writer.abort if abort else writer.close)()
        await anyio.lowlevel.checkpoint()
        written = pipe.at_once + pipe.sent
        assert written == [b"a\n"] or (abort and not written)
        assert writer.size == 0


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_where_a_task_is_cheaper_the_task_writes() -> None:
    async with idle() as (pipe, writer):
        writer.put(b"a\n")
        await anyio.wait_all_tasks_blocked()
        assert pipe.sent == [b"a\n"]
    assert pipe.at_once == []


@ON_ASYNCIO
async def test_while_the_task_writes_nothing_is_written_past_it() -> None:
    async with idle(room=0) as (pipe, writer):
        pipe.shut()
        writer.put(b"a\n")
        await pipe.reached.wait()
        pipe.room = 100
        writer.put(b"b\n")
        writer.put(b"c\n")
        await anyio.wait_all_tasks_blocked()
        assert pipe.sent == [b"a\n"]
        pipe.open.set()
        await until(lambda: not writer.size)
    assert pipe.sent == [b"a\n", b"b\nc\n"]
    assert pipe.at_once == [b""]


@ON_ASYNCIO
async def test_a_frame_that_is_put_while_the_writer_ends_is_thrown_away(caplog: pytest.LogCaptureFixture) -> None:
    pipe, broken = Quick(), Broken()
    writer = Writer(pipe, broken)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            await anyio.wait_all_tasks_blocked()
            writer.abort()
            writer.put(b"a\n")
    await anyio.lowlevel.checkpoint()
    assert (pipe.at_once, pipe.sent, broken.count) == ([], [], 1)
    # The loop logs what a callback of its raises.
    assert not caplog.records


@ON_ASYNCIO
async def test_what_is_put_while_it_is_held_is_written_on_its_release() -> None:
    async with idle() as (pipe, writer):
        corked = writer.cork()
        writer.put(b"a\n")
        writer.put(b"b\n")
        assert pipe.at_once == []
        writer.uncork(corked)
        assert pipe.at_once == [b"a\nb\n"]


@ON_ASYNCIO
async def test_what_was_to_be_written_soon_is_not_held_up_by_an_empty_release() -> None:
    async with idle() as (pipe, writer):
        writer.put(b"a\n")
        writer.uncork(writer.cork())
        writer.put(b"b\n")
        await anyio.wait_all_tasks_blocked()
    assert b"".join(pipe.at_once + pipe.sent) == b"a\nb\n"


async def test_a_writer_whose_stream_has_to_wait_writes_what_was_held_too() -> None:
    pipe, broken = Pipe(), Broken()
    writer = Writer(pipe, broken)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            await anyio.wait_all_tasks_blocked()
            corked = writer.cork()
            writer.put(b"a\n")
            writer.uncork(corked)
            await until(lambda: not writer.size)
            writer.close()
    assert b"".join(pipe.sent) == b"a\n"
