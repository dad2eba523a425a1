"""What a user sees of a run of LangGraph: text, reasoning, tool calls, questions.

It reads messages of LangChain by their attributes and imports nothing of it.
"""

from __future__ import annotations

from typing import Any, Final, cast

from acp_server.errors import ConnectionClosed, SessionClosed, TurnEnded
from acp_server.schema.content import TextContent
from acp_server.schema.permission import PermissionOption
from acp_server.schema.tool_call import Content, ToolCall, ToolCallProgress, ToolCallUpdate
from acp_server.session.turn import Turn
from acp_server.tools.consent import ALLOW, REJECT, unexplained
from acp_server.tools.output import shown

_OPTIONS: Final = [
    PermissionOption(option_id="allow_once", name=ALLOW, kind="allow_once"),
    PermissionOption(option_id="reject_once", name=REJECT, kind="reject_once"),
]
_REFUSED: Final = "The user did not allow it, so it was not run."


class View:
    """One turn's."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._open: dict[str, tuple[str, Any]] = {}
        """The name and the arguments of the tool calls that were shown and have no result."""
        self._counted: set[str] = set()

    async def chunk(self, message: Any) -> None:
        """A piece of a message, or a whole one of a model that does not stream. Only those of models are shown."""
        if message.type not in ("ai", "AIMessageChunk"):
            return
        for block in message.content_blocks:
            if block["type"] == "text":
                await self._turn.say(block["text"])
            elif block["type"] == "reasoning":
                await self._turn.think(block.get("reasoning", ""))

    async def messages(self, messages: list[Any]) -> None:
        """What a node has added to the state."""
        for message in messages:
            if message.type == "ai":
                self._count(message)
                for call in message.tool_calls:
                    await self._begin(call["id"], call["name"], call["args"])
            elif message.type == "tool":
                await self._end(message)

    async def ask(self, turn: Turn, value: Any) -> Any:
        """The user's answer to an `interrupt()`: decisions for the middleware that asks about tools, else a bool."""
        requests: Any = cast("dict[str, Any]", value).get("action_requests") if isinstance(value, dict) else None
        if not isinstance(requests, list):
            question = value if isinstance(value, str) else None
            return await self._permission("graph", question, value)
        decisions: list[dict[str, str]] = []
        for request in cast("list[dict[str, Any]]", requests):
            allowed = await self._permission(request["name"], None, request.get("args"))
            decisions.append({"type": "approve"} if allowed else {"type": "reject", "message": _REFUSED})
        return {"decisions": decisions}

    async def _permission(self, name: str, question: str | None, arguments: Any) -> bool:
        raw = shown(arguments)
        # The call that it is about, if it is one that was shown.
        id = next((id for id, call in self._open.items() if call == (name, arguments)), f"ask_{self._turn.id}")
        message = question or unexplained(name, raw).message
        call = ToolCallUpdate(
            tool_call_id=id,
            title=name if question is None else question,
            status="pending",
            raw_input=raw,
            content=[Content(content=TextContent(text=message))],
        )
        return (await self._turn.client.request_permission(call, _OPTIONS)).allowed

    def close(self) -> None:
        """The run is over: what has no result gets none."""
        for id in self._open:
            update = ToolCallProgress(tool_call_id=id, status="failed", meta={"outcome": "cancelled"})
            try:
                self._turn.put(update)
            except (TurnEnded, SessionClosed, ConnectionClosed):
                return
        self._open.clear()

    def _count(self, message: Any) -> None:
        usage = message.usage_metadata
        if usage is not None and message.id not in self._counted:
            self._counted.add(message.id)
            self._turn.add_usage(input_tokens=usage["input_tokens"], output_tokens=usage["output_tokens"])

    async def _begin(self, id: str, name: str, arguments: Any) -> None:
        if id not in self._open:
            self._open[id] = (name, arguments)
            call = ToolCall(tool_call_id=id, title=name, name=name, status="in_progress", raw_input=shown(arguments))
            await self._turn.update(call)

    async def _end(self, message: Any) -> None:
        if self._open.pop(message.tool_call_id, None) is None:
            return
        await self._turn.update(
            ToolCallProgress(
                tool_call_id=message.tool_call_id,
                status="failed" if message.status == "error" else "completed",
                content=[Content(content=TextContent(text=str(message.text)))],
            )
        )
