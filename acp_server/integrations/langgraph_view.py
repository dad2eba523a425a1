"""What a user sees of a run of LangGraph: text, reasoning, tool calls, questions.

It reads messages of LangChain by their attributes and imports nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, cast

from acp_server.integrations.calls_view import REFUSED, CallsView
from acp_server.session.turn import Turn

MODELS: Final = ("ai", "AIMessageChunk")
"""Types of messages that are a model's: whole ones, and those that a node has put together from pieces."""


@dataclass(frozen=True)
class Started:
    """A tool begins to run: what `starts` writes to the stream of the run."""

    id: str
    name: str
    arguments: Any


def starts() -> Any:
    """A callback that writes of each tool call that begins: behind what was streamed before, from whatever thread."""
    handler = import_module("langchain_core.callbacks").BaseCallbackHandler()

    def begun(
        tool: dict[str, Any], _text: str, *, inputs: Any = None, tool_call_id: str | None = None, **_: Any
    ) -> None:
        if tool_call_id is not None:
            write = import_module("langgraph.config").get_stream_writer()
            write(Started(tool_call_id, tool["name"], inputs))

    handler.run_inline = True
    handler.on_tool_start = begun
    return handler


class View(CallsView):
    """One turn's."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self._seen: set[str] = set()
        """The ids of the models' messages that were shown. A graph around another writes what that has written."""
        self.offered: set[str] = set()
        """The names of the session's own tools that the graph has asked for. They show themselves."""

    async def begin(self, id: str, name: str, arguments: Any) -> None:
        """A tool call is there, unless it is one that shows itself."""
        if name not in self.offered:
            await super().begin(id, name, arguments)

    async def chunk(self, message: Any) -> None:
        """A piece of a message, or a whole one of a model that does not stream. Only those of models are shown."""
        if message.type not in MODELS:
            return
        for block in message.content_blocks:
            if block["type"] == "text":
                await self.turn.say(block["text"])
            elif block["type"] == "reasoning":
                await self.turn.think(block.get("reasoning", ""))

    async def messages(self, messages: list[Any]) -> None:
        """What a node has added to the state."""
        for message in messages:
            if message.type in MODELS and message.id not in self._seen:
                if message.id is not None:
                    self._seen.add(message.id)
                self._count(message)
                for call in message.tool_calls:
                    await self.begin(call["id"], call["name"], call["args"])
            elif message.type == "tool":
                await self.end(message.tool_call_id, str(message.text), failed=message.status == "error")

    async def started(self, call: Any) -> None:
        """Something that was written to the stream of the run: by `starts`, or by the graph for its own ends."""
        if isinstance(call, Started):
            await self.begin(call.id, call.name, call.arguments)
            await self.run(call.id)

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
        if (usage := message.usage_metadata) is not None:
            self.turn.add_usage(input_tokens=usage["input_tokens"], output_tokens=usage["output_tokens"])
