"""The interface of every session store, and the cursors of pages of the session list."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, runtime_checkable

from acp_server.errors import InvalidParams, UsageError
from acp_server.store.records import SessionRecord, TurnRecord

if TYPE_CHECKING:
    from acp_server.schema.session import SessionInfo

T = TypeVar("T")

PAGE_SIZE: Final = 50
"""The number of sessions in one response to `session/list`, for each store."""

DELETED: Final = "The session was deleted"


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the list of sessions. The sessions may come without their turns. `next_cursor` is None on the last
    page."""

    sessions: list[SessionRecord]
    next_cursor: str | None
    infos: Sequence[SessionInfo] = ()
    """Sessions to list after `sessions`, in the client's form. They may lack a time or have `_meta`, for example
    because they come from an author's log."""


class SessionStore(Protocol):
    """Stores sessions. Methods may be called from any task of the event loop, also concurrently.

    If a method raises, the exception becomes the response: an RpcError is sent as it is, other exceptions without their
    text. At the end of a turn the exception is logged instead.
    """

    def save(self, record: SessionRecord) -> Awaitable[None] | None:
        """Save the session in its present state. This is called when a session is created or opened, when a setting of
        the user changes, and when a turn has ended, before its response. A returned awaitable is awaited inside a
        shield.

        Raises ResourceNotFound if the session was saved before (see `SessionRecord.stored`) and was deleted since then,
        because a deleted session stays deleted. After any other exception, `save` is called again, at the latest when
        the session is closed.
        """
        ...

    async def load(self, session_id: str, *, cwd: str | None = None) -> SessionRecord | None:
        """Return the session with this id, or None. `cwd`: the directory in which the client wants to continue it, in
        the form of `SessionRecord.cwd`.

        In two cases it is called without `cwd`. One is the id that `Agent.session_id` gives a new session, unless the
        agent has no history. The other is a prompt in a session that is not open, which is refused. So it must open
        nothing and take no lock. Session handlers find the data that it puts in `SessionRecord.data`.
        """
        ...

    async def list(self, cwd: str | None, cursor: str | None) -> Page:
        """Return a page of sessions, the most recently used first. `cwd`: list only sessions of this folder, in the
        form of `SessionRecord.cwd`. Raises InvalidParams for a bad cursor."""
        ...

    async def delete(self, session_id: str) -> None:
        """Delete the session. Has no effect if the store does not have it."""
        ...


@runtime_checkable
class TurnJournal(Protocol):
    """A store that also records the beginning of a turn, so that a turn whose program dies is not lost."""

    async def begin(self, record: SessionRecord, turn: TurnRecord) -> None:
        """Store that `turn`, the last turn of the session, is running.

        The turn does not wait for this call, so it may be executed after the `save` at the end of the turn. Exceptions
        are logged.
        """
        ...


def encode_cursor(updated_at: float, session_id: str) -> str:
    """Return an opaque token for the position after this session in the list."""
    return base64.urlsafe_b64encode(f"{updated_at!r}\n{session_id}".encode()).decode()


def decode_cursor(cursor: str) -> tuple[float, str]:
    """Return the position that `encode_cursor` encoded. Raises InvalidParams for any other text."""
    try:
        text, _, session_id = base64.b64decode(cursor, altchars=b"-_", validate=True).decode().partition("\n")
        updated_at = float(text)
    except (binascii.Error, ValueError):
        raise InvalidParams("Invalid params: unknown cursor") from None
    if not session_id or not isfinite(updated_at):
        raise InvalidParams("Invalid params: unknown cursor")
    return updated_at, session_id


async def loaded(store: SessionStore, session_id: str, cwd: str | None = None) -> SessionRecord | None:
    """Call `SessionStore.load` and check its result. Raises UsageError if it is not async or returns anything but a
    session or None."""
    record = await _awaited(store, "load", store.load(session_id, cwd=cwd))
    return None if record is None else _one(store, "load", record, SessionRecord, " or None")


async def listed(store: SessionStore, cwd: str | None, cursor: str | None) -> Page:
    """Call `SessionStore.list` and check its result. Raises UsageError if it is not async or returns anything but a
    Page."""
    return _one(store, "list", await _awaited(store, "list", store.list(cwd, cursor)), Page)


async def _awaited(store: object, method: str, made: Any) -> Any:
    if not isawaitable(made):
        raise UsageError(f"{type(store).__name__}.{method} must be `async def`")
    return await made


def _one(store: object, method: str, value: Any, kind: type[T], other: str = "") -> T:
    if not isinstance(value, kind):
        wanted = f"{kind.__name__}{other}"
        raise UsageError(f"{type(store).__name__}.{method} must return a {wanted}, not a {type(value).__name__}")
    return value
