"""The input of a program that does not ask for a while: nothing is lost, and what came is there at once."""

import asyncio
import os

import pytest

from acp_server.agent.fd_stream import FdStream
from tests.agent.test_fd_stream import KINDS, Ends, ends, turns_of_the_loop

__all__ = ["ends"]

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("kind", KINDS)
async def test_what_came_while_the_program_did_not_ask_is_there_at_once_and_then_it_is_the_loops_turn(
    ends: Ends,
) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    os.write(ends.far_out, b"first")
    with pytest.raises(StopIteration) as first:
        stream.receive().send(None)
    assert first.value.value == b"first"
    os.write(ends.far_out, b"second")
    second = stream.receive()
    assert asyncio.isfuture(second.send(None))
    second.close()
    # The program does not ask for a while, and what has come is still there.
    await turns_of_the_loop()
    with pytest.raises(StopIteration) as again:
        stream.receive().send(None)
    assert again.value.value == b"second"
    await stream.aclose()
