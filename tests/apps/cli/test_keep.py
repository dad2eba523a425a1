"""An agent that is kept: real processes, of which any may be killed."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from acp_server.client import Handlers, RemoteAgent, spawn_agent
from acp_server.errors import AgentExited, ConnectionClosed
from acp_server.remote import connect_url
from acp_server.schema import RequestPermissionRequest

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets"),
]

COMMAND = [sys.executable, "-m", "acp_server"]
AGENT = """
import os
import anyio
from acp_server import Agent, Call, MemoryStore, ToolContext, Turn

agent = Agent("kept", store=MemoryStore())
go = anyio.Event()


@agent.method("_pid")
async def pid(call: Call) -> int:
    return os.getpid()


@agent.method("_wait")
async def wait(call: Call) -> None:
    await anyio.sleep_forever()


@agent.method("_go")
async def release(call: Call) -> None:
    go.set()


@agent.tool(approval=True)
async def permitted(call: ToolContext) -> str:
    return "allowed"


@agent.prompt
async def prompt(turn: Turn) -> None:
    await turn.say("begun ")
    if turn.text == "wait":
        await go.wait()
    if turn.text == "ask":
        await turn.say((await turn.run_tool("permitted")).value)
    await turn.say("done")
"""


class Keeper:
    def __init__(self, folder: Path, *options: str) -> None:
        agent = folder / "kept_agent.py"
        agent.write_text(AGENT)
        self.address = f"unix:{folder / 's'}"
        command = [*COMMAND, "keep", "--socket", str(folder / "s"), *options, "--", str(agent)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        assert self.process.stderr is not None
        assert self.process.stderr.readline() == f"Listening on {self.address}\n"

    @property
    def bridge(self) -> list[str]:
        return [*COMMAND, "connect", self.address]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


@pytest.fixture
def keeper(tmp_path: Path) -> Any:
    kept = Keeper(tmp_path)
    yield kept
    kept.close()


@asynccontextmanager
async def reached(keeper: Keeper, handlers: Handlers | None = None) -> AsyncGenerator[RemoteAgent]:
    with anyio.fail_after(60):
        async with connect_url(keeper.address, handlers) as agent:
            await agent.initialize()
            yield agent


def kill(agent: RemoteAgent) -> None:
    """As a crash ends the bridge of an editor."""
    assert agent.process is not None
    os.kill(agent.process.pid, signal.SIGKILL)


async def gone(pid: int) -> None:
    """Wait until a process has ended."""
    found = [process for process in psutil.process_iter() if process.pid == pid]
    with anyio.fail_after(30):
        await anyio.to_thread.run_sync(lambda: psutil.wait_procs(found))


async def test_a_turn_goes_on_when_the_bridge_of_its_editor_is_killed(keeper: Keeper) -> None:
    with anyio.fail_after(60):
        async with spawn_agent(keeper.bridge) as first:
            await first.initialize()
            pid = await first.request("_pid", {})
            session = await first.new_session("/")
            async with session.prompt("wait") as turn:
                assert "begun" in str(await anext(aiter(turn)))
                kill(first)
                with pytest.raises(AgentExited):
                    await turn.wait()
    heard: list[str] = []
    async with reached(keeper) as second:
        assert await second.request("_pid", {}) == pid
        await second.request("_go", {})
        again = await second.load_session(session.id, "/", on_update=lambda update: heard.append(str(update)))
        assert "wait" in str(heard)
        assert "begun" in str(heard)
        assert await again.ask("more") == "begun done"


async def test_what_the_agent_has_asked_an_editor_that_left_is_asked_of_the_next_one(keeper: Keeper) -> None:
    asked = anyio.Event()

    async def never(request: RequestPermissionRequest) -> Any:
        asked.set()
        await anyio.sleep_forever()

    async def allow(request: RequestPermissionRequest) -> Any:
        asked.set()
        return request.options[0]

    with anyio.fail_after(60):
        async with spawn_agent(keeper.bridge, Handlers(permission=never)) as first:
            await first.initialize()
            session = await first.new_session("/")
            async with session.prompt("ask"):
                await asked.wait()
                kill(first)
    asked = anyio.Event()
    async with reached(keeper, Handlers(permission=allow)):
        await asked.wait()


async def test_an_editor_that_comes_takes_the_place_of_the_one_before(keeper: Keeper) -> None:
    async with reached(keeper) as first, reached(keeper) as second:
        with anyio.fail_after(30):
            with pytest.raises(ConnectionClosed):
                await first.request("_wait", {})
        assert await (await second.new_session("/")).ask("x") == "begun done"


async def test_no_agent_is_left_when_its_keeper_is_killed(keeper: Keeper) -> None:
    async with reached(keeper) as agent:
        pid = await agent.request("_pid", {})
        keeper.process.kill()
        await gone(pid)


async def test_it_ends_when_it_is_idle(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, "--idle", "0.1")
    async with reached(keeper) as agent:
        pid = await agent.request("_pid", {})
    await gone(pid)
    assert await anyio.to_thread.run_sync(keeper.process.wait) == 0
    assert not (tmp_path / "s").exists()
    keeper.close()


async def test_a_signal_ends_it_and_its_agent(keeper: Keeper) -> None:
    async with reached(keeper) as agent:
        pid = await agent.request("_pid", {})
    keeper.process.send_signal(signal.SIGTERM)
    await gone(pid)
    assert await anyio.to_thread.run_sync(keeper.process.wait) == 128 + signal.SIGTERM
