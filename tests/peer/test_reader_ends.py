"""Reading in slices, when reading ends or the peer does not read: all that came is handled, within the bounds."""

import errno
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.peer import reader as reader_module
from acp_server.peer.call import Notice, Route, Routes
from acp_server.peer.connection import Connection
from acp_server.peer.limits import Limits
from acp_server.testing import memory_pair
from tests.peer.ends import (
    PATIENCE,
    End,
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


@pytest.mark.behaviour("G1", "G2")
@pytest.mark.usefixtures("one_line_a_slice")
async def test_what_came_before_reading_failed_is_handled_first() -> None:
    heard: list[Any] = []
    routes = Routes()
    listen(routes, "note", heard.append)
    end = End(routes, Limits(drain=0))
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end.run)
            end.send(*(notification("note", [number]) for number in range(50)))
            await until(lambda: heard)
            end.faults.fail_reading(OSError(errno.EIO, "broken"))
            await end.connection.wait_closed()
    assert isinstance(end.raised, (OSError, anyio.BrokenResourceError))
    assert heard == [[number] for number in range(50)]


@pytest.mark.behaviour("G1", "G15")
@pytest.mark.usefixtures("one_line_a_slice")
async def test_the_end_of_input_behind_a_flood_ends_a_connection_whose_peer_does_not_read() -> None:
    async with serving(limits=Limits(drain=0, grace=0, flush=0, unread=1000)) as end:
        end.faults.stall_sending()
        end.send(GARBAGE * 500)
        await end.faults.stalled.wait()
        await anyio.wait_all_tasks_blocked()
        end.send_eof()
        await end.connection.wait_closed()
    assert end.raised is None


@pytest.mark.behaviour("G1")
@pytest.mark.usefixtures("one_line_a_slice")
async def test_also_behind_the_end_of_input_no_more_answers_are_made_than_the_peer_takes() -> None:
    most = 0
    async with serving(limits=Limits(drain=0, flush=PATIENCE, unread=1000)) as end:
        end.faults.stall_sending()
        end.send(GARBAGE * 500)
        end.send_eof()
        await end.faults.stalled.wait()
        await anyio.wait_all_tasks_blocked()
        most = end.connection.writer.size
        end.faults.release()
        codes = [message["error"]["code"] for message in await end.rest()]
    assert most < 1200
    assert codes == [-32700] * 500


@pytest.mark.behaviour("G1", "K7")
@pytest.mark.usefixtures("one_line_a_slice")
async def test_the_end_of_input_is_no_reason_to_handle_what_waits_until_the_peer_reads() -> None:
    async with serving(limits=Limits(drain=0, flush=PATIENCE, unread=1000)) as end:
        end.faults.stall_sending()
        end.send(GARBAGE * 500)
        await end.faults.stalled.wait()
        await anyio.wait_all_tasks_blocked()
        size = end.connection.writer.size
        # It ends the wait that has no end.
        end.send_eof()
        await anyio.wait_all_tasks_blocked()
        waiting = end.connection.writer.size
        end.faults.release()
        assert len(await end.rest()) == 500
    assert waiting == size


@pytest.mark.behaviour("K7")
async def test_what_comes_while_the_peer_leaves_too_much_unread_waits_however_little_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader_module, "_SLICE", 1000.0)
    heard: list[Any] = []
    routes = Routes()
    listen(routes, "note", heard.append)
    async with serving(routes, Limits(drain=0, unread=1000)) as end:
        end.faults.stall_sending()
        end.send(GARBAGE * 100)
        await end.faults.stalled.wait()
        await anyio.wait_all_tasks_blocked()
        end.send(notification("note", [1]))
        await anyio.wait_all_tasks_blocked()
        assert heard == []
        end.faults.release()
        await answers(end, 100)
        assert await end.barrier() == []
    assert heard == [[1]]


async def test_other_tasks_run_between_blocks_of_blank_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "_SLICE", 0.0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with serving(Routes({"ping": Route(ping)})) as end, anyio.create_task_group() as tasks:
        await end.barrier()
        tasks.start_soon(count)
        end.send(b"\n" * (64 * 16 * 1024) + line(request(1, "ping")))
        assert await end.next() == result(1, "pong")
        tasks.cancel_scope.cancel()
    assert turns >= 60


@pytest.mark.usefixtures("one_line_a_slice")
async def test_what_ends_the_program_comes_out_of_a_reader_that_is_behind_as_it_was_raised() -> None:
    def leave(_connection: Any, _params: Any) -> None:
        raise SystemExit(3)

    routes = Routes({"ping": Route(ping)})
    routes.on_notice("leave", Notice(leave, inline=True))
    ours, theirs = memory_pair()
    theirs.send_nowait(b"".join(line(request(id, "ping")) for id in range(20)) + line(notification("leave")))
    with anyio.fail_after(PATIENCE), pytest.raises(SystemExit) as left:
        await Connection(ours, routes).run()
    assert left.value.code == 3
    await theirs.aclose()
