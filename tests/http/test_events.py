"""The frames that a client of a stream gets: all if it keeps up, whatever their size; else it is cut off."""

import anyio
import pytest

from acp_server.http.events import EventQueue

pytestmark = pytest.mark.anyio

PATIENCE = 20.0
BACKLOG = 1000


async def all_of(listener: EventQueue) -> list[bytes]:
    taken: list[bytes] = []
    with anyio.fail_after(PATIENCE):
        while (data := await listener.next()) is not None:
            taken.append(data)
    return taken


async def test_a_frame_that_is_larger_than_the_backlog_reaches_a_client_that_has_taken_all_before_it() -> None:
    listener = EventQueue(BACKLOG)
    listener.put(b"a" * BACKLOG)
    assert await listener.next() == b"a" * BACKLOG
    large, small = b"b" * (3 * BACKLOG), b"c" * 100
    for data in (large, small, small):
        listener.put(data)
    listener.close()
    assert not listener.lost
    assert await all_of(listener) == [large, small, small]


async def test_a_frame_that_is_larger_than_the_backlog_reaches_a_client_that_is_behind_by_less() -> None:
    listener = EventQueue(BACKLOG)
    frames = [b"a" * BACKLOG, b"b" * (3 * BACKLOG)]
    for data in frames:
        listener.put(data)
    listener.close()
    assert await all_of(listener) == frames


@pytest.mark.parametrize("sizes", [[100] * 12, [3 * BACKLOG, *[100] * 11], [*[100] * 10, 3 * BACKLOG, 100]])
async def test_a_client_that_is_behind_by_more_is_cut_off_and_nothing_is_held_for_it(sizes: list[int]) -> None:
    listener = EventQueue(BACKLOG)
    for size in sizes:
        assert not listener.lost
        listener.put(b"x" * size)
    assert listener.lost
    assert not listener._frames
    assert await all_of(listener) == []


async def test_a_large_frame_that_was_taken_makes_no_room_for_small_ones() -> None:
    listener = EventQueue(BACKLOG)
    listener.put(b"x" * (3 * BACKLOG))
    await listener.next()
    for _ in range(12):
        listener.put(b"y" * 100)
    assert listener.lost
