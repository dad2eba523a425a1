"""What a user sees of the tool calls that a framework runs by itself, and what the user is asked about them."""

from __future__ import annotations

from typing import Any, Final

from acp_server.errors import ConnectionClosed, SessionClosed, TurnEnded
from acp_server.safe_text import one_line
from acp_server.schema.content import TextContent
from acp_server.schema.tool_call import Content, PermissionOption, ToolCall, ToolCallProgress, ToolCallUpdate
from acp_server.session.turn import Turn
from acp_server.tools.approval import ALLOW, REJECT, unexplained
from acp_server.tools.output import is_large, snapshot
from acp_server.tools.view import TITLE

REFUSED: Final = "The user did not allow it, so it was not run."

_OPTIONS: Final = [
    PermissionOption(option_id="allow_once", name=ALLOW, kind="allow_once"),
    PermissionOption(option_id="reject_once", name=REJECT, kind="reject_once"),
]


class CallsView:
    """Those of one turn."""

    def __init__(self, turn: Turn) -> None:
        self.turn: Final = turn
        self._open: dict[str, tuple[str, str, Any]] = {}
        """The `toolCallId`, the name and the arguments of the tool calls that were shown and have no result."""
        self._refused: set[str] = set()
        """The `toolCallId` of those that the user did not allow."""

    async def begin(self, id: str, name: str, arguments: Any) -> None:
        """A tool call is there, and does not run yet. No effect if it was shown."""
        if id not in self._open:
            # Models count their calls from 0 again.
            tool_call_id = self.turn.session.tools.tool_call_id(id)
            self._open[id] = (tool_call_id, name, arguments)
            call = ToolCall(
                tool_call_id=tool_call_id,
                title=_shown(name),
                name=name,
                status="pending",
                raw_input=snapshot(arguments),
            )
            await self.turn.update(call)

    async def run(self, id: str) -> None:
        """Its function begins. No effect if it was not shown."""
        if (call := self._open.get(id)) is not None:
            await self.turn.update(ToolCallProgress(tool_call_id=call[0], status="in_progress"))

    async def end(self, id: str, text: str, *, failed: bool = False) -> None:
        """It has a result. No effect if it was not shown."""
        if (call := self._open.pop(id, None)) is not None:
            tool_call_id = call[0]
            refused = tool_call_id in self._refused
            update = ToolCallProgress(
                tool_call_id=tool_call_id,
                status="failed" if failed or refused else "completed",
                content=[Content(content=TextContent(text=text))],
                meta={"outcome": "rejected"} if refused else None,
            )
            await self.turn.update(update)

    async def permit(self, name: str, arguments: Any, question: str | None = None) -> bool:
        """Whether the user allows something, which is a call that was shown if it has its name and arguments."""
        if is_large(arguments):
            # The user could not read what it is about.
            return False
        raw = snapshot(arguments)
        id = next((call[0] for call in self._open.values() if call[1:] == (name, arguments)), f"ask_{self.turn.id}")
        call = ToolCallUpdate(
            tool_call_id=id,
            title=_shown(name if question is None else question),
            status="pending",
            raw_input=raw,
            content=[Content(content=TextContent(text=question or unexplained(name, raw).message))],
        )
        allowed = (await self.turn.client.request_permission(call, _OPTIONS)).allowed
        if not allowed:
            self._refused.add(id)
        return allowed

    def close(self) -> None:
        """The turn is over: what has no result gets none."""
        for id, _, _ in self._open.values():
            update = ToolCallProgress(tool_call_id=id, status="failed", meta={"outcome": "cancelled"})
            try:
                self.turn.put(update)
            except (TurnEnded, SessionClosed, ConnectionClosed):
                return
        self._open.clear()


def _shown(name: str) -> str:
    """A model may call a tool that there is not."""
    return one_line(name, TITLE)
