"""One stream by itself: its cursors, what it keeps, and when it is given up."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.remote import RemoteLimits
from acp_server.remote.ring import Gone, Holdings, Ring, Taken

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024


def ring(holdings: Holdings | None = None, **limits: Any) -> Ring:
    bounds = RemoteLimits(**limits)
    return Ring(bounds, holdings or Holdings(bounds.held))


async def test_where_all_streams_hold_too_much_the_largest_one_makes_room() -> None:
    holdings = Holdings(10_000)
    small, large = ring(holdings), ring(holdings)
    small.put(b"x" * 1000)
    taken = large.attach(None)
    for _ in range(7):
        large.put(b"x" * 1000)
    for _ in range(3):
        await taken.next()
        taken.took()
    assert large.kept == 3300
    large.put(b"x" * 1000)
    large.put(b"x" * 1000)
    # What was taken goes first.
    assert (large.kept, large.is_given_up, holdings.size) == (0, False, 6 * 1100 + 1100)
    for _ in range(3):
        large.put(b"x" * 1000)
    assert large.is_given_up
    assert taken.is_over
    assert not small.is_given_up
    assert holdings.size == 1100
    small.close(at_once=True)
    assert holdings.size == 0


async def test_a_stream_that_was_given_up_says_so_once_to_clients_that_know_no_cursors() -> None:
    one = ring()
    one.put(b"first")
    one.give_up()
    one.put(b"lost")
    with pytest.raises(Gone):
        one.attach(None)
    found = one.attach(None)
    one.put(b"heard")
    assert [message for _, message in await found.next()] == [b"heard"]
    with pytest.raises(Taken):
        one.attach(None)


async def test_a_cursor_from_before_does_not_lead_past_what_was_dropped() -> None:
    one = ring()
    one.put(b"first")
    found = one.attach(None)
    ((cursor, _),) = await found.next()
    found.took()
    found.leave()
    one.put(b"unread")
    one.give_up()
    one.renew()
    one.put(b"heard")
    with pytest.raises(Gone):
        one.attach(cursor)


async def test_a_reader_that_has_got_more_than_is_known_goes_on_behind_that() -> None:
    one = ring()
    for message in (b"1", b"2", b"3"):
        one.put(message)
    found = await one.attach(None).next()
    # All were written together, and the connection was cut after the second.
    again = one.attach(found[1][0])
    assert await again.next() == found[2:]
    assert [message for _, message in await one.attach(found[0][0]).next()] == [b"2", b"3"]


async def test_a_cancel_reaches_a_sender_that_is_woken_in_each_round() -> None:
    one = ring(unread=1000)
    reader = one.attach(None)
    for _ in range(200):
        one.put(b"x" * 1000)
    scope = anyio.CancelScope()
    left = 0

    async def wait() -> None:
        nonlocal left
        with scope:
            await one.room()
        left = one.unread

    async def read() -> None:
        while one.unread:
            reader.took()
            await anyio.lowlevel.checkpoint()

    async def cancel() -> None:
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        scope.cancel()

    async with anyio.create_task_group() as group:
        # In this order, so that in each round the reader wakes the sender, and the cancel then finds it awake.
        for each in (wait, read, cancel):
            group.start_soon(each)
    assert left > 100_000


async def test_the_senders_of_a_stream_that_ends_do_not_wait_for_its_reader() -> None:
    one = ring(unread=1000)
    reader = one.attach(None)
    one.put(b"first" * 500)
    one.put(b"second")
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(one.room)
            await anyio.wait_all_tasks_blocked()
            assert one.is_full()
            one.close()
    assert [message for _, message in await reader.next()] == [b"first" * 500, b"second"]


async def test_a_sender_that_fills_the_stream_again_and_again_waits_behind_the_others() -> None:
    one = ring(unread=1000)
    reader = one.attach(None)

    async def send(name: bytes) -> None:
        while True:
            one.put(name * 1000)
            await one.room_in_turn()

    read: list[bytes] = []
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for name in (b"1", b"2", b"3"):
                group.start_soon(send, name)
            while len(read) < 300:
                read.append((await reader.next())[0][1][:1])
                reader.took()
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    counts = [read.count(name) for name in (b"1", b"2", b"3")]
    assert max(counts) - min(counts) <= 2


async def test_the_streams_of_many_connections_wait_before_any_is_given_up() -> None:
    holdings = Holdings(128 * MIB)
    bounds = RemoteLimits(unread=128 * MIB)
    rings = [Ring(bounds, account) for account in [holdings.account(None) for _ in range(20)] for _ in range(5)]
    message = b"x" * 16_000
    for one in rings:
        reader = one.attach(None)
        for _ in range(5):
            one.put(message)
            await reader.next()
            reader.took()
        while not one.is_full():
            one.put(message)
        # What its connection has buffered meanwhile.
        one.put(message)
        one.put(message)
    assert not [one for one in rings if one.is_given_up]


async def test_streams_that_leave_nothing_free_wait_before_any_is_given_up() -> None:
    holdings = Holdings(16 * MIB)
    account = holdings.account("ann")
    rings = [Ring(RemoteLimits(unread=MIB), account) for _ in range(40)]
    while not all(each.is_full() for each in rings):
        for each in rings:
            if not each.is_full():
                each.put(b"x" * 10_000)
    assert holdings.size < 8 * MIB
    assert not any(each.is_given_up for each in rings)
    # Another client has room, and another stream of the same client has some.
    other = Ring(RemoteLimits(unread=MIB), holdings.account("bob"))
    for each, most in ((other, MIB), (Ring(RemoteLimits(unread=MIB), account), 60_000)):
        while each.unread < most - 10_100:
            each.put(b"x" * 10_000)
        assert not each.is_full()


async def test_a_sender_goes_on_when_other_streams_have_made_room() -> None:
    holdings = Holdings(4 * MIB)
    large, small = (Ring(RemoteLimits(unread=4 * MIB), holdings.account("ann")) for _ in range(2))
    reader = large.attach(None)
    while not large.is_full():
        large.put(b"x" * 10_000)
    while not small.is_full():
        small.put(b"x" * 10_000)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(small.room)
            await anyio.wait_all_tasks_blocked()
            while large.unread:
                reader.took(len(await reader.next()))
    assert not small.is_given_up
