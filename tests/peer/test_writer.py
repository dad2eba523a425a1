"""The writer: whole frames in order, nothing lost and nothing torn, and an end to every write."""

import asyncio
import errno
import logging

import anyio
import anyio.lowlevel
import pytest

from acp_server.errors import ConnectionClosed
from acp_server.peer.call import Routes
from acp_server.peer.writer import HIGH_WATER, Writer
from tests.peer.ends import PATIENCE, line, linked, listen, notification, until

pytestmark = pytest.mark.anyio


class Pipe:
    """What the writer writes to: lets bytes through while it is `open`."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        """What each `send` was given."""
        self.open = anyio.Event()
        self.open.set()
        self.reached = anyio.Event()
        """Set when a `send` has begun."""
        self.error: Exception | None = None

    def shut(self) -> None:
        self.open = anyio.Event()
        self.reached = anyio.Event()

    async def receive(self) -> bytes:
        raise AssertionError

    async def send(self, data: bytes) -> None:
        self.sent.append(data)
        self.reached.set()
        await self.open.wait()
        if self.error is not None:
            raise self.error

    async def aclose(self) -> None:
        raise AssertionError


class Broken:
    """Counts how often the writer said that its stream is broken."""

    count = 0

    def __call__(self) -> None:
        self.count += 1


def new() -> tuple[Pipe, Broken, Writer]:
    pipe, broken = Pipe(), Broken()
    return pipe, broken, Writer(pipe, broken)


@pytest.mark.behaviour("I1")
async def test_what_is_ready_leaves_in_one_go_and_in_order() -> None:
    pipe, broken, writer = new()
    pipe.shut()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            writer.put(b"a\n")
            group.start_soon(writer.run)
            await pipe.reached.wait()
            for frame in (b"b\n", b"c\n", b"d\n"):
                writer.put(frame)
            assert writer.size == 8
            pipe.open.set()
            writer.close()
    assert pipe.sent == [b"a\n", b"b\nc\nd\n"]
    assert (writer.size, broken.count) == (0, 0)


async def test_much_that_is_ready_leaves_in_portions_and_each_makes_room() -> None:
    pipe, _, writer = new()
    frames = [bytes([65 + number]) * 300_000 + b"\n" for number in range(12)]
    for frame in frames:
        writer.put(frame)
    all_of_them = writer.size
    left: list[int] = []
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            pipe.shut()
            group.start_soon(writer.run)
            await pipe.reached.wait()

            async def count() -> None:
                await writer.below(all_of_them - 1)
                left.append(writer.size)

            group.start_soon(count)
            await anyio.wait_all_tasks_blocked()
            pipe.open.set()
            writer.close()
    assert pipe.sent == [b"".join(frames[first : first + 4]) for first in (0, 4, 8)]
    # Who waited went on while there was more to write.
    assert left[0] > 0
    assert writer.size == 0


@pytest.mark.behaviour("I1")
async def test_frames_of_many_senders_leave_whole_and_in_the_order_in_which_they_were_queued() -> None:
    put: list[int] = []
    seen: list[int] = []
    routes = Routes()
    listen(routes, "n", lambda params: seen.append(params["number"]))

    async with linked(there=routes) as (left, _):

        async def say(first: int) -> None:
            for number in range(first, first + 100):
                put.append(number)
                left.notify("n", {"number": number, "ballast": "x" * (number % 977)})
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as group:
            for first in range(0, 2000, 100):
                group.start_soon(say, first)
    assert seen == put
    assert len(seen) == 2000


@pytest.mark.behaviour("C7")
async def test_a_frame_is_taken_back_alone_and_only_until_writing_begins() -> None:
    pipe, _, writer = new()
    pipe.shut()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            begun = writer.put(b"begun\n")
            group.start_soon(writer.run)
            await pipe.reached.wait()
            tickets = [writer.put(b"%d\n" % n) for n in range(4)]
            assert not writer.take_back(begun)
            assert writer.take_back(tickets[0])
            assert writer.take_back(tickets[2])
            assert writer.size == len(b"begun\n1\n3\n")
            late = writer.put(b"late\n")
            pipe.open.set()
            await until(lambda: not writer.size)
            assert not any(map(writer.take_back, [begun, *tickets, late]))
            again = writer.put(b"again\n")
            assert writer.take_back(again)
            writer.close()
    assert pipe.sent == [b"begun\n", b"1\n3\nlate\n"]


async def test_frames_that_were_all_taken_back_are_not_written() -> None:
    pipe, broken, writer = new()
    for ticket in [writer.put(b"a\n"), writer.put(b"b\n")]:
        assert writer.take_back(ticket)
    writer.close()
    with anyio.fail_after(PATIENCE):
        await writer.run()
    assert (pipe.sent, broken.count) == ([], 0)


@pytest.mark.behaviour("K7")
async def test_who_says_much_waits_until_the_peer_has_caught_up_and_nobody_else_does() -> None:
    pipe, _, writer = new()
    pipe.shut()
    through: list[str] = []

    async def wait_for_room() -> None:
        await writer.room()
        through.append("room")

    async def wait_for_less() -> None:
        await writer.below(10)
        through.append("less")

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            writer.put(b"x" * HIGH_WATER)
            await writer.room()
            writer.put(b"y")
            group.start_soon(wait_for_room)
            group.start_soon(wait_for_less)
            await pipe.reached.wait()
            await anyio.wait_all_tasks_blocked()
            assert through == []
            # Between the two limits.
            writer.put(b"z" * 100)
            pipe.open.set()
            pipe.shut()
            await pipe.reached.wait()
            await anyio.wait_all_tasks_blocked()
            assert through == ["room"]
            pipe.open.set()
            await until(lambda: "less" in through)
            writer.close()


async def test_who_fills_the_buffer_again_and_again_waits_behind_the_others() -> None:
    pipe, _, writer = new()

    async def fill(name: bytes) -> None:
        while True:
            writer.put(name * (HIGH_WATER + 1))
            await writer.room()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            for name in (b"1", b"2", b"3"):
                group.start_soon(fill, name)
            group.start_soon(writer.run)
            await until(lambda: sum(map(len, pipe.sent)) > 300 * HIGH_WATER)
            group.cancel_scope.cancel()
    frames = [b"".join(pipe.sent).count(name) // HIGH_WATER for name in (b"1", b"2", b"3")]
    assert max(frames) - min(frames) <= 1


@pytest.mark.behaviour("G8")
@pytest.mark.parametrize(
    "error", [OSError(errno.EPIPE, "Broken pipe"), anyio.BrokenResourceError(), anyio.ClosedResourceError()], ids=repr
)
async def test_a_broken_stream_is_told_once_and_what_is_put_afterwards_vanishes(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    pipe, broken, writer = new()
    pipe.shut()
    pipe.error = error
    failed: list[Exception] = []

    async def wait_for_room() -> None:
        try:
            await writer.room()
        except ConnectionClosed as closed:
            failed.append(closed)
        await writer.below(0)

    with caplog.at_level(logging.INFO, "acp_server"), anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            writer.put(b"x" * (HIGH_WATER + 1))
            group.start_soon(wait_for_room)
            await pipe.reached.wait()
            behind = writer.put(b"behind it\n")
            await anyio.wait_all_tasks_blocked()
            pipe.open.set()
    assert broken.count == 1
    assert not writer.take_back(behind)
    assert len(failed) == 1
    ticket = writer.put(b"afterwards\n")
    assert not writer.take_back(ticket)
    assert writer.size == 0
    writer.close()
    writer.abort()
    assert len(pipe.sent) == broken.count == len(caplog.records) == 1
    assert caplog.records[0].levelno == logging.INFO


async def test_an_error_that_nobody_expects_is_told_as_well_and_comes_out() -> None:
    pipe, broken, writer = new()
    pipe.error = ValueError("of a stream of somebody else's")
    writer.put(b"a\n")
    with anyio.fail_after(PATIENCE), pytest.raises(ValueError, match="somebody else"):
        await writer.run()
    assert broken.count == 1
    writer.put(b"b\n")
    assert writer.size == 0


@pytest.mark.behaviour("G5")
async def test_closing_writes_what_is_there_and_what_is_put_meanwhile() -> None:
    pipe, broken, writer = new()
    pipe.shut()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            writer.put(b"before\n")
            await pipe.reached.wait()
            writer.close()
            writer.put(b"meanwhile\n")
            pipe.open.set()
        writer.put(b"after\n")
    assert pipe.sent == [b"before\n", b"meanwhile\n"]
    assert (writer.size, broken.count) == (0, 0)
    with pytest.raises(ConnectionClosed):
        await writer.room()


async def test_an_idle_writer_ends_when_it_is_closed() -> None:
    pipe, broken, writer = new()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            await anyio.wait_all_tasks_blocked()
            writer.close()
    assert (pipe.sent, broken.count) == ([], 0)


async def test_an_idle_writer_that_is_aborted_before_it_is_closed_counts_as_broken() -> None:
    pipe, broken, writer = new()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            await anyio.wait_all_tasks_blocked()
            writer.abort()
    assert (pipe.sent, broken.count) == ([], 1)


@pytest.mark.behaviour("G15")
async def test_a_write_that_hangs_can_be_aborted() -> None:
    pipe, broken, writer = new()
    pipe.shut()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            writer.put(b"hangs\n")
            await pipe.reached.wait()
            writer.put(b"behind it\n")
            writer.close()
            writer.abort()
    assert pipe.sent == [b"hangs\n"]
    assert (writer.size, broken.count) == (0, 1)


@pytest.mark.behaviour("E2")
async def test_after_a_frame_that_was_cut_off_nothing_is_written() -> None:
    pipe, broken, writer = new()
    pipe.shut()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            writer.put(line(notification("torn")))
            await pipe.reached.wait()
            group.cancel_scope.cancel()
        pipe.open.set()
        writer.put(line(notification("behind")))
        await anyio.wait_all_tasks_blocked()
    assert pipe.sent == [line(notification("torn"))]
    assert broken.count == 1


async def test_a_frame_from_another_thread_is_refused_and_not_written() -> None:
    pipe, broken = Pipe(), Broken()
    writer = Writer(pipe, broken)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            for use in (lambda: writer.put(b"a\n"), writer.check_thread):
                with pytest.raises(RuntimeError, match="can be sent only in the thread"):
                    await anyio.to_thread.run_sync(use)
            writer.put(b"b\n")
            writer.close()
    assert pipe.sent == [b"b\n"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_who_is_woken_for_room_in_each_round_of_the_loop_can_be_cancelled() -> None:
    loop = asyncio.get_running_loop()
    writer = Writer(Pipe(), Broken())
    writer.put(b"not written\n")
    rounds = 0

    def wake() -> None:
        nonlocal rounds
        rounds += 1
        writer._written(0)
        if not scope.cancelled_caught and rounds < 100:
            loop.call_soon(wake)
        # Behind that, so that in each round it finds the task about to go on.
        if rounds == 3:
            scope.cancel()

    with anyio.fail_after(5), anyio.CancelScope() as scope:
        loop.call_soon(wake)
        await writer.below(0)
    assert rounds < 20
