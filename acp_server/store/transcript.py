"""The updates of one turn. They are encoded as JSON when they are sent, so that nothing is left to encode when the turn
ends.

Only a running tool call stays an object until it has ended, because later updates can change it. If a turn exceeds its
bound, its beginning and its end are kept. This module neither sends nor stores anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeGuard, cast

from acp_server.wire import codec

MOST: Final = 32 * 1024 * 1024
"""The most bytes of updates that are kept of one turn, unless its connection has another bound (`Limits.turn`)."""

_FIRST: Final = 16 * 1024
"""The bytes that each turn may keep. Beyond these it takes as many again each time, as far as its `Room` has them."""

RESULT: Final = "_acp_server/tool_result"
"""The `sessionUpdate` of a stored tool result. It is not an update of the protocol, and is not replayed."""

_JOIN: Final = 1000
_SLICE: Final = 64 * 1024
"""When this many pieces of text, or bytes of them, are collected, they are joined, because each bytes object takes 33
bytes more than its content. Text above the bound is dropped in units of this size."""

_EACH: Final = 100
"""The bytes that an event takes in addition to its JSON."""

_STATE: Final = frozenset(
    {"available_commands_update", "config_option_update", "current_mode_update", "notice", "session_info_update"}
)
"""Updates about the present state. In a replay of the conversation they would be wrong."""

_ENDED: Final = frozenset({"completed", "failed"})
"""The final statuses of a tool call."""

_LATEST: Final = frozenset({"plan", "usage_update"})
"""Updates that replace the previous update of their kind."""

_CHUNKS: Final = frozenset({"agent_message_chunk", "agent_thought_chunk"})

_GAP: Final = "\n[A part of this turn was too long to be kept.]\n"


class Room(Protocol):
    """The bytes that the transcripts of several running turns may take together."""

    def take(self, more: int, held: int) -> bool:
        """Count `more` bytes of a transcript that has taken `held`. Returns False if there is no room for them."""
        ...

    def count(self, change: int) -> None:
        """Count bytes in spite of the bound; a negative number gives bytes back."""
        ...


class _Event:
    """One update. It is JSON, which is empty if a later update replaced it, or a running tool call as an object."""

    __slots__ = ("call", "id", "json")

    def __init__(self, json: bytes = b"", id: str | None = None, call: dict[str, Any] | None = None) -> None:
        self.json = json
        self.id = id
        self.call = call

    @property
    def is_open(self) -> bool:
        """Whether the tool call has not ended."""
        return self.call is not None

    def write(self, pieces: list[bytes]) -> None:
        if self.call is not None:
            pieces += (codec.encode(self.call)[:-1], b",")
        elif self.json:
            pieces += (self.json, b",")


class _Nested(_Event):
    """A child session. While it runs, `read` returns its JSON in chunks."""

    __slots__ = ("read",)

    def __init__(self, read: Callable[[], list[bytes]]) -> None:
        super().__init__()
        self.read: Callable[[], list[bytes]] | None = read

    @property
    def is_open(self) -> bool:
        return self.read is not None

    def write(self, pieces: list[bytes]) -> None:
        if self.read is None:
            super().write(pieces)
        else:
            pieces += (*self.read(), b",")


class _Run:
    """One message: consecutive chunks of one kind and, if they have one, the same `messageId`. Its text is JSON without
    the quotes."""

    __slots__ = ("_loose", "_size", "id", "kind", "parts")

    def __init__(self, kind: str, id: str | None, text: bytes) -> None:
        self.kind = kind
        self.id = id
        self.parts: list[bytes] = [text]
        # The number of parts at the end that are not joined, and their bytes.
        self._loose = 1
        self._size = len(text)

    def add(self, text: bytes) -> None:
        self.parts.append(text)
        self._loose += 1
        self._size += len(text)
        if self._loose == _JOIN or self._size > _SLICE:
            if self._loose > 1:
                self.parts[-self._loose :] = [b"".join(self.parts[-self._loose :])]
            self._loose = self._size = 0

    def write(self, pieces: list[bytes]) -> None:
        id = b"" if self.id is None else b'"messageId":%b,' % codec.encode_fragment(self.id)
        pieces.append(b'{"sessionUpdate":"%b",%b"content":{"type":"text","text":"' % (self.kind.encode(), id))
        pieces += self.parts
        pieces.append(b'"}},')

    def shed(self) -> int:
        """Drop the oldest part, and return its size in bytes."""
        dropped = self.parts.pop(0)
        self._loose = min(self._loose, len(self.parts))
        return len(dropped)


_NO_TAIL: Final[deque[_Event | _Run]] = deque()
"""An empty deque that all turns share until they are full. Nearly all turns never are, and an empty deque for each
would take 0.6 kB."""


class Transcript:
    """The updates of one turn. Consecutive text is one update, and each tool call is one update with its last state.

    `most`: the most bytes to keep. `room`: bounds the bytes of several transcripts; None keeps `most` of each. Above
    either bound, the first half and the most recent updates are kept, with a note between them.
    """

    __slots__ = (
        *("_calls", "_half", "_head", "_is_full", "_latest", "_limit", "_lost", "_most", "_room", "_run", "_size"),
        *("_tail", "taken"),
    )

    def __init__(self, most: int = MOST, room: Room | None = None) -> None:
        self._limit = most
        self._room = room
        self.taken: int = 0
        """The bytes that were taken of `room`."""
        self._most = most if room is None else min(most, _FIRST)
        """The bytes that may be kept, as far as they were taken. At half of them more are taken."""
        self._half = self._most // 2
        self._head: list[_Event | _Run] = []
        self._tail: deque[_Event | _Run] = _NO_TAIL
        self._is_full = False
        self._lost = False
        self._size = 0
        self._run: _Run | None = None
        self._calls: dict[str, _Event] = {}
        self._latest: dict[str, _Event] = {}

    def text(self, kind: str, fragment: bytes, id: str | None = None) -> None:
        """Keep a chunk of text, given as JSON. `id`: the id of its message, if it has one."""
        run = self._run
        # Without its quotes.
        text = fragment[1:-1]
        if run is None or run.kind != kind or run.id != id:
            self._append(_Run(kind, id, text), 0)
        else:
            run.add(text)
        self._size += len(fragment) - 2
        if self._size > self._half:
            self._make_room()

    def add(self, update: dict[str, Any], json: bytes | None = None) -> None:
        """Keep an update in its wire form; `json`: its encoding, if the caller has it. A change of an earlier update is
        merged into it. Updates of the present state (mode, commands, title ...) are not kept."""
        kind = update.get("sessionUpdate", "")
        if kind in _STATE:
            return
        if kind in _CHUNKS and is_text(update.get("content")):
            id = update.get("messageId")
            if len(update) == 2 or (len(update) == 3 and type(id) is str):
                self.text(kind, codec.encode_fragment(update["content"]["text"]), id)
                return
        if kind in ("tool_call", "tool_call_update"):
            self._add_call(kind, update)
            return
        event = _Event(codec.encode(update)[:-1] if json is None else json)
        if kind in _LATEST:
            before = self._latest.get(kind)
            if before is not None:
                self._size -= len(before.json)
                before.json = b""
            self._latest[kind] = event
        self._append(event, len(event.json))

    def _add_call(self, kind: str, update: dict[str, Any]) -> None:
        id = update.get("toolCallId")
        event = self._calls.get(id) if kind == "tool_call_update" and isinstance(id, str) else None
        if event is None:
            event = _Event(id=id, call=dict(update))
            if isinstance(id, str):
                self._calls[id] = event
            self._append(event, 0)
        else:
            if event.call is None:
                self._size -= len(event.json)
                event.call = cast("dict[str, Any]", codec.decode(event.json))
            kind = event.call["sessionUpdate"]
            event.call.update(update)
            event.call["sessionUpdate"] = kind
        assert event.call is not None
        if event.call.get("status") in _ENDED:
            event.json, event.call = codec.encode(event.call)[:-1], None
            self._size += len(event.json)
            if self._size > self._half:
                self._make_room()

    def pieces(self) -> list[bytes]:
        """Return all events as one JSON array, in chunks."""
        pieces = [b"["]
        for event in self._head:
            event.write(pieces)
        if self._lost:
            _gap().write(pieces)
        for event in self._tail:
            event.write(pieces)
        # The comma after the last event.
        pieces[-1] = pieces[-1].removesuffix(b",") + b"]"
        return pieces

    def note(self, record: dict[str, Any]) -> None:
        """Keep an entry that is not an update. The entry is inserted before the text that is being streamed, so that it
        does not split the text."""
        json = codec.encode(record)[:-1]
        kept: deque[_Event | _Run] | list[_Event | _Run] = self._tail if self._is_full else self._head
        kept.insert(len(kept) - (self._run is not None), _Event(json))
        self._size += _EACH + len(json)
        if self._size > self._half:
            self._make_room()

    def nest(self, read: Callable[[], list[bytes]]) -> Callable[[], None]:
        """Keep a child session. `read` returns its JSON in chunks. The returned function must be called when the child
        ends."""
        event = _Nested(read)
        self._append(event, 0)

        def ended() -> None:
            if event.read is not None:
                event.json, event.read = b"".join(event.read()), None
                self._grow(len(event.json))

        return ended

    def _append(self, event: _Event | _Run, size: int) -> None:
        self._run = event if isinstance(event, _Run) else None
        if self._is_full:
            self._tail.append(event)
        else:
            self._head.append(event)
        self._size += _EACH + size
        if self._size > self._half:
            self._make_room()

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self._half:
            self._make_room()

    def end(self) -> None:
        """Give back what was taken of `room`, because the turn has ended."""
        if self._room is not None:
            self._room.count(-self.taken)
            self.taken = 0

    def _make_room(self) -> None:
        if self._is_full:
            if self._size > self._most:
                self._shed()
        elif not self._take_more():
            self._is_full = True
            self._tail = deque()
            self._run = None
            if self._size > self._most:
                # The last event alone is larger than what is left.
                self._tail.append(self._head.pop())
                self._shed()

    def _take_more(self) -> bool:
        """Take as many bytes again, until less than half of them is used. Returns False at a bound."""
        while self._size > self._half:
            more = min(self._most, self._limit - self._most)
            if self._room is None or not more or not self._room.take(more, self.taken):
                return False
            self.taken += more
            self._most += more
            self._half = self._most // 2
        return True

    def _shed(self) -> None:
        """Drop the oldest events of the second half."""
        while self._size > self._most and self._tail:
            event = self._tail[0]
            if isinstance(event, _Run) and event.parts:
                self._size -= event.shed()
                self._lost = True
                continue
            if event is self._run:
                return
            self._tail.popleft()
            if isinstance(event, _Event) and event.is_open:
                # Its end is still to come, so it is kept.
                self._head.append(event)
                continue
            self._size -= _EACH
            if isinstance(event, _Event):
                self._size -= len(event.json)
                event.json = b""
                self._lost = True
                if event.id is not None and self._calls.get(event.id) is event:
                    del self._calls[event.id]


class _NotKept(Transcript):
    """Takes the updates of a turn that is not stored, and drops them."""

    __slots__ = ()

    def text(self, kind: str, fragment: bytes, id: str | None = None) -> None:
        """See `Transcript`."""

    def add(self, update: dict[str, Any], json: bytes | None = None) -> None:
        """See `Transcript`."""

    def note(self, record: dict[str, Any]) -> None:
        """See `Transcript`."""


NOT_KEPT: Final[Transcript] = _NotKept()
"""The transcript of all turns that are not stored."""


def _gap() -> _Event:
    content = {"type": "text", "text": _GAP}
    return _Event(codec.encode({"sessionUpdate": "agent_message_chunk", "content": content})[:-1])


def is_text(block: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a content block is only text."""
    if type(block) is not dict:
        return False
    block = cast("dict[str, Any]", block)
    return len(block) == 2 and block.get("type") == "text" and type(block.get("text")) is str
