"""The relay of `acp-server serve --reload` with processes in memory: a test decides what happens in which order."""

import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from acp_server.apps.cli.reload import relay as module
from acp_server.apps.cli.reload.relay import Relay
from acp_server.testing.streams import FaultyStream, MemoryStream, memory_pair
from acp_server.wire import codec
from tests.agent.processes.driver import Message, line

pytestmark = pytest.mark.anyio

PATIENCE = 20.0


class End:
    """One end of a stream: messages, each wait bounded."""

    def __init__(self, stream: MemoryStream) -> None:
        self.stream = stream
        self._lines: list[bytes] = []

    def send(self, *messages: Message) -> None:
        self.stream.send_nowait(b"".join(map(line, messages)))

    def answer(self, request: Message, result: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def next(self) -> Message:
        with anyio.fail_after(PATIENCE):
            while not self._lines:
                data = await self.stream.receive()
                assert data, "the other end has ended"
                self._lines += data.splitlines()
        return codec.decode(self._lines.pop(0))

    async def initialized(self) -> None:
        """For an agent: answer the first request, which is that one."""
        self.answer(request := await self.next(), {"protocolVersion": 1, "agentCapabilities": {}})
        assert request["method"] == "initialize"

    async def ended(self) -> None:
        """For an agent: the input has ended, so end the output."""
        with anyio.fail_after(PATIENCE):
            while await self.stream.receive():
                pass
        self.stream.send_eof()


class Process:
    """What the relay takes for a `ChildProcess`, with the agent's `end` of it."""

    def __init__(self) -> None:
        self._relays, agents = memory_pair()
        self.end = End(agents)
        self.stream = self
        self.pid = 0
        self.exit_code: int | None = None
        self.receive = self._relays.receive
        self.send = self._relays.send

    async def aclose(self) -> None:
        self._relays.send_eof()


class Changing:
    """A relay that serves `client`, and the processes that it starts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._started = anyio.Event()
        self._processes: list[Process] = []
        self.ended = anyio.Event()
        inside, outside = memory_pair()
        self.inside = FaultyStream(inside)
        self.client = End(outside)
        self.relay = Relay(self.inside, ["agent"])
        monkeypatch.setattr(module.ChildProcess, "start", self._start)

    async def _start(self, _command: Any, **_options: Any) -> Process:
        self._processes.append(Process())
        self._started.set()
        return self._processes[-1]

    async def run(self) -> None:
        await self.relay.run()
        self.ended.set()

    async def process(self) -> Process:
        """The next one that is started."""
        with anyio.fail_after(PATIENCE):
            await self._started.wait()
        self._started = anyio.Event()
        return self._processes[-1]

    async def agent(self) -> End:
        return (await self.process()).end

    def change(self) -> None:
        self.relay.change(["my_agent.py"])

    async def begun(self) -> End:
        """The first process, which has answered to `initialize`."""
        agent = await self.agent()
        self.client.send(request(1, "initialize"))
        await agent.initialized()
        await self.client.next()
        return agent

    async def passes_on(self, agent: End, id: int) -> None:
        """What the client asks reaches this process, and its answer the client."""
        self.client.send(request(id, "_x"))
        assert await agent.next() == request(id, "_x")
        agent.answer(request(id, "_x"), {})
        assert await self.client.next() == {"jsonrpc": "2.0", "id": id, "result": {}}


@asynccontextmanager
async def relaying(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Changing]:
    changing = Changing(monkeypatch)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(changing.run)
        yield changing
        tasks.cancel_scope.cancel()


def request(id: int, method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


async def test_a_client_that_waited_for_room_is_read_again_if_the_code_changes_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MOST_HELD", 0)
    async with relaying(monkeypatch) as it:
        first = await it.begun()
        it.change()
        await first.ended()
        second = await it.agent()
        assert (await second.next())["method"] == "initialize"
        it.client.send(request(2, "_x"))
        await anyio.wait_all_tasks_blocked()
        it.change()
        await second.ended()
        third = await it.agent()
        await third.initialized()
        assert await third.next() == request(2, "_x")
        third.answer(request(2, "_x"), {})
        assert (await it.client.next())["id"] == 2
        await it.passes_on(third, 3)


async def test_a_change_in_the_moment_in_which_a_process_is_ready_leaves_what_waits_to_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with relaying(monkeypatch) as it:
        first = await it.begun()
        it.change()
        await first.ended()
        second = await it.agent()
        again = await second.next()
        it.client.send(request(2, "_x"))
        await anyio.wait_all_tasks_blocked()
        second.answer(again, {"protocolVersion": 1, "agentCapabilities": {}})
        it.change()
        await second.ended()
        third = await it.agent()
        await third.initialized()
        assert await third.next() == request(2, "_x")
        await it.passes_on(third, 3)


async def test_requests_behind_a_change_in_the_moment_in_which_a_process_is_ready_wait_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with relaying(monkeypatch) as it:
        first = await it.begun()
        it.change()
        await first.ended()
        second = await it.agent()
        again = await second.next()
        second.answer(again, {"protocolVersion": 1, "agentCapabilities": {}})
        it.change()
        await anyio.wait_all_tasks_blocked()
        it.client.send(request(2, "_x"))
        await anyio.wait_all_tasks_blocked()
        await second.ended()
        third = await it.agent()
        await third.initialized()
        assert await third.next() == request(2, "_x")


async def test_updates_of_a_session_that_cannot_be_opened_again_reach_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    update = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {}}}
    async with relaying(monkeypatch) as it:
        first = await it.begun()
        it.client.send(request(2, "session/new", cwd="/"))
        first.answer(await first.next(), {"sessionId": "s"})
        await it.client.next()
        it.change()
        await first.ended()
        second = await it.agent()
        await second.initialized()
        second.send(update)
        assert await it.client.next() == update


async def test_a_client_that_reads_nothing_does_not_keep_the_relay_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LAST_WRITE", 0.01)
    async with relaying(monkeypatch) as it:
        agent = await it.begun()
        it.client.send(request(2, "_x"))
        assert await agent.next() == request(2, "_x")
        it.inside.stall_sending(0)
        # What it owes is refused, which the client does not read.
        agent.stream.send_eof()
        with anyio.fail_after(PATIENCE):
            await it.inside.stalled.wait()
        await anyio.wait_all_tasks_blocked()
        it.client.stream.send_eof()
        with anyio.fail_after(PATIENCE):
            await it.ended.wait()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals to be passed on")
async def test_a_signal_for_a_process_that_has_just_ended_reaches_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = await anyio.open_process(["true"])
    await gone.wait()
    await gone.aclose()
    async with relaying(monkeypatch) as it:
        process = await it.process()
        process.pid = gone.pid
        await it.passes_on(process.end, 1)
        os.kill(os.getpid(), signal.SIGINT)
        await anyio.wait_all_tasks_blocked()
        await it.passes_on(process.end, 2)
