"""Reading in slices: a flood holds up neither other tasks nor the cancels behind it, and order is kept."""

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.peer import reader as reader_module
from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Connection
from acp_server.peer.limits import Limits
from tests.peer.ends import (
    CANCELLED,
    End,
    cancel,
    error,
    hang,
    line,
    listen,
    notification,
    ping,
    request,
    result,
    serving,
    until,
)

pytestmark = pytest.mark.anyio

GARBAGE = b"garbage\n"


async def answers(end: End, number: int) -> list[Any]:
    return [await end.next() for _ in range(number)]


@pytest.mark.behaviour("B6", "I6")
@pytest.mark.usefixtures("one_line_a_slice")
async def test_a_cancel_behind_a_flood_is_applied_ahead_of_its_turn() -> None:
    async with serving(Routes({"hang": Route(hang)})) as end:
        end.send(request(1, "hang"))
        await end.barrier()
        end.send(GARBAGE * 500 + line(cancel(1)))
        came = await answers(end, 501)
    codes = [message["error"]["code"] for message in came]
    assert codes.index(-32800) < 20
    assert sorted(codes) == [-32800] + [-32700] * 500


@pytest.mark.behaviour("B6", "I6")
@pytest.mark.usefixtures("one_line_a_slice")
async def test_a_cancel_that_comes_while_a_flood_is_handled_is_read_ahead() -> None:
    async with serving(Routes({"hang": Route(hang)})) as end:
        end.send(request(1, "hang"))
        await end.barrier()
        end.send(GARBAGE * 500)
        assert (await end.next())["error"]["code"] == -32700
        # In three pieces, so that it is whole only with the last.
        whole = line(cancel(1))
        for piece in (whole[:20], whole[20:40], whole[40:]):
            end.send(piece)
        came = await answers(end, 500)
    codes = [message["error"]["code"] for message in came]
    assert codes.index(-32800) < 100


@pytest.mark.usefixtures("one_line_a_slice")
async def test_cancels_that_are_applied_ahead_keep_their_order() -> None:
    heard: list[Any] = []
    routes = Routes()
    listen(routes, "session/cancel", heard.append, inline=True)
    async with serving(routes) as end:
        end.send(GARBAGE, *(notification("session/cancel", [number]) for number in range(5)))
        await answers(end, 1)
        assert await end.barrier() == []
    assert list(dict.fromkeys(number for (number,) in heard)) == list(range(5))


@pytest.mark.usefixtures("one_line_a_slice")
async def test_an_inline_notification_is_hurried_too_and_comes_again_in_its_turn() -> None:
    heard: list[Any] = []
    routes = Routes()
    listen(routes, "session/cancel", heard.append, inline=True)
    listen(routes, "session/cancelled", heard.append)
    async with serving(routes) as end:
        end.send(GARBAGE * 50, notification("session/cancelled", [0]), notification("session/cancel", [1]))
        await until(lambda: heard)
        assert heard[-1] == [1]
        await answers(end, 50)
        assert await end.barrier() == []
    # While it comes next, it is hurried behind each slice.
    assert [each for each, _ in itertools.groupby(heard)] == [[1], [0], [1]]


@pytest.mark.usefixtures("one_line_a_slice")
async def test_a_burst_of_cancels_is_looked_at_twice_at_the_most_however_short_the_slices() -> None:
    heard: list[Any] = []
    routes = Routes()
    listen(routes, "session/cancel", heard.append, inline=True)
    # In more than one block.
    burst = [notification("session/cancel", [number, "x" * 100]) for number in range(300)]
    async with serving(routes) as end:
        end.send(*burst)
        assert await end.barrier() == []
        assert len(heard) <= 2 * len(burst)
    assert list(dict.fromkeys(number for number, _ in heard)) == list(range(300))


async def test_what_arrives_when_a_flood_is_over_is_taken_in_its_turn_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    routes = Routes()
    listen(routes, "session/cancel", heard.append, inline=True)
    async with serving(routes) as end:
        monkeypatch.setattr(reader_module, "_SLICE", 0.0)
        end.send(GARBAGE * 50)
        await answers(end, 50)
        await anyio.wait_all_tasks_blocked()
        # The task that has read ahead reads this, too.
        monkeypatch.setattr(reader_module, "_SLICE", 1000.0)
        end.send(*(notification("session/cancel", [number]) for number in range(5)))
        assert await end.barrier() == []
    assert heard == [[number] for number in range(5)]


@pytest.mark.behaviour("B6")
@pytest.mark.usefixtures("one_line_a_slice")
async def test_an_inline_notification_ahead_of_its_turn_cancels_no_request_that_it_names() -> None:
    heard: list[Any] = []
    go_on = anyio.Event()

    async def wait(_call: Call) -> str:
        await go_on.wait()
        return "through"

    routes = Routes({"wait": Route(wait)})
    listen(routes, "session/cancel", heard.append, inline=True)
    async with serving(routes) as end:
        end.send(request(1, "wait"))
        await end.barrier()
        end.send(GARBAGE * 50, notification("session/cancel", {"requestId": 1}))
        await until(lambda: heard)
        go_on.set()
        came = await answers(end, 51)
        assert await end.barrier() == []
    assert result(1, "through") in came


@pytest.mark.behaviour("E4", "I1")
@pytest.mark.usefixtures("one_line_a_slice")
async def test_a_cancel_whose_turn_has_come_meanwhile_is_not_applied_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """It could hit what came behind it: the id may be in use again."""
    async with serving(Routes({"hang": Route(hang)})) as end:
        reader = end.connection._reader

        async def handle_the_rest() -> None:
            monkeypatch.setattr(reader_module, "_SLICE", 1000.0)
            reader._slice()

        monkeypatch.setattr(anyio.lowlevel, "checkpoint", handle_the_rest)
        for message in (cancel(8), cancel(7), request(7, "hang")):
            reader._take(line(message))
        assert await reader._hurry_ahead(0) == 3
        monkeypatch.undo()
        await anyio.wait_all_tasks_blocked()
        assert end.connection.tree.size == 1
        end.send(cancel(7))
        assert (await end.next())["error"] == CANCELLED


@pytest.mark.usefixtures("one_line_a_slice")
async def test_blocks_that_were_handled_before_the_second_task_began_do_not_shift_the_count() -> None:
    async with serving(Routes({"hang": Route(hang)})) as end:
        end.send(request(1, "hang"))
        await end.barrier()
        # The reader has handled two blocks; this cancel is the third.
        reader = end.connection._reader
        reader._take(line(cancel(1)))
        assert await reader._hurry_ahead(0) == 3
        assert (await end.next())["error"] == CANCELLED


async def test_messages_are_handled_in_order_whatever_the_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Iterator[float] = iter(range(1_000_000))
    monkeypatch.setattr(reader_module, "_SLICE", 0.005)
    monkeypatch.setattr(reader_module, "perf_counter", lambda: next(clock) * 0.002)
    heard: list[Any] = []
    routes = Routes()
    listen(routes, "note", heard.append)
    async with serving(routes) as end:
        for start in range(0, 300, 100):
            end.send(*(notification("note", [number]) for number in range(start, start + 100)))
        await end.barrier()
    assert heard == [[number] for number in range(300)]


@pytest.mark.behaviour("B3", "B6")
async def test_no_handler_begins_whose_cancel_is_in_the_same_chunk_however_short_the_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a machine that lets the process run for a moment only between two looks at the clock."""
    clock: Iterator[int] = itertools.count()
    monkeypatch.setattr(reader_module, "_SLICE", 0.005)
    monkeypatch.setattr(reader_module, "perf_counter", lambda: float(next(clock)))
    begun: list[Any] = []

    async def note(call: Call) -> None:
        begun.append(call.id)

    async with serving(Routes({"note": Route(note)})) as end:
        # Small ones, which share a block, and large ones, each of which is in the block behind its request's.
        for padding in ("", "x" * 20_000):
            messages = ([request(id, "note", [padding]), cancel(id)] for id in range(30))
            end.send(*itertools.chain.from_iterable(messages))
            assert [await end.next() for _ in range(30)] == [error(id, -32800, "Request cancelled") for id in range(30)]
    assert begun == []


async def test_a_search_for_cancels_lets_other_tasks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(Routes()) as end:
        reader = end.connection._reader
        monkeypatch.setattr(reader_module, "_SLICE", 0.0)
        reader._take(line(cancel(1)) * 3000)
        turns = 0

        async def count() -> None:
            nonlocal turns
            turns += 1

        monkeypatch.setattr(anyio.lowlevel, "checkpoint", count)
        assert await reader._hurry_ahead(0) > 10
        monkeypatch.undo()
        assert turns > 10


@pytest.mark.usefixtures("one_line_a_slice")
async def test_other_tasks_run_between_two_slices() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with serving() as end, anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        end.send(GARBAGE * 300)
        before = turns
        await answers(end, 300)
        assert turns - before >= 250
        tasks.cancel_scope.cancel()


@pytest.mark.behaviour("L4")
async def test_other_tasks_run_between_two_long_lines_of_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    # As long as the clock says so; between short lines it is looked at now and then only.
    monkeypatch.setattr(reader_module, "_SLICE", 0.0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with serving() as end, anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        batch = b"[" + b",".join([b"1"] * 300) + b"]\n"
        end.send(batch * 50)
        before = turns
        await answers(end, 50)
        assert turns - before >= 45
        tasks.cancel_scope.cancel()


@pytest.mark.usefixtures("one_line_a_slice")
async def test_a_peer_that_sends_errors_only_is_slowed_down_until_it_sends_something_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    sleep = anyio.sleep

    async def note(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr(reader_module, "_ERRORS", 100)
    monkeypatch.setattr(anyio, "sleep", note)
    async with serving() as end:
        end.send(GARBAGE * 150 + line(notification("unknown")) + GARBAGE * 50)
        await answers(end, 200)
    assert [seconds for seconds in slept if seconds].count(reader_module._SLOW) == 50
    assert not any(slept[:90])
    assert not any(slept[-40:])


@pytest.mark.behaviour("L4")
@pytest.mark.usefixtures("one_line_a_slice")
async def test_what_is_read_ahead_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "_AHEAD", 10_000)
    monkeypatch.setattr(reader_module, "_ERRORS", 1_000_000)
    async with serving(limits=Limits(drain=0, unread=1000)) as end:
        reader = end.connection._reader
        end.faults.stall_sending()
        for _ in range(1000):
            end.send(GARBAGE * 10)
        await end.faults.stalled.wait()
        await anyio.wait_all_tasks_blocked()
        assert 10_000 <= reader._held < 12_000
        end.faults.release()
        await answers(end, 10_000)
        assert reader._held == 0


@pytest.mark.behaviour("B6")
@pytest.mark.usefixtures("one_line_a_slice")
async def test_reading_ahead_goes_on_as_soon_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "_AHEAD", 2_000)
    async with serving(Routes({"hang": Route(hang)})) as end:
        end.send(request(1, "hang"))
        await end.barrier()
        for _ in range(50):
            end.send(GARBAGE * 10)
        end.send(cancel(1))
        came = await answers(end, 501)
    codes = [message["error"]["code"] for message in came]
    assert 300 < codes.index(-32800) < 480


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_peer_that_sends_all_the_time_keeps_no_cancel_from_the_task_that_reads() -> None:
    loop = asyncio.get_running_loop()
    received = 0

    class Busy:
        """Has something to read in each round of the loop, and is told of it last, as a descriptor's reader is."""

        waiting = loop.create_future()

        async def receive(self) -> bytes:
            nonlocal received
            received += 1
            self.waiting = loop.create_future()
            await self.waiting
            return line(notification("unknown")) if received < 1000 else b""

        def arrive(self) -> None:
            if received == 10:
                loop.call_soon(scope.cancel)
            if not self.waiting.done():
                self.waiting.set_result(None)
            if not scope.cancelled_caught:
                loop.call_soon(self.arrive)

        async def send(self, data: bytes) -> None:
            raise AssertionError("nothing is answered")

        async def aclose(self) -> None: ...

    busy = Busy()
    with anyio.CancelScope() as scope:
        loop.call_soon(busy.arrive)
        await Connection(busy, Routes(), Limits(drain=0)).run()
    assert scope.cancelled_caught
    assert received < 20


async def test_other_tasks_run_between_two_long_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of which each is a block of its own.
    monkeypatch.setattr(reader_module, "_SLICE", 0.0)
    turns = 0
    heard: list[int] = []
    routes = Routes()
    listen(routes, "note", lambda _: heard.append(turns), inline=True)

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with serving(routes) as end, anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        end.send(*(notification("note", ["x" * 20_000]) for _ in range(50)))
        await until(lambda: len(heard) == 50)
        tasks.cancel_scope.cancel()
    assert heard[-1] - heard[0] >= 40


@pytest.mark.parametrize(
    "bad",
    [b"{\n", b"1\n", b"[1]\n", b"[1,1,1,1]\n", b'{"id":}\n', b'{"method":1}\n', b'{"jsonrpc":"2.0"}\n'],
    ids=range(7),
)
async def test_a_long_run_of_lines_that_are_no_messages_gets_one_answer_that_counts_them(
    bad: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "_REFUSED", 100)
    async with serving(Routes({"ping": Route(ping)})) as end:
        end.send(bad * 150)
        end.send(bad * 20_000 + line(request("last", "ping")))
        errors: list[Any] = []
        while (message := await end.next()) != result("last", "pong"):
            message = message[0] if isinstance(message, list) else message
            errors += [message["error"]] if "error" in message else []
        # Who has sent a message is answered line by line again.
        end.send(bad)
        again = await end.next()
    assert sum(each.get("data", {}).get("lines", 1) for each in errors) == 20_150
    assert len(errors) < 1000
    assert "data" not in (again[0] if isinstance(again, list) else again)["error"]


@pytest.mark.parametrize(
    "good",
    [
        b'{"jsonrpc":"2.0","id":7,"method":"ping"}\n',
        b'{"\\u006asonrpc":"2.0","\\u0069d":7,"\\u006dethod":"ping"}\n',
        b'[{"jsonrpc":"2.0","id":7,"method":"ping"}]\n',
        b'{"id":7,"method":1}\n',
        b' \t{"id":7,"jsonrpc":"2.0","method":"ping"}\r\n',
    ],
    ids=range(5),
)
async def test_in_a_long_run_of_bad_lines_each_request_is_answered(
    good: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "_REFUSED", 10)
    async with serving(Routes({"ping": Route(ping)})) as end:
        end.send(b"{\n" * 5000 + good + b"1\n" * 5000)
        while True:
            message = await end.next()
            if (message[0] if isinstance(message, list) else message).get("id") == 7:
                break
