"""One session as the runtime has it, as each session is: its turns, where it is in its life, and its end.

What authors have of it is in `acp_server.session.session`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from time import time
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

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
    from acp_server.session.turn import LiveTurn
    from acp_server.store.records import SessionRecord, TurnRecord

logger: logging.Logger = logging.getLogger("acp_server.session")

_NAME: Final = 60
_NAMES: Final = 5
"""Characters of the name of a server, and servers, that are named to the user."""
_REMEMBERED: Final = 4
"""Cancelled turns of which the prompts are remembered where no history is kept."""


class LiveSession(Session):
    """A session, with what only the runtime does with it."""

    __slots__ = ("cancelled", "parent", "siblings")

    parent: LiveTurn | None
    """Of a child session: the turn that it belongs to. A child is never stored, so it stays in its first state."""
    siblings: dict[str, LiveSession]
    """The open sessions of its connection, by id."""
    cancelled: Sequence[TurnRecord]
    """Of an agent that keeps no history: the turns right before that were cancelled."""

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

    # -- its turns

    @property
    def running(self) -> LiveTurn | None:
        """The turn that runs, which is the first one; None while there is no turn."""
        return self.turns[0] if self.turns else None

    def begin(self, turn: LiveTurn) -> None:
        """The turn is about to run: from here on it is part of the history."""
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
            # It does not wait for that: what is kept of it so far is for the case that the program dies.
            self.client.connection.background(self._journal.begin, record, turn.record)

    def leave(self, turn: LiveTurn) -> None:
        """The turn is really through, which may be long after its answer."""
        self.turns.remove(turn)
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
        """A turn has ended without a look at the MCP servers that the client named: they have no effect."""
        self._are_servers_unused = False
        names = ", ".join(one_line(str(getattr(server, "name", "?")), _NAME) for server in self._mcp_servers[:_NAMES])
        if not self._definition.said_unused_servers:
            self._definition.said_unused_servers = True
            logger.warning(
                "the client named MCP servers (%s), and the agent connects to none of them: say Agent(mcp=True), or "
                "await session.mcp.connect() in a session handler",
                names,
            )
        capabilities = self.client.capabilities.session
        if capabilities is not None and capabilities.notices is not None and not self.closed:
            from acp_server.schema.updates import Notice

            notice = Notice(severity="warning", title=f"This agent does not use MCP servers: {names}")
            try:
                self.updates.send(notice.to_wire())
            except (SessionClosed, ConnectionClosed):
                pass  # there is no client left to tell

    def overstays(self) -> None:
        """The prompt of the turn that runs is answered, and its handler goes on: what waits for it looks anew."""
        waiting, self._awaited = self._awaited, {}
        for event in waiting.values():
            event.set()

    async def wait_place(self, turn: LiveTurn) -> None:
        """Wait for the turns before this one: as long as they run, and for a cancelled turn no longer than
        `Limits.grace`, since it may never end. Raises InvalidRequest then."""
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
        """Wait until all turns before this one have left; for None, until all have."""
        while self.running is not turn:
            await self._comes(turn)

    async def _comes(self, turn: LiveTurn | None) -> None:
        await self._awaited.setdefault(turn, anyio.Event()).wait()

    # -- its life

    def move(self, event: SessionEvent) -> bool:
        """The one way to change the state. False if nothing comes of this event in the present state."""
        state = self.state.after.get(event)
        if state is None:
            return False
        self.state = state
        return True

    @property
    def definition(self) -> AgentDefinition:
        """What its agent is."""
        return self._definition

    @property
    def tells_children(self) -> bool:
        """Whether the client is told of child sessions; else each is a tool call to it."""
        return self._definition.has("subagents") and self.client.capabilities.subagents is not None

    def is_child_of(self, parent: LiveTurn) -> None:
        """It is a child, which works with what its parent has."""
        above = parent.session
        self.parent = parent
        self.siblings = cast("LiveSession", above).siblings
        self._share(above)

    def end_children(self, turn: LiveTurn) -> None:
        """A turn is about to end: what is nested in it ends before."""
        for session in [each for each in self.siblings.values() if each.parent is turn]:
            for its in list(session.turns):
                its.node.cancel(Cause.FINISHED)
                its.end()

    def check_not_ending(self) -> None:
        """Raises InvalidRequest while a request is under way that ends the session, or opens it anew; InvalidParams for
        a child."""
        if self.parent is not None:
            check_not_child(self.id, self.siblings)
        if self.state is SessionState.ENDING:
            raise InvalidRequest("The session is being closed or opened anew", data={"sessionId": self.id})

    # -- what is kept

    @property
    def unsaved(self) -> bool:
        """Whether the last save has failed, or is not through."""
        return self._saved < self._saves

    answering: ClassVar[Callable[..., AbstractContextManager[None]]] = Session._answering
    """Within the block a request is about the session."""

    def offered(self) -> dict[str, Any]:
        """The modes and config options, as the answer to a request that opens it anew has them, in its wire form."""
        return self._offered()

    saving: ClassVar[Callable[..., Awaitable[None] | None]] = Session._saving
    """What is left to be awaited of `save`: None, if the store keeps it without waiting."""
    change: ClassVar[Callable[..., Awaitable[None]]] = Session._change
    """Choose something by a function, which returns how to undo it, and save the session; if that fails, undo it.
    Raises like both, and SessionClosed."""

    def tell_title(self) -> None:
        """Tell the client what the session is called, before it is told that the session is there. No answer says
        that."""
        if self.record.title is not None:
            info = {"title": self.record.title, "updatedAt": iso(self.record.updated_at)}
            self.updates.replay().send({"sessionUpdate": "session_info_update", **info})

    # -- its end

    async def close(self) -> None:
        """Let go of what the session holds. Its turns must be through or cancelled by then. Idempotent. Never
        raises."""
        closers = self._closers
        if closers is not None and self.move(SessionEvent.CLOSED):
            with grace(self._patience) as scope:
                await closers.aclose()
            self._closers = None
            self.updates.close()
            if scope.cancelled_caught:
                logger.warning("closing session %s was cut short after %g s", self.id, self._patience)


def log_unsaved(session: LiveSession, error: Exception) -> None:
    """Say that a session could not be saved, where no caller waits for that to succeed."""
    # What a store raises on purpose says enough, and it may be said for every turn.
    told = isinstance(error, (AcpError, TimeoutError))
    logger.error("session %s was not saved: %s", session.id, error, exc_info=None if told else error)
