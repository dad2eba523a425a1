"""Clients over WebSocket that come back: what a server keeps for them, and what it refuses."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from acp_server import Agent, Turn
from acp_server.errors import ConnectionClosed
from acp_server.remote import BearerTokens, RemoteApp, RemoteLimits
from acp_server.remote.cursors import resume, without_cursor
from tests.session.agents import setup
from tests.session.editor import CANCELLED

from .http_client import CALM, turn_around
from .serving import reader
from .test_websocket import CONNECT, SCOPE, Host

pytestmark = pytest.mark.anyio

BROKEN = {"type": "websocket.disconnect", "code": 1006}
BROKEN_TO_UVICORN = {"type": "websocket.disconnect", "code": 1005}
LEFT = {"type": "websocket.disconnect", "code": 1005, "reason": ""}


class Socket(Host):
    """A host that keeps the cursors of what was sent."""

    def __init__(self) -> None:
        super().__init__(CONNECT)
        self.cursors: list[str] = []
        self.blocked: anyio.Event | None = None
        self.is_over = anyio.Event()

    async def send(self, message: Any) -> None:
        if self.blocked is not None:
            await self.blocked.wait()
        if text := message.get("text"):
            cursor = without_cursor(text.encode())[1]
            self.cursors += [cursor] if cursor else []
        await super().send(message)

    @property
    def id(self) -> str:
        headers = dict(self.sent[0]["headers"])
        assert headers[b"acp-repeatable"] == b"true"
        return headers[b"acp-connection-id"].decode()

    @property
    def messages(self) -> list[Any]:
        return [json.loads(each["text"]) for each in self.sent if "text" in each]


class World:
    """A server, and the sockets to it."""

    def __init__(self, agent: Agent, tasks: Any, **options: Any) -> None:
        remote = RemoteLimits(**{key: options.pop(key) for key in [*options] if key != "authenticate"})
        self.app = RemoteApp(agent, limits=CALM, remote=remote, **options)
        self._tasks = tasks
        self.sockets: list[Socket] = []

    def connect(self, *first: bytes, token: str = "") -> Socket:
        socket = Socket()
        self.sockets.append(socket)

        async def run() -> None:
            headers = [*SCOPE["headers"], (b"authorization", f"Bearer {token}".encode())]
            await self.app({**SCOPE, "headers": headers}, socket.receive, socket.send)
            socket.is_over.set()

        self._tasks.start_soon(run)
        for each in first:
            socket.say({"type": "websocket.receive", "text": each.decode()})
        return socket

    async def begin(self, **options: Any) -> tuple[Socket, str]:
        """A socket with a session that hangs in a turn."""
        socket = self.connect(**options)
        socket.text(id=0, method="initialize", params={"protocolVersion": 1})
        socket.text(id=1, method="session/new", params=setup())
        session = (await socket.answer(1))["result"]["sessionId"]
        socket.text(id=2, method="session/prompt", params=prompt(session, "hang"))
        await socket.told(lambda message: "begun" in message.get("text", ""))
        return socket, session


async def flood(turn: Turn) -> None:
    while True:
        await turn.say("x" * 1000)


def prompt(session: str, text: str) -> Any:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


@asynccontextmanager
async def world(agent: Agent, **options: Any) -> AsyncGenerator[World]:
    async with anyio.create_task_group() as tasks:
        it = World(agent, tasks, **options)
        with anyio.fail_after(20):
            yield it
        with anyio.fail_after(20, shield=True):
            await it.app.aclose()
        for socket in it.sockets:
            socket.say(BROKEN)
    for socket in it.sockets:
        socket.close()


@pytest.mark.parametrize("how", [BROKEN, BROKEN_TO_UVICORN, None], ids=["broken", "broken to uvicorn", "not noticed"])
async def test_a_turn_goes_on_while_its_client_is_away_and_is_told_behind_its_cursor(how: Any) -> None:
    agent, _, cut = reader()
    async with world(agent) as it:
        socket, session = await it.begin()
        if how is not None:
            socket.say(how)
            await socket.is_over.wait()
        again = it.connect(resume(socket.id, socket.cursors[-2]))
        await again.told(lambda message: "begun" in message.get("text", ""))
        assert not cut.is_set()
        again.text(method="session/cancel", params={"sessionId": session})
        assert (await again.answer(2))["result"] == CANCELLED
        resumed, *missed = again.messages
        assert resumed["method"] == "stream/resumed"
        assert resumed["params"] == {"connectionId": socket.id, "_meta": {"acp_server/received": 3}}
        assert missed[0] == socket.messages[-1]
        assert again.cursors[0] == socket.cursors[-1]
        # The one before is told, and gets nothing more.
        await socket.is_over.wait()
        assert "cancelled" not in str(socket.messages)
        assert how is not None or socket.sent[-1]["type"] == "websocket.close"


async def test_a_client_that_says_goodbye_is_not_waited_for() -> None:
    agent, turns, cut = reader()
    async with world(agent) as it:
        socket, _ = await it.begin()
        socket.say(LEFT)
        await socket.is_over.wait()
        assert cut.is_set()
        assert turns[0].client.connection.leaked == 0
        again = it.connect(resume(socket.id, socket.cursors[-1]))
        await again.told(lambda message: "stream/resume_failed" in message.get("text", ""))


async def test_a_client_that_is_gone_for_longer_than_its_grace_is_an_end_of_the_input() -> None:
    agent, _, cut = reader()
    async with world(agent, grace=0.05) as it:
        socket, _ = await it.begin()
        socket.say(BROKEN)
        await cut.wait()
        await turn_around(lambda: len(it.app._open()) == 0)


@pytest.mark.parametrize("cursor", ["nonsense", "ffffffff-1", "%s-0", "%s-99", "?"])
async def test_a_cursor_that_was_never_given_is_refused_and_the_client_may_begin_anew(cursor: str) -> None:
    agent, _, _ = reader()
    async with world(agent) as it:
        socket, _ = await it.begin()
        tag = socket.cursors[0].partition("-")[0]
        cursor = "-1" if cursor == "%s-0" else cursor.replace("%s", tag)
        again = it.connect(resume(socket.id, cursor))
        failed = await again.told(lambda message: "stream/resume_failed" in message.get("text", ""))
        assert json.loads(failed["text"])["params"] == {"reason": "messages are lost"}
        again.text(id=0, method="initialize", params={"protocolVersion": 1})
        assert "result" in await again.answer(0)
        assert again.id != socket.id
        # The one that was asked for has its socket as before.
        assert not socket.is_over.is_set()


async def test_what_is_not_kept_any_more_is_refused() -> None:
    agent, _, _ = reader()
    async with world(agent, kept=200) as it:
        socket, _ = await it.begin()
        again = it.connect(resume(socket.id, socket.cursors[0]))
        await again.told(lambda message: "messages are lost" in message.get("text", ""))


async def test_a_connection_of_another_principal_does_not_exist() -> None:
    agent, _, cut = reader()
    tokens = BearerTokens([("ann", "a"), ("bob", "b")])
    async with world(agent, authenticate=tokens) as it:
        socket, _ = await it.begin(token="a")
        theirs = it.connect(resume(socket.id, socket.cursors[-1]), token="b")
        await theirs.told(lambda message: "unknown connection" in message.get("text", ""))
        assert not socket.is_over.is_set()
        assert not cut.is_set()


async def test_a_client_that_takes_nothing_loses_the_connection_and_no_other_is_held_up() -> None:
    agent, turns, cut = reader()
    async with world(agent, unread=10_000, stall=0.05) as it:
        socket, _ = await it.begin()
        other, _ = await it.begin()
        socket.blocked = anyio.Event()
        with pytest.raises(ConnectionClosed):
            await flood(turns[0])
        await cut.wait()
        socket.blocked.set()
        assert not other.is_over.is_set()


async def test_a_websocket_without_a_first_message_has_no_place_for_long() -> None:
    agent, _, _ = reader()
    async with world(agent, receive=0.05, connections=1) as it:
        silent = it.connect()
        await silent.is_over.wait()
        assert silent.sent[-1] == {"type": "websocket.close", "code": 1008}
        socket, _ = await it.begin()
        refused = it.connect()
        await refused.is_over.wait()
        assert refused.sent == [{"type": "websocket.close", "code": 1008}]
        assert not socket.is_over.is_set()


async def test_a_client_that_comes_back_learns_the_state_of_its_sessions() -> None:
    agent, _, _ = reader()
    async with world(agent) as it:
        socket = it.connect()
        info = {"name": "me", "version": "1"}
        socket.text(id=0, method="initialize", params={"protocolVersion": 2, "capabilities": {}, "info": info})
        greeting = (await socket.answer(0))["result"]
        assert greeting["capabilities"]["transport"]["resumable"]["retentionSeconds"] == 60
        socket.text(id=1, method="session/new", params=setup())
        session = (await socket.answer(1))["result"]["sessionId"]
        socket.text(id=2, method="session/prompt", params=prompt(session, "hang"))
        await socket.told(lambda message: "begun" in message.get("text", ""))
        again = it.connect(resume(socket.id, socket.cursors[-1]))
        said = json.loads((await again.told(lambda message: "state_update" in message.get("text", "")))["text"])
        assert said["params"]["update"]["state"] == "running"
