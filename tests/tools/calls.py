"""Turns that run one tool, and what the client sees of it."""

from typing import Any

from acp_server import Agent, ToolResult, Turn
from tests.session.editor import END_TURN, Editor, editing


def calling(agent: Agent, name: str, arguments: Any = None) -> list[ToolResult]:
    """Have every turn run a tool, as a model asks for it: what came of it."""
    results: list[ToolResult] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        results.append(await turn.run_tool(name, arguments, id="c1"))

    return results


async def updates(agent: Agent) -> list[dict[str, Any]]:
    """What the client sees of one turn's tool calls."""
    async with editing(agent) as editor:
        session = await editor.open()
        assert await editor.ask(session) == END_TURN
        return shown(editor)


def shown(editor: Editor) -> list[dict[str, Any]]:
    return [u for u in editor.client.updates() if "toolCallId" in u]


def text(update: dict[str, Any]) -> list[str]:
    return [piece["content"]["text"] for piece in update.get("content", ())]
