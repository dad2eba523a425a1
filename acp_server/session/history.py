"""What was said in a session, in a form that can be kept, replayed (`session/load`) and given to a model as context.

Plain data; it neither sends nor stores anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


def now() -> str:
    """The time as ISO 8601 in UTC, as session info carries it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(slots=True, eq=False)
class TextRun:
    """Chunks of one kind that came one after the other: one message."""

    kind: str
    parts: list[str]

    def to_wire(self) -> dict[str, Any]:
        """The message as one update."""
        return {"sessionUpdate": self.kind, "content": {"type": "text", "text": "".join(self.parts)}}


@dataclass(slots=True, eq=False)
class TurnRecord:
    """One turn: what the user said, what came of it, how it ended."""

    prompt: list[dict[str, Any]]
    """Content blocks as they came."""
    events: list[TextRun | dict[str, Any]] = field(default_factory=list[TextRun | dict[str, Any]])
    """Updates; text in runs, each tool call once, in its last state."""
    status: str = "created"
    """A state of `acp_server.session.turn.TurnState`."""
    stop_reason: str | None = None

    def add_text(self, kind: str, text: str) -> None:
        """Keep a piece of text."""
        last = self.events[-1] if self.events else None
        if isinstance(last, TextRun) and last.kind == kind:
            last.parts.append(text)
        else:
            self.events.append(TextRun(kind, [text]))

    def add(self, update: dict[str, Any]) -> None:
        """Keep an update in its wire form. One that changes an earlier one is folded into it."""
        kind = update.get("sessionUpdate")
        if kind == "tool_call_update":
            for event in reversed(self.events):
                if isinstance(event, dict) and event.get("toolCallId") == update.get("toolCallId"):
                    event.update({key: value for key, value in update.items() if key != "sessionUpdate"})
                    return
        elif kind == "plan":
            # Each plan replaces the one before it.
            self.events = [
                event for event in self.events if isinstance(event, TextRun) or event.get("sessionUpdate") != kind
            ]
        self.events.append(dict(update))

    def replay(self) -> Iterator[dict[str, Any]]:
        """The updates that show this turn to a client, the user's part first."""
        for block in self.prompt:
            yield {"sessionUpdate": "user_message_chunk", "content": block}
        for event in self.events:
            yield event.to_wire() if isinstance(event, TextRun) else event


@dataclass(slots=True, eq=False)
class SessionRecord:
    """Everything of a session that outlives its connection."""

    id: str
    cwd: str
    additional_directories: list[str] = field(default_factory=list[str])
    title: str | None = None
    created_at: str = field(default_factory=now)
    updated_at: str = field(default_factory=now)
    mode: str | None = None
    config: dict[str, str | bool] = field(default_factory=dict[str, "str | bool"])
    turns: list[TurnRecord] = field(default_factory=list[TurnRecord])

    def context(self) -> list[TurnRecord]:
        """The finished turns that a model should see: a cancelled one stays in the history, but is no context."""
        return [turn for turn in self.turns if turn.status == "completed"]
