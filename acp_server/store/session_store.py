"""What every store of sessions offers, how the list of sessions is cut into pages, and what a cursor means."""

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
"""How many sessions one answer to `session/list` has, whichever store."""

DELETED: Final = "The session was deleted, so it is not stored any more"


@dataclass(frozen=True, slots=True)
class Page:
    """A piece of the list of sessions, which need not have their turns; `next_cursor` is None on the last one."""

    sessions: list[SessionRecord]
    next_cursor: str | None
    infos: Sequence[SessionInfo] = ()
    """More sessions, behind those, in the words that the client is told: without a time, or with `_meta`, from a log of
    the author's own."""


class SessionStore(Protocol):
    """Keeps sessions. Methods may be called from any task of the event loop, and must be safe to call at once.

    What they raise is answered as any error is: an RpcError as it is, others without their text. At the end of a turn
    it is logged instead.
    """

    def save(self, record: SessionRecord) -> Awaitable[None] | None:
        """Keep the session as it is now: when it is made or opened, when what the user can set changes, and when a turn
        has ended, before that is answered. What it returns is awaited, in a scope that no cancel reaches.

        A session that was kept before, see `SessionRecord.stored`, and that was deleted since stays so: raises
        ResourceNotFound. What raises anything else is tried again when the session is closed, at the latest."""
        ...

    async def load(self, session_id: str, *, cwd: str | None = None) -> SessionRecord | None:
        """The session with this id, or None. `cwd`: where the client wants to go on with it, by the one name of that
        folder, as in `SessionRecord.cwd`. Also called, without it, for the id that `Agent.session_id` gives a
        new session, unless the agent has no history; and for a prompt in a session that is not open, which is refused.
        So it opens nothing and takes no lock: what it leaves in `SessionRecord.data`, the session handlers find there.
        """
        ...

    async def list(self, cwd: str | None, cursor: str | None) -> Page:
        """Sessions, the one used last first; only those of `cwd` if it is given, which is the one name of that folder,
        as in `SessionRecord.cwd`. Raises InvalidParams for a bad cursor."""
        ...

    async def delete(self, session_id: str) -> None:
        """Forget the session. No effect if the store does not have it."""
        ...


@runtime_checkable
class TurnJournal(Protocol):
    """A store that also wants to know of turns that begin, so that one whose program dies is not forgotten."""

    async def begin(self, record: SessionRecord, turn: TurnRecord) -> None:
        """Note that `turn`, the last one of the session, is running.

        The turn does not wait for it, so it may come after the `save` at its end. What it raises is logged.
        """
        ...


def encode_cursor(updated_at: float, session_id: str) -> str:
    """An opaque token for the place behind this session in the list."""
    return base64.urlsafe_b64encode(f"{updated_at!r}\n{session_id}".encode()).decode()


def decode_cursor(cursor: str) -> tuple[float, str]:
    """The place that `encode_cursor` wrote down. Raises InvalidParams for anything else."""
    try:
        text, _, session_id = base64.b64decode(cursor, altchars=b"-_", validate=True).decode().partition("\n")
        updated_at = float(text)
    except (binascii.Error, ValueError):
        raise InvalidParams("Invalid params: unknown cursor") from None
    if not session_id or not isfinite(updated_at):
        raise InvalidParams("Invalid params: unknown cursor")
    return updated_at, session_id


async def loaded(store: SessionStore, session_id: str, cwd: str | None = None) -> SessionRecord | None:
    """What `SessionStore.load` gives. Raises UsageError for what is not a session."""
    record = await _awaited(store, "load", store.load(session_id, cwd=cwd))
    return None if record is None else _one(store, "load", record, SessionRecord, " or None")


async def listed(store: SessionStore, cwd: str | None, cursor: str | None) -> Page:
    """What `SessionStore.list` gives. Raises UsageError for what is not a Page."""
    return _one(store, "list", await _awaited(store, "list", store.list(cwd, cursor)), Page)


async def _awaited(store: object, method: str, made: Any) -> Any:
    if not isawaitable(made):
        raise UsageError(f"{type(store).__name__}.{method} must be `async def`")
    return await made


def _one(store: object, method: str, value: Any, kind: type[T], other: str = "") -> T:
    if not isinstance(value, kind):
        wanted = f"{kind.__name__}{other}"
        raise UsageError(f"{type(store).__name__}.{method} must return a {wanted}, and not a {type(value).__name__}")
    return value
