"""Agents over WebSocket, in the words of ASGI."""

import gc
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server import Agent, Call, MemoryStore
from acp_server.remote import RemoteApp
from acp_server.remote.cursors import without_cursor
from tests.session.agents import setup

from .serving import reader

pytestmark = pytest.mark.anyio


def globals_of_the_process() -> dict[str, Any]:
    signals = {number: signal.getsignal(number) for number in signal.valid_signals()}
    names = ["", *[name for name in logging.root.manager.loggerDict if name.startswith("acp_server")]]
    loggers = {name: (logging.getLogger(name).level, list(logging.getLogger(name).handlers)) for name in names}
    return {
        "signals": signals,
        "logging": {name: value for name, value in loggers.items() if name == "" or value[1]},
        "streams": (sys.stdin, sys.stdout, sys.stderr, sys.excepthook),
        "descriptors": [os.fstat(number).st_ino for number in range(3)],
        "garbage": (gc.isenabled(), gc.get_threshold()),
        "cwd": Path.cwd(),
    }


class Host:
    """An ASGI server with one WebSocket."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.sent: list[dict[str, Any]] = []
        self._to, self.from_client = anyio.create_memory_object_stream[dict[str, Any]](100)
        self._told = anyio.Event()
        for message in messages:
            self.say(message)

    def say(self, message: dict[str, Any]) -> None:
        self._to.send_nowait(message)

    def text(self, **message: Any) -> None:
        self.say({"type": "websocket.receive", "text": json.dumps({"jsonrpc": "2.0", **message})})

    async def receive(self) -> dict[str, Any]:
        return await self.from_client.receive()

    async def send(self, message: Any) -> None:
        if message.get("text"):
            message["text"] = without_cursor(message["text"].encode())[0].decode()
        self.sent.append(message)
        self._told.set()
        self._told = anyio.Event()

    async def told(self, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message that is it."""
        with anyio.fail_after(10):
            while not (found := [message for message in self.sent if is_it(message)]):
                await self._told.wait()
        return found[0]

    async def answer(self, id: int) -> Any:
        said = await self.told(lambda message: f'"id":{id},' in message.get("text", "").replace("}", ","))
        return json.loads(said["text"])

    def close(self) -> None:
        self._to.close()
        self.from_client.close()


SCOPE: dict[str, Any] = {"type": "websocket", "headers": [(b"host", b"localhost:8000")]}
CONNECT = {"type": "websocket.connect"}
LEFT = {"type": "websocket.disconnect", "code": 1001}


@asynccontextmanager
async def hosted(agent: Agent, **options: Any) -> AsyncGenerator[Host]:
    """A host in which the agent is served until the client leaves at the end."""
    host = Host(CONNECT)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(RemoteApp(agent, **options), SCOPE, host.receive, host.send)
        host.text(id=0, method="initialize", params={"protocolVersion": 1})
        await host.answer(0)
        yield host
        host.say(LEFT)
    host.close()
    # There is nobody to say goodbye to.
    assert {message["type"] for message in host.sent} <= {"websocket.accept", "websocket.send"}


async def test_a_frame_is_one_message_however_it_is_written() -> None:
    agent, _, _ = reader()
    async with hosted(agent) as host:
        text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": setup()}, indent=2)
        host.say({"type": "websocket.receive", "text": text.replace("\n", "\r\n")})
        assert "sessionId" in (await host.answer(1))["result"]
        host.say({"type": "websocket.receive", "text": ""})
        host.say({"type": "websocket.receive", "text": None, "bytes": b"a frame of bytes means nothing"})
        host.say({"type": "websocket.receive", "text": text.replace('"id": 1', '"id": 2')})
        assert "sessionId" in (await host.answer(2))["result"]


async def test_a_host_that_is_cancelled_closes_its_connections_and_goes_on_with_its_own_end() -> None:
    agent, turns, cut = reader()
    host = Host(CONNECT)
    ended = False

    async def serve() -> None:
        nonlocal ended
        try:
            await RemoteApp(agent)(SCOPE, host.receive, host.send)
        except anyio.get_cancelled_exc_class():
            ended = True
            raise

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        host.text(id=0, method="initialize", params={"protocolVersion": 1})
        host.text(id=1, method="session/new", params=setup())
        session = (await host.answer(1))["result"]["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hang"}]}
        host.text(id=2, method="session/prompt", params=prompt)
        await host.told(lambda message: "begun" in message.get("text", ""))
        tasks.cancel_scope.cancel()
    assert ended
    assert cut.is_set()
    assert turns[0].client.connection.leaked == 0
    assert host.sent[-1] == {"type": "websocket.close", "code": 1000}
    host.close()


async def test_nothing_of_the_process_is_touched() -> None:
    before = globals_of_the_process()
    agent, _, _ = reader()
    async with hosted(agent) as host:
        host.text(id=1, method="session/new", params=setup())
        await host.answer(1)
        meanwhile = globals_of_the_process()
    after = globals_of_the_process()
    assert before == meanwhile == after


async def test_a_handler_that_wants_to_end_the_program_ends_its_connection_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent, turns, _ = reader()
    host = Host(CONNECT)
    async with hosted(agent) as other:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(RemoteApp(agent), SCOPE, host.receive, host.send)
            host.text(id=0, method="initialize", params={"protocolVersion": 1})
            host.text(id=1, method="session/new", params=setup())
            session = (await host.answer(1))["result"]["sessionId"]
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "exit"}]}
            host.text(id=2, method="session/prompt", params=prompt)
        assert host.sent[-1]["type"] == "websocket.close"
        other.text(id=1, method="session/new", params=setup())
        assert "result" in await other.answer(1)
    assert turns[0].client.connection.is_lost
    assert "a handler raised SystemExit" in caplog.text
    caplog.clear()
    host.close()


@pytest.mark.parametrize(
    ("error", "first"),
    [
        (OSError, "websocket.accept"),
        (OSError, "websocket.send"),
        (RuntimeError, "websocket.send"),
        (OSError, "websocket.close"),
        (RuntimeError, "websocket.close"),
    ],
)
async def test_a_server_that_knows_first_that_the_client_has_left_is_believed(
    error: type[Exception], first: str
) -> None:
    agent, _, _ = reader()
    host = Host(CONNECT)

    @agent.method("_stop")
    async def stop(call: Call) -> None:
        call.connection.close()

    async def send(message: Any) -> None:
        if message["type"] == first:
            raise error
        await host.send(message)

    host.text(id=0, method="initialize", params={"protocolVersion": 1})
    if first == "websocket.close":
        host.text(id=1, method="_stop")
    app = RemoteApp(agent)
    with anyio.fail_after(10):
        await app(SCOPE, host.receive, send)
        await app.aclose()
    host.close()


async def test_the_life_of_the_server_is_followed() -> None:
    agent, _, _ = reader()
    host = Host({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})
    await RemoteApp(agent)({"type": "lifespan"}, host.receive, host.send)
    assert host.sent == [{"type": "lifespan.startup.complete"}, {"type": "lifespan.shutdown.complete"}]
    host.close()


async def test_a_client_that_comes_back_takes_its_session_over() -> None:
    agent, _, cut = reader()
    agent.store = MemoryStore()
    app = RemoteApp(agent)
    old, new = Host(CONNECT), Host(CONNECT)
    async with anyio.create_task_group() as tasks:
        for host in (old, new):
            tasks.start_soon(app, SCOPE, host.receive, host.send)
            host.text(id=0, method="initialize", params={"protocolVersion": 1})
        old.text(id=1, method="session/new", params=setup())
        session = (await old.answer(1))["result"]["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hang"}]}
        old.text(id=2, method="session/prompt", params=prompt)
        await old.told(lambda message: "begun" in message.get("text", ""))
        new.text(id=1, method="session/load", params={"sessionId": session, **setup()})
        assert "result" in await new.answer(1)
        assert cut.is_set()
        assert (await old.answer(2))["result"] == {"stopReason": "cancelled"}
        assert "begun" in str(new.sent)
        assert "taken-over" not in str(old.sent)
        old.text(id=3, method="session/prompt", params=prompt)
        assert "error" in await old.answer(3)
        for host in (old, new):
            host.say(LEFT)
    for host in (old, new):
        host.close()
