"""An output that nobody reads any more is noticed, and nothing else is taken for that."""

import os
import socket

import anyio
import pytest

from acp_server.agent.fd_stream import FdStream
from tests.agent.test_fd_stream import Ends, ends, read_exactly, turns_of_the_loop

__all__ = ["ends"]

pytestmark = pytest.mark.anyio


@pytest.mark.behaviour("G8")
@pytest.mark.parametrize("kind", ["pipe", "two sockets"])
async def test_an_output_that_nobody_can_read_any_more_is_noticed_without_writing(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    noticed = anyio.Event()

    async def notice() -> None:
        await stream.unread()
        noticed.set()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(notice)
            tasks.start_soon(stream.receive)
            await turns_of_the_loop()
            assert not noticed.is_set()
            os.close(ends.far_in)
            ends.far_in = -1
            await noticed.wait()
            tasks.cancel_scope.cancel()
    await stream.aclose()


@pytest.mark.parametrize("kind", ["pipe"])
async def test_what_came_before_the_output_was_closed_is_received_first(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    noticed = anyio.Event()

    async def notice() -> None:
        await stream.unread()
        noticed.set()

    os.write(ends.far_out, b"the last wish")
    os.close(ends.far_in)
    ends.far_in = -1
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(notice)
            await turns_of_the_loop()
            assert not noticed.is_set()
            assert await stream.receive() == b"the last wish"
            tasks.start_soon(stream.receive)
            await noticed.wait()
            tasks.cancel_scope.cancel()
    await stream.aclose()


@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_the_end_of_the_input_is_no_output_that_nobody_reads(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    if ends.far_out != ends.far_in:
        os.close(ends.far_out)
        ends.far_out = -1
    else:
        with socket.socket(fileno=os.dup(ends.far_out)) as far:
            far.shutdown(socket.SHUT_WR)
    with anyio.move_on_after(5), anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def notice() -> None:
                await stream.unread()
                raise AssertionError("it can still be read")

            tasks.start_soon(notice)
            assert await stream.receive() == b""
            await turns_of_the_loop()
            await stream.send(b"an answer")
            assert await read_exactly(ends.far_in, 9) == b"an answer"
            scope.cancel()
    assert scope.cancelled_caught
    await stream.aclose()
