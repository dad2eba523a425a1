"""Shows the user the tool calls that a framework runs itself, and requests permission for them."""

from __future__ import annotations

from typing import Any, Final

from acp_server import ConnectionClosed, SessionClosed, Turn, TurnEnded
from acp_server.safe_text import one_line
from acp_server.schema import Content, PermissionOption, TextContent, ToolCall, ToolCallProgress, ToolCallUpdate
from acp_server.tools.approval import ALLOW, REJECT, unexplained
from acp_server.tools.output import is_large, snapshot

REFUSED: Final = "The user did not allow it, so it was not run."

_OPTIONS: Final = [
    PermissionOption(option_id="allow_once", name=ALLOW, kind="allow_once"),
    PermissionOption(option_id="reject_once", name=REJECT, kind="reject_once"),
]

_TITLE: Final = 1_000
"""The most characters of the title of a call."""


class CallsView:
    """Shows the tool calls of one turn."""

    def __init__(self, turn: Turn) -> None:
        self.turn: Final = turn
        self._open: dict[str, tuple[str, str, Any]] = {}
        """The `toolCallId`, name and arguments of tool calls that were shown and have no result yet. The key is the
        framework's id."""
        self._refused: dict[str, str] = {}
        """The outcome of calls that the user did not allow, `rejected` or `cancelled`, by `toolCallId`."""

    async def begin(self, id: str, name: str, arguments: Any) -> None:
        """Show a tool call that does not run yet. Has no effect if it was shown before."""
        if id not in self._open:
            # Models may count their call ids from 0 in each turn.
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
        """Show that the tool's function begins. Has no effect if the call was not shown."""
        if (call := self._open.get(id)) is not None:
            await self.turn.update(ToolCallProgress(tool_call_id=call[0], status="in_progress"))

    async def end(self, id: str, text: str, *, failed: bool = False) -> None:
        """Show the result of a call. Has no effect if the call was not shown."""
        if (call := self._open.pop(id, None)) is not None:
            tool_call_id = call[0]
            refused = self._refused.get(tool_call_id)
            update = ToolCallProgress(
                tool_call_id=tool_call_id,
                status="failed" if failed or refused else "completed",
                content=[Content(content=TextContent(text=text))],
                meta=None if refused is None else {"outcome": refused},
            )
            await self.turn.update(update)

    async def permit(self, name: str, arguments: Any, question: str | None = None) -> bool:
        """Request the user's permission. The request belongs to the shown call with this name and these arguments, if
        there is such a call. Returns whether the user allowed it."""
        if is_large(arguments):
            # The user could not read arguments of that size.
            return False
        raw = snapshot(arguments)
        id = next((call[0] for call in self._open.values() if call[1:] == (name, arguments)), None)
        asked: dict[str, Any] = {
            "tool_call_id": self.turn.session.tools.tool_call_id(None) if id is None else id,
            "title": _shown(name if question is None else question),
            "kind": "other",
            "status": "pending",
            "raw_input": raw,
            "content": [Content(content=TextContent(text=question or unexplained(name, raw).message))],
        }
        # Some clients show only the announced call, and buttons for the request.
        await self.turn.update(ToolCall(**asked) if id is None else ToolCallProgress(**asked))
        answer = await self.turn.client.request_permission(ToolCallUpdate(**asked, locations=[]), _OPTIONS)
        outcome = "cancelled" if answer.cancelled else "rejected"
        if id is None:
            await self._answered(asked["tool_call_id"], None if answer.allowed else outcome)
        elif not answer.allowed:
            self._refused[id] = outcome
        return answer.allowed

    async def _answered(self, id: str, outcome: str | None) -> None:
        """End the tool call of a permission request that belongs to no shown call."""
        status, meta = ("completed", None) if outcome is None else ("failed", {"outcome": outcome})
        await self.turn.update(ToolCallProgress(tool_call_id=id, status=status, meta=meta))

    def close(self) -> None:
        """Mark calls without a result as cancelled, because the turn has ended."""
        for id, _, _ in self._open.values():
            update = ToolCallProgress(tool_call_id=id, status="failed", meta={"outcome": "cancelled"})
            try:
                self.turn.put(update)
            except (TurnEnded, SessionClosed, ConnectionClosed):
                return
        self._open.clear()


def _shown(name: str) -> str:
    """Return the title for a tool name. The name may be unknown, because a model may call a tool that does not
    exist."""
    return one_line(name, _TITLE)
