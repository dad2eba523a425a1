"""The conversation of a session, in a form that is stored, replayed (`session/load`) and given to a model as context.

Plain data: this module neither sends nor stores anything.
"""

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
"""The key in `_meta` of a replayed turn that failed or was cancelled; its value has the status and the error."""

_NOTES: Final = (RESULT, TERMINAL, CHILD)
"""Entries of a stored turn that are not updates of the protocol."""

_CALLS: Final = ("tool_call", "tool_call_update")

_UNENDED: Final = ("pending", "in_progress")
"""The status of a tool call that has not ended."""

_LONG: Final = 1024 * 1024
"""Bytes from which the contents of a turn are not joined at its end but stay in pieces."""

OPEN: Final = frozenset({"created", "in_progress", "requires_action"})
"""The states of turns that have not ended."""


def iso(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC, the form in session info."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TurnError(NamedTuple):
    """Why a turn failed, in words for the client: never the text of an exception that was not meant for it."""

    code: int
    """A JSON-RPC error code."""
    message: str


class Usage(NamedTuple):
    """Tokens that a turn has used, as its agent reports them. None: not reported."""

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
        """The sum. A count that neither reports stays None."""
        pairs = zip(self, other, strict=True)
        return Usage(*(None if one is None and two is None else (one or 0) + (two or 0) for one, two in pairs))  # pyright: ignore[reportArgumentType]

    def to_wire(self) -> dict[str, int]:
        """As `Usage` of the protocol (unstable: end of turn token usage)."""
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
    """The result of one tool call. It is true if the tool completed."""

    id: str
    """The id that the caller gave, usually the model's; the `toolCallId` if it gave none."""
    name: str
    """The tool's name, as it was requested."""
    status: Literal["completed", "failed", "rejected", "cancelled"]
    """`rejected`: the user did not approve it, so it was not run. `cancelled`: it, or the work that it was part of, was
    cancelled before it completed."""
    message: str | None
    """The text for the model: the value as text, the error, or the tool's text about its cancel. None if there is no
    text."""
    value: Any = None
    """The function's return value, if the call completed."""
    error: BaseException | None = None
    """The exception that the function raised, if the call failed. Its text may be fit for a model; it is not sent to
    clients."""

    @property
    def ok(self) -> bool:
        """Whether the tool completed."""
        return self.status == "completed"

    def __bool__(self) -> bool:
        return self.ok


class TurnRecord:
    """One turn: the user's message, the updates, and the end.

    `prompt`: content blocks as received. `id`: by default a new one. `most`: bytes of updates to keep.
    """

    __slots__ = (
        "__weakref__",
        "_id",
        "_kept",
        "_most",
        "_packed",
        "_prompt",
        "created_at",
        "ended_at",
        "last_error",
        "meta_data",
        "status",
        "stop_reason",
        "transcript",
        "usage",
    )

    def __init__(self, prompt: list[dict[str, Any]], id: str | None = None, most: int = MOST) -> None:
        self._id = id
        self._prompt = prompt
        self._most = most
        self.transcript: Transcript | None = None
        """What is said in it; None until something is (`begin`)."""
        """The updates; None before the first one."""
        self._kept: dict[str, bytes] | None = None
        self._packed: bytes | Sequence[bytes] | Callable[[], bytes] | None = None
        self.status: str = "created"
        """A state of `acp_server.session.state.TurnState`."""
        self.stop_reason: str | None = None
        self.created_at: float = time()
        """Seconds since the epoch, like the other times."""
        self.ended_at: float | None = None
        self.last_error: TurnError | None = None
        """Why it failed, if it did."""
        self.usage: Usage | None = None
        self.meta_data: dict[str, str] | None = None
        """Notes that the agent's author added."""

    @classmethod
    def restored(cls, id: str, contents: bytes | Callable[[], bytes]) -> TurnRecord:
        """A turn that has ended, from its `contents` or a function that reads them. They are decoded only when they are
        used."""
        record = cls([], id)
        record._packed = contents
        del record._prompt, record.transcript
        return record

    @classmethod
    def of_child(cls, kept: dict[str, Any]) -> TurnRecord:
        """The turn of a child session as `replay` yields it."""
        record = cls.restored(kept["id"], codec.encode(kept["contents"]))
        record.status, record.stop_reason = kept["status"], kept["stopReason"]
        if "error" in kept:
            record.last_error = TurnError(**kept["error"])
        return record

    def copy(self) -> TurnRecord:
        """The same turn for another session. The turn must have ended."""
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
        """Whether this record does not know of its end."""
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
        """The updates: one for each run of text, and each tool call once, in its last state."""
        return self._contents()[1]

    @property
    def tool_results(self) -> list[ToolResult]:
        """The results of its tool calls in the order in which they ended, without values and errors."""
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
            raise UsageError(f"a turn keeps {self._most} bytes at most")
        self._kept = {**others, key: entry}

    def kept(self, key: str, version: int) -> Any:
        """The value that was kept under `key` in this `version`; None if there is none, or only one of another
        version."""
        _, _, *more = codec.decode(self.contents)
        entry = more[0].get(key) if more else None
        if entry is None or entry["version"] != version:
            return None
        return b64decode(entry["bytes"]) if "bytes" in entry else entry["value"]

    @property
    def contents(self) -> bytes:
        """`prompt`, the kept events (`events` and the notes between them), and the values of `keep` if there are any,
        as a JSON array. Values that JSON cannot express are omitted. Like everything derived from it, it may have to be
        read from the store, and raises the store's errors."""
        pieces = self.pieces
        return pieces if isinstance(pieces, bytes) else b"".join(pieces)

    @property
    def unread(self) -> Callable[[], bytes] | None:
        """The function that reads the contents from the store. None if they are in memory."""
        return self._packed if callable(self._packed) else None

    @property
    def pieces(self) -> bytes | Sequence[bytes]:
        """`contents`, in pieces if it is long: joining takes a while, and may be done in any thread."""
        if self._packed is not None:
            return self._packed() if callable(self._packed) else self._packed
        try:
            prompt = codec.encode(self._prompt)
        except EncodeError:
            logger.warning("parts of turn %s are nested too deep to be kept", self.id)
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
        """The conversation for a model; see `acp_server.store.history.messages_of`."""
        prompt, events = self._contents()
        results = self.tool_results if self.status == "canceled" else []
        found = [f"{each.name}: {each.message}" for each in results if each.status == "cancelled" and each.message]
        return messages_of(prompt, events, found)

    def add(self, update: dict[str, Any], json: bytes | None = None) -> None:
        """Keep an update in its wire form, see `Transcript.add`."""
        (self.transcript or self.begin()).add(update, json)

    def begin(self) -> Transcript:
        """The first thing is said: its `transcript`. Not of a turn that has ended."""
        self.transcript = Transcript(self._most)
        return self.transcript

    def pack(self) -> None:
        """The turn has ended: keep it as bytes, which take less memory and are not visited by the garbage collector."""
        if self._packed is None:
            if self.status != "completed":
                self._kept = None
            self._packed = self.pieces
            # Not even two empty lists stay. The garbage collector would visit them for every turn of the past, which is
            # a fifth of the cost of a short turn.
            del self._prompt, self.transcript
            self._kept = None

    @property
    def size(self) -> int:
        """Bytes of its contents in memory; 0 while the turn runs."""
        packed = self._packed
        if packed is None or callable(packed):
            return 0
        return len(packed) if isinstance(packed, bytes) else sum(map(len, packed))

    @property
    def is_here(self) -> bool:
        """Whether its contents are in memory and need not be read."""
        return not callable(self._packed)

    def release(self, read: Callable[[], bytes]) -> None:
        """Drop the contents, which are stored, from memory; `read` reads them again."""
        if self._packed is not None:
            self._packed = read

    def replay(self, *, as_terminals: bool = False, folds: bool = True) -> Iterator[dict[str, Any]]:
        """The updates that replay this turn, beginning with the prompt. If the turn failed or was cancelled, the
        updates of the prompt have its status in `_meta`, and no tool call is shown as running.

        `as_terminals`: see `acp_server.store.history.shown`. `folds`: yield each child session as a tool call;
        otherwise as it is stored, see `of_child`.
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
    """A turn of an agent without history: keeps only how it ended."""

    __slots__ = ()

    def begin(self) -> Transcript:
        """See `TurnRecord`."""
        return NOT_KEPT

    def add_child(self, child: TurnRecord, about: dict[str, Any]) -> Callable[[], None]:
        """See `TurnRecord`."""
        return lambda: None

    def keep(self, key: str, version: int, value: Any) -> None:
        """See `Turn.keep`."""
        raise UsageError("nothing can be kept with a turn: the agent was made with history=False")


@dataclass(slots=True, eq=False, weakref_slot=True)
class SessionRecord:
    """Everything of a session that outlives its connection."""

    id: str
    cwd: str
    """The working directory, by which lists of sessions are filtered: one name for each folder."""
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
    """The settings that the user or the agent has chosen, as `("mode",)` or `("config", id)`, also if their values did
    not change. A store that other programs use too removes the entries that it has written."""
    spelled: str | None = None
    """`cwd` as the client spells it, if that differs."""
    unused: bool = False
    """Whether it has had no turn. A list of sessions knows this without reading turns."""
    begins: str | None = None
    """The beginning of the first prompt, to be listed where there is no title."""
    named: bool = False
    """Whether the title is the user's. A title from the agent does not replace it."""
    cost: tuple[float, str] | None = None
    """The cost of its turns so far as amount and currency, if the agent knows it."""
    archived: bool = False
    """Whether the user has archived it. Lists omit it unless the client requests archived sessions."""
    data: Any = field(default=None, repr=False)
    """Data that a store of the author has read with the session. `load` puts it here for the session handlers, which
    find it in `session.record.data`. A fork has its source's. No store saves it."""
    stored: Any = field(default=None, repr=False)
    """The store's own note that it has the session, and how. None until the session is first saved."""

    def begin_with(self, source: SessionRecord, turns: int | None = None) -> None:
        """Copy the conversation and the settings of `source`. Later changes of either session do not affect the other.
        `turns`: how many of its turns to copy, by default all that have ended."""
        self.title, self.named, self.mode = source.title, source.named, source.mode
        self.config, self.chosen = dict(source.config), set(source.chosen)
        self.turns = [turn.copy() for turn in source.turns[:turns] if not turn.is_open]
        self.begins, self.data = source.begins, source.data

    @property
    def is_empty(self) -> bool:
        """Whether nothing has happened in it and nothing was set, so that no user would miss it."""
        settled = self.title is None and self.mode is None and not self.config
        return self.unused and settled and not self.turns

    @property
    def folder(self) -> str:
        """The working directory as the client spells it."""
        return self.spelled or self.cwd

    def context(self, *, cancelled: bool = False) -> list[TurnRecord]:
        """The ended turns that a model should see. A turn that failed, was cancelled or refused stays in the history,
        but is not context (ACP, Prompt Turn: stop reasons). `cancelled`: include the turns that the user cancelled."""
        seen = {"completed", "canceled"} if cancelled else {"completed"}
        return [turn for turn in self.turns if turn.status in seen and turn.stop_reason != "refusal"]


def _can_be_written(value: Any) -> bool:
    try:
        codec.encode(value)
    except EncodeError:
        return False
    return True
