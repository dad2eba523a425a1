"""Where a served agent keeps its sessions, as the command line has it.

Nothing is opened here before the first session is asked for: an editor waits for the answer to `initialize`.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from acp_server.errors import InternalError, UsageError
from acp_server.session.history import SessionRecord, TurnRecord
from acp_server.session.sqlite import SqliteStore
from acp_server.session.store import MemoryStore, Page, SessionStore

logger = logging.getLogger("acp_server.cli")

MEMORY: Final = "memory"


def store_at(place: str) -> SessionStore:
    """The store that `--store` names: `memory`, or the path of a file. Raises UsageError if there can be no such
    file."""
    if place == MEMORY:
        return MemoryStore()
    path = Path(place).absolute()
    if path.is_dir():
        raise UsageError(f"cannot keep sessions in {path}: it is a directory")
    if not path.parent.is_dir():
        raise UsageError(f"cannot keep sessions in {path}: there is no directory {path.parent}")
    return SqliteStore(path)


class UserStore:
    """The sessions of this user with the built-in agent, in a file in the user's state directory.

    Nobody has asked for it, so it stands in nobody's way: where there can be no such file, new sessions are kept in
    memory, and the log says why. Who asks for an old one is told.
    """

    def __init__(self) -> None:
        self._file: SqliteStore | None = None
        self._memory = MemoryStore()
        self._problem: InternalError | None = None

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

    async def load(self, session_id: str) -> SessionRecord | None:
        """See `SessionStore`."""
        if file := await self._opened():
            return await file.load(session_id)
        record = await self._memory.load(session_id)
        if record is None and self._problem is not None:
            raise InternalError(self._problem.message)
        return record

    async def list(self, cwd: str | None, cursor: str | None) -> Page:
        """See `SessionStore`."""
        return await (await self._opened() or self._memory).list(cwd, cursor)

    async def delete(self, session_id: str) -> None:
        """See `SessionStore`."""
        await (await self._opened() or self._memory).delete(session_id)

    async def _opened(self) -> SqliteStore | None:
        if self._file is None and self._problem is None:
            from platformdirs import user_state_path

            file = SqliteStore(user_state_path("acp-server", appauthor=False) / "sessions.db")
            try:
                await file.open()
            except InternalError as problem:
                logger.error("sessions are kept in memory only, as long as this program runs")
                self._problem = problem
            else:
                self._file = file
        return self._file
