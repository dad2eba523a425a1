"""The guide to MCP servers: its examples run, with a server of the official package."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed: make test-integrations")

from tests.docs.blocks import run
from tests.session.editor import END_TURN, editing

pytestmark = pytest.mark.anyio

CALC = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("calc", log_level="CRITICAL")


@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b


server.run()
"""


@pytest.mark.parametrize("name", ["whole", "by_hand"])
async def test_the_tools_of_a_server_are_used(name: str, tmp_path: Path) -> None:
    server = {"name": "calc", "command": sys.executable, "args": ["-c", CALC], "env": []}
    async with editing(run("mcp.md", name)["agent"]) as editor:
        allowed = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        editor.client.answer("session/request_permission", allowed)
        session = await editor.open(str(tmp_path), mcpServers=[server])
        assert await editor.ask(session) == END_TURN
        assert editor.said()[-1] == "1 and 2 is 3."
        assert len(editor.client.all("session/request_permission")) == (name == "whole")
