"""A client of an ASGI application over HTTP, in memory, on asyncio and trio."""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio

from acp_server import Agent, Limits
from acp_server.remote import RemoteApp, RemoteLimits
from acp_server.tasks.running import Spawner
from acp_server.testing import ScriptedClient
from tests.session.editor import CALM, EVERYTHING, Editor

JSON = {"content-type": "application/json"}
EVENTS = {"accept": "text/event-stream"}


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def scope_of(method: str, headers: dict[str, str]) -> dict[str, Any]:
    pairs = [(name.encode(), value.encode()) for name, value in {"host": "localhost:1", **headers}.items()]
    return {"type": "http", "method": method, "path": "/acp", "headers": pairs, "state": {}}


class Events:
    """A stream that was opened: what was read of it."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.comments = 0
        self.ids: list[str] = []
        self.seen: list[Any] = []
        self.is_over = False
        self.blocked: anyio.Event | None = None
        """Set it to read on: while there is one, nothing is taken."""
        self.cut_at: int | None = None
        """After how many messages the connection is cut."""
        self.is_torn = False
        """Whether it is cut within the next one."""
        self._ready: list[Any] = []
        self._changed = anyio.Event()
        self._left = anyio.Event()

    @property
    def last_id(self) -> str | None:
        return self.ids[-1] if self.ids else None

    async def receive(self) -> dict[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        elif self.blocked is not None:
            await self.blocked.wait()
        for event in re.split(rb"(?<=\n\n)", message.get("body", b"")):
            if len(self.seen) == self.cut_at and event.startswith(b"id:"):
                self.body += event[: len(event) // 2] if self.is_torn else b""
                self.leave()
                await anyio.sleep_forever()
            self._take(event)
        self._stir()

    def _take(self, data: bytes) -> None:
        self.body += data
        while b"\n\n" in self.body:
            event, _, self.body = self.body.partition(b"\n\n")
            self._event(event)

    def _event(self, event: bytes) -> None:
        if event.startswith(b":"):
            self.comments += 1
            return
        id, data = event.split(b"\n")
        assert id.startswith(b"id: ")
        assert data.startswith(b"data: ")
        self.ids.append(id[4:].decode())
        self._ready.append(json.loads(data[6:]))
        self.seen.append(self._ready[-1])

    def _stir(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def over(self) -> None:
        self.is_over = True
        self._stir()

    def leave(self) -> None:
        self._left.set()

    async def next(self) -> Any:
        """The next message; None at the end."""
        with anyio.fail_after(20):
            while not self._ready:
                if self.is_over:
                    return None
                await self._changed.wait()
        return self._ready.pop(0)

    async def began(self) -> int:
        with anyio.fail_after(20):
            while not self.status:
                await self._changed.wait()
        return self.status

    async def ended(self) -> None:
        with anyio.fail_after(20):
            while not self.is_over:
                await self._changed.wait()

    async def commented(self, count: int) -> None:
        with anyio.fail_after(20):
            while self.comments < count:
                await self._changed.wait()


class Client:
    """Speaks HTTP with an application. `headers`: those that each request has."""

    def __init__(self, app: RemoteApp, **headers: str) -> None:
        self.app = app
        self.headers = headers
        self.id = ""
        self._house = Spawner(self._failed)
        self.failures: list[BaseException] = []

    def _failed(self, error: BaseException) -> None:
        self.failures.append(error)

    async def request(self, method: str, body: bytes | Any = b"", **headers: str | None) -> Answer:
        """One request, its header names with underscores for hyphens; None leaves one out."""
        pieces = [body if isinstance(body, bytes) else json.dumps(body).encode()]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if pieces:
                return {"type": "http.request", "body": pieces.pop(), "more_body": False}
            await anyio.sleep_forever()
            raise AssertionError

        async def send(message: Any) -> None:
            sent.append(message)

        with anyio.fail_after(20):
            await self.app(scope_of(method, self._headers(headers)), receive, send)
        pairs = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], pairs, b"".join(each.get("body", b"") for each in sent[1:]))

    def _headers(self, headers: dict[str, str | None]) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return {name: value for name, value in {**self.headers, **named}.items() if value is not None}

    async def post(self, message: Any, session: str | None = None, **headers: str | None) -> Answer:
        """A message of this connection's, with the headers that it needs."""
        own: dict[str, str | None] = {"content_type": "application/json", "acp_connection_id": self.id or None}
        if session is not None:
            own["acp_session_id"] = session
        if isinstance(message, dict):
            message = {"jsonrpc": "2.0", **message}
        return await self.request("POST", message, **{**own, **headers})

    async def initialize(self, **headers: str) -> Answer:
        params = {"protocolVersion": 1, "clientCapabilities": EVERYTHING}
        answer = await self.post({"id": 0, "method": "initialize", "params": params}, **headers)
        self.id = answer.headers.get("acp-connection-id", "")
        return answer

    def open(self, session: str | None = None, cursor: str | None = None, **headers: str) -> Events:
        """Open a stream; it is read until the block of the client ends, or it `leave`s."""
        own: dict[str, str | None] = {"accept": "text/event-stream", "acp_connection_id": self.id}
        if session is not None:
            own["acp_session_id"] = session
        if cursor is not None:
            own["last_event_id"] = cursor
        events = Events()

        async def run() -> None:
            try:
                await self.app(scope_of("GET", self._headers({**own, **headers})), events.receive, events.send)
            finally:
                events.over()

        self._house.spawn(run)
        return events

    async def new_session(self, connection: Events, id: int = 1) -> str:
        assert (await self.post({"id": id, "method": "session/new", "params": NEW})).status == 202
        answer = await connection.next()
        assert answer["id"] == id
        return answer["result"]["sessionId"]

    async def prompt(self, session: str, text: str, id: int | str = 2) -> Answer:
        prompt = [{"type": "text", "text": text}]
        message = {"id": id, "method": "session/prompt", "params": {"sessionId": session, "prompt": prompt}}
        return await self.post(message, session)

    async def aclose(self) -> None:
        await self.app.aclose()
        await self._house.wait_idle()
        assert not self.failures


NEW = {"cwd": "/project", "mcpServers": []}


@asynccontextmanager
async def client_of(app: RemoteApp, **headers: str) -> AsyncGenerator[Client]:
    """A client that has said hello; the application ends with the block."""
    client = Client(app, **headers)
    assert (await client.initialize()).status == 200
    try:
        yield client
    finally:
        with anyio.fail_after(20, shield=True):
            await client.aclose()


def app_of(agent: Agent, limits: Limits = CALM, **remote: Any) -> RemoteApp:
    return RemoteApp(agent, limits=limits, remote=RemoteLimits(**remote))


async def session_of(client: Client) -> tuple[str, Events]:
    return await client.new_session(connection := client.open()), connection


async def turn_around(is_so: Any) -> None:
    with anyio.fail_after(20):
        while not is_so():
            await anyio.lowlevel.checkpoint()


class Wire:
    """The streams and posts of one client as one stream of lines, as a client of an SDK has them."""

    def __init__(self, app: RemoteApp) -> None:
        self.client = Client(app)
        self._to, self._from = anyio.create_memory_object_stream[bytes](1000)
        self._house = Spawner(self.client._failed)
        self._sessions: dict[str, Events] = {}
        self._asked: dict[Any, str | None] = {}
        self._all: list[Events] = []

    async def receive(self) -> bytes:
        try:
            return await self._from.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return b""

    async def send(self, data: bytes) -> None:
        for line in data.splitlines():
            message = json.loads(line)
            if message.get("method") == "initialize":
                answer = await self.client.post(message)
                self.client.id = answer.headers["acp-connection-id"]
                self._to.send_nowait(answer.body.strip() + b"\n")
                self._read(None)
                continue
            params = message.get("params")
            session = params.get("sessionId") if isinstance(params, dict) else None
            if "method" not in message:
                session = self._asked.get(message["id"])
            if session is not None and session not in self._sessions:
                self._read(session)
            answer = await self.client.post(message, session)
            assert answer.status == 202, answer

    def _read(self, session: str | None) -> None:
        events = self.client.open(session)
        self._all.append(events)
        if session is not None:
            self._sessions[session] = events
        self._house.spawn(self._take, events, session)

    async def _take(self, events: Events, session: str | None) -> None:
        while (message := await events.next()) is not None:
            if "method" in message and "id" in message:
                self._asked[message["id"]] = session
            result = message.get("result")
            opened = result.get("sessionId") if isinstance(result, dict) else None
            if opened is not None and opened not in self._sessions:
                self._read(opened)
            self._to.send_nowait(json.dumps(message).encode() + b"\n")

    async def aclose(self) -> None:
        for events in self._all:
            events.leave()
        await self.client.aclose()
        await self._house.wait_idle()
        self._to.close()
        self._from.close()


@asynccontextmanager
async def editor_of(app: RemoteApp) -> AsyncGenerator[tuple[Editor, Client]]:
    """An editor over HTTP that has said hello."""
    nothing: Any = None
    wire = Wire(app)
    async with ScriptedClient(wire, patience=20) as scripted:
        editor = Editor(scripted, nothing, nothing)
        await editor.initialize(EVERYTHING)
        yield editor, wire.client
