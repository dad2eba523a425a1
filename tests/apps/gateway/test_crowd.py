"""Many chats at once through one gateway, some of them cancelled at random moments."""

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import psutil
import pytest

from acp_server.apps.gateway.app import make_app
from acp_server.apps.gateway.auth import one_token
from acp_server.apps.gateway.gateway import Gateway, GatewaySettings
from acp_server.client import Patience

from .serving import BUSY, PATIENCE, TOKEN, Server, until

pytestmark = pytest.mark.anyio

HEADERS = {"Authorization": f"Bearer {TOKEN}"}
TERMINAL = {"completed", "failed", "canceled"}
LASTING = 1000
"""Pieces of a chat that is never at its end before it is cancelled."""


class Guest:
    """One chat: what it asks for, and what became of it."""

    def __init__(self, http: httpx.AsyncClient, name: str, pieces: int, stream: bool, cancel_at: int | None) -> None:
        self.text = f"slower {pieces} {name}"
        self.pieces = pieces
        self.ids: dict[str, str] = {}
        self.statuses: list[str] = []
        self.cancelled: bool | None = None
        self.whole = ""
        self._http = http
        self._stream = stream
        self._cancel_at = cancel_at

    async def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        response = await self._http.request(method, path, **options)
        assert response.status_code == 200
        return response.json()

    async def visit(self) -> None:
        await (self._listen() if self._stream else self._poll())
        for _ in range(2):  # nothing flips afterwards
            self.statuses.append((await self.call("POST", "/v3/chat/retrieve", params=self.ids))["data"]["status"])

    async def _listen(self) -> None:
        async with (
            self._http.stream("POST", "/v3/chat", json=self._body(True)) as response,
            anyio.create_task_group() as group,
        ):
            deltas = 0
            name = ""
            async for line in response.aiter_lines():
                kind, _, text = line.partition(":")
                if kind == "event":
                    name = text
                elif kind == "data" and name.startswith("conversation.chat"):
                    self._take(json.loads(text))
                elif kind == "data" and name.endswith("delta"):
                    deltas += 1
                    if deltas == self._cancel_at:
                        group.start_soon(self._cancel)
                elif kind == "data" and name.endswith("message.completed"):
                    message = json.loads(text)
                    self.whole = message["content"] if message["type"] == "answer" else self.whole
            assert name == "done"

    async def _poll(self) -> None:
        self._take((await self.call("POST", "/v3/chat", json=self._body(False)))["data"])
        async with anyio.create_task_group() as group:
            if self._cancel_at is not None:
                group.start_soon(self._cancel_later, self._cancel_at * 0.06)
            while self.statuses[-1] not in TERMINAL:
                await anyio.sleep(0.4)
                self._take((await self.call("GET", "/v3/chat/retrieve", params=self.ids))["data"])

    async def _cancel_later(self, seconds: float) -> None:
        await anyio.sleep(seconds)
        await self._cancel()

    async def _cancel(self) -> None:
        answer = await self.call("POST", "/v3/chat/cancel", json=self.ids)
        self.cancelled = answer["code"] == 0
        if self.cancelled:
            assert answer["data"]["status"] == "canceled"
        else:
            assert answer["code"] == 4104

    def _take(self, chat: dict[str, Any]) -> None:
        self.ids = {"conversation_id": chat["conversation_id"], "chat_id": chat["id"]}
        self.statuses.append(chat["status"])

    def _body(self, stream: bool) -> dict[str, Any]:
        message = {"role": "user", "content": self.text, "content_type": "text"}
        return {"bot_id": "1", "user_id": "u", "stream": stream, "additional_messages": [message]}


async def crowd(
    http: httpx.AsyncClient, seed: int, guests: int, cancels: int, long: int, streams: bool = True
) -> list[Guest]:
    """Chats of 1 to 40 pieces. Of those that are cancelled, two in three have `long` pieces, the others race."""
    rng = random.Random(seed)
    cancelling = rng.sample(range(guests), cancels)
    lasting = set(cancelling[: cancels * 2 // 3])
    all_guests = [
        Guest(
            http,
            f"guest {n}",
            long if n in lasting else rng.randint(1, 40),
            streams and rng.random() < 0.5,
            rng.randint(1, 30) if n in cancelling else None,
        )
        for n in range(guests)
    ]
    async with anyio.create_task_group() as group:
        for guest in all_guests:
            group.start_soon(guest.visit)
    return all_guests


def check(guests: list[Guest], drained: bool) -> None:
    for guest in guests:
        end = guest.statuses[-1]
        assert end == ("canceled" if guest.cancelled else "completed"), guest.statuses
        before = [status for status in guest.statuses if status not in TERMINAL]
        after = [status for status in guest.statuses if status in TERMINAL]
        assert guest.statuses == before + after
        assert set(after) == {end}
        if guest._stream and (drained or not guest.cancelled):
            assert guest.whole == "".join(f"{number} " for number in range(guest.pieces))


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Only the client runs here, so one backend is enough; the last test asks for both."""
    return request.param


async def test_of_a_hundred_chats_none_is_lost_or_flips(either: Server) -> None:
    seed = 2 if either.drains else 1
    limits = httpx.Limits(max_connections=250)
    async with httpx.AsyncClient(base_url=either.url, headers=HEADERS, timeout=PATIENCE, limits=limits) as http:
        # So that the agent runs before anything is counted.
        await Guest(http, f"first {seed}", 1, False, None).visit()
        either.ear.wait(f"end slower 1 first {seed}")
    gateway = psutil.Process(either.process.pid)
    descriptors = until_quiet(gateway)
    agents = either.agents()
    either.ear.heard.clear()
    async with httpx.AsyncClient(base_url=either.url, headers=HEADERS, timeout=40, limits=limits) as http:
        guests = await crowd(http, seed, 100, 30, 100 if either.drains else LASTING)
    check(guests, either.drains)
    # However slow the machine is, a minute is long enough to be cancelled in.
    assert all(guest.cancelled for guest in guests if guest.pieces == LASTING)
    ears_of(guests, either)
    assert either.agents() == agents
    assert until(lambda: gateway.num_fds() <= descriptors)
    assert gateway.num_threads() <= 4


def ears_of(guests: list[Guest], server: Server) -> None:
    """The agent has worked for each chat, and for none any more."""
    for guest in guests:
        cut, end = f"cut {guest.text}", f"end {guest.text}"
        server.ear.listen(0)
        if guest.cancelled and f"begin {guest.text}" not in server.ear.heard:
            continue  # It was cancelled before the agent was asked.
        until(lambda cut=cut, end=end: _hears(server, cut, end))
        if not guest.cancelled or server.drains:
            assert cut not in server.ear.heard
        elif guest.pieces == LASTING:
            # The others may come to their end while the cancel is on its way to the agent.
            assert end not in server.ear.heard


def _hears(server: Server, *lines: str) -> bool:
    server.ear.listen(0)
    return any(line in server.ear.heard for line in lines)


def until_quiet(process: psutil.Process) -> int:
    """How many descriptors it has when the connections of earlier tests are gone."""
    seen: list[int] = []

    def settled() -> bool:
        seen.append(process.num_fds())
        return len(seen) > 20 and len(set(seen[-20:])) == 1

    until(settled)
    return seen[-1]


@pytest.fixture
async def inside(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway in this very process, so that what it leaves behind is noticed."""
    settings = GatewaySettings(agent=BUSY, cwd=str(tmp_path), patience=Patience(closed=5))
    gateway = Gateway(settings, one_token(TOKEN))
    transport = httpx.ASGITransport(make_app(gateway))
    async with (
        gateway.running(),
        httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=HEADERS) as http,
    ):
        yield http
        with anyio.fail_after(PATIENCE):
            while gateway.chats.statuses().total():  # noqa: ASYNC110 - it has no event for that
                await anyio.sleep(0.01)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"], indirect=True)
async def test_no_task_process_or_socket_is_left_of_a_crowd(inside: httpx.AsyncClient) -> None:
    # A stream is seen at its end only, here, so it would be too late.
    check(await crowd(inside, 3, 30, 10, LASTING, streams=False), False)
