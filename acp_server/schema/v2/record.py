"""The state of a session, built by applying its version 2 updates one after the other (ACP v2, prompt lifecycle).

The record of an object with an id is the single update that would create the object. Fields that were never set, or
were cleared, are unset in it. So a record is replayed by sending its updates, and the receiver's record then equals it.

A record does no I/O. It is unbounded, because it grows with the agent's updates.
"""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator
from typing import Any, TypeAlias, TypeVar, cast

from acp_server.schema.v2.tool_call import (
    TerminalOutput,
    TerminalOutputChunk,
    TerminalUpdate,
    ToolCallContentChunk,
    ToolCallProgress,
)
from acp_server.schema.v2.types import Patch
from acp_server.schema.v2.updates import (
    AgentMessage,
    AgentMessageChunk,
    AgentThought,
    AgentThoughtChunk,
    AvailableCommandsUpdate,
    CompactionSummaryChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    Notice,
    PlanUpdate,
    SessionInfoUpdate,
    SessionMessage,
    SessionMessageChunk,
    SessionUpdate,
    StateUpdate,
    SubagentUpdate,
    UnknownSessionUpdate,
    UsageUpdate,
    UserMessage,
    UserMessageChunk,
)

P = TypeVar("P", bound=Patch)
Key: TypeAlias = tuple[str, str]
"""A kind of object, and an id that is unique only within that kind."""

_COLLECTIONS = frozenset({"content", "locations", "summary"})
"""The fields for which an empty list means the same as null."""

_PATCHES: dict[type[Patch], tuple[str, str]] = {
    UserMessage: ("user_message", "message_id"),
    AgentMessage: ("agent_message", "message_id"),
    AgentThought: ("agent_thought", "message_id"),
    ToolCallProgress: ("tool_call", "tool_call_id"),
    CompactionUpdate: ("compaction", "compaction_id"),
    SubagentUpdate: ("subagent", "session_id"),
    SessionMessage: ("session_message", "message_id"),
}
"""The kind of object that a patch changes, and the attribute of the patch that is the object's id."""

_CHUNKS: dict[type[Any], tuple[type[Patch], str]] = {
    UserMessageChunk: (UserMessage, "content"),
    AgentMessageChunk: (AgentMessage, "content"),
    AgentThoughtChunk: (AgentThought, "content"),
    ToolCallContentChunk: (ToolCallProgress, "content"),
    CompactionSummaryChunk: (CompactionUpdate, "summary"),
    SessionMessageChunk: (SessionMessage, "content"),
}
"""The update that a chunk adds to, and the list that the chunk is appended to."""


class TerminalRecord:
    """The state of a terminal."""

    def __init__(self, terminal_id: str) -> None:
        self.told: TerminalUpdate = TerminalUpdate(terminal_id=terminal_id)
        """Everything about the terminal except its output."""
        self.output: bytearray = bytearray()
        """All bytes of the terminal's output."""

    def update(self) -> TerminalUpdate:
        """Return the single update that would create the terminal."""
        made = self.told.model_copy()
        if self.output:
            made.output = TerminalOutput(data=b64encode(self.output).decode())
        return made


class SessionRecord:
    """The content of a session's updates, in the order in which each object first appeared."""

    def __init__(self) -> None:
        self.things: dict[Key, Patch | TerminalRecord | PlanUpdate | UnknownSessionUpdate] = {}
        """Messages, tool calls, terminals, plans and compactions. Updates of an unknown kind are kept as received. The
        kinds are `user_message`, `agent_message`, `agent_thought`, `tool_call`, `terminal`, `plan`, `compaction`,
        `subagent`, `session_message` and `unknown`."""
        self.info: SessionInfoUpdate = SessionInfoUpdate()
        """The session's title and time."""
        self.state: StateUpdate | None = None
        """The last snapshot; None before the first one, which counts as idle."""
        self.usage: UsageUpdate | None = None
        """The last usage."""
        self.commands: AvailableCommandsUpdate | None = None
        """The commands; None before the first update of them."""
        self.options: ConfigOptionUpdate | None = None
        """The config options; None before the first update of them."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SessionRecord):
            return NotImplemented
        return [update.to_wire() for update in self.updates()] == [update.to_wire() for update in other.updates()]

    def apply(self, update: SessionUpdate) -> None:
        """Apply one update. The update is not changed, and the record shares no mutable part with it."""
        match update:
            case TerminalUpdate() | TerminalOutputChunk():
                self._terminal(update)
            case PlanUpdate(plan=plan):
                self.things["plan", plan.plan_id] = update
            case SessionInfoUpdate():
                _patch(self.info, update)
            case StateUpdate():
                self.state = update
            case UsageUpdate():
                known = self.usage.cost if self.usage is not None else None
                self.usage = update.model_copy()
                if update.cost is None:
                    self.usage.cost = None if update.is_null("cost") else known
            case AvailableCommandsUpdate():
                self.commands = update
            case ConfigOptionUpdate():
                self.options = update
            case Notice():
                pass  # a notice is not in the session's history
            case UnknownSessionUpdate():
                self.things["unknown", str(len(self.things))] = update
            case UserMessage() | AgentMessage() | AgentThought() | ToolCallProgress() | CompactionUpdate():
                _patch(self._thing(type(update), update), update)
            case SubagentUpdate() | SessionMessage():
                _patch(self._thing(type(update), update), update)
            case _:
                whole, name = _CHUNKS[type(update)]
                thing = self._thing(whole, update)
                if getattr(thing, name) is None:
                    setattr(thing, name, [])
                getattr(thing, name).append(update.content)

    def updates(self) -> Iterator[SessionUpdate]:
        """Yield the updates that build an equal record from a new one, for example for a replay. The state comes
        last."""
        for thing in self.things.values():
            yield _copied(thing.update() if isinstance(thing, TerminalRecord) else thing)
        for last in (self.info, self.usage, self.commands, self.options, self.state):
            if last is not None:
                yield _copied(last)

    def _thing(self, whole: type[Patch], update: Any) -> Any:
        """Return the object that an update is about. The object is created if it is new."""
        kind, attribute = _PATCHES[whole]
        id = getattr(update, attribute)
        thing = self.things.get((kind, id))
        if thing is None:
            made: Any = whole
            # A compaction must have a status; if chunks of its summary come first, it is in progress.
            required = {"status": getattr(update, "status", "in_progress")} if whole is CompactionUpdate else {}
            thing = self.things[kind, id] = made(**{attribute: id}, **required)
        return thing

    def _terminal(self, update: TerminalUpdate | TerminalOutputChunk) -> None:
        key = ("terminal", update.terminal_id)
        terminal = self.things.get(key)
        if not isinstance(terminal, TerminalRecord):
            terminal = self.things[key] = TerminalRecord(update.terminal_id)
        if isinstance(update, TerminalOutputChunk):
            terminal.output += _bytes(update.data) or b""
            return
        _patch(terminal.told, update)
        _unset(terminal.told, "output")
        if "output" in update.model_fields_set:
            shown = b"" if update.output is None else _bytes(update.output.data)
            if shown is not None:
                terminal.output[:] = shown


def _patch(thing: P, patch: P) -> None:
    """Apply a patch to an object."""
    for name in patch.model_fields_set:
        value = getattr(patch, name)
        if name == "session_update":
            continue
        if name == "meta" and value is not None:
            value = {key: item for key, item in {**(thing.meta or {}), **value}.items() if item is not None}
        if value is None or (name in _COLLECTIONS and not value):
            _unset(thing, name)
        else:
            # A copy of the list, since chunks are appended to it.
            _set(thing, name, list(cast("list[Any]", value)) if name in _COLLECTIONS else value)


def _copied(update: Any) -> Any:
    """Return a copy of an update that does not change with the record."""
    return update.model_copy(
        update={name: list(getattr(update, name)) for name in _COLLECTIONS & update.model_fields_set}
    )


def _set(thing: Patch, name: str, value: Any) -> None:
    if name in type(thing).model_fields:
        setattr(thing, name, value)
    elif thing.model_extra is not None:
        thing.model_extra[name] = value
        thing.__pydantic_fields_set__.add(name)


def _unset(thing: Patch, name: str) -> None:
    """Unset a field, whether it is a known field or not."""
    if name in type(thing).model_fields:
        setattr(thing, name, None)
    elif thing.model_extra is not None:
        thing.model_extra.pop(name, None)
        thing.__pydantic_fields_set__.discard(name)


def _bytes(data: str) -> bytes | None:
    """Return the decoded bytes; None for invalid base64, which counts as absent."""
    try:
        return b64decode(data, validate=True)
    except NotBase64:
        return None
