"""What was said in a session, in a form that can be kept, replayed (`session/load`) and given to a model as context.

Plain data; it neither sends nor stores anything.
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
from acp_server.store.transcript import MOST, RESULT, Transcript
from acp_server.wire import codec

logger: logging.Logger = logging.getLogger("acp_server.session")

TURN_KEY: Final = "acp_server/turn"
"""The key in `_meta` under which a replayed turn that did not complete says what became of it."""

_NOTES: Final = (RESULT, TERMINAL, CHILD)
"""What is kept of a turn besides updates."""

_CALLS: Final = ("tool_call", "tool_call_update")

_UNENDED: Final = ("pending", "in_progress")
"""The status of a tool call that has not ended."""

_LONG: Final = 1024 * 1024
"""Bytes from which on the contents of a turn stay in the pieces that they were said in."""

OPEN: Final = frozenset({"created", "in_progress", "requires_action"})
"""The states of turns that have not ended."""


def iso(seconds: float) -> str:
    """A time since the epoch as ISO 8601 in UTC, as session info carries it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TurnError(NamedTuple):
    """Why a turn failed, in words fit for the client: never the text of an exception that was not meant for it."""

    code: int
    """A JSON-RPC error code."""
    message: str


class Usage(NamedTuple):
    """Tokens that a turn has cost, as its agent reports them. None: not reported."""

    input: int
    output: int
    total: int
    thought: int | None = None
    """Of the output, what the model thought."""
    cached_read: int | None = None
    """Of the input, what came from a cache."""
    cached_write: int | None = None
    """Of the input, what went into a cache."""

    def plus(self, other: Usage) -> Usage:
        """The sum. What neither reports is not reported."""
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
    """What came of one tool call. It is true if the tool ran to its end."""

    id: str
    """What its caller calls it, the model's id; the `toolCallId`, if it was given none."""
    name: str
    """The tool's name, as it was asked for."""
    status: Literal["completed", "failed", "rejected", "cancelled"]
    """`rejected`: it needed the user's approval and did not get it, so it was not run. `cancelled`: it, or what it was
    part of, was cancelled before it was through."""
    message: str | None
    """What to tell the model: the value as text, what went wrong, or what the tool has to say about its cancel; None if
    there is nothing to tell."""
    value: Any = None
    """What the function returned, of a completed one."""
    error: BaseException | None = None
    """What the function raised, of a failed one. Its text may be fit for a model; clients do not get to see it."""

    @property
    def ok(self) -> bool:
        """Whether it ran to its end."""
        return self.status == "completed"

    def __bool__(self) -> bool:
        return self.ok


class TurnRecord:
    """One turn: what the user said, what came of it, how it ended.

    `prompt`: content blocks as they came. `id`: by default a new one. `most`: bytes to keep of what is said in it.
    """

    __slots__ = (
        "__weakref__",
        "_id",
        "_kept",
        "_most",
        "_packed",
        "_prompt",
        "_transcript",
        "created_at",
        "ended_at",
        "last_error",
        "meta_data",
        "status",
        "stop_reason",
        "usage",
    )

    def __init__(self, prompt: list[dict[str, Any]], id: str | None = None, most: int = MOST) -> None:
        self._id = id
        self._prompt = prompt
        self._most = most
        self._transcript: Transcript | None = None
        """What was said, once something was."""
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
        """What the agent's author noted about it."""

    @classmethod
    def restored(cls, id: str, contents: bytes | Callable[[], bytes]) -> TurnRecord:
        """A turn that has ended, from its `contents`, or from what reads them. They are not looked at before they are
        needed."""
        record = cls([], id)
        record._packed = contents
        del record._prompt, record._transcript
        return record

    @classmethod
    def of_child(cls, kept: dict[str, Any]) -> TurnRecord:
        """The turn of a child session that `replay` has given."""
        record = cls.restored(kept["id"], codec.encode(kept["contents"]))
        record.status, record.stop_reason = kept["status"], kept["stopReason"]
        if "error" in kept:
            record.last_error = TurnError(**kept["error"])
        return record

    def copy(self) -> TurnRecord:
        """The same turn for another session. Only of a turn that has ended."""
        assert self._packed is not None
        copied = TurnRecord.restored(self.id, cast("bytes", self._packed))
        for name in _OF_A_TURN:
            setattr(copied, name, getattr(self, name))
        return copied

    @property
    def id(self) -> str:
        """The id of the turn. Every turn has a new one, but for those that a fork begins with."""
        if self._id is None:
            self._id = f"turn_{os.urandom(12).hex()}"
        return self._id

    @property
    def is_open(self) -> bool:
        """Whether it has not ended, as far as this record knows."""
        return self.status in OPEN

    @property
    def prompt(self) -> list[dict[str, Any]]:
        """The user's message as content blocks."""
        return self._prompt if self._packed is None else self._contents()[0]

    @property
    def text(self) -> str:
        """The text blocks of the user's message, one below the other."""
        return "\n".join(block["text"] for block in self.prompt if block["type"] == "text")

    @property
    def events(self) -> list[dict[str, Any]]:
        """The updates: one for each run of text, each tool call once, in its last state."""
        return self._contents()[1]

    @property
    def tool_results(self) -> list[ToolResult]:
        """What came of its tool calls, in the order in which they ended; without their values and errors."""
        return [
            ToolResult(**kept["result"])
            for kept in codec.decode(self.contents)[1]
            if kept.get("sessionUpdate") == RESULT
        ]

    def add_result(self, result: ToolResult, tool_call_id: str | None = None) -> None:
        """Keep what came of a tool call. `tool_call_id`: the `toolCallId`, if it is not the result's id."""
        kept = {"id": result.id, "name": result.name, "status": result.status, "message": result.message}
        note = {"sessionUpdate": RESULT, "result": kept, "call": tool_call_id or result.id}
        (self._transcript or self._begin()).note(note)

    def add_terminal(self, note: dict[str, Any]) -> None:
        """Keep what a terminal showed in the end, see `acp_server.store.history.note`. A terminal that outlives its
        turn is not kept."""
        if self._packed is None:
            (self._transcript or self._begin()).note(note)

    def add_child(self, child: TurnRecord, about: dict[str, Any]) -> Callable[[], None]:
        """Keep a child session with its turn, see `acp_server.store.children.note`. What is returned is called when
        that has ended."""
        return (self._transcript or self._begin()).nest(lambda: note(child, about))

    def keep(self, key: str, version: int, value: Any) -> None:
        """See `Turn.keep`."""
        packed = {"bytes": b64encode(value).decode()} if isinstance(value, bytes) else {"value": value}
        entry = codec.encode({"version": version, **packed})[:-1]
        others = {other: kept for other, kept in (self._kept or {}).items() if other != key}
        if sum(map(len, others.values())) + len(entry) > self._most:
            raise UsageError(f"a turn keeps {self._most} bytes at most")
        self._kept = {**others, key: entry}

    def kept(self, key: str, version: int) -> Any:
        """What was kept under `key` in this `version`; None if there is nothing, or another version of it."""
        _, _, *more = codec.decode(self.contents)
        entry = more[0].get(key) if more else None
        if entry is None or entry["version"] != version:
            return None
        return b64decode(entry["bytes"]) if "bytes" in entry else entry["value"]

    @property
    def contents(self) -> bytes:
        """`prompt` and `events` as a JSON array of the two. What of it cannot be written as JSON is left out. Like all
        that is made of it, it may have to be read from where the turn is stored, and raises what that raises."""
        pieces = self.pieces
        return pieces if isinstance(pieces, bytes) else b"".join(pieces)

    @property
    def unread(self) -> Callable[[], bytes] | None:
        """What reads its contents from where it is stored; None if they are in memory."""
        return self._packed if callable(self._packed) else None

    @property
    def pieces(self) -> bytes | Sequence[bytes]:
        """`contents`, in pieces if it is long: joining them takes a while, and can be done in any thread."""
        if self._packed is not None:
            return self._packed() if callable(self._packed) else self._packed
        try:
            prompt = codec.encode(self._prompt)
        except EncodeError:
            logger.warning("parts of turn %s are nested too deep to be kept", self.id)
            prompt = codec.encode([block for block in self._prompt if _can_be_written(block)])
        said = [b"[]"] if self._transcript is None else self._transcript.pieces()
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
        """What was said, for a model; see `acp_server.store.history.messages_of`."""
        prompt, events = self._contents()
        results = self.tool_results if self.status == "canceled" else []
        found = [f"{each.name}: {each.message}" for each in results if each.status == "cancelled" and each.message]
        return messages_of(prompt, events, found)

    def add_text(self, kind: str, fragment: bytes) -> None:
        """Keep a piece of text, as JSON."""
        (self._transcript or self._begin()).text(kind, fragment)

    def add(self, update: dict[str, Any], json: bytes | None = None) -> None:
        """Keep an update in its wire form, see `Transcript.add`."""
        (self._transcript or self._begin()).add(update, json)

    def _begin(self) -> Transcript:
        self._transcript = Transcript(self._most)
        return self._transcript

    def pack(self) -> None:
        """Nothing is added any more: keep it as text, which takes less room and spares the garbage collector."""
        if self._packed is None:
            if self.status != "completed":
                self._kept = None
            self._packed = self.pieces
            # Not even two empty lists stay: the garbage collector would visit them for every turn that there ever was,
            # which is a fifth of what a short turn costs.
            del self._prompt, self._transcript
            self._kept = None

    @property
    def size(self) -> int:
        """Bytes of its contents that are in memory; 0 as long as it runs."""
        packed = self._packed
        if packed is None or callable(packed):
            return 0
        return len(packed) if isinstance(packed, bytes) else sum(map(len, packed))

    @property
    def is_here(self) -> bool:
        """Whether its contents are in memory, so that nothing has to be read."""
        return not callable(self._packed)

    def release(self, read: Callable[[], bytes]) -> None:
        """Its contents, which are stored, need not be in memory: `read` has them."""
        if self._packed is not None:
            self._packed = read

    def replay(self, *, as_terminals: bool = False, folds: bool = True) -> Iterator[dict[str, Any]]:
        """The updates that show this turn to a client, the user's part first. If it failed or was cancelled, the user's
        part says so in its `_meta`, and no tool call is shown as if it still ran. `as_terminals`: see
        `acp_server.store.history.shown`. `folds`: each child session is a tool call; else it is there as it is kept,
        see `of_child`."""
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
            # Without a status a call is pending, and an update of one leaves it as it is.
            if kind in _CALLS and event.get("status", "pending" if kind == "tool_call" else None) in _UNENDED:
                event = {**event, "status": "failed"}
            yield event


_OF_A_TURN: Final = ("status", "stop_reason", "created_at", "ended_at", "last_error", "usage", "meta_data")


class UnkeptTurn(TurnRecord):
    """A turn of an agent that keeps no history: what is said in it is not kept, only how it ended."""

    __slots__ = ()

    def add_text(self, kind: str, fragment: bytes) -> None:
        """See `TurnRecord`."""

    def add(self, update: dict[str, Any], json: bytes | None = None) -> None:
        """See `TurnRecord`."""

    def add_result(self, result: ToolResult, tool_call_id: str | None = None) -> None:
        """See `TurnRecord`."""

    def add_terminal(self, note: dict[str, Any]) -> None:
        """See `TurnRecord`."""

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
    """The working directory, by which lists of sessions are filtered: one name for one folder."""
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
    spelled: str | None = None
    """`cwd` as the client spells it, if that is not the same."""
    unused: bool = False
    """Whether it has had no turn, as far as that is known without its turns."""
    begins: str | None = None
    """What its user has typed first, for lists of sessions without a title."""
    named: bool = False
    """Whether its title is the user's, which no title of the agent's replaces."""
    cost: tuple[float, str] | None = None
    """What its turns have cost so far, as amount and currency, if the agent knows."""
    archived: bool = False
    """Whether the user has put it away, so that it is not listed unless that is asked for."""
    data: Any = field(default=None, repr=False)
    """What a store of the author's own has read beside it: `load` leaves it here for the session handlers, which find
    it in `session.record.data`. A fork has that of its source. No store keeps it."""
    stored: Any = field(default=None, repr=False)
    """What its store notes on it, for itself alone: that it has it, and how. None until it is first kept."""

    def begin_with(self, source: SessionRecord, turns: int | None = None) -> None:
        """Take over what was said and set in `source`, which is not changed by what happens here later, nor this by
        what happens there. `turns`: how many of its turns, by default all that have ended."""
        self.title, self.named, self.mode = source.title, source.named, source.mode
        self.config, self.chosen = dict(source.config), set(source.chosen)
        self.turns = [turn.copy() for turn in source.turns[:turns] if not turn.is_open]
        self.begins, self.data = source.begins, source.data

    @property
    def is_empty(self) -> bool:
        """Whether nothing has happened in it and nothing was set, so that no user misses it."""
        settled = self.title is None and self.mode is None and not self.config
        return self.unused and settled and not self.turns

    @property
    def folder(self) -> str:
        """The working directory as the client spells it."""
        return self.spelled or self.cwd

    def context(self, *, cancelled: bool = False) -> list[TurnRecord]:
        """The finished turns that a model should see. A turn that failed, was cancelled or refused stays in the
        history, but is not context (ACP, Prompt Turn: stop reasons). `cancelled`: those that the user cancelled are."""
        seen = {"completed", "canceled"} if cancelled else {"completed"}
        return [turn for turn in self.turns if turn.status in seen and turn.stop_reason != "refusal"]


def _can_be_written(value: Any) -> bool:
    try:
        codec.encode(value)
    except EncodeError:
        return False
    return True
