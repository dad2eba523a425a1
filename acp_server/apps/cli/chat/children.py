"""Shows the messages of child sessions on the screen of a chat, line by line, each with the title of its child
session."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from acp_server.schema import AgentMessageChunk, SubagentUpdate, TextContent, ToolCall, ToolCallUpdate

if TYPE_CHECKING:
    from acp_server.apps.cli.screen import Screen
    from acp_server.client import RemoteAgent, RemoteSubagent
    from acp_server.schema import SessionUpdate

_LONGEST: Final = 2_000
"""The most characters of an unfinished line. A longer line is shown unfinished."""


class Children:
    """The children of one agent's sessions."""

    def __init__(self, screen: Screen, agent: RemoteAgent) -> None:
        self._screen = screen
        self._agent = agent
        self._unshown: dict[str, str] = {}
        """The unfinished line, by the id of the child."""

    def told(self, update: SubagentUpdate) -> None:
        """Show an update about a child of a session, or of a child session."""
        child = self._agent.subagents.get(update.session_id)
        if child is None:
            return
        if child.on_update is None:
            child.on_update = partial(self._heard, child)
            self._say(child, child.description or "begins")
        elif child.state == "idle":
            if rest := self._unshown.pop(child.id, ""):
                self._say(child, rest)
            self._say(child, f"({child.stop_reason or 'idle'}{f': {child.error}' if child.error else ''})")

    def _heard(self, child: RemoteSubagent, update: SessionUpdate) -> None:
        if isinstance(update, SubagentUpdate):
            self.told(update)
        elif isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent):
            *lines, rest = (self._unshown.pop(child.id, "") + update.content.text).split("\n")
            if len(rest) > _LONGEST:
                lines, rest = [*lines, rest], ""
            for line in lines:
                self._say(child, line)
            if rest:
                self._unshown[child.id] = rest
        elif isinstance(update, (ToolCall, ToolCallUpdate)):
            self._screen.update(update)

    def _say(self, child: RemoteSubagent, line: str) -> None:
        self._screen.line(f"  {child.title or 'subagent'}: ", line, fg="cyan")
