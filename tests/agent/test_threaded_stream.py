"""The stream that reads and writes in threads, which stands in where the loop cannot wait for a pipe."""

import os
import threading
from collections.abc import Iterator

import anyio
import anyio.lowlevel
import pytest

from acp_server.agent.threaded_stream import ThreadedStream

pytestmark = pytest.mark.anyio

Pipes = tuple[int, int, int, int]


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    """near_in, far_out, far_in, near_out"""
    near_in, far_out = os.pipe()
    far_in, near_out = os.pipe()
    yield near_in, far_out, far_in, near_out
    for fd in (near_in, far_in, near_out):
        os.close(fd)


async def test_what_arrives_is_received_and_what_is_sent_arrives(pipes: Pipes) -> None:
    near_in, far_out, far_in, near_out = pipes
    stream = ThreadedStream(near_in, near_out)
    with anyio.fail_after(5):
        for text in (b"one\n", b"two\n"):
            os.write(far_out, text)
            assert await stream.receive() == text
            await stream.send(text.upper())
            assert os.read(far_in, 100) == text.upper()
        os.close(far_out)
        assert await stream.receive() == b""
        await stream.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await stream.receive()
        with pytest.raises(anyio.ClosedResourceError):
            await stream.send(b"x")


async def test_a_large_frame_arrives_whole_and_receiving_goes_on_meanwhile(pipes: Pipes) -> None:
    near_in, far_out, far_in, near_out = pipes
    stream = ThreadedStream(near_in, near_out)
    frame = bytes(range(128)) * (1 << 12)
    arrived = b""
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.send, frame)
            os.write(far_out, b"a cancel")
            assert await stream.receive() == b"a cancel"
            while len(arrived) < len(frame):
                await anyio.wait_readable(far_in)
                arrived += os.read(far_in, 5000)
    assert arrived == frame
    os.close(far_out)
    await stream.aclose()


async def test_a_cancelled_receive_returns_at_once_and_loses_nothing(pipes: Pipes) -> None:
    near_in, far_out, _far_in, near_out = pipes
    stream = ThreadedStream(near_in, near_out)
    with anyio.fail_after(5):
        with anyio.move_on_after(0.01) as scope:
            await stream.receive()
        assert scope.cancelled_caught
        os.write(far_out, b"kept")
        assert await stream.receive() == b"kept"
    os.close(far_out)
    await stream.aclose()


@pytest.mark.behaviour("K8")
async def test_nothing_is_read_that_nobody_asks_for(pipes: Pipes) -> None:
    near_in, far_out, _far_in, near_out = pipes
    stream = ThreadedStream(near_in, near_out)
    with anyio.fail_after(5):
        os.write(far_out, b"asked for")
        assert await stream.receive() == b"asked for"
        os.write(far_out, b"for a later reader")
        await stream.aclose()
    for thread in _of_ours():
        thread.join(5)
    assert not _of_ours()
    assert os.read(near_in, 100) == b"for a later reader"
    os.close(far_out)


@pytest.mark.behaviour("K8")
async def test_closing_does_not_wait_for_a_read_that_hangs(pipes: Pipes) -> None:
    near_in, far_out, _far_in, near_out = pipes
    stream = ThreadedStream(near_in, near_out)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.receive)
            while not _of_ours():
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        await stream.aclose()
    assert all(thread.daemon for thread in _of_ours())
    os.close(far_out)


async def test_sending_to_nobody_raises_an_oserror(pipes: Pipes) -> None:
    near_in, far_out, _far_in, _near_out = pipes
    source, sink = os.pipe()
    os.close(source)
    stream = ThreadedStream(near_in, sink)
    with anyio.fail_after(5), pytest.raises(BrokenPipeError):
        await stream.send(b"anybody there?")
    await stream.aclose()
    os.close(sink)
    os.close(far_out)


def _of_ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name in ("acp_server reader", "acp_server writer")]
