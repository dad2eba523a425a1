"""What a user sees of a run of LangGraph: text, reasoning, tool calls, questions.

It reads messages of LangChain by their attributes and imports nothing of it.
"""

from __future__ import annotations

from typing import Any, Final, cast

from acp_server.integrations.calls_view import REFUSED, CallsView
from acp_server.session.turn import Turn

MODELS: Final = ("ai", "AIMessageChunk")
"""Types of messages that are a model's: whole ones, and those that a node has put together from pieces."""


class View(CallsView):
    """One turn's."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self._counted: set[str] = set()

    async def chunk(self, message: Any) -> None:
        """A piece of a message, or a whole one of a model that does not stream. Only those of models are shown."""
        if message.type not in MODELS:
            return
        for block in message.content_blocks:
            if block["type"] == "text":
                await self._turn.say(block["text"])
            elif block["type"] == "reasoning":
                await self._turn.think(block.get("reasoning", ""))

    async def messages(self, messages: list[Any]) -> None:
        """What a node has added to the state."""
        for message in messages:
            if message.type in MODELS:
                self._count(message)
                for call in message.tool_calls:
                    await self.begin(call["id"], call["name"], call["args"])
            elif message.type == "tool":
                await self.end(message.tool_call_id, str(message.text), failed=message.status == "error")

    async def ask(self, _turn: Turn, value: Any) -> Any:
        """The user's answer to an `interrupt()`: decisions for the middleware that asks about tools, else a bool."""
        requests: Any = cast("dict[str, Any]", value).get("action_requests") if isinstance(value, dict) else None
        if not isinstance(requests, list):
            return await self.permit("graph", value, value if isinstance(value, str) else None)
        decisions: list[dict[str, str]] = []
        for request in cast("list[dict[str, Any]]", requests):
            allowed = await self.permit(request["name"], request.get("args"))
            decisions.append({"type": "approve"} if allowed else {"type": "reject", "message": REFUSED})
        return {"decisions": decisions}

    def _count(self, message: Any) -> None:
        usage = message.usage_metadata
        if usage is not None and message.id not in self._counted:
            self._counted.add(message.id)
            self._turn.add_usage(input_tokens=usage["input_tokens"], output_tokens=usage["output_tokens"])
