"""The guide to MCP servers: its examples run, with a server of the official package."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed: make test-integrations")

from acp_server import Agent
from tests.docs.blocks import run
from tests.docs.calc import CALC
from tests.session.editor import END_TURN, editing

pytestmark = pytest.mark.anyio


async def _use(agent: Agent, folder: Path) -> int:
    """Have the agent use a tool of a server: how often the user was asked."""
    server = {"name": "calc", "command": sys.executable, "args": ["-c", CALC], "env": []}
    async with editing(agent) as editor:
        allowed = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        editor.client.answer("session/request_permission", allowed)
        session = await editor.open(str(folder), mcpServers=[server])
        assert await editor.ask(session) == END_TURN
        assert editor.said()[-1] == "1 and 2 is 3."
        return len(editor.client.all("session/request_permission"))


async def test_the_tools_of_all_servers_of_a_session_are_used_when_the_user_allows_it(tmp_path: Path) -> None:
    assert await _use(run("mcp.md", "whole")["agent"], tmp_path) == 1


async def test_an_author_connects_to_the_servers_and_says_what_may_run(tmp_path: Path) -> None:
    assert await _use(run("mcp.md", "by_hand")["agent"], tmp_path) == 0
