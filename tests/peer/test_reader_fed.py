"""A stream that hands over what arrives from within the event loop: what can be done at once is done in that round."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.peer import reader as reader_module
from acp_server.peer.call import Call, Notice, Route, Routes
from acp_server.peer.connection import Connection
from acp_server.peer.limits import Limits
from tests.peer.ends import CANCELLED, PATIENCE, cancel, line, listen, ping, request, result, until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


class Fed:
    """A stream that a test feeds; it takes up to `room` bytes without waiting."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._take: Callable[[bytes], bool] | None = None
        self._over = anyio.Event()
        self._error: BaseException | None = None
        self._rest: list[bytes] = []
        self.room = 1 << 30
        self.writes: list[bytes] = []

    def arrives(self, *messages: Any) -> None:
        """Hand over one chunk in the next round of the loop, or as soon as it is asked for."""
        self._rest.append(b"".join(map(line, messages)))
        self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        while self._rest and self._take is not None:
            try:
                if not self._take(self._rest.pop(0)):
                    self._stop()
            except BaseException as error:
                self._error = error
                self._stop()

    def _stop(self) -> None:
        self._take = None
        self._over.set()

    @property
    def is_asked(self) -> bool:
        return self._take is not None

    @property
    def answers(self) -> list[Any]:
        return [json.loads(text) for text in b"".join(self.writes).splitlines()]

    async def feed(self, take: Callable[[bytes], bool]) -> None:
        self._over = anyio.Event()
        self._take = take
        self._loop.call_soon(self._hand_over)
        try:
            await self._over.wait()
        finally:
            self._take = None
        if self._error is not None:
            raise self._error

    async def receive(self) -> bytes:
        pieces: list[bytes] = []
        await self.feed(lambda data: pieces.append(data) is not None)
        return pieces[0]

    def send_now(self, data: bytes) -> int:
        self.writes.append(data[: self.room])
        return len(self.writes[-1])

    async def send(self, data: bytes) -> None:
        await until(lambda: self.room)
        self.writes.append(data)

    async def aclose(self) -> None:
        pass


@asynccontextmanager
async def fed(routes: Routes, limits: Limits | None = None) -> AsyncGenerator[tuple[Fed, Connection]]:
    stream = Fed()
    connection = Connection(stream, routes, limits)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.run)
            await until(lambda: stream.is_asked)
            # The first request has a task made, and the others find it.
            stream.arrives(request(0, "ping"))
            await until(lambda: stream.writes)
            stream.writes = []
            await anyio.wait_all_tasks_blocked()
            yield stream, connection
            stream.arrives(b"")


async def rounds_until(true: Callable[[], object]) -> int:
    rounds = 0
    while not true():
        await asyncio.sleep(0)
        rounds += 1
    return rounds


def _noting(begun: list[Any]) -> Routes:
    async def note_and_hang(call: Call) -> None:
        begun.append(call.id)
        await anyio.sleep_forever()

    return Routes({"ping": Route(ping, direct=True), "hang": Route(note_and_hang, direct=True)})


async def test_a_request_is_answered_in_the_round_in_which_it_arrives() -> None:
    async with fed(Routes({"ping": Route(ping, direct=True)})) as (stream, _):
        stream.arrives(request(1, "ping"))
        assert await rounds_until(lambda: stream.writes) == 1
        assert stream.answers == [result(1, "pong")]


async def test_a_cancelled_request_is_answered_in_the_round_behind_the_one_in_which_the_cancel_arrives() -> None:
    begun: list[Any] = []
    async with fed(_noting(begun)) as (stream, _):
        stream.arrives(request(1, "hang"), request(2, "hang"))
        await until(lambda: begun == [1, 2])
        stream.arrives(cancel(2))
        assert await rounds_until(lambda: stream.writes) == 2
        assert stream.answers == [{"jsonrpc": "2.0", "id": 2, "error": CANCELLED}]
        stream.arrives(cancel(1))


async def test_what_a_burst_of_cancels_ends_is_answered_with_one_write() -> None:
    begun: list[Any] = []
    async with fed(_noting(begun)) as (stream, _):
        stream.arrives(*(request(id, "hang") for id in range(1, 51)))
        await until(lambda: len(begun) == 50)
        stream.arrives(*(cancel(id) for id in range(1, 51)))
        await until(lambda: stream.writes)
        assert sorted(answer["id"] for answer in stream.answers) == list(range(1, 51))
        assert len(stream.writes) == 1


async def test_requests_that_arrive_together_are_answered_with_one_write_and_a_cancel_among_them_counts() -> None:
    begun: list[Any] = []

    async def note(call: Call) -> str:
        begun.append(call.id)
        return "noted"

    async with fed(Routes({"ping": Route(ping, direct=True), "note": Route(note, direct=True)})) as (stream, _):
        stream.arrives(request(1, "note"), request(2, "note"), cancel(2), request(3, "note"), b"garbage\n")
        await until(lambda: stream.writes)
        assert sorted(answer["id"] or 0 for answer in stream.answers) == [0, 1, 2, 3]
        assert len(stream.writes) == 1
    assert begun == [1, 3]


async def test_a_flood_is_left_to_the_task_and_others_run_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    routes = Routes({"ping": Route(ping, direct=True)})
    listen(routes, "note", heard.append, inline=True)
    async with fed(routes) as (stream, _):
        monkeypatch.setattr(reader_module, "_SLICE", 0.0)
        stream.arrives(*({"jsonrpc": "2.0", "method": "note", "params": [number]} for number in range(100)))
        seen: list[int] = []
        while len(heard) < 100:
            await anyio.lowlevel.checkpoint()
            seen.append(len(heard))
        assert len(set(seen)) > 50
        # And then it is fed again.
        await until(lambda: stream.is_asked)
    assert heard == [[number] for number in range(100)]


async def test_nothing_is_asked_for_while_the_peer_leaves_too_much_unread() -> None:
    async with fed(Routes({"ping": Route(ping, direct=True)}), Limits(unread=1000)) as (stream, _):
        stream.room = 0
        stream.arrives(*[b"garbage\n"] * 20)
        await until(lambda: not stream.is_asked)
        # What is read ahead is not handled: it waits for its turn.
        await until(lambda: stream.is_asked)
        stream.arrives(request(1, "ping"))
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert b"".join(stream.writes) == b""
        stream.room = 1 << 30
        await until(lambda: len(stream.answers) == 21)
        assert stream.answers[-1] == result(1, "pong")


async def test_what_ends_the_program_in_a_notification_comes_out_of_the_connection() -> None:
    def leave(_connection: Any, _params: Any) -> None:
        raise SystemExit(3)

    routes = Routes()
    routes.on_notice("leave", Notice(leave, inline=True))
    stream = Fed()
    connection = Connection(stream, routes)
    stream.arrives({"jsonrpc": "2.0", "method": "leave"})
    with anyio.fail_after(PATIENCE), pytest.raises(SystemExit):
        await connection.run()
    assert connection.leaked == 0


async def test_the_end_is_noticed_although_the_last_line_has_no_end() -> None:
    stream = Fed()
    connection = Connection(stream, Routes({"ping": Route(ping, direct=True)}))
    stream.arrives(line(request(1, "ping"))[:-1])
    stream.arrives(b"")
    with anyio.fail_after(PATIENCE):
        await connection.run()
    assert stream.answers == [result(1, "pong")]


async def test_the_task_that_has_read_ahead_ends_with_the_next_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fed(Routes({"ping": Route(ping, direct=True)})) as (stream, connection):
        before = len(asyncio.all_tasks())
        with monkeypatch.context() as patch:
            patch.setattr(reader_module, "_SLICE", 0.0)
            stream.arrives(*[request(id, "ping") for id in range(1, 50)])
            await until(lambda: len(stream.answers) == 49)
        stream.arrives(request("next", "ping"))
        await until(lambda: len(stream.answers) == 50)
        await anyio.wait_all_tasks_blocked()
        assert len(asyncio.all_tasks()) == before
        assert not connection._reader._behind
