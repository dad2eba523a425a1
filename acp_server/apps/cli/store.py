"""The session store of a served agent, as the command line specifies it.

Nothing is opened before the first request for a session, because an editor waits for the answer to `initialize`.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import anyio

from acp_server.errors import InternalError, UsageError
from acp_server.store.memory import MemoryStore
from acp_server.store.records import SessionRecord, TurnRecord
from acp_server.store.session_store import Page, SessionStore
from acp_server.store.sqlite_store import SqliteStore, StoreBusy

logger: logging.Logger = logging.getLogger("acp_server.apps.cli")

MEMORY: Final = "memory"

_FIRST: Final = "acp-server"
"""The name of the agent whose file is `sessions.db`. Other agents have their name in the name of the file."""


def store_at(place: str) -> SessionStore:
    """Return the store that `--store` names: `memory`, or the path of a file. Raises UsageError if such a file cannot
    exist."""
    if place == MEMORY:
        return MemoryStore()
    path = Path(place).absolute()
    if path.is_dir():
        raise UsageError(f"cannot keep sessions in {path}, because it is a directory")
    if not path.parent.is_dir():
        raise UsageError(f"cannot keep sessions in {path}, because there is no directory {path.parent}")
    return SqliteStore(path)


class UserStore:
    """Stores the sessions of this user with the built-in agent of this `name`, in a file in the user's state directory.

    The user has not asked for the file, so a failure must not stop the agent. New sessions are kept in memory if the
    file cannot be opened, or while another program has locked it. The log has the reason, and a request for an old
    session fails with that reason. Sessions in memory are moved into the file once it is open.
    """

    def __init__(self, name: str = _FIRST) -> None:
        # Different agents cannot continue each other's sessions.
        self._name = "sessions.db" if name == _FIRST else f"{name}-sessions.db"
        self._file: SqliteStore | None = None
        self._is_open = False
        self._memory = MemoryStore()
        self._problem: InternalError | None = None
        """The reason why the file is not open."""
        self._trying = anyio.Lock()

    async def begin(self, record: SessionRecord, turn: TurnRecord) -> None:
        """See `TurnJournal`."""
        if file := await self._opened():
            await file.begin(record, turn)

    async def save(self, record: SessionRecord) -> None:
        """See `SessionStore`."""
        if file := await self._opened():
            await file.save(record)
        else:
            self._memory.save(record)

    async def load(self, session_id: str, *, cwd: str | None = None) -> SessionRecord | None:
        """See `SessionStore`."""
        if file := await self._opened():
            return await file.load(session_id, cwd=cwd)
        record = await self._memory.load(session_id, cwd=cwd)
        if record is None and self._problem is not None:
            raise InternalError(self._problem.message)
        return record

    async def list(self, cwd: str | None, cursor: str | None) -> Page:
        """See `SessionStore`."""
        file = await self._opened()
        if file is None and isinstance(self._problem, StoreBusy):
            # The other sessions still exist, and will be listed later.
            raise InternalError(self._problem.message)
        return await (file or self._memory).list(cwd, cursor)

    async def delete(self, session_id: str) -> None:
        """See `SessionStore`."""
        await (await self._opened() or self._memory).delete(session_id)

    async def _opened(self) -> SqliteStore | None:
        if self._is_open:
            return self._file
        # The first callers wait for each other. Later ones do not wait, because the reason is known by then.
        if self._may_open and (self._problem is None or not self._trying.locked()):
            async with self._trying:
                if self._may_open:
                    await self._try()
        return self._file if self._is_open else None

    @property
    def _may_open(self) -> bool:
        return not self._is_open and (self._problem is None or isinstance(self._problem, StoreBusy))

    async def _try(self) -> None:
        if self._file is None:
            from platformdirs import user_state_path

            self._file = SqliteStore(user_state_path("acp-server", appauthor=False) / self._name)
        try:
            # Only the first time is it waited for.
            await self._file.open(None if self._problem is None else 0)
            await self._move(self._file)
        except InternalError as problem:
            if self._problem is None:
                how_long = "the file is locked" if isinstance(problem, StoreBusy) else "this program runs"
                logger.error("sessions are kept in memory only, as long as %s", how_long)
            self._problem = problem
        else:
            self._is_open = True

    async def _move(self, file: SqliteStore) -> None:
        while kept := (await self._memory.list(None, None)).sessions:
            for record in kept:
                await file.save(record)
                await self._memory.delete(record.id)
