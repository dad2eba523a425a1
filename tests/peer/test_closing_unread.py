"""We end the connection while requests have been read and not begun: they are answered if the peer can hear it."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.peer import reader as reader_module
from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Limits
from tests.peer.ends import (
    PATIENCE,
    End,
    assert_over,
    listen,
    notification,
    ping,
    request,
)

pytestmark = pytest.mark.anyio


@pytest.mark.behaviour("A1", "G8")
@pytest.mark.parametrize("way", ["close", "cancel"])
async def test_what_has_been_read_and_not_begun_is_answered_when_we_end(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "_SLICE", 0.0)
    begun: list[Any] = []
    noted: list[Any] = []

    async def begin(call: Call) -> None:
        begun.append(call.id)
        if way == "close":
            end.connection.close()
        else:
            tasks.cancel_scope.cancel()

    routes = Routes({"begin": Route(begin)})
    listen(routes, "note", noted.append)
    listen(routes, "inline", noted.append, inline=True)
    end = End(routes, Limits(drain=0))
    end.send(*(request(id, "begin") for id in range(500)), b"garbage\n", notification("note"), notification("inline"))
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end.run)
        answers = await end.rest()
    assert len(begun) < 100
    assert [answer["id"] for answer in answers].count(None) == 1
    assert sorted(answer["id"] for answer in answers if answer["id"] is not None) == list(range(500))
    assert noted == []
    assert_over(end.connection)


async def test_a_peer_that_does_not_read_is_not_waited_for_with_what_has_been_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader_module, "_SLICE", 0.0)
    end = End(Routes({"ping": Route(ping)}), Limits(drain=0, grace=0.01, flush=0.01, unread=1000))
    end.faults.stall_sending()
    end.send(*(request(id, "ping") for id in range(500)))
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(end.run)
            await end.faults.stalled.wait()
            end.connection.close()
    assert end.faults.sent == 0
    assert_over(end.connection)


async def test_what_has_been_read_is_not_looked_at_when_nobody_can_hear_the_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader_module, "_SLICE", 0.0)
    end = End(Routes({"ping": Route(ping)}), Limits(drain=0))
    end.faults.break_sending()
    end.send(*(request(id, "ping") for id in range(500)))
    with anyio.fail_after(PATIENCE):
        await end.run()
    assert end.connection._reader._blocks
