"""A session with MCP servers, and an agent whose prompts call their tools."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acp_server import Agent, Session, ToolResult, Turn
from tests.session.editor import END_TURN, Editor, editing

REAL = str(Path(__file__).parent / "real.py")
RAW = str(Path(__file__).parent / "raw.py")


def real(ear: str, *args: str, name: str = "real", **env: str) -> dict[str, Any]:
    """A server of the official package over stdio, as a client names it."""
    pairs = [{"name": key, "value": value} for key, value in {"EAR": ear, **env}.items()]
    return {"name": name, "command": sys.executable, "args": [REAL, *args], "env": pairs}


def raw(mode: str, name: str = "raw", *args: str, **env: str) -> dict[str, Any]:
    """One that misbehaves."""
    pairs = [{"name": key, "value": value} for key, value in env.items()]
    return {"name": name, "command": sys.executable, "args": ["-S", "-E", RAW, mode, *args], "env": pairs}


TRUSTED = ("real", "other", "raw", "raw_2", "a/b")
"""Servers that are believed when a tool says that it only reads, so that most tests are about something else."""


class Staged:
    """An agent whose prompts are a tool's name and, behind a space, its arguments as JSON."""

    def __init__(self, agent: Agent | None = None) -> None:
        self.agent = agent or Agent("staged", mcp=True, mcp_trusted=TRUSTED)
        self.sessions: list[Session] = []
        self.results: list[ToolResult] = []
        self.agent.session(self.sessions.append)

        @self.agent.prompt
        async def prompt(turn: Turn) -> None:
            name, _, arguments = turn.text.partition(" ")
            if name:
                self.results.append(await turn.run_tool(name, json.loads(arguments or "{}")))

    @property
    def names(self) -> list[str]:
        """What a model is offered in the last session."""
        return [tool["name"] for tool in self.sessions[-1].tools.describe()]

    @property
    def told(self) -> tuple[str, str | None]:
        """The status of the last call, and what the model is told of it."""
        return self.results[-1].status, self.results[-1].message


@asynccontextmanager
async def staged(
    cwd: Path, *servers: dict[str, Any], agent: Agent | None = None, capabilities: Any = None
) -> AsyncGenerator[tuple[Editor, str, Staged]]:
    """An editor, its session with these servers, and the agent."""
    stage = Staged(agent)
    async with editing(stage.agent, capabilities=capabilities) as editor:
        yield editor, await editor.open(str(cwd), mcpServers=list(servers)), stage


async def call(editor: Editor, session: str, name: str = "", **arguments: Any) -> None:
    """A prompt that calls a tool and waits for it; without a name, one that waits for the servers."""
    assert await editor.ask(session, f"{name} {json.dumps(arguments)}" if name else " ") == END_TURN
