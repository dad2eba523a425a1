"""How many connections there are: known clients find a place, and a process without descriptors waits quietly.

uvicorn runs on asyncio alone.
"""

import http.client
import logging
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import anyio
import anyio.lowlevel
import pytest

from acp_server.apps.gateway import listener
from acp_server.apps.gateway.limits import GatewayLimits
from acp_server.apps.gateway.listener import Listener, Places, number_of_places

from .serving import PATIENCE, TOKEN, Server, serving, until


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Held:
    def __init__(self, places: Places, known: bool = False, idle: bool = True) -> None:
        self.is_known = known
        self.is_idle = idle
        self.gone = False
        self._places = places
        places.reserve()
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


def test_a_known_client_stays_as_long_as_others_come_that_are_not() -> None:
    places = Places(2)
    known = Held(places, known=True)
    places.reserve()
    assert not places.close_one()
    assert not known.gone


@pytest.mark.anyio
async def test_a_place_is_kept_for_those_that_are_about_to_enter() -> None:
    places = Places(2)
    old = Held(places)
    places.reserve()
    await places.wait_for_room()
    assert old.gone
    places.give_up()
    assert len(places) == 0


@contextmanager
def soft_limit(number: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_process_is_allowed_the_descriptors_that_its_limits_take() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with soft_limit(256):
        assert number_of_places(GatewayLimits(connections=300, chats=10)) == 300
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 300 + 4 * 10
        # A quarter is left to the agents where there are not enough.
        assert number_of_places(GatewayLimits(connections=10 * hard)) in range(hard // 2, hard - hard // 5)


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

    with ExitStack() as opened:
        listening = opened.enter_context(Listening())
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        client = opened.enter_context(socket.socket())
        doors = Listener(listening, Places(10), lambda: Protocol(came))
        doors.open()
        opened.callback(doors.close)
        free = os.dup(0)
        os.close(free)
        with soft_limit(free):
            client.connect(listening.getsockname())
            with anyio.fail_after(PATIENCE):
                while tries < 20:  # noqa: ASYNC110 - it has no event for that
                    await anyio.sleep(0.001)
            assert not came.is_set()
        with anyio.fail_after(PATIENCE):
            await came.wait()
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert lines == ["no new connection for a moment: Too many open files; 0 are open"]


class Protocol:
    """See asyncio.Protocol."""

    def __init__(self, came: anyio.Event) -> None:
        self._came = came

    def connection_made(self, transport: object) -> None:
        self._came.set()
        transport.abort()  # pyright: ignore[reportAttributeAccessIssue]

    def connection_lost(self, error: Exception | None) -> None:
        pass


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("small"), "--connections", "8") as server:
        yield server


def test_a_crowd_that_says_nothing_keeps_no_client_out_and_fills_no_log(small: Server) -> None:
    address = ("127.0.0.1", int(small.url.rpartition(":")[2]))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with ExitStack() as opened:
        known = http.client.HTTPConnection(*address, timeout=PATIENCE)
        opened.callback(known.close)
        for number in range(60):
            opened.enter_context(socket.create_connection(address))
            if number % 20 == 0:
                # The same connection all the time: it has shown a token.
                known.request("GET", "/v1/conversations?bot_id=1", headers=headers)
                assert known.getresponse().read().startswith(b'{"code":0')
        late = http.client.HTTPConnection(*address, timeout=PATIENCE)
        opened.callback(late.close)
        late.request("GET", "/v1/conversations?bot_id=1", headers=headers)
        assert late.getresponse().read().startswith(b'{"code":0')
    until(lambda: "all 8 places are taken" in small.log.read_text())
    assert small.log.read_text().count("places are taken") == 1
