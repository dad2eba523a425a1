"""Three gateways as processes behind a proxy, and what happens to gateways and databases."""

import signal
import threading
from functools import partial
from pathlib import Path

import anyio
import httpx
import pytest

from .postgres import Server as Database
from .postgres import postgres
from .serving import Server, ask, client, cozepy, until
from .several import backend, serving_three

pytest.importorskip("psycopg", reason="the extra postgres is not installed")
Status = cozepy.ChatStatus


def test_in_a_storm_no_status_flips_and_nothing_that_was_acknowledged_is_lost(tmp_path: Path) -> None:
    from .storm import storm

    with postgres() as database:
        outcomes = anyio.run(storm, tmp_path, database, 60, 7)
    assert outcomes["completed"]
    assert outcomes["canceled"]


def is_ending(server: Server) -> bool:
    try:
        return httpx.get(f"{server.url}/readyz").status_code == 503
    except httpx.TransportError:
        return True


def test_a_rolling_restart_under_load_fails_no_chat(tmp_path: Path, postgresql: Database) -> None:
    ended: list[cozepy.Chat] = []
    stopping = threading.Event()

    errors: list[str] = []

    def load(server: Server) -> None:
        with client(server) as coze:
            while not stopping.is_set():
                try:
                    ended.append(coze.chat.create_and_poll(**ask("slowly 60")).chat)
                except Exception as error:
                    errors.append(repr(error))
                    return

    with serving_three(postgresql, tmp_path, "--drain", "20") as three:
        visitors = [threading.Thread(target=load, args=(three,)) for _ in range(12)]
        for visitor in visitors:
            visitor.start()
        try:
            for number, old in enumerate(three.servers):
                with_it = len(ended)
                new = three.more()
                three.proxy.backends = [*three.proxy.backends, backend(new)]
                old.process.send_signal(signal.SIGTERM)
                # As a proxy does that looks whether its gateways are ready.
                until(partial(is_ending, old))
                three.proxy.backends = [each for each in three.proxy.backends if each != backend(old)]
                assert old.process.wait(30) == -signal.SIGTERM
                assert number < 3
                assert len(ended) >= with_it
        finally:
            stopping.set()
            for visitor in visitors:
                visitor.join()
    assert not errors
    assert len(ended) > 12
    assert {chat.status for chat in ended} == {Status.COMPLETED}
