"""An agent with a tool that needs approval, and what came of its calls."""

from typing import Any

from acp_server import Agent, ToolContext, ToolResult, Turn
from tests.session.editor import Editor

PERMISSION = "session/request_permission"


def selected(option: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


class Kept:
    """An agent with a tool that needs approval, and what came of its calls."""

    def __init__(self, agent: Agent | None = None, **options: Any) -> None:
        self.agent = agent or Agent("a")
        self.ran = 0
        self.results: list[ToolResult] = []
        self.actions: list[tuple[bool, bool]] = []

        async def touch(call: ToolContext, path: str = "a") -> str:
            self.ran += 1
            self.actions.append((call.primary_confirmed, call.secondary_confirmed))
            return "touched"

        self.agent.tool(name="touch", title="Touch a file", kind="edit", **{"approval": True, **options})(touch)

        @self.agent.prompt
        async def prompt(turn: Turn) -> None:
            self.results.append(await turn.run_tool("touch", {"path": "b"}))

    @property
    def status(self) -> str:
        return self.results[-1].status


def updates(editor: Editor) -> list[dict[str, Any]]:
    return [u for u in editor.client.updates() if "toolCallId" in u]
