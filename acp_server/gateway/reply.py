"""From an agent's updates to the messages of a chat, as they stream and as they are kept.

What the agent says is an answer; a tool that it uses is a call and a response. Plans, modes and the like are not shown:
the API has nothing for them. It knows no states.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from acp_server.gateway import events
from acp_server.gateway.ids import Ids
from acp_server.gateway.messages import ANSWER, Message, whole
from acp_server.gateway.records import Chat
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


class Reply:
    """The messages of one chat. `emit` gets each event; `keep` each message, once it is complete."""

    def __init__(
        self, chat: Chat, ids: Ids, emit: Callable[[str, dict[str, Any]], None], keep: Callable[[Message], None]
    ) -> None:
        self.size = 0
        """Characters so far."""
        self._chat = chat
        self._ids = ids
        self._emit = emit
        self._keep = keep
        self._answer: Message | None = None
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._agents_id: str | None = None
        self._calls: dict[str, _Call] = {}

    def take(self, update: SessionUpdate) -> None:
        """One update."""
        if isinstance(update, AgentMessageChunk | AgentThoughtChunk):
            # What was only thought so far is thought before this answer, whatever the agent calls it.
            if self._answer is not None and self._text and update.message_id not in (None, self._agents_id):
                self.close()
            self._agents_id = update.message_id or self._agents_id
            self._chunk(text_of(update.content), isinstance(update, AgentThoughtChunk))
        elif isinstance(update, ToolCall | ToolCallUpdate):
            self._tool(update)

    def close(self) -> None:
        """The answer that streams is complete, if there is one."""
        message, self._answer = self._answer, None
        if message is not None:
            message.content = "".join(self._text)
            message.reasoning_content = "".join(self._thoughts)
            self._complete(message)
        self._agents_id = None

    def finish(self) -> None:
        """There will be no more."""
        self.close()
        self._finish(_FINISHED)

    def interrupt(self, questions: list[tuple[str, dict[str, Any]]]) -> None:
        """The agent wants something first: functions, by their names and arguments."""
        self.close()
        for name, arguments in questions:
            content = json.dumps({"name": name, "arguments": arguments})
            self._complete(self._message(FUNCTION_CALL, content))
        self._finish(_INTERRUPTED)

    def answered(self, outputs: list[str]) -> None:
        """What it wanted is there."""
        for output in outputs:
            self._complete(self._message(TOOL_RESPONSE, output))

    # -- pieces

    def _chunk(self, text: str, thought: bool) -> None:
        if not text:
            return
        self.size += len(text)
        if self._answer is None:
            self._answer = self._message(ANSWER, "")
            self._text, self._thoughts = [], []
        (self._thoughts if thought else self._text).append(text)
        wire = self._answer.to_wire()
        wire["reasoning_content" if thought else "content"] = text
        self._emit(events.DELTA, wire)

    def _tool(self, update: ToolCall | ToolCallUpdate) -> None:
        call = self._calls.get(update.tool_call_id)
        if call is None:
            self.close()
            call = self._calls[update.tool_call_id] = _Call(update.tool_call_id)
        call.merge(update)
        # Its input may come after its first mention.
        if not call.shown and (call.arguments is not None or call.status != "pending"):
            self.close()
            call.shown = True
            content = json.dumps({"name": call.name, "arguments": _arguments(call.arguments)})
            self.size += len(content)
            self._complete(self._message(FUNCTION_CALL, content))
        if call.status in ("completed", "failed"):
            # What is said while a tool runs and after it is one answer: only the next tool, or the agent, parts it.
            del self._calls[update.tool_call_id]
            output = call.output
            self.size += len(output)
            self._complete(self._message(TOOL_RESPONSE, output))

    def _finish(self, reason: int) -> None:
        content = {
            "msg_type": "generate_answer_finish",
            "data": json.dumps({"finish_reason": reason, "FinData": ""}),
            "from_module": None,
            "from_unit": None,
        }
        self._complete(self._message(VERBOSE, json.dumps(content)))

    def _message(self, kind: str, content: str) -> Message:
        chat = self._chat
        return Message(
            id=self._ids.new(),
            conversation_id=chat.conversation_id,
            section_id=chat.section_id,
            role="assistant",
            type=kind,
            content=content,
            chat_id=chat.id,
            bot_id=chat.bot_id,
        )

    def _complete(self, message: Message) -> None:
        # Kept first: a client that is told of a message finds it.
        self._keep(message)
        self._emit(events.MESSAGE, message.to_wire())


class _Call:
    """What is known of a tool call."""

    def __init__(self, id: str) -> None:
        self.name = id
        self.arguments: Any = None
        self.status = "pending"
        self.shown = False
        self._content: list[ToolCallContent] = []
        self._raw_output: Any = None

    def merge(self, update: ToolCall | ToolCallUpdate) -> None:
        self.name = update.name or (update.title if self.name == update.tool_call_id else None) or self.name
        if update.raw_input is not None:
            self.arguments = update.raw_input
        self.status = update.status or self.status
        if update.content:
            self._content = list(update.content)
        if update.raw_output is not None:
            self._raw_output = update.raw_output

    @property
    def output(self) -> str:
        text = "\n".join(filter(None, map(_shown, self._content)))
        if text or self._raw_output is None:
            return text
        return whole(self._raw_output) if isinstance(self._raw_output, str) else json.dumps(self._raw_output)


def _arguments(value: Any) -> Any:
    return {} if value is None else value


def _shown(content: ToolCallContent) -> str:
    if isinstance(content, Content):
        return text_of(content.content)
    return whole(f"{content.path}\n{content.new_text}") if isinstance(content, Diff) else ""


def text_of(content: ContentBlock) -> str:
    """Content as text; the API's answers are nothing else."""
    if isinstance(content, TextContent):
        return whole(content.text)
    if isinstance(content, ResourceLink):
        return whole(f"[{content.name}]({content.uri})")
    if isinstance(content, EmbeddedResource) and isinstance(content.resource, TextResourceContents):
        return whole(content.resource.text)
    return ""
