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
        self._refused: dict[str, str] = {}
        """What became of those that the user did not allow: `rejected` or `cancelled`, by the `toolCallId`."""

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
            refused = self._refused.get(tool_call_id)
            update = ToolCallProgress(
                tool_call_id=tool_call_id,
                status="failed" if failed or refused else "completed",
                content=[Content(content=TextContent(text=text))],
                meta=None if refused is None else {"outcome": refused},
            )
            await self.turn.update(update)

    async def permit(self, name: str, arguments: Any, question: str | None = None) -> bool:
        """Whether the user allows something, which is a call that was shown if it has its name and arguments."""
        if is_large(arguments):
            # The user could not read what it is about.
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
        # Some clients show a call as it was told of, and only buttons for the question.
        await self.turn.update(ToolCall(**asked) if id is None else ToolCallProgress(**asked))
        answer = await self.turn.client.request_permission(ToolCallUpdate(**asked, locations=[]), _OPTIONS)
        outcome = "cancelled" if answer.cancelled else "rejected"
        if id is None:
            await self._answered(asked["tool_call_id"], None if answer.allowed else outcome)
        elif not answer.allowed:
            self._refused[id] = outcome
        return answer.allowed

    async def _answered(self, id: str, outcome: str | None) -> None:
        """A question that belongs to no call is over."""
        status, meta = ("completed", None) if outcome is None else ("failed", {"outcome": outcome})
        await self.turn.update(ToolCallProgress(tool_call_id=id, status=status, meta=meta))

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
