"""The conversation of a session, in a form that is stored, replayed (`session/load`) and given to a model as
context."""

from __future__ import annotations

import logging
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import time
from typing import Any, Final, Literal, NamedTuple, cast

from acp_server.errors import EncodeError, UsageError
from acp_server.store.children import CHILD, folded, note
from acp_server.store.history import TERMINAL, Message, messages_of, shown
from acp_server.store.transcript import MOST, NOT_KEPT, RESULT, Transcript
from acp_server.wire import codec

logger: logging.Logger = logging.getLogger("acp_server.session")

TURN_KEY: Final = "acp_server/turn"
"""A key in the `_meta` of a replayed turn that failed or was cancelled. Its value has the status and the error."""

_NOTES: Final = (RESULT, TERMINAL, CHILD)
"""Entries of a stored turn that are not updates of the protocol."""

_CALLS: Final = ("tool_call", "tool_call_update")

_UNENDED: Final = ("pending", "in_progress")
"""The statuses of a tool call that has not ended."""

_LONG: Final = 1024 * 1024
"""If the contents of a turn have at least this many bytes, they stay in chunks and are not joined when the turn
ends."""

OPEN: Final = frozenset({"created", "in_progress", "requires_action"})
"""The states of turns that have not ended."""


def iso(seconds: float) -> str:
    """Return seconds since the epoch as ISO 8601 in UTC, the form in session info."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TurnError(NamedTuple):
    """Why a turn failed, as a text for the client. It never has the text of an exception that was not meant for the
    client."""

    code: int
    """A JSON-RPC error code."""
    message: str


class Usage(NamedTuple):
    """The tokens that a turn has used, as its agent reports them. None means that a count was not reported."""

    input: int
    output: int
    total: int
    thought: int | None = None
    """The part of the output that is the model's thoughts."""
    cached_read: int | None = None
    """The part of the input that was read from a cache."""
    cached_write: int | None = None
    """The part of the input that was written to a cache."""

    def plus(self, other: Usage) -> Usage:
        """Return the sum of two usages. A count that neither reports stays None."""
        pairs = zip(self, other, strict=True)
        return Usage(*(None if one is None and two is None else (one or 0) + (two or 0) for one, two in pairs))  # pyright: ignore[reportArgumentType]

    def to_wire(self) -> dict[str, int]:
        """Return the usage as `Usage` of the protocol (unstable: end of turn token usage)."""
        return {f"{_WIRE[name]}Tokens": count for name, count in self._asdict().items() if count is not None}


_WIRE: Final = {
    "input": "input",
    "output": "output",
    "total": "total",
    "thought": "thought",
    "cached_read": "cachedRead",
    "cached_write": "cachedWrite",
}


@dataclass(frozen=True, slots=True, eq=False)
class ToolResult:
    """The result of one tool call. In a condition, it is true if the tool completed."""

    id: str
    """The id that the caller gave, usually the model's; the `toolCallId` if the caller gave none."""
    name: str
    """The tool's name in the request."""
    status: Literal["completed", "failed", "rejected", "cancelled"]
    """`rejected`: the user did not approve the call, so the tool was not run. `cancelled`: the call, or the work that
    contains it, was cancelled before it completed."""
    message: str | None
    """The text for the model: the value as text, the error, or the tool's text after its cancel. None if there is no
    text."""
    value: Any = None
    """The function's return value, if the call completed."""
    error: BaseException | None = None
    """The exception that the function raised, if the call failed. Its text may be useful for a model; it is not sent to
    clients."""

    @property
    def ok(self) -> bool:
        """Whether the tool completed."""
        return self.status == "completed"

    def __bool__(self) -> bool:
        return self.ok


class TurnRecord:
    """One turn: the user's message, the updates, and how it ended.

    `prompt`: content blocks as received. `id`: by default a new id. `most`: the most bytes of updates to keep. `room`:
    the `acp_server.store.transcript.Room` that running turns share, for the runtime.
    """

    __slots__ = (
        "__weakref__",
        "_id",
        "_kept",
        "_most",
        "_packed",
        "_prompt",
        "_room",
        "created_at",
        "ended_at",
        "last_error",
        "meta_data",
        "status",
        "stop_reason",
        "transcript",
        "usage",
    )

    def __init__(self, prompt: list[dict[str, Any]], id: str | None = None, most: int = MOST, room: Any = None) -> None:
        self._id = id
        self._prompt = prompt
        self._most = most
        self._room = room
        self.transcript: Transcript | None = None
        """The updates; None before the first one."""
        self._kept: dict[str, bytes] | None = None
        self._packed: bytes | Sequence[bytes] | Callable[[], bytes] | None = None
        self.status: str = "created"
        """One of the values of `acp_server.session.state.TurnState`."""
        self.stop_reason: str | None = None
        self.created_at: float = time()
        """Seconds since the epoch, like the other times."""
        self.ended_at: float | None = None
        self.last_error: TurnError | None = None
        """Why the turn failed; None if it did not fail."""
        self.usage: Usage | None = None
        self.meta_data: dict[str, str] | None = None
        """Notes that the agent's author added."""

    @classmethod
    def restored(cls, id: str, contents: bytes | Callable[[], bytes]) -> TurnRecord:
        """Return a turn that has ended. `contents`: its `contents`, or a function that reads them. They are decoded
        only when they are used."""
        record = cls([], id)
        record._packed = contents
        del record._prompt, record.transcript
        return record

    @classmethod
    def of_child(cls, kept: dict[str, Any]) -> TurnRecord:
        """Return the turn of a child session, from the form that `replay` yields."""
        record = cls.restored(kept["id"], codec.encode(kept["contents"]))
        record.status, record.stop_reason = kept["status"], kept["stopReason"]
        if "error" in kept:
            record.last_error = TurnError(**kept["error"])
        return record

    def copy(self) -> TurnRecord:
        """Copy the turn for another session. The turn must have ended."""
        assert self._packed is not None
        copied = TurnRecord.restored(self.id, cast("bytes", self._packed))
        for name in _OF_A_TURN:
            setattr(copied, name, getattr(self, name))
        return copied

    @property
    def id(self) -> str:
        """The id of the turn. Every turn has a new one, except the turns that a fork copies."""
        if self._id is None:
            self._id = f"turn_{os.urandom(12).hex()}"
        return self._id

    @id.setter
    def id(self, id: str) -> None:
        assert self._id is None, "the id of a turn does not change"
        self._id = id

    @property
    def is_open(self) -> bool:
        """Whether the turn has not ended, as far as this record knows."""
        return self.status in OPEN

    @property
    def prompt(self) -> list[dict[str, Any]]:
        """The user's message as content blocks."""
        return self._prompt if self._packed is None else self._contents()[0]

    @property
    def text(self) -> str:
        """The text blocks of the prompt, joined by newlines."""
        return "\n".join(block["text"] for block in self.prompt if block["type"] == "text")

    @property
    def events(self) -> list[dict[str, Any]]:
        """The updates. Consecutive text is one update, and each tool call is one update with its last state."""
        return self._contents()[1]

    @property
    def tool_results(self) -> list[ToolResult]:
        """The results of the turn's tool calls in the order in which they ended, without values and errors."""
        return [
            ToolResult(**kept["result"])
            for kept in codec.decode(self.contents)[1]
            if kept.get("sessionUpdate") == RESULT
        ]

    def add_result(self, result: ToolResult, tool_call_id: str | None = None) -> None:
        """Keep the result of a tool call. `tool_call_id`: the `toolCallId`, if it differs from the result's id."""
        kept = {"id": result.id, "name": result.name, "status": result.status, "message": result.message}
        note = {"sessionUpdate": RESULT, "result": kept, "call": tool_call_id or result.id}
        (self.transcript or self.begin()).note(note)

    def add_terminal(self, note: dict[str, Any]) -> None:
        """Keep the last state of a terminal, see `acp_server.store.history.note`. A terminal that outlives its turn is
        not kept."""
        if self._packed is None:
            (self.transcript or self.begin()).note(note)

    def add_child(self, child: TurnRecord, about: dict[str, Any]) -> Callable[[], None]:
        """Keep a child session with its turn, see `acp_server.store.children.note`. The returned function must be
        called when the child has ended."""
        return (self.transcript or self.begin()).nest(lambda: note(child, about))

    def keep(self, key: str, version: int, value: Any) -> None:
        """See `Turn.keep`."""
        packed = {"bytes": b64encode(value).decode()} if isinstance(value, bytes) else {"value": value}
        entry = codec.encode({"version": version, **packed})[:-1]
        others = {other: kept for other, kept in (self._kept or {}).items() if other != key}
        if sum(map(len, others.values())) + len(entry) > self._most:
            raise UsageError(f"the values that a turn keeps can have at most {self._most} bytes together")
        self._kept = {**others, key: entry}

    def kept(self, key: str, version: int) -> Any:
        """Return the value that was stored under `key` in this `version`; None if there is no such value."""
        _, _, *more = codec.decode(self.contents)
        entry = more[0].get(key) if more else None
        if entry is None or entry["version"] != version:
            return None
        return b64decode(entry["bytes"]) if "bytes" in entry else entry["value"]

    @property
    def contents(self) -> bytes:
        """A JSON array of `prompt`, the stored events (`events` and the notes between them), and the values of `keep`
        if there are any. Values that JSON cannot express are omitted. The contents, and everything derived from them,
        may have to be read from the store. An access then raises the store's errors."""
        pieces = self.pieces
        return pieces if isinstance(pieces, bytes) else b"".join(pieces)

    @property
    def unread(self) -> Callable[[], bytes] | None:
        """The function that reads the contents from the store. None if they are in memory."""
        return self._packed if callable(self._packed) else None

    @property
    def pieces(self) -> bytes | Sequence[bytes]:
        """The same as `contents`, in chunks if it is long. Joining the chunks takes time, and may be done in any
        thread."""
        if self._packed is not None:
            return self._packed() if callable(self._packed) else self._packed
        try:
            prompt = codec.encode(self._prompt)
        except EncodeError:
            logger.warning("parts of turn %s are nested too deeply, so they are not stored", self.id)
            prompt = codec.encode([block for block in self._prompt if _can_be_written(block)])
        said = [b"[]"] if self.transcript is None else self.transcript.pieces()
        pieces = [b"[", prompt[:-1], b",", *said]
        if self._kept:
            kept = b",".join(codec.encode_fragment(key) + b":" + entry for key, entry in self._kept.items())
            pieces += (b",{", kept, b"}")
        pieces.append(b"]")
        return b"".join(pieces) if sum(map(len, pieces)) < _LONG else pieces

    def _contents(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        prompt, said, *_ = codec.decode(self.contents)
        return prompt, [event for event in said if event.get("sessionUpdate") not in _NOTES]

    def messages(self) -> list[Message]:
        """Return the conversation for a model; see `acp_server.store.history.messages_of`."""
        prompt, events = self._contents()
        results = self.tool_results if self.status == "canceled" else []
        found = [f"{each.name}: {each.message}" for each in results if each.status == "cancelled" and each.message]
        return messages_of(prompt, events, found)

    def add(self, update: dict[str, Any], json: bytes | None = None) -> None:
        """Keep an update in its wire form, see `Transcript.add`."""
        (self.transcript or self.begin()).add(update, json)

    def begin(self) -> Transcript:
        """Make the `transcript`, for the first update of a turn. The turn must not have ended."""
        self.transcript = Transcript(self._most, self._room)
        return self.transcript

    def pack(self) -> None:
        """Keep the turn, which has ended, as bytes. Bytes take less memory, and the garbage collector does not visit
        them."""
        if self._packed is None:
            if self.status != "completed":
                self._kept = None
            self._packed = self.pieces
            if self.transcript is not None and self.transcript.taken:
                self.transcript.end()
            # Not even two empty lists stay. The garbage collector would visit them for every turn of the past, which is
            # a fifth of the cost of a short turn.
            del self._prompt, self.transcript
            self._kept = None

    @property
    def size(self) -> int:
        """The number of bytes of the turn's contents in memory; 0 while the turn runs."""
        packed = self._packed
        if packed is None or callable(packed):
            return 0
        return len(packed) if isinstance(packed, bytes) else sum(map(len, packed))

    @property
    def is_here(self) -> bool:
        """Whether the turn's contents are in memory and need not be read from the store."""
        return not callable(self._packed)

    def release(self, read: Callable[[], bytes]) -> None:
        """Drop the contents from memory. The contents are stored, and `read` reads them again."""
        if self._packed is not None:
            self._packed = read

    def replay(self, *, as_terminals: bool = False, folds: bool = True) -> Iterator[dict[str, Any]]:
        """Yield the updates that replay this turn, beginning with the prompt. If the turn failed or was cancelled, the
        updates of the prompt have the turn's status in `_meta`, and no tool call is shown as running.

        `as_terminals`: see `acp_server.store.history.shown`. `folds`: whether each child session is a tool call;
        otherwise it is yielded as stored, see `of_child`.
        """
        prompt, said, *_ = codec.decode(self.contents)
        said = folded(said) if folds else said
        events = shown((event for event in said if event.get("sessionUpdate") != RESULT), as_terminals=as_terminals)
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
            # A new call without a status is pending. An update without a status leaves it unchanged.
            if kind in _CALLS and event.get("status", "pending" if kind == "tool_call" else None) in _UNENDED:
                event = {**event, "status": "failed"}
            yield event


_OF_A_TURN: Final = ("status", "stop_reason", "created_at", "ended_at", "last_error", "usage", "meta_data")


class UnkeptTurn(TurnRecord):
    """A turn of an agent without history. It stores only how it ended."""

    __slots__ = ()

    def begin(self) -> Transcript:
        """See `TurnRecord`."""
        return NOT_KEPT

    def add_child(self, child: TurnRecord, about: dict[str, Any]) -> Callable[[], None]:
        """See `TurnRecord`."""
        return lambda: None

    def keep(self, key: str, version: int, value: Any) -> None:
        """See `Turn.keep`."""
        raise UsageError("a turn cannot keep values, because the agent was made with history=False")


@dataclass(slots=True, eq=False, weakref_slot=True)
class SessionRecord:
    """Everything of a session that outlives its connection."""

    id: str
    cwd: str
    """The working directory, by which lists of sessions are filtered. Each folder has exactly one name here."""
    additional_directories: list[str] = field(default_factory=list[str])
    title: str | None = None
    created_at: float = field(default_factory=time)
    """Seconds since the epoch."""
    updated_at: float = field(default_factory=time)
    """When the session was last used, in seconds since the epoch."""
    mode: str | None = None
    config: dict[str, str | bool] = field(default_factory=dict[str, "str | bool"])
    turns: list[TurnRecord] = field(default_factory=list[TurnRecord])
    chosen: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]], repr=False)
    """The settings that the user or the agent has chosen, as `("mode",)` or `("config", id)`, even if their values did
    not change. A store that other programs also use removes the entries that it has written."""
    spelled: str | None = None
    """`cwd` as the client spells it, if that differs from `cwd`."""
    unused: bool = False
    """Whether the session has had no turn. So a list of sessions need not read turns to know that."""
    begins: str | None = None
    """The beginning of the first prompt. Lists show it if the session has no title."""
    named: bool = False
    """Whether the user has set the title. A title from the agent then does not replace it."""
    cost: tuple[float, str] | None = None
    """The cost of the session's turns so far as amount and currency, if the agent knows it."""
    archived: bool = False
    """Whether the user has archived the session. Lists omit it unless the client requests archived sessions."""
    data: Any = field(default=None, repr=False)
    """Data that the author's store has read with the session. `load` sets it, and session handlers find it in
    `session.record.data`. A fork has the data of its source. No store saves it."""
    stored: Any = field(default=None, repr=False)
    """The store's own data about how the session is stored. None until the session is first saved."""

    def begin_with(self, source: SessionRecord, turns: int | None = None) -> None:
        """Copy the conversation and the settings of `source`. Later changes of either session do not affect the other.
        `turns`: how many turns of `source` to copy, by default all that have ended."""
        self.title, self.named, self.mode = source.title, source.named, source.mode
        self.config, self.chosen = dict(source.config), set(source.chosen)
        self.turns = [turn.copy() for turn in source.turns[:turns] if not turn.is_open]
        self.begins, self.data = source.begins, source.data

    @property
    def is_empty(self) -> bool:
        """Whether nothing has happened in the session and nothing was set, so that no user would miss it."""
        settled = self.title is None and self.mode is None and not self.config
        return self.unused and settled and not self.turns

    @property
    def folder(self) -> str:
        """The working directory as the client spells it."""
        return self.spelled or self.cwd

    def context(self, *, cancelled: bool = False) -> list[TurnRecord]:
        """Return the ended turns that a model should see. A turn that failed, was cancelled or refused stays in the
        history, but is not context (ACP, Prompt Turn: stop reasons). `cancelled`: whether to include the turns that the
        user cancelled."""
        seen = {"completed", "canceled"} if cancelled else {"completed"}
        return [turn for turn in self.turns if turn.status in seen and turn.stop_reason != "refusal"]


def _can_be_written(value: Any) -> bool:
    try:
        codec.encode(value)
    except EncodeError:
        return False
    return True
