"""MCP servers that a client names, and that its agent has nothing to do with."""

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_server import Agent, Session, Turn
from tests.session.editor import EVERYTHING, editing

pytestmark = pytest.mark.anyio


def server(folder: Path, name: str = "calc") -> dict[str, Any]:
    """A server over stdio that leaves a file when it is started."""
    touch = f"open({str(folder / 'started')!r}, 'w')"
    return {"name": name, "command": sys.executable, "args": ["-c", touch], "env": []}


async def told(agent: Agent, folder: Path, capabilities: dict[str, Any] = EVERYTHING) -> list[str]:
    """The notices of two sessions with two turns each."""
    async with editing(agent, capabilities=capabilities) as editor:
        for _ in range(2):
            session = await editor.open(mcpServers=[server(folder), server(folder, "docs\x1b[2J")])
            await editor.ask(session)
            await editor.ask(session)
        return [update["title"] for update in editor.client.updates() if update["sessionUpdate"] == "notice"]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def agent_that(look: bool = False) -> Agent:
    agent = Agent("plain")
    seen: list[Any] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        if look:
            seen.extend(turn.session.mcp_servers)
        await turn.say("Done.")

    return agent


async def test_an_agent_that_ignores_them_says_so_to_the_user_of_each_session_and_once_to_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notices = await told(agent_that(), tmp_path)
    assert notices == ["This agent does not use MCP servers: calc, docs\\x1b[2J"] * 2
    assert len(warnings(caplog)) == 1
    assert "calc" in warnings(caplog)[0]
    assert "Agent(mcp=True)" in warnings(caplog)[0]
    assert "\x1b" not in warnings(caplog)[0]
    assert not (tmp_path / "started").exists()


async def test_a_client_without_notices_is_told_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert await told(agent_that(), tmp_path, {}) == []
    assert len(warnings(caplog)) == 1


async def test_an_agent_that_looks_at_them_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert await told(agent_that(look=True), tmp_path) == []
    assert warnings(caplog) == []


async def test_an_agent_whose_session_handler_looks_at_them_says_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = agent_that()

    @agent.session
    async def prepare(session: Session) -> None:
        assert len(session.mcp_servers) == 2

    assert await told(agent, tmp_path) == []
    assert warnings(caplog) == []


async def test_a_session_without_servers_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with editing(agent_that()) as editor:
        await editor.ask(await editor.open())
        assert [update for update in editor.client.updates() if update["sessionUpdate"] == "notice"] == []
    assert warnings(caplog) == []
