"""The stream over descriptors of every kind."""

import asyncio
import os
import pty
import socket
import tty
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from acp_server.agent.fd_stream import FdStream

pytestmark = pytest.mark.anyio

KINDS = ["pipe", "socket", "terminal"]


class Ends:
    """Both ends of something: `near` for the stream, `far` for the test."""

    def __init__(self, kind: str) -> None:
        if kind == "pipe":
            self.near_in, self.far_out = os.pipe()
            self.far_in, self.near_out = os.pipe()
        elif kind == "socket":
            near, far = socket.socketpair()
            self.near_in = self.near_out = near.detach()
            self.far_in = self.far_out = far.detach()
        elif kind == "two sockets":
            self.near_in, self.far_out = (end.detach() for end in socket.socketpair())
            self.far_in, self.near_out = (end.detach() for end in socket.socketpair())
        else:
            self.far_in, self.near_in = pty.openpty()
            tty.setraw(self.near_in)
            self.far_out, self.near_out = self.far_in, self.near_in

    @property
    def near(self) -> set[int]:
        return {self.near_in, self.near_out}

    def close_far(self) -> None:
        for fd in {self.far_in, self.far_out}:
            os.close(fd)
        self.far_in = self.far_out = -1

    def close(self) -> None:
        for fd in self.near | ({self.far_in, self.far_out} - {-1}):
            os.close(fd)


@pytest.fixture
def ends(kind: str) -> Iterator[Ends]:
    ends = Ends(kind)
    yield ends
    ends.close()


async def read_exactly(fd: int, size: int, at_once: int = 1 << 20) -> bytes:
    data = b""
    while len(data) < size:
        await anyio.wait_readable(fd)
        data += os.read(fd, at_once)
    return data


async def turns_of_the_loop(count: int = 20) -> None:
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("kind", KINDS)
async def test_what_arrives_is_received_and_what_is_sent_arrives(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    with anyio.fail_after(5):
        for text in (b"one\n", b"two\n"):
            os.write(ends.far_out, text)
            assert await stream.receive() == text
            await stream.send(text.upper())
            assert await read_exactly(ends.far_in, 4) == text.upper()
    await stream.aclose()


@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_the_end_of_the_input_is_received_as_often_as_one_asks(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    os.write(ends.far_out, b"last")
    ends.close_far()
    with anyio.fail_after(5):
        assert [await stream.receive() for _ in range(3)] == [b"last", b"", b""]
    await stream.aclose()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_large_frame_arrives_whole_although_the_reader_is_slow(ends: Ends) -> None:
    frame = bytes(range(128)) * (1 << 12)
    stream = FdStream(ends.near_in, ends.near_out)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.send, frame)
            assert await read_exactly(ends.far_in, len(frame), 5000) == frame
    await stream.aclose()


@pytest.mark.behaviour("G15")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_send_that_nobody_takes_stops_neither_the_loop_nor_receiving(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    frame = b"x" * (1 << 20)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.send, frame)
            await turns_of_the_loop()
            os.write(ends.far_out, b"a cancel")
            assert await stream.receive() == b"a cancel"
            tasks.cancel_scope.cancel()
    await stream.aclose()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cancelled_receive_loses_nothing(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    with anyio.fail_after(5):
        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stream.receive)
                await turns_of_the_loop()
                tasks.cancel_scope.cancel()
        os.write(ends.far_out, b"kept")
        assert await stream.receive() == b"kept"
    await stream.aclose()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("kind", ["pipe"])
@pytest.mark.parametrize("data_first", [True, False])
async def test_data_that_come_in_the_very_moment_of_a_cancel_are_for_the_next_receive(
    ends: Ends, data_first: bool
) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    loop = asyncio.get_running_loop()
    bell, button = os.pipe()
    # An embedding program may cancel a task without anyio's knowing, which would let it have its data first.
    task = loop.create_task(stream.receive())
    await turns_of_the_loop()
    # Both are ready in one round of the loop, which calls back in the order in which they became so.
    loop.add_reader(bell, task.cancel)
    writes = [(ends.far_out, b"data"), (button, b"!")]
    for fd, data in writes if data_first else reversed(writes):
        os.write(fd, data)
    with anyio.fail_after(5):
        with pytest.raises(asyncio.CancelledError):
            await task
        loop.remove_reader(bell)
        assert await stream.receive() == b"data"
    os.close(bell)
    os.close(button)
    await stream.aclose()


@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_nothing_is_read_that_nobody_asks_for(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    with anyio.fail_after(5):
        os.write(ends.far_out, b"asked for")
        assert await stream.receive() == b"asked for"
        os.write(ends.far_out, b"not yet")
        await turns_of_the_loop()
        assert os.read(ends.near_in, 100) == b"not yet"
    await stream.aclose()


@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_whoever_shares_the_input_may_be_quicker(ends: Ends) -> None:
    os.set_blocking(ends.near_in, False)
    both = [FdStream(ends.near_in, ends.near_out), FdStream(os.dup(ends.near_in), ends.near_out)]
    received: list[bytes] = []

    async def receive(stream: FdStream) -> None:
        received.append(await stream.receive())

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for stream in both:
                tasks.start_soon(receive, stream)
            await turns_of_the_loop()
            os.write(ends.far_out, b"for one")
            await turns_of_the_loop()
            assert received == [b"for one"]
            os.write(ends.far_out, b"for the other")
        assert received == [b"for one", b"for the other"]
    for stream in both:
        await stream.aclose()
    os.close(both[1]._input._fd)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_a_frame_waits_for_room_that_others_may_take(ends: Ends) -> None:
    both = [FdStream(ends.near_in, ends.near_out), FdStream(ends.near_in, os.dup(ends.near_out))]
    fill(ends.near_out)
    arrived = b""
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for stream in both:
                tasks.start_soon(stream.send, b"y" * 100_000)
            await turns_of_the_loop()
            while arrived.count(b"y") < 200_000:
                await anyio.wait_readable(ends.far_in)
                arrived += os.read(ends.far_in, 4096)
    for stream in both:
        await stream.aclose()
    os.close(both[1]._output._fd)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_closing_ends_a_send_that_waits(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    fill(ends.near_out)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:

            async def send() -> None:
                with pytest.raises(anyio.ClosedResourceError):
                    await stream.send(b"too late")

            tasks.start_soon(send)
            await turns_of_the_loop()
            await stream.aclose()
            os.read(ends.far_in, 1 << 20)


def fill(fd: int) -> None:
    """Leave no room in a pipe or socket."""
    was_blocking = os.get_blocking(fd)
    os.set_blocking(fd, False)
    try:
        for size in (1 << 16, 1):
            try:
                while True:
                    os.write(fd, b"x" * size)
            except BlockingIOError:
                pass
    finally:
        os.set_blocking(fd, was_blocking)


@pytest.mark.behaviour("G8")
@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_sending_to_nobody_raises_an_oserror(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    ends.close_far()
    with pytest.raises(BrokenPipeError):
        await stream.send(b"anybody there?")
    await stream.aclose()


@pytest.mark.behaviour("G8")
@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_a_reader_who_leaves_in_the_middle_of_a_frame_raises_an_oserror(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    errors: list[OSError] = []

    async def send() -> None:
        try:
            await stream.send(b"x" * (1 << 22))
        except OSError as error:
            errors.append(error)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await turns_of_the_loop()
            ends.close_far()
    assert errors
    await stream.aclose()


@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_a_read_error_is_no_end_of_the_input(ends: Ends) -> None:
    near, far = socket.socketpair()
    stream = FdStream(near.fileno(), ends.near_out)
    # A socket that is closed with something unread in it resets its other end.
    near.send(b"never read")
    far.close()
    with anyio.fail_after(5), pytest.raises(ConnectionResetError):
        await stream.receive()
    await stream.aclose()
    near.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_closed_stream_refuses_and_gives_the_descriptors_back_as_they_were(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    os.write(ends.far_out, b"x")
    with anyio.fail_after(5):
        await stream.receive()
        await stream.send(b"x")
        await stream.aclose()
        await stream.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await stream.receive()
        with pytest.raises(anyio.ClosedResourceError):
            await stream.send(b"x")
    assert [os.get_blocking(fd) for fd in ends.near] == [True for _ in ends.near]


@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_what_was_non_blocking_before_stays_so(ends: Ends) -> None:
    os.set_blocking(ends.near_out, False)
    stream = FdStream(ends.near_in, ends.near_out)
    await stream.send(b"x")
    await stream.aclose()
    assert not os.get_blocking(ends.near_out)


@pytest.mark.parametrize("kind", ["terminal"])
async def test_a_terminal_is_never_made_non_blocking(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.send, b"x" * 100_000)
            await turns_of_the_loop()
            assert os.get_blocking(ends.near_out)
            tasks.cancel_scope.cancel()
    await stream.aclose()


async def test_files_are_read_in_growing_pieces_without_keeping_the_loop_to_themselves(tmp_path: Path) -> None:
    content = os.urandom(5_000_000)
    (tmp_path / "in").write_bytes(content)
    pieces: list[bytes] = []
    others = 0

    async def other() -> None:
        nonlocal others
        while True:
            await anyio.lowlevel.checkpoint()
            others += 1

    source = os.open(tmp_path / "in", os.O_RDONLY)
    sink = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    stream = FdStream(source, sink)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            while piece := await stream.receive():
                pieces.append(piece)
                await stream.send(piece)
            tasks.cancel_scope.cancel()
        await stream.aclose()
    os.close(source)
    os.close(sink)
    assert b"".join(pieces) == content
    assert (tmp_path / "out").read_bytes() == content
    assert len(pieces[0]) < max(map(len, pieces)) == 1 << 20
    assert others >= len(pieces) // 2


async def test_the_null_device_is_an_end_and_takes_everything() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    stream = FdStream(null, null)
    with anyio.fail_after(5):
        assert await stream.receive() == b""
        await stream.send(b"x" * 100_000)
    await stream.aclose()
    os.close(null)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
async def test_a_full_disk_raises_an_oserror() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    null = os.open(os.devnull, os.O_RDONLY)
    stream = FdStream(null, full)
    with pytest.raises(OSError, match="No space left"):
        await stream.send(b"x")
    await stream.aclose()
    os.close(full)
    os.close(null)
