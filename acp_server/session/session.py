"""One session on one connection (ACP, Session Setup): where it works, its settings, its turns.

It outlives its turns; its record outlives the connection. How clients make, load and close sessions is in `lifecycle`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from acp_server.schema.base import Model
from acp_server.session.client import Client, ClientProfile
from acp_server.session.history import SessionRecord, now
from acp_server.session.updates import Updates
from acp_server.tasks.cause import Cause

if TYPE_CHECKING:
    from acp_server.peer.connection import Connection
    from acp_server.schema.config_options import SessionConfigOption, SessionMode
    from acp_server.schema.mcp import McpServer
    from acp_server.schema.updates import AvailableCommand
    from acp_server.session.turn import Turn

logger = logging.getLogger("acp_server.session")


class Session:
    """What a session's handlers share. `data` is the agent author's own place to keep things."""

    def __init__(
        self,
        record: SessionRecord,
        connection: Connection,
        profile: ClientProfile,
        mcp_servers: Sequence[McpServer] = (),
    ) -> None:
        self.record = record
        self.mcp_servers = mcp_servers
        """What the client wants the agent to connect to (ACP, MCP Servers)."""
        self.updates = Updates(connection, record.id)
        self.client = Client(connection, profile, record.id)
        """The client, for calls that belong to this session."""
        self.turns: list[Turn] = []
        """The turns that are not through: the running one, and those that are being cancelled or wait behind it."""
        self.modes: list[SessionMode] = []
        self.config_options: list[SessionConfigOption] = []
        self.data: Any = None
        self.closed = False
        self._closers: list[Callable[[], Awaitable[None] | None]] = []

    @property
    def id(self) -> str:
        """The session's id, as clients name it."""
        return self.record.id

    @property
    def cwd(self) -> str:
        """The absolute path that relative paths of this session start from."""
        return self.record.cwd

    @property
    def roots(self) -> list[str]:
        """The directories that the session's work should stay in: `cwd` and the additional ones."""
        return [self.record.cwd, *self.record.additional_directories]

    @property
    def mode(self) -> str | None:
        """The id of the current mode (ACP, Session Modes), or None for an agent without modes."""
        return self.record.mode

    def config(self, config_id: str) -> str | bool | None:
        """The current value of a config option (ACP, Session Config Options); None if there is no such option."""
        return next((option.current_value for option in self._known_options() if option.id == config_id), None)

    # -- what the agent tells the client outside of a turn

    async def update(self, update: Model) -> None:
        """Tell the client anything about this session: a `schema` session update. Waits if the client is behind."""
        self.updates.send(update)
        if self.updates.crowded:
            await self.updates.room()

    async def set_title(self, title: str | None) -> None:
        """Name the session; clients show it in their lists."""
        from acp_server.schema.updates import SessionInfoUpdate

        self.record.title = title
        self.touch()
        await self.update(SessionInfoUpdate(title=title, updated_at=self.record.updated_at))

    async def set_mode(self, mode_id: str) -> None:
        """Change the mode from the agent's side and tell the client. Raises ValueError for a mode that was not
        offered."""
        from acp_server.schema.updates import CurrentModeUpdate

        if all(mode.id != mode_id for mode in self.modes):
            raise ValueError(f"{mode_id!r} is not one of this session's modes")
        self.record.mode = mode_id
        await self.update(CurrentModeUpdate(current_mode_id=mode_id))

    async def set_commands(self, commands: Sequence[AvailableCommand]) -> None:
        """Offer slash commands to the client (ACP, Slash Commands); they replace those offered before."""
        from acp_server.schema.updates import AvailableCommandsUpdate

        await self.update(AvailableCommandsUpdate(available_commands=list(commands)))

    # -- its life

    def on_close(self, closer: Callable[[], Awaitable[None] | None]) -> None:
        """Have `closer` called when the session is closed or its connection ends; the last one first."""
        self._closers.append(closer)

    def cancel(self, cause: Cause = Cause.SESSION) -> bool:
        """Cut every turn that is running or waiting now. A later one is not affected. False if there was none."""
        cut = [turn.node.cut(cause) for turn in list(self.turns)]
        return any(cut)

    def touch(self) -> None:
        """The session was used now."""
        self.record.updated_at = now()

    async def close(self) -> None:
        """Let go of what the session holds. Idempotent; never raises. Its turns must be through or cut."""
        if self.closed:
            return
        self.closed = True
        while self._closers:
            try:
                pending = self._closers.pop()()
                if pending is not None:
                    await pending
            except Exception:
                logger.exception("closing session %s", self.id)

    def _known_options(self) -> list[Any]:
        return [option for option in self.config_options if hasattr(option, "current_value")]
