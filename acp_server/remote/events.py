"""`EventReader` parses server-sent events strictly and within a limit (HTML Standard, 9.2). It uses no event loop and
no network.

If an event is incomplete at the end of the stream, it is dropped, as the standard requires.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_ENDINGS: Final = re.compile(rb"\r\n|\n|\r")
_BOM: Final = b"\xef\xbb\xbf"


class EventTooLong(Exception):
    """Raised for an event with more bytes than the limit."""


@dataclass(slots=True)
class Event:
    """One event. `data` is one line. `id` is None if the event has no `id` field. `kind` is its `event` field."""

    data: bytes
    id: str | None
    kind: bytes


class EventReader:
    """Parses bytes in chunks of any size. `most`: the most bytes of one event."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest = bytearray()
        """The line whose end has not arrived."""
        self._held = 0
        """The bytes of the event whose end has not arrived."""
        self._data: list[bytes] = []
        self._id: str | None = None
        self._kind = b""
        self._begun = False
        self._after_cr = False
        self.has_comments: bool = False
        """Whether the server has sent a comment, by which it shows that it is alive."""

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that end in `chunk`. Raises EventTooLong."""
        if self._after_cr and chunk:
            # An LF here is the second half of a CRLF.
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
        # Each piece counts one byte more than its text, so that lines without text are bounded, too.
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
        # The standard joins data by LF. In JSON a line break is whitespace between values, so a space means the same.
        event = Event(b" ".join(self._data), self._id, self._kind) if self._data or self._id is not None else None
        self._data, self._id, self._kind, self._held = [], None, b"", 0
        return event
