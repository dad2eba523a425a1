"""The stream over descriptors when it hands over what arrives, piece by piece, from within the event loop."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
import sniffio

from acp_server.agent.fd_stream import FdStream
from tests.agent.test_fd_stream import KINDS, Ends, ends, turns_of_the_loop

__all__ = ["ends"]

pytestmark = pytest.mark.anyio

PIPE = pytest.mark.parametrize("kind", ["pipe"])


class Mouth:
    """Takes what it is fed, and has enough with the piece `last`."""

    def __init__(self, last: bytes) -> None:
        self.last = last
        self.pieces: list[bytes] = []

    def __call__(self, data: bytes) -> bool:
        self.pieces.append(data)
        return data != self.last


@pytest.mark.parametrize("kind", KINDS)
async def test_what_arrives_is_fed_until_it_is_enough_and_the_rest_can_be_received(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    mouth = Mouth(b"enough")
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.feed, mouth)
            for piece in (b"one", b"two", b"enough"):
                os.write(ends.far_out, piece)
                while mouth.pieces[-1:] != [piece]:
                    await anyio.lowlevel.checkpoint()
        os.write(ends.far_out, b"rest")
        assert await stream.receive() == b"rest"
    assert mouth.pieces == [b"one", b"two", b"enough"]
    await stream.aclose()


@PIPE
async def test_the_end_of_the_input_is_fed_as_no_bytes(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    mouth = Mouth(b"")
    os.write(ends.far_out, b"last")
    ends.close_far()
    with anyio.fail_after(5):
        await stream.feed(mouth)
    assert mouth.pieces == [b"last", b""]
    await stream.aclose()


async def test_a_file_is_fed_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"all of it")
    mouth = Mouth(b"")
    with path.open("rb") as source, path.open("ab") as sink:
        stream = FdStream(source.fileno(), sink.fileno())
        with anyio.fail_after(5):
            await stream.feed(mouth)
        await stream.aclose()
    assert mouth.pieces == [b"all of it", b""]


@PIPE
@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
async def test_what_is_raised_about_a_piece_comes_out_and_feeding_can_go_on(ends: Ends, error: BaseException) -> None:
    stream = FdStream(ends.near_in, ends.near_out)

    def choke(_data: bytes) -> bool:
        raise error

    async def swallow(take: Callable[[bytes], bool]) -> None:
        with pytest.raises(type(error)):
            await stream.feed(take)

    with anyio.fail_after(5):
        # Once for what is there when it begins, and once for what comes while it waits.
        os.write(ends.far_out, b"bad")
        await swallow(choke)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(swallow, choke)
            await turns_of_the_loop()
            os.write(ends.far_out, b"bad")
        mouth = Mouth(b"good")
        os.write(ends.far_out, b"good")
        await stream.feed(mouth)
    assert mouth.pieces == [b"good"]
    await stream.aclose()


@pytest.mark.parametrize("kind", KINDS)
async def test_from_a_cancel_on_nothing_is_fed_or_lost(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    mouth = Mouth(b"")
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.feed, mouth)
            await turns_of_the_loop()
            tasks.cancel_scope.cancel()
        os.write(ends.far_out, b"kept")
        await turns_of_the_loop()
        assert await stream.receive() == b"kept"
    assert mouth.pieces == []
    await stream.aclose()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("error", [None, ValueError("no")])
@PIPE
async def test_what_is_done_about_a_piece_may_cancel_the_feeding(ends: Ends, error: Exception | None) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    loop = asyncio.get_running_loop()
    failures: list[BaseException | None] = []
    loop.set_exception_handler(lambda _loop, context: failures.append(context.get("exception")))

    def cancel(_data: bytes) -> bool:
        feeding.cancel()
        if error is not None:
            raise error
        return False

    feeding = loop.create_task(stream.feed(cancel))
    await turns_of_the_loop()
    os.write(ends.far_out, b"enough")
    with anyio.fail_after(20), pytest.raises(asyncio.CancelledError):
        await feeding
    assert failures == ([] if error is None else [error])
    await stream.aclose()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@PIPE
async def test_what_a_cancelled_receive_has_left_is_fed_first(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    loop = asyncio.get_running_loop()
    bell, button = os.pipe()
    task = loop.create_task(stream.receive())
    await turns_of_the_loop()
    loop.add_reader(bell, task.cancel)
    os.write(ends.far_out, b"first")
    os.write(button, b"!")
    mouth = Mouth(b"second")
    with anyio.fail_after(5):
        with pytest.raises(asyncio.CancelledError):
            await task
        loop.remove_reader(bell)
        os.write(ends.far_out, b"second")
        await stream.feed(mouth)
    assert mouth.pieces == [b"first", b"second"]
    for fd in (bell, button):
        os.close(fd)
    await stream.aclose()


@PIPE
def test_what_is_fed_can_ask_which_event_loop_runs_also_where_anyio_did_not_start_it(ends: Ends) -> None:
    asked: list[str] = []

    def ask(data: bytes) -> bool:
        asked.append(sniffio.current_async_library())
        return data != b"enough"

    async def main() -> None:
        stream = FdStream(ends.near_in, ends.near_out)
        feeding = asyncio.create_task(stream.feed(ask))
        for piece in (b"one", b"enough"):
            await turns_of_the_loop()
            os.write(ends.far_out, piece)
        await asyncio.wait_for(feeding, 5)
        await stream.aclose()

    asyncio.run(main())
    assert asked == ["asyncio", "asyncio"]


@PIPE
async def test_a_closed_stream_feeds_nothing(ends: Ends) -> None:
    stream = FdStream(ends.near_in, ends.near_out)
    await stream.aclose()
    with pytest.raises(anyio.ClosedResourceError):
        await stream.feed(Mouth(b""))
