"""The runtime's side of a session: the order of its turns, its state, and its close. Every session is a LiveSession.

`acp_server.session.session` has the authors' side.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from time import time
from typing import TYPE_CHECKING, Any, ClassVar, Final

import anyio

from acp_server.errors import AcpError, ConnectionClosed, InvalidRequest, SessionClosed
from acp_server.safe_text import one_line
from acp_server.session.session import Session
from acp_server.session.state import SessionEvent, SessionState, check_not_child
from acp_server.store.records import iso
from acp_server.tasks.cause import Cause
from acp_server.tasks.grace import grace

if TYPE_CHECKING:
    from acp_server.peer.peer import Peer
    from acp_server.schema.session import McpServer
    from acp_server.session.definition import AgentDefinition
    from acp_server.session.negotiation import ClientProfile
    from acp_server.session.turn import Turn
    from acp_server.session.updates import LiveTurn
    from acp_server.store.records import SessionRecord, TurnRecord

logger: logging.Logger = logging.getLogger("acp_server.session")

_NAME: Final = 60
_NAMES: Final = 5
"""The most characters of a server's name, and the most servers, in a notice to the user."""
_REMEMBERED: Final = 4
"""The most cancelled turns that a session without history keeps."""


class LiveSession(Session):
    """A session with the methods of the runtime."""

    __slots__ = ("admit", "cancelled", "choosing", "keeps_history", "parent", "siblings", "tells_usage")

    parent: LiveTurn | None
    """The parent turn of a child session; None for others. A child session is never stored, so it stays in its first
    state."""
    siblings: dict[str, LiveSession]
    """The open sessions of the connection, by id."""
    cancelled: Sequence[TurnRecord]
    """The last turns of a session without history that were cancelled in a row, at most `_REMEMBERED`."""

    def __init__(
        self,
        record: SessionRecord,
        connection: Peer,
        profile: ClientProfile,
        definition: AgentDefinition,
        mcp_servers: Sequence[McpServer] = (),
    ) -> None:
        super().__init__(record, connection, profile, definition, mcp_servers)
        self.cancelled = ()
        self.parent = None
        self.keeps_history: bool = definition.history
        """Whether the session's turns are stored, see `Agent`."""
        self.admit: Callable[[Turn], Awaitable[None]] | None = definition.admit
        """A function that is called with each turn before its prompt becomes part of the session. None accepts every
        prompt."""
        self.tells_usage: bool = definition.has("end_turn_usage")
        """Whether the result of a prompt has the member `usage`, which is unstable."""
        self.choosing: Final = anyio.Lock()
        """A lock that is held while one choice of the client and its handler run, so that choices are handled one after
        the other."""

    # -- its turns

    @property
    def running(self) -> LiveTurn | None:
        """Return the running turn, which is the first one; None if there is no turn."""
        return self.turns[0] if self.turns else None

    def begin(self, turn: LiveTurn) -> None:
        """Add a turn, which is about to run, to the history."""
        record = self.record
        record.updated_at = time()
        if record.unused:
            record.unused = False
            from acp_server.session.typed import title_of

            record.begins = title_of(turn.record.prompt) or None
        if not self.keeps_history:
            return
        record.turns.append(turn.record)
        if self._journal is not None and self.state.saves:
            # The turn does not wait for the journal, which only serves if the program dies.
            self.client.connection.background(self._journal.begin, record, turn.record)

    def leave(self, turn: LiveTurn) -> None:
        """Remove a turn whose handler has ended, perhaps long after its prompt was answered."""
        self.turns.remove(turn)
        # Breaks a reference cycle, so that both are freed at once and not by the garbage collector.
        del turn.face
        if self._are_servers_unused:
            self._say_unused_servers()
        if not self.keeps_history:
            self.cancelled = [*self.cancelled, turn.record][-_REMEMBERED:] if turn.record.status == "canceled" else []
        if not self._awaited:
            return
        for over in (turn, self.running):
            if (event := self._awaited.pop(over, None)) is not None:
                event.set()

    def _say_unused_servers(self) -> None:
        """Report that the agent ignores the client's MCP servers: a warning once, and a notice if the client shows
        them."""
        self._are_servers_unused = False
        names = ", ".join(one_line(str(getattr(server, "name", "?")), _NAME) for server in self._mcp_servers[:_NAMES])
        if not self._definition.said_unused_servers:
            self._definition.said_unused_servers = True
            logger.warning(
                "the client named the MCP servers %s, but the agent does not connect to MCP servers; use "
                "Agent(mcp=True), or await session.mcp.connect() in a session handler",
                names,
            )
        capabilities = self.client.capabilities.session
        if capabilities is not None and capabilities.notices is not None and not self.closed:
            from acp_server.schema.updates import Notice

            notice = Notice(severity="warning", title=f"This agent does not use MCP servers: {names}")
            try:
                self.updates.send(notice.to_wire())
            except (SessionClosed, ConnectionClosed):
                pass  # the client is gone

    def overstays(self) -> None:
        """Wake all waiting tasks, because the prompt of the running turn is answered although its handler still
        runs."""
        waiting, self._awaited = self._awaited, {}
        for event in waiting.values():
            event.set()

    async def wait_place(self, turn: LiveTurn) -> None:
        """Wait for the turns before this one. A cancelled turn may never end. So the wait for it is at most
        `Limits.grace` seconds; after that this raises InvalidRequest."""
        while (first := self.turns[0]) is not turn:
            if first.cause is None:
                await self._comes(turn)
                continue
            with anyio.move_on_after(self.client.connection.limits.grace):
                await self.wait_first(turn)
            if self.turns[0] is first:
                told = "The cancelled turn before this one is still cleaning up"
                raise InvalidRequest(told, data={"sessionId": self.id})

    async def wait_first(self, turn: LiveTurn | None) -> None:
        """Wait until all turns before this one have left. With None, wait until all turns have left."""
        while self.running is not turn:
            await self._comes(turn)

    async def _comes(self, turn: LiveTurn | None) -> None:
        await self._awaited.setdefault(turn, anyio.Event()).wait()

    # -- its life

    def move(self, event: SessionEvent) -> bool:
        """Change the state. Only this method changes it. Returns False if the event has no effect in the present
        state."""
        state = self.state.after.get(event)
        if state is None:
            return False
        self.state = state
        return True

    @property
    def definition(self) -> AgentDefinition:
        """Return the definition of the session's agent."""
        return self._definition

    @property
    def tells_children(self) -> bool:
        """Whether child sessions are shown to the client as child sessions. Otherwise each is shown as a tool call."""
        return self._definition.has("subagents") and self.client.capabilities.subagents is not None

    def is_child_of(self, parent: LiveTurn) -> None:
        """Make this a child session, which shares the settings and data of the parent's session."""
        above = parent.session
        self.parent = parent
        self.siblings = above.siblings
        self._share(above)

    def end_children(self, turn: LiveTurn) -> None:
        """Cancel and end the turns of this turn's child sessions, before the turn itself ends."""
        for session in [each for each in self.siblings.values() if each.parent is turn]:
            for its in list(session.turns):
                its.node.cancel(Cause.FINISHED)
                its.end()

    def check_not_ending(self) -> None:
        """Raise InvalidRequest while a request is in flight that ends the session or opens it again, and InvalidParams
        for a child."""
        if self.parent is not None:
            check_not_child(self.id, self.siblings)
        if self.state is SessionState.ENDING:
            raise InvalidRequest("The session is being closed or reopened", data={"sessionId": self.id})

    MODE_IS_OPTION: ClassVar[bool] = False
    """Whether the client always gets the mode as an option. In version 1 the author may leave that option out."""

    def is_mode_option(self, config_id: str) -> bool:
        """Whether this option is the one for the mode, as the client was shown it."""
        settings = self.settings
        is_shown = bool(settings.modes) and (settings.modes_as_option or self.MODE_IS_OPTION)
        return is_shown and config_id == settings.mode_option

    # -- its record

    @property
    def unsaved(self) -> bool:
        """Whether the last save has failed or has not finished."""
        return self._saved < self._saves

    answering: ClassVar[Callable[..., AbstractContextManager[None]]] = Session._answering
    """Sets the session's `call` within the block: `with session.answering(call)`."""

    def offered(self) -> dict[str, Any]:
        """Return the modes and config options in the wire form of a response to `session/load` or `session/resume`."""
        return self._offered()

    saving: ClassVar[Callable[..., Awaitable[None] | None]] = Session._saving
    """Begin to save. Returns an awaitable if the store is asynchronous, else None."""
    change: ClassVar[Callable[..., Awaitable[None]]] = Session._change
    """Call a function that makes a change and returns its undo, then save the session. If the save fails, undo the
    change. Raises the exceptions of both, and SessionClosed."""

    def tell_title(self) -> None:
        """Send the title before the response to the request that opens the session, because no response has it."""
        if self.record.title is not None:
            info = {"title": self.record.title, "updatedAt": iso(self.record.updated_at)}
            self.updates.replay().send({"sessionUpdate": "session_info_update", **info})

    # -- its end

    async def close(self) -> None:
        """Call the closers and stop the updates. The turns must have finished or be cancelled before. Idempotent.
        Exceptions of closers are logged and not raised."""
        closers = self._closers
        if closers is not None and self.move(SessionEvent.CLOSED):
            with grace(self._patience) as scope:
                await closers.aclose()
            self._closers = None
            self.updates.close()
            if scope.cancelled_caught:
                logger.warning("closing session %s took more than %g s and was cut short", self.id, self._patience)


def log_unsaved(session: LiveSession, error: Exception) -> None:
    """Log that a session could not be saved, where no caller waits for the result."""
    # What a store raises on purpose says enough, and it may be said for every turn.
    told = isinstance(error, (AcpError, TimeoutError))
    logger.error("session %s was not saved: %s", session.id, error, exc_info=None if told else error)
