"""What an agent shows and asks on its way to its chat: held back while the chat waits for tool outputs, in order.

What the chat makes of it is in `acp_server.gateway.life`; how much may be held is decided in `acp_server.gateway.work`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import Any, Final, TypeAlias, cast

import anyio
import anyio.lowlevel

from acp_server.gateway.actions import Question
from acp_server.gateway.reply import text_of
from acp_server.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    SessionUpdate,
    TextContent,
    ToolCall,
    ToolCallProgress,
)
from acp_server.schema.base import Record

Item: TypeAlias = SessionUpdate | Question

_Chunk: TypeAlias = AgentMessageChunk | AgentThoughtChunk
_Tool: TypeAlias = ToolCall | ToolCallProgress

_PIECE: Final = 64 * 1024
"""Characters of text that are held as one, and passed on as one."""
_VALUE: Final = 64
"""What each value in an update counts for besides its text, in characters: about what it takes to keep it."""


@dataclass(slots=True)
class _Asked:
    item: Question
    size: int = 0


class _Used:
    """What became of one tool meanwhile: kept as one until it has ended, for no client sees what lies between."""

    def __init__(self, update: _Tool) -> None:
        self.item = update
        self.size = _weight(update)

    def add(self, update: _Tool) -> None:
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


class _Said:
    """Pieces of one message or thought that came one after the other: kept as one, for there may be very many."""

    def __init__(self, chunk: _Chunk, text: str) -> None:
        self._kind = type(chunk)
        self._message_id = chunk.message_id
        self._text = StringIO()
        self._text.write(text)
        self.size = _VALUE + len(text)

    def takes(self, chunk: _Chunk, text: str) -> bool:
        """Whether this is the next piece of it, and there is room."""
        same = (type(chunk), chunk.message_id) == (self._kind, self._message_id)
        return same and self.size + len(text) <= _PIECE

    def add(self, text: str) -> None:
        self._text.write(text)
        self.size += len(text)

    @property
    def item(self) -> Item:
        return self._kind(content=TextContent(text=self._text.getvalue()), message_id=self._message_id)


class Inbox:
    """Hands each item to `take` at once, unless the chat waits (`waits`) or something before it is still held.

    A question is held only behind something else: the chat itself puts it to those that it waits for.
    """

    def __init__(self, waits: Callable[[], bool], take: Callable[[Item], None]) -> None:
        self.size = 0
        """What is held, in characters, about."""
        self._waits = waits
        self._take = take
        self._held: deque[_Said | _Used | _Asked] = deque()
        self._running: dict[str, _Used] = {}
        """Tools that are held and have not ended, by the ids of their calls."""
        self._woken = anyio.Event()

    def put(self, item: Item) -> None:
        """The agent shows or asks something. Never waits."""
        if not self._held and (isinstance(item, Question) or not self._waits()):
            self._take(item)
        elif isinstance(item, AgentMessageChunk | AgentThoughtChunk):
            self._hold_text(item)
        elif isinstance(item, Question):
            self._hold(_Asked(item))
        elif isinstance(item, ToolCall | ToolCallProgress):
            self._hold_tool(item)

    def remove(self, question: Question) -> None:
        """The agent does not want to know it any more."""
        self._held = deque(held for held in self._held if not (isinstance(held, _Asked) and held.item is question))

    def wake(self) -> None:
        """The chat waits no more, perhaps."""
        self._woken.set()

    async def run(self) -> None:
        """Catch up whenever the chat waits no more. Until it is cancelled."""
        while True:
            await self._woken.wait()
            self._woken = anyio.Event()
            await self.catch_up()

    async def catch_up(self) -> None:
        """Pass on what is held, as far as the chat does not wait (again). It pauses, so that other chats go on."""
        while self._held and not self._waits():
            self._pass_on()
            await anyio.lowlevel.checkpoint()

    def flush(self) -> None:
        """Pass on what is held now, whatever the chat waits for. No question is answered any more."""
        while self._held:
            held = self._held[0]
            if isinstance(held, _Asked):
                self._held.popleft()
                held.item.settle(None)
            else:
                self._pass_on()

    # -- parts

    def _hold_text(self, chunk: _Chunk) -> None:
        text = text_of(chunk.content)
        last = self._held[-1] if self._held else None
        if isinstance(last, _Said) and last.takes(chunk, text):
            last.add(text)
            self.size += len(text)
        elif text:
            self._hold(_Said(chunk, text))

    def _hold_tool(self, update: _Tool) -> None:
        id, ends = update.tool_call_id, update.status in ("completed", "failed")
        running = self._running.get(id)
        if running is not None and not ends:
            self.size -= running.size
            running.add(update)
            self.size += running.size
            return
        self._hold(used := _Used(update))
        if ends:
            self._running.pop(id, None)
        else:
            self._running[id] = used

    def _hold(self, held: _Said | _Used | _Asked) -> None:
        self._held.append(held)
        self.size += held.size

    def _pass_on(self) -> None:
        held = self._held.popleft()
        self.size -= held.size
        if isinstance(held, _Used) and self._running.get(held.item.tool_call_id) is held:
            del self._running[held.item.tool_call_id]
        self._take(held.item)


def _weight(update: _Tool) -> int:
    """Without recursion, for an agent may nest as deep as it likes."""
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
