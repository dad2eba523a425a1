"""Checks the values that authors send to a client: session updates, chunks of a message, lists.

A type checker finds wrong types, but many authors use none. Without these checks a wrong value would be sent, or would
fail with a message about pydantic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from acp_server.errors import UsageError

if TYPE_CHECKING:
    from acp_server.schema.updates import AgentMessageChunk

T = TypeVar("T")


def wire_of(update: Any) -> dict[str, Any]:
    """Return the wire form of a session update. Raises UsageError for anything else."""
    if getattr(update, "session_update", None) is None:
        raise UsageError(
            f"expected a session update of acp_server.schema, such as ToolCall, not {_kind(update)}{_read(update)}"
        )
    return update.to_wire()


def text_of(said: Any) -> str:
    """Return a chunk of text. Raises UsageError for any other type."""
    if not isinstance(said, str):
        raise UsageError(f"expected text, not {_kind(said)}; yield other content")
    return said


def chunk_of(piece: Any) -> AgentMessageChunk:
    """Return a chunk of the agent's message. Raises UsageError for anything but a content block."""
    from acp_server.schema.base import Record
    from acp_server.schema.updates import AgentMessageChunk

    hint = {"Diff": "; it is content of a ToolCall", "ToolCallUpdate": "; say a ToolCallProgress"}
    try:
        if isinstance(piece, Record):
            return AgentMessageChunk(content=piece)  # pyright: ignore[reportArgumentType]
    except ValueError:
        pass
    kind = _kind(piece)
    hinted = hint.get(kind) or _read(piece)
    raise UsageError(f"a turn cannot show {kind}; expected text, content or a session update{hinted}")


def is_command(name: Any) -> bool:
    """Whether a slash command can have this name. Clients take the word after the slash as the name."""
    return isinstance(name, str) and bool(name) and not name.startswith("/") and not any(map(str.isspace, name))


def several(what: str, values: Iterable[T], kind: type[T]) -> list[T]:
    """Return the values as a list. Raises UsageError unless every value is of `kind`, or a dict with
    the fields of `kind`."""
    given: Any = values
    # A model is iterable too, and yields its fields.
    one = isinstance(given, (kind, str, Mapping)) or not isinstance(given, Iterable)
    listed: list[Any] = [given] if one else list(cast("Iterable[Any]", given))
    wrong = next((value for value in listed if not isinstance(value, (kind, Mapping))), None)
    if wrong is None and not one:
        return listed
    raise UsageError(f"{what} must be a list of {kind.__name__}, not {_kind(given)}{_of(given, wrong)}")


def _read(given: Any) -> str:
    """Return a hint if a mapping was given, naming the function that reads an update from its wire form."""
    return "; from_wire(SessionUpdate, ...) of acp_server.schema reads one" if isinstance(given, Mapping) else ""


def _of(given: Any, wrong: Any) -> str:
    return "" if wrong is None or wrong is given else f" of {_kind(wrong)}"


def _kind(value: Any) -> str:
    return type(value).__name__
