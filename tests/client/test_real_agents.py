"""Driving agents that were not made for these tests: one on the official SDK, one on our own side."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import anyio
import pytest

from acp_server.client import Handlers, LocalFiles, LocalTerminals, RemoteSession, RemoteTurn, allow_once, spawn_agent
from acp_server.client.handlers import AskPermission, PermissionAnswer
from acp_server.schema import AgentMessageChunk, RequestPermissionRequest
from tests.client.processes import PATIENCE
from tests.client.talking import text

AGENTS = Path(__file__).parent / "agents"
COMMANDS = {
    "official": [sys.executable, str(AGENTS / "official.py")],
    "ours": [sys.executable, "-m", "acp_server", "serve", str(AGENTS / "ours.py")],
}
# The official SDK starts in half a second; whether that loop or the other drives it makes no difference to it.
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)]


@asynccontextmanager
async def driven(
    command: list[str], root: Path, permission: AskPermission = allow_once, version: Literal[1, 2] = 1
) -> AsyncIterator[RemoteSession]:
    handlers = Handlers(permission=permission, files=LocalFiles([root]), terminals=LocalTerminals())
    with anyio.fail_after(PATIENCE):
        async with spawn_agent(command, handlers, cwd=root) as agent:
            info = await agent.initialize(version=version)
            # The official SDK says the 2 back in an answer of version 1.
            assert info.protocol_version == (version if command == COMMANDS["ours"] else 1)
            yield await agent.new_session(root)


async def said(session: RemoteSession, prompt: str) -> list[str]:
    async with session.prompt(prompt) as turn:
        words = [text(update) async for update in turn if isinstance(update, AgentMessageChunk)]
        assert turn.stop_reason == "end_turn"
        return words


async def first(turn: RemoteTurn) -> str:
    """The first words of the agent."""
    async for update in turn:
        if isinstance(update, AgentMessageChunk):
            return text(update)
    raise AssertionError("the agent has said nothing")


async def test_it_streams_reads_asks_and_runs(command: list[str], tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("ö\n")
    async with driven(command, tmp_path) as session:
        assert "".join(await said(session, "stream 300")) == "".join(map(str, range(300)))
        assert await said(session, f"read {note}") == ["ö\n"]
        assert await said(session, "ask") == ["selected"]
        assert await said(session, "run echo hello") == ["hello\n"]


@pytest.mark.parametrize("version", [1, 2])
async def test_it_is_cancelled_and_goes_on(version: Literal[1, 2], command: list[str], tmp_path: Path) -> None:
    async with driven(command, tmp_path, version=version) as session:
        async with session.prompt("hang") as turn:
            assert await first(turn) == "hanging"
            turn.cancel()
            assert (await turn.wait()).stop_reason == "cancelled"
        with anyio.CancelScope() as scope:
            async with session.prompt("hang") as turn:
                await first(turn)
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        assert await said(session, "stream 2") == ["0", "1"]


@pytest.mark.parametrize("version", [1, 2])
async def test_a_question_that_is_open_at_the_cancel_is_answered(
    version: Literal[1, 2], command: list[str], tmp_path: Path
) -> None:
    asked = anyio.Event()

    async def hesitate(_request: RequestPermissionRequest) -> PermissionAnswer:
        asked.set()
        await anyio.sleep_forever()

    async with driven(command, tmp_path, hesitate, version) as session, session.prompt("ask") as turn:
        await asked.wait()
        turn.cancel()
        assert (await turn.wait()).stop_reason == "cancelled"
