"""Server-sent events, read strictly and within a bound (HTML Standard, 9.2). No event loop, and nothing of the network.

An event that has not ended when the stream does is dropped, as the standard has it: it may be a part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_ENDINGS: Final = re.compile(rb"\r\n|\n|\r")
_BOM: Final = b"\xef\xbb\xbf"


class EventTooLong(Exception):
    """One event has more bytes than may be kept."""


@dataclass(slots=True)
class Event:
    """`data` is one line; `id` is None if the event has none of its own."""

    data: bytes
    id: str | None
    kind: bytes


class EventReader:
    """Bytes in, events out, in any chunking. `most`: the bytes of one event."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest = bytearray()
        """The line that has not ended."""
        self._held = 0
        """Bytes of the event that has not ended."""
        self._data: list[bytes] = []
        self._id: str | None = None
        self._kind = b""
        self._begun = False
        self._after_cr = False
        self.has_comments: bool = False
        """Whether the server sends comments, which are its signs of life."""

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that end in `chunk`. Raises EventTooLong."""
        if self._after_cr and chunk:
            # The second half of a line's end, or not.
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        events: list[Event] = []
        start = 0
        for ending in _ENDINGS.finditer(chunk):
            self._add(chunk[start : ending.start()])
            line = bytes(self._rest)
            self._rest.clear()
            start = ending.end()
            if (event := self._line(line)) is not None:
                events.append(event)
        self._add(chunk[start:])
        self._after_cr = self._after_cr or chunk.endswith(b"\r")
        return events

    def _add(self, piece: bytes) -> None:
        # An empty line counts as well: what comes of it is kept.
        self._held += len(piece) + 1
        if self._held > self._most:
            raise EventTooLong
        self._rest += piece

    def _line(self, line: bytes) -> Event | None:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode(errors="replace")
        elif name == b"event":
            self._kind = value
        elif not name:
            self.has_comments = True
            if not self._data:
                self._held = 0
        return None

    def _dispatch(self) -> Event | None:
        # Within a text of JSON a line break is escaped, so between its parts a space is as good.
        event = Event(b" ".join(self._data), self._id, self._kind) if self._data or self._id is not None else None
        self._data, self._id, self._kind, self._held = [], None, b"", 0
        return event
