"""What a user sees of the tool calls that a framework runs by itself, and what the user is asked about them."""

from __future__ import annotations

from typing import Any, Final

from acp_server.errors import ConnectionClosed, SessionClosed, TurnEnded
from acp_server.schema.content import TextContent
from acp_server.schema.permission import PermissionOption
from acp_server.schema.tool_call import Content, ToolCall, ToolCallProgress, ToolCallUpdate
from acp_server.session.turn import Turn
from acp_server.tools.approval import ALLOW, REJECT, unexplained
from acp_server.tools.output import shown

REFUSED: Final = "The user did not allow it, so it was not run."

_OPTIONS: Final = [
    PermissionOption(option_id="allow_once", name=ALLOW, kind="allow_once"),
    PermissionOption(option_id="reject_once", name=REJECT, kind="reject_once"),
]


class CallsView:
    """Those of one turn."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._open: dict[str, tuple[str, Any]] = {}
        """The name and the arguments of the tool calls that were shown and have no result."""

    async def begin(self, id: str, name: str, arguments: Any) -> None:
        """A tool call is there. No effect if it was shown."""
        if id not in self._open:
            self._open[id] = (name, arguments)
            call = ToolCall(tool_call_id=id, title=name, name=name, status="in_progress", raw_input=shown(arguments))
            await self._turn.update(call)

    async def end(self, id: str, text: str, *, failed: bool = False) -> None:
        """It has a result. No effect if it was not shown."""
        if self._open.pop(id, None) is not None:
            status = "failed" if failed else "completed"
            shown_text = Content(content=TextContent(text=text))
            await self._turn.update(ToolCallProgress(tool_call_id=id, status=status, content=[shown_text]))

    async def permit(self, name: str, arguments: Any, question: str | None = None) -> bool:
        """Whether the user allows something, which is a call that was shown if it has its name and arguments."""
        raw = shown(arguments)
        id = next((id for id, call in self._open.items() if call == (name, arguments)), f"ask_{self._turn.id}")
        call = ToolCallUpdate(
            tool_call_id=id,
            title=name if question is None else question,
            status="pending",
            raw_input=raw,
            content=[Content(content=TextContent(text=question or unexplained(name, raw).message))],
        )
        return (await self._turn.client.request_permission(call, _OPTIONS)).allowed

    def close(self) -> None:
        """The turn is over: what has no result gets none."""
        for id in self._open:
            update = ToolCallProgress(tool_call_id=id, status="failed", meta={"outcome": "cancelled"})
            try:
                self._turn.put(update)
            except (TurnEnded, SessionClosed, ConnectionClosed):
                return
        self._open.clear()
