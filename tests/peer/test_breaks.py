"""The stream breaks, in one direction or the other: that is the end, told apart from a clean one where it matters."""

import errno
import logging
from typing import Any

import anyio
import pytest

from acp_server.errors import ConnectionClosed
from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Limits
from acp_server.tasks.cause import Cause
from acp_server.tasks.grace import grace
from acp_server.wire.messages import Notification
from tests.peer.ends import CANCELLED, Answers, Handlers, listen, notification, request, serving, until

pytestmark = pytest.mark.anyio


@pytest.mark.behaviour("G8", "G9", "G16")
async def test_a_peer_that_no_longer_takes_anything_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    handlers = Handlers()
    with caplog.at_level(logging.INFO, "acp_server"):
        async with serving(handlers.routes(), Limits(drain=60)) as end, anyio.create_task_group() as group:
            answers = Answers(end.connection)
            group.start_soon(answers.ask, "a")
            await end.next()
            end.send(request(1, "hang"))
            await end.barrier()
            end.faults.break_sending()
            # There is more to read behind it, which is not read.
            end.send(request(2, "ping"))
            for number in range(3, 10):
                end.send(request(number, "hang"))
            await end.connection.wait_closed()
            await until(lambda: answers.of)
            assert isinstance(answers.of["a"], ConnectionClosed)
            with pytest.raises(ConnectionClosed):
                await end.connection.request("ask")
            with pytest.raises(ConnectionClosed):
                end.connection.notify("say")
            with pytest.raises(ConnectionClosed):
                await end.connection.send_room()
    assert end.raised is None
    assert set(handlers.log) == {Cause.CLOSED, "clean"}
    assert [record.getMessage() for record in caplog.records] == ["the peer no longer reads: BrokenResourceError"]


@pytest.mark.behaviour("G8")
async def test_a_peer_that_goes_away_while_it_is_drained_is_not_waited_for() -> None:
    log: list[Any] = []

    async def hang(call: Call) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            log.append(call.cause)
            with grace(), pytest.raises(ConnectionClosed):
                call.notify_peer("last words")
            log.append("nobody to tell")

    async with serving(Routes({"hang": Route(hang)}), Limits(drain=60)) as end:
        end.send(request(1, "hang"))
        await end.barrier()
        end.send_eof()
        await anyio.wait_all_tasks_blocked()
        assert log == []
        end.faults.break_sending()
        end.connection.notify("say")
        await end.connection.wait_closed()
    assert log == [Cause.CLOSED, "nobody to tell"]


@pytest.mark.behaviour("G10")
@pytest.mark.parametrize("problem", [OSError(errno.EIO, "I/O error"), anyio.BrokenResourceError(), ValueError("x")])
async def test_a_read_error_is_no_end_of_input(problem: Exception) -> None:
    handlers = Handlers()
    async with serving(handlers.routes(), Limits(drain=60)) as end, anyio.create_task_group() as group:
        answers = Answers(end.connection)
        group.start_soon(answers.ask, "a")
        await end.next()
        end.send(request(1, "hang"))
        await end.barrier()
        end.faults.fail_reading(problem)
        # The peer can still hear.
        assert await end.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
        await until(lambda: answers.of)
        assert isinstance(answers.of["a"], ConnectionClosed)
    assert end.raised is problem
    assert handlers.log == [Cause.CLOSED, "clean"]


@pytest.mark.behaviour("G8")
async def test_a_stream_with_errors_of_its_own_is_broken_too(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as end:

        async def fail(data: bytes) -> None:
            raise ValueError("not one that we know")

        end.faults.send = fail
        end.send(request(1, "ping"))
        await end.connection.wait_closed()
    assert end.raised is None
    assert [record.getMessage() for record in caplog.records] == ["an internal task failed"]


@pytest.mark.behaviour("G1", "G8")
async def test_what_only_notices_that_the_peer_is_gone_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as end:

        async def asks(_params: Any = None) -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(end.connection.request, "a")
                group.start_soon(end.connection.request, "b")

        def says(_params: Any) -> None:
            end.connection.notify("say")

        listen(end.connection._routes, "asks", asks)
        listen(end.connection._routes, "says", says, inline=True)
        end.send(notification("asks"))
        end.connection.background(asks)
        for _ in range(4):
            await end.next()
        end.send_eof()
        await end.connection.wait_closed()
        end.connection._notice(Notification("says", None))
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []


async def test_an_error_of_our_own_ends_the_connection_properly(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        raise ValueError("boom")

    async with serving(Handlers().routes(), Limits(drain=60)) as end:
        end.send(request(1, "hang"))
        await end.barrier()
        end.connection._house.spawn(fails)
        assert await end.rest() == [{"jsonrpc": "2.0", "id": 1, "error": CANCELLED}]
    assert end.raised is None
    assert [record.getMessage() for record in caplog.records] == ["an internal task failed"]


async def test_why_a_line_is_not_json_is_for_the_debug_log_and_no_other_refusal_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, "acp_server.peer"):
        async with serving() as end:
            end.send(b"{nonsense}\n", b"7\n")
            assert [(await end.next())["error"]["code"] for _ in range(2)] == [-32700, -32600]
    said = [record.getMessage() for record in caplog.records]
    assert [each.partition(":")[0] for each in said] == ["a line is not valid JSON"]
