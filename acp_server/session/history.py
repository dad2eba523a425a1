"""What was said in a session, in a form that can be kept, replayed (`session/load`) and given to a model as context.

Plain data; it neither sends nor stores anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import time
from typing import Any, Final

from acp_server.errors import EncodeError
from acp_server.wire import codec

_JOIN: Final = 1000
"""So many pieces of text become one: a string of a few letters takes fifty bytes more than its letters."""

_STATE: Final = frozenset(
    {
        "available_commands_update",
        "config_option_update",
        "current_mode_update",
        "notice",
        "session_info_update",
    }
)
"""Updates that say how things are now. They are no part of the conversation, and would be wrong when it is replayed."""

_LATEST: Final = frozenset({"plan", "usage_update"})
"""Updates that take the place of the one before them."""


def iso(seconds: float) -> str:
    """A time since the epoch as ISO 8601 in UTC, as session info carries it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(slots=True, eq=False)
class TextRun:
    """Chunks of one kind that came one after the other: one message."""

    kind: str
    parts: list[str]
    """Its text, in pieces of any size."""
    _small: int = 0

    def add(self, text: str) -> None:
        """Add a piece."""
        self.parts.append(text)
        self._small += 1
        if self._small == _JOIN:
            self.parts[-_JOIN:] = ["".join(self.parts[-_JOIN:])]
            self._small = 0

    def to_wire(self) -> dict[str, Any]:
        """The message as one update."""
        return {"sessionUpdate": self.kind, "content": {"type": "text", "text": "".join(self.parts)}}


class TurnRecord:
    """One turn: what the user said, what came of it, how it ended.

    `prompt`: content blocks as they came.
    """

    __slots__ = ("_events", "_packed", "_prompt", "status", "stop_reason")

    def __init__(self, prompt: list[dict[str, Any]]) -> None:
        self._prompt = prompt
        self._events: list[TextRun | dict[str, Any]] = []
        self._packed: bytes | None = None
        self.status = "created"
        """A state of `acp_server.session.turn.TurnState`."""
        self.stop_reason: str | None = None

    @property
    def prompt(self) -> list[dict[str, Any]]:
        """The user's message as content blocks."""
        return self._contents()[0]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The updates: one for each run of text, each tool call once, in its last state."""
        return self._contents()[1]

    def _contents(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        if self._packed is not None:
            prompt, events = codec.decode(self._packed)
            return prompt, events
        return self._prompt, [event.to_wire() if isinstance(event, TextRun) else event for event in self._events]

    def add_text(self, kind: str, text: str) -> None:
        """Keep a piece of text."""
        last = self._events[-1] if self._events else None
        if isinstance(last, TextRun) and last.kind == kind:
            last.add(text)
        else:
            self._events.append(TextRun(kind, [text]))

    def add(self, update: dict[str, Any]) -> None:
        """Keep an update in its wire form. One that changes an earlier one is folded into it; one that only says how
        things are at this moment (mode, commands, title ...) is not kept."""
        kind = update.get("sessionUpdate")
        if kind in _STATE:
            return
        if kind == "tool_call_update":
            for event in reversed(self._events):
                if isinstance(event, dict) and event.get("toolCallId") == update.get("toolCallId"):
                    event.update({key: value for key, value in update.items() if key != "sessionUpdate"})
                    return
        elif kind in _LATEST:
            self._events = [
                event for event in self._events if isinstance(event, TextRun) or event.get("sessionUpdate") != kind
            ]
        self._events.append(dict(update))

    def pack(self) -> None:
        """Nothing is added any more: keep it as text, which takes less room and spares the garbage collector."""
        if self._packed is None and self._events:
            try:
                self._packed = codec.encode([self._prompt, self._events])
            except EncodeError:
                # Nested deeper than can be written, by the client. It stays as it is.
                return
            self._prompt = []
            self._events = []

    def replay(self) -> Iterator[dict[str, Any]]:
        """The updates that show this turn to a client, the user's part first."""
        prompt, events = self._contents()
        for block in prompt:
            yield {"sessionUpdate": "user_message_chunk", "content": block}
        yield from events


@dataclass(slots=True, eq=False)
class SessionRecord:
    """Everything of a session that outlives its connection."""

    id: str
    cwd: str
    additional_directories: list[str] = field(default_factory=list[str])
    title: str | None = None
    created_at: float = field(default_factory=time)
    """Seconds since the epoch."""
    updated_at: float = field(default_factory=time)
    """When it was last used, in seconds since the epoch."""
    mode: str | None = None
    config: dict[str, str | bool] = field(default_factory=dict[str, "str | bool"])
    turns: list[TurnRecord] = field(default_factory=list[TurnRecord])

    def context(self) -> list[TurnRecord]:
        """The finished turns that a model should see: a cancelled one stays in the history, but is no context."""
        return [turn for turn in self.turns if turn.status == "completed"]
