"""What goes wrong with a piece is raised where it was yielded."""

import gc
import weakref
from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from types import AsyncGeneratorType
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.tasks.running import drain

pytestmark = pytest.mark.anyio


async def test_each_piece_is_taken_before_the_next_is_made() -> None:
    log: list[str] = []

    async def pieces() -> AsyncGenerator[str]:
        for piece in "ab":
            log.append(f"make {piece}")
            yield piece

    async def take(piece: str) -> None:
        await anyio.lowlevel.checkpoint()
        log.append(f"take {piece}")

    await drain(pieces(), take)
    assert log == ["make a", "take a", "make b", "take b"]


async def test_what_is_raised_for_a_piece_can_be_handled_where_it_was_yielded() -> None:
    taken: list[str] = []

    async def pieces() -> AsyncGenerator[str]:
        try:
            yield "wrong"
        except ValueError as error:
            yield f"not {error}"
        yield "more"

    async def take(piece: str) -> None:
        if piece == "wrong":
            raise ValueError(piece)
        taken.append(piece)

    await drain(pieces(), take)
    assert taken == ["not wrong", "more"]


async def test_what_the_generator_does_not_handle_goes_on_and_the_generator_is_closed() -> None:
    async def pieces() -> AsyncGenerator[str]:
        yield "wrong"

    async def take(piece: str) -> None:
        raise ValueError(piece)

    generator = pieces()
    with pytest.raises(ValueError, match="wrong"):
        await drain(generator, take)
    assert is_over(generator)


async def test_a_generator_that_takes_no_notice_lets_others_have_their_turn() -> None:
    count = 0
    others = False

    async def pieces() -> AsyncGenerator[str]:
        nonlocal count
        while count < 100 and not others:
            count += 1
            try:
                yield "wrong"
            except ValueError:
                pass

    async def take(piece: str) -> None:
        raise ValueError(piece)

    async def other() -> None:
        nonlocal others
        others = True

    async with anyio.create_task_group() as group:
        group.start_soon(other)
        await drain(pieces(), take)
    assert count < 100


async def test_a_cancel_while_a_piece_is_taken_is_a_cancel_in_the_generator() -> None:
    log: list[object] = []

    async def pieces() -> AsyncGenerator[str]:
        try:
            yield "first"
        except anyio.get_cancelled_exc_class():
            log.append("cancelled")
            raise
        finally:
            yield "last"
            log.append("not reached")

    async def take(piece: str) -> None:
        log.append(piece)
        scope.cancel()
        await anyio.lowlevel.checkpoint()

    generator = pieces()
    with anyio.CancelScope() as scope:
        await drain(generator, take)
    assert scope.cancelled_caught
    assert log == ["first", "cancelled", "last"]
    assert is_over(generator)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_cancel_between_two_pieces_is_a_cancel_in_the_generator() -> None:
    import asyncio

    log: list[type[BaseException]] = []

    async def pieces() -> AsyncGenerator[str]:
        for _ in range(2):
            try:
                yield "wrong"
            except BaseException as error:
                log.append(type(error))
                if not isinstance(error, ValueError):
                    raise

    async def take(piece: str) -> None:
        # The cancel comes while others have their turn.
        asyncio.get_running_loop().call_soon(draining.cancel)
        raise ValueError(piece)

    draining = asyncio.create_task(drain(pieces(), take))
    with pytest.raises(asyncio.CancelledError):
        await draining
    assert log == [ValueError, asyncio.CancelledError]


async def test_nothing_of_a_generator_that_gave_in_is_left_to_the_garbage_collector() -> None:
    class Thing:
        pass

    there: list[weakref.ref[Thing]] = []

    async def pieces() -> AsyncGenerator[str]:
        thing = Thing()
        there.append(weakref.ref(thing))
        yield "wrong"

    async def take(piece: str) -> None:
        raise ValueError(piece)

    gc.disable()
    try:
        with suppress(ValueError):
            await drain(pieces(), take)
        assert [ref() for ref in there] == [None]
    finally:
        gc.enable()


def is_over(generator: AsyncGenerator[Any]) -> bool:
    assert isinstance(generator, AsyncGeneratorType)
    return generator.ag_frame is None


async def test_a_generator_ends_at_once_when_the_work_that_takes_its_pieces_is_closed() -> None:
    ended: list[bool] = []

    class Never:
        def __await__(self) -> Generator[None]:
            yield

    async def pieces() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            ended.append(True)

    async def take(_piece: int) -> None:
        await Never()

    draining = drain(pieces(), take)
    draining.send(None)
    draining.close()
    # And not when the loop's hook for forgotten generators comes to it.
    assert ended == [True]
