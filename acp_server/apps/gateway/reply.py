"""Converts an agent's updates to the messages of a chat, as they stream and as they are stored.

The agent's text becomes an answer, and a tool call becomes a call and a response. Plans, modes and similar updates are
not shown, because the API has nothing for them. This module knows no states, and neither sends nor stores. It returns
the deltas and messages for an update.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from acp_server.apps.gateway.messages import ANSWER, ChatMessage
from acp_server.apps.gateway.records import Chat, Ids
from acp_server.safe_text import whole
from acp_server.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    Content,
    ContentBlock,
    Diff,
    EmbeddedResource,
    ResourceLink,
    SessionUpdate,
    TextContent,
    TextResourceContents,
    ToolCall,
    ToolCallContent,
    ToolCallUpdate,
)

FUNCTION_CALL: Final = "function_call"
TOOL_RESPONSE: Final = "tool_response"
VERBOSE: Final = "verbose"

_FINISHED: Final = 0
_INTERRUPTED: Final = 1


@dataclass(frozen=True, slots=True)
class Delta:
    """A part of a message that streams."""

    wire: dict[str, Any]
    """The delta in the form of the API."""


Pieces = list[Delta | ChatMessage]
"""The deltas and messages to send, in order. Each message is complete and is stored first."""


_MOST_UNTOLD: Final = 50
"""The most tool calls that are announced but not sent yet. They are limited because their inputs are not counted until
they are sent."""


class Reply:
    """The messages of one chat."""

    def __init__(self, chat: Chat, ids: Ids) -> None:
        self.size: int = 0
        """The number of characters so far."""
        self._chat = chat
        self._ids = ids
        self._answer: ChatMessage | None = None
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._agents_id: str | None = None
        self._calls: dict[str, _Call] = {}

    def take(self, update: SessionUpdate) -> Pieces:
        """Return the deltas and messages for one update."""
        if isinstance(update, AgentMessageChunk | AgentThoughtChunk):
            # Thoughts so far belong to this answer, whatever message id the agent gives them.
            parted = self._answer is not None and self._text and update.message_id not in (None, self._agents_id)
            before = self._shown_calls() if text_of(update.content) else []
            before += self.close() if parted else []
            self._agents_id = update.message_id or self._agents_id
            return before + self._chunk(text_of(update.content), isinstance(update, AgentThoughtChunk))
        return self._tool(update) if isinstance(update, ToolCall | ToolCallUpdate) else []

    def close(self) -> Pieces:
        """Complete the streaming answer, if there is one."""
        message, self._answer = self._answer, None
        self._agents_id = None
        if message is None:
            return []
        message.content = "".join(self._text)
        message.reasoning_content = "".join(self._thoughts)
        return [message]

    def finish(self) -> Pieces:
        """Complete all messages."""
        return [*self._shown_calls(), *self.close(), self._finished(_FINISHED)]

    def interrupt(self, questions: list[tuple[str, dict[str, Any]]]) -> Pieces:
        """Return the function calls for the agent's questions, given by their names and arguments."""
        calls = [
            self._message(FUNCTION_CALL, json.dumps({"name": name, "arguments": arguments}))
            for name, arguments in questions
        ]
        return [*self._shown_calls(), *self.close(), *calls, self._finished(_INTERRUPTED)]

    def answered(self, outputs: list[str]) -> list[ChatMessage]:
        """Return the messages for the answers to the questions."""
        return [self._message(TOOL_RESPONSE, output) for output in outputs]

    # -- pieces

    def _chunk(self, text: str, thought: bool) -> Pieces:
        if not text:
            return []
        self.size += len(text)
        if self._answer is None:
            self._answer = self._message(ANSWER, "")
            self._text, self._thoughts = [], []
        (self._thoughts if thought else self._text).append(text)
        wire = self._answer.to_wire()
        wire["reasoning_content" if thought else "content"] = text
        return [Delta(wire)]

    def _tool(self, update: ToolCall | ToolCallUpdate) -> Pieces:
        pieces: Pieces = []
        call = self._calls.get(update.tool_call_id)
        if call is None:
            if sum(not call.shown for call in self._calls.values()) >= _MOST_UNTOLD:
                pieces += self._shown_calls()
            pieces += self.close()
            call = self._calls[update.tool_call_id] = _Call(update.tool_call_id)
        call.merge(update)
        # Its input may come after its announcement, and piece by piece.
        if call.status != "pending":
            pieces += self._show(call)
        if call.status in ("completed", "failed"):
            # Text during and after a tool call is one answer: only the next tool call, or the agent, separates it.
            del self._calls[update.tool_call_id]
            output = call.output
            self.size += len(output)
            pieces.append(self._message(TOOL_RESPONSE, output))
        return pieces

    def _shown_calls(self) -> Pieces:
        """Send announced tool calls with the input known so far, because other content follows."""
        return [piece for call in self._calls.values() for piece in self._show(call)]

    def _show(self, call: _Call) -> Pieces:
        if call.shown:
            return []
        call.shown = True
        content = json.dumps({"name": call.name, "arguments": {} if call.arguments is None else call.arguments})
        self.size += len(content)
        return [*self.close(), self._message(FUNCTION_CALL, content)]

    def _finished(self, reason: int) -> ChatMessage:
        content = {
            "msg_type": "generate_answer_finish",
            "data": json.dumps({"finish_reason": reason, "FinData": ""}),
            "from_module": None,
            "from_unit": None,
        }
        return self._message(VERBOSE, json.dumps(content))

    def _message(self, kind: str, content: str) -> ChatMessage:
        chat = self._chat
        return ChatMessage(
            id=self._ids.new(),
            conversation_id=chat.conversation_id,
            section_id=chat.section_id,
            role="assistant",
            type=kind,
            content=content,
            chat_id=chat.id,
            bot_id=chat.bot_id,
        )


class _Call:
    """The known state of a tool call."""

    def __init__(self, id: str) -> None:
        self.name = id
        self.arguments: Any = None
        self.status = "pending"
        self.shown = False
        self._content: list[ToolCallContent] = []
        self._raw_output: Any = None

    def merge(self, update: ToolCall | ToolCallUpdate) -> None:
        self.name = update.name or (update.title if self.name == update.tool_call_id else None) or self.name
        if update.raw_input is not None and (update.raw_input or self.arguments is None):
            self.arguments = update.raw_input
        self.status = update.status or self.status
        if update.content:
            self._content = list(update.content)
        if update.raw_output is not None:
            self._raw_output = update.raw_output

    @property
    def output(self) -> str:
        text = "\n".join(filter(None, map(_as_text, self._content)))
        if text or self._raw_output is None:
            return text
        return whole(self._raw_output) if isinstance(self._raw_output, str) else json.dumps(self._raw_output)


def _as_text(content: ToolCallContent) -> str:
    if isinstance(content, Content):
        return text_of(content.content)
    return whole(f"{content.path}\n{content.new_text}") if isinstance(content, Diff) else ""


def text_of(content: ContentBlock) -> str:
    """Return content as text, because the API's answers are only text."""
    if isinstance(content, TextContent):
        return whole(content.text)
    if isinstance(content, ResourceLink):
        return whole(f"[{content.name}]({content.uri})")
    if isinstance(content, EmbeddedResource) and isinstance(content.resource, TextResourceContents):
        return whole(content.resource.text)
    return ""
