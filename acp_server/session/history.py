"""What was said in a session, in a form that can be kept, replayed (`session/load`) and given to a model as context.

Plain data; it neither sends nor stores anything.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import time
from typing import Any, Final, Literal, NamedTuple, cast

from acp_server.errors import EncodeError
from acp_server.wire import codec

logger = logging.getLogger("acp_server.session")

TURN_KEY: Final = "acp_server/turn"
"""The key in `_meta` under which a replayed turn that did not complete says what became of it."""

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

_CALLS: Final = frozenset({"tool_call", "tool_call_update"})

_UNENDED: Final = frozenset({"pending", "in_progress"})
"""What a tool call is as long as it has not ended."""

_LATEST: Final = frozenset({"plan", "usage_update"})
"""Updates that take the place of the one before them."""


_OPEN: Final = frozenset({"created", "in_progress", "requires_action"})

_CHUNKS: Final = frozenset({"agent_message_chunk", "agent_thought_chunk"})


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


class TurnError(NamedTuple):
    """Why a turn failed, in words fit for the client: never the text of an exception that was not meant for it."""

    code: int
    """A JSON-RPC error code."""
    message: str


class Usage(NamedTuple):
    """Tokens that a turn has cost, as its agent reports them."""

    input: int
    output: int
    total: int


class Message(NamedTuple):
    """What one side said in a turn, for a model."""

    role: Literal["user", "assistant"]
    content: list[dict[str, Any]]
    """Content blocks in their wire form (ACP, Content)."""

    @property
    def text(self) -> str:
        """The text blocks, one below the other."""
        return "\n".join(block["text"] for block in self.content if block.get("type") == "text")


class TurnRecord:
    """One turn: what the user said, what came of it, how it ended.

    `prompt`: content blocks as they came. `id`: by default a new one.
    """

    __slots__ = (
        "__weakref__",
        "_events",
        "_id",
        "_packed",
        "_prompt",
        "created_at",
        "ended_at",
        "last_error",
        "meta_data",
        "status",
        "stop_reason",
        "usage",
    )

    def __init__(self, prompt: list[dict[str, Any]], id: str | None = None) -> None:
        self._id = id
        self._prompt = prompt
        self._events: list[TextRun | dict[str, Any]] = []
        self._packed: bytes | None = None
        self.status = "created"
        """A state of `acp_server.session.state.TurnState`."""
        self.stop_reason: str | None = None
        self.created_at = time()
        """Seconds since the epoch, like the other times."""
        self.ended_at: float | None = None
        self.last_error: TurnError | None = None
        """Why it failed, if it did."""
        self.usage: Usage | None = None
        self.meta_data: dict[str, str] | None = None
        """What the agent's author noted about it."""

    @classmethod
    def restored(cls, id: str, contents: bytes) -> TurnRecord:
        """A turn that has ended, from its `contents`. Those are not looked at before they are needed."""
        record = cls([], id)
        record._keep(contents)
        return record

    @property
    def id(self) -> str:
        """New for every turn."""
        if self._id is None:
            self._id = f"turn_{os.urandom(12).hex()}"
        return self._id

    @property
    def is_open(self) -> bool:
        """Whether it has not ended, as far as this record knows."""
        return self.status in _OPEN

    @property
    def prompt(self) -> list[dict[str, Any]]:
        """The user's message as content blocks."""
        return self._contents()[0]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The updates: one for each run of text, each tool call once, in its last state."""
        return self._contents()[1]

    @property
    def contents(self) -> bytes:
        """`prompt` and `events` as a JSON array of the two. What of it cannot be written as JSON is left out."""
        if self._packed is not None:
            return self._packed
        contents = self._contents()
        try:
            return codec.encode(contents)
        except EncodeError:
            logger.warning("parts of turn %s are nested too deep to be kept", self.id)
            return codec.encode([[item for item in part if _can_be_written(item)] for part in contents])

    def _contents(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        if self._packed is not None:
            prompt, events = codec.decode(self._packed)
            return prompt, events
        return self._prompt, [event.to_wire() if isinstance(event, TextRun) else event for event in self._events]

    def messages(self) -> list[Message]:
        """What was said, for a model: the user's message, and the agent's if it said anything to the user. What it
        thought and what its tools did is in `events`."""
        prompt, events = self._contents()
        said: list[dict[str, Any]] = []
        before: dict[str, Any] = {}
        for event in events:
            if event.get("sessionUpdate") == "agent_message_chunk":
                block = event["content"]
                if _is_text(block) and _goes_on(before, event):
                    block = {"type": "text", "text": said.pop()["text"] + block["text"]}
                said.append(block)
            before = event
        return [Message("user", prompt), *([Message("assistant", said)] if said else [])]

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
        if kind in _CHUNKS and len(update) == 2 and _is_text(update.get("content")):
            self.add_text(kind, update["content"]["text"])
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
        if self._packed is None:
            try:
                self._keep(codec.encode([self._prompt, self._events]))
            except EncodeError:
                pass  # nested deeper than can be written, by the client; it stays as it is

    def _keep(self, contents: bytes) -> None:
        self._packed = contents
        # Not even two empty lists stay: the garbage collector would visit them for every turn that there ever was,
        # which is a fifth of what a short turn costs.
        del self._prompt, self._events

    def replay(self) -> Iterator[dict[str, Any]]:
        """The updates that show this turn to a client, the user's part first. If it failed or was cancelled, the user's
        part says so in its `_meta`, and no tool call is shown as one that still runs."""
        prompt, events = self._contents()
        if self.status not in ("failed", "canceled"):
            for block in prompt:
                yield {"sessionUpdate": "user_message_chunk", "content": block}
            yield from events
            return
        mark: dict[str, Any] = {"id": self.id, "status": self.status}
        if self.last_error is not None:
            mark["error"] = {"code": self.last_error.code, "message": self.last_error.message}
        for block in prompt:
            yield {"sessionUpdate": "user_message_chunk", "content": block, "_meta": {TURN_KEY: mark}}
        for event in events:
            kind = event["sessionUpdate"]
            # Without a status a call is pending, and an update of one leaves it as it is.
            if kind in _CALLS and event.get("status", "pending" if kind == "tool_call" else None) in _UNENDED:
                event = {**event, "status": "failed"}
            yield event


@dataclass(slots=True, eq=False, weakref_slot=True)
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
    chosen: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]], repr=False)
    """What the user or the agent has chosen, `("mode",)` or `("config", id)`, also if it was so before. A store that
    others use as well takes what it has written out of it."""
    stored: Any = field(default=None, repr=False)
    """What its store notes on it, for itself alone: that it has it, and how. None until it is first kept."""

    def context(self) -> list[TurnRecord]:
        """The finished turns that a model should see. One that failed, was cancelled or refused stays in the history,
        but is no context (ACP, Prompt Turn: stop reasons)."""
        return [turn for turn in self.turns if turn.status == "completed" and turn.stop_reason != "refusal"]


def _is_text(block: Any) -> bool:
    """Whether a content block is text and nothing else."""
    if type(block) is not dict:
        return False
    block = cast("dict[str, Any]", block)
    return len(block) == 2 and block.get("type") == "text" and type(block.get("text")) is str


def _goes_on(before: dict[str, Any], event: dict[str, Any]) -> bool:
    """Whether a chunk is a piece of the same message as the event before it, and both are plain text."""
    return (
        before.get("sessionUpdate") == "agent_message_chunk"
        and before.get("messageId") == event.get("messageId")
        and _is_text(before["content"])
    )


def _can_be_written(value: Any) -> bool:
    try:
        codec.encode(value)
    except EncodeError:
        return False
    return True
