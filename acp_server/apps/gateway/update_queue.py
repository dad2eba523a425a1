"""Holds the updates and questions of an agent while its chat waits for tool outputs. They are kept in order, and
merged.

`acp_server.apps.gateway.live_chat` decides when they are processed. `acp_server.apps.gateway.prompt_turn` has their
bound.
"""

from __future__ import annotations

from collections import deque
from io import StringIO
from typing import Any, Final, TypeAlias, cast

from acp_server.apps.gateway.questions import Question
from acp_server.apps.gateway.reply import text_of
from acp_server.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    Record,
    SessionUpdate,
    TextContent,
    ToolCall,
    ToolCallProgress,
)

Item: TypeAlias = SessionUpdate | Question

_Chunk: TypeAlias = AgentMessageChunk | AgentThoughtChunk
_ToolUpdate: TypeAlias = ToolCall | ToolCallProgress

_PIECE: Final = 64 * 1024
"""The most characters of text that are held, and returned, as one item."""
_VALUE: Final = 64
"""The weight in characters of each value in an update, in addition to its text. It is about the memory that the value
takes."""


class _Tool:
    """The updates of one tool call. They are merged until the call has ended, because no client sees the states in
    between."""

    def __init__(self, update: _ToolUpdate) -> None:
        self.item = update
        self.size = _weight(update)

    def add(self, update: _ToolUpdate) -> None:
        item = self.item
        changes = {
            "name": update.name or item.name,
            "title": item.title or update.title,
            "status": update.status or item.status,
            "content": update.content or item.content,
            "raw_input": item.raw_input if update.raw_input is None else update.raw_input,
            "raw_output": item.raw_output if update.raw_output is None else update.raw_output,
        }
        self.item = item.model_copy(update=changes)
        self.size = _weight(self.item)


class _Text:
    """Consecutive chunks of one message or thought. They are merged, because there may be very many."""

    def __init__(self, chunk: _Chunk, text: str) -> None:
        self._kind = type(chunk)
        self._message_id = chunk.message_id
        self._text = StringIO()
        self._text.write(text)
        self.size = _VALUE + len(text)

    def takes(self, chunk: _Chunk, text: str) -> bool:
        """Whether this is the next chunk, and fits."""
        same = (type(chunk), chunk.message_id) == (self._kind, self._message_id)
        return same and self.size + len(text) <= _PIECE

    def add(self, text: str) -> None:
        self._text.write(text)
        self.size += len(text)

    @property
    def item(self) -> SessionUpdate:
        return self._kind(content=TextContent(text=self._text.getvalue()), message_id=self._message_id)


class UpdateQueue:
    """A queue of updates and questions, in order. Updates that no client sees separately are merged, so its size
    depends only on the text."""

    def __init__(self) -> None:
        self.size: int = 0
        """The approximate size of the held items, in characters."""
        self._held: deque[_Text | _Tool | Question] = deque()
        self._running: dict[str, _Tool] = {}
        """Held tool calls that have not ended, by their ids."""

    def __bool__(self) -> bool:
        return bool(self._held)

    def put(self, item: Item) -> None:
        """Append an item. An item without text that is neither a tool call nor a question is dropped."""
        if isinstance(item, AgentMessageChunk | AgentThoughtChunk):
            self._hold_text(item)
        elif isinstance(item, Question):
            self._held.append(item)
        elif isinstance(item, ToolCall | ToolCallProgress):
            self._hold_tool(item)

    def pop(self) -> SessionUpdate | list[Question]:
        """Remove and return the first update, or all questions before the next update. The queue must not be empty."""
        questions: list[Question] = []
        while self._held and isinstance(held := self._held[0], Question):
            questions.append(held)
            self._held.popleft()
        if questions:
            return questions
        held = cast("_Text | _Tool", self._held.popleft())
        self.size -= held.size
        if isinstance(held, _Tool) and self._running.get(held.item.tool_call_id) is held:
            del self._running[held.item.tool_call_id]
        return held.item

    @property
    def questions(self) -> list[Question]:
        """The held questions."""
        return [held for held in self._held if isinstance(held, Question)]

    def remove(self, question: Question) -> None:
        """Remove this question. Has no effect if it is not held."""
        self._held = deque(held for held in self._held if held is not question)

    # -- parts

    def _hold_text(self, chunk: _Chunk) -> None:
        text = text_of(chunk.content)
        last = self._held[-1] if self._held else None
        if isinstance(last, _Text) and last.takes(chunk, text):
            last.add(text)
            self.size += len(text)
        elif text:
            self._hold(_Text(chunk, text))

    def _hold_tool(self, update: _ToolUpdate) -> None:
        id, ends = update.tool_call_id, update.status in ("completed", "failed")
        running = self._running.get(id)
        if running is not None and not ends:
            self.size -= running.size
            running.add(update)
            self.size += running.size
            return
        self._hold(used := _Tool(update))
        if ends:
            self._running.pop(id, None)
        else:
            self._running[id] = used

    def _hold(self, held: _Text | _Tool) -> None:
        self._held.append(held)
        self.size += held.size


def _weight(update: _ToolUpdate) -> int:
    """Return the weight of an update. It is computed without recursion, because an agent may nest values to any
    depth."""
    weight = 0
    values: list[Any] = [update]
    while values:
        value = values.pop()
        weight += _VALUE
        if isinstance(value, str):
            weight += len(value)
        elif isinstance(value, Record):
            values += [*vars(value).values(), *(value.model_extra or {}).values()]
        elif isinstance(value, dict):
            values += [*cast("dict[str, Any]", value).keys(), *cast("dict[str, Any]", value).values()]
        elif isinstance(value, list):
            values += cast("list[Any]", value)
    return weight
