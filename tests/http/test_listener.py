"""How many connections there are: known clients find a place, and a process without descriptors waits quietly."""

import logging
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import anyio.lowlevel
import pytest

from acp_server.http import listener
from acp_server.http.listener import Listener, Places, raise_descriptors

PATIENCE = 20.0


class Held:
    def __init__(self, places: Places, known: bool = False, idle: bool = True) -> None:
        self.is_known = known
        self.is_idle = idle
        self.gone = False
        self._places = places
        places.add(self)

    def abort(self) -> None:
        self.gone = True
        self._places.remove(self)


def test_room_is_made_by_the_oldest_without_a_token_then_by_the_oldest_that_is_idle() -> None:
    places = Places(6)
    busy = Held(places, known=True, idle=False)
    known = Held(places, known=True)
    unknown = [Held(places) for _ in range(2)]
    late = Held(places, known=True)
    working = Held(places, idle=False)
    everyone = (busy, known, *unknown, late, working)
    order: list[Held] = []
    while places.close_one():
        order.append(next(held for held in everyone if held.gone and held not in order))
    assert order == [*unknown, working, known, late]
    assert (len(places), places.closed) == (1, 5)


@pytest.mark.anyio
async def test_where_every_place_has_a_request_the_next_one_waits_for_an_end() -> None:
    places = Places(2)
    busy = [Held(places, known=True, idle=False) for _ in range(2)]
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(places.wait_for_room)
            await anyio.lowlevel.checkpoint()
            assert len(places) == 2
            busy[0].abort()
    assert not busy[1].gone


@contextmanager
def soft_limit(number: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_process_is_allowed_more_descriptors_up_to_what_the_machine_permits() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with soft_limit(256):
        assert raise_descriptors(300) == 300
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 300
        assert raise_descriptors(10 * hard) == hard


@pytest.mark.anyio
async def test_without_descriptors_it_waits_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener, "_PAUSE", 0.01)
    came = anyio.Event()
    tries = 0

    class Listening(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            nonlocal tries
            tries += 1
            return super().accept()

    def enter(accepted: socket.socket) -> None:
        accepted.close()
        came.set()

    with Listening() as listening, socket.socket() as client, anyio.fail_after(PATIENCE):
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        free = os.dup(0)
        os.close(free)
        async with anyio.create_task_group() as group:
            with soft_limit(free):
                client.connect(listening.getsockname())
                group.start_soon(Listener(listening, Places(10), enter).run)
                while tries < 20:  # noqa: ASYNC110 - it has no event for that
                    await anyio.sleep(0.001)
                assert not came.is_set()
            await came.wait()
            group.cancel_scope.cancel()
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert lines == ["cannot accept a new connection (Too many open files); retrying soon, 0 connections are open"]
