"""What one turn says: text, plans, notices, compactions and all other updates, until it has ended.

What is said is kept in the turn's record as well. How an update is written is decided in
`acp_server.session.updates`.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, cast

import anyio.lowlevel

from acp_server.errors import SessionClosed, TurnEnded, UsageError
from acp_server.store.records import TurnRecord
from acp_server.tasks.tree import Node

if TYPE_CHECKING:
    from acp_server.schema.base import Model
    from acp_server.schema.updates import PlanEntry
    from acp_server.session.updates import ChunkKind, Speech

PACE: Final = 0.02
"""Seconds for which a handler may talk before the rest of the program gets a chance to run."""


class TurnUpdates:
    """The part of a turn that tells the client what happens in it."""

    # The turn sets these: a turn that says nothing has no way through this file.
    node: Node
    record: TurnRecord
    _updates: Speech
    _pause_at: float

    async def say(self, text: str) -> None:
        """Show a piece of the agent's message. Waits if the client is behind with reading.

        Raises TurnEnded once the turn is answered, and ConnectionClosed.
        """
        await self._chunk("agent_message_chunk", text)

    async def think(self, text: str) -> None:
        """Show a piece of the agent's reasoning; otherwise like `say`."""
        await self._chunk("agent_thought_chunk", text)

    async def plan(self, entries: Sequence[PlanEntry]) -> None:
        """Show the plan, all of it; it replaces the one before (ACP, Agent Plan)."""
        from acp_server.schema.updates import Plan

        await self.update(Plan(entries=list(entries)))

    async def notice(self, title: str, *, severity: str = "info", description: str | None = None) -> None:
        """Tell the user something that is not part of the conversation, in plain text: `severity` is `info`, `warning`
        or `error`. Clients need not show it, and many on version 1 cannot. Otherwise like `say`."""
        from acp_server.schema.updates import Notice

        await self.update(Notice(severity=severity, title=title, description=description))

    def compaction(self) -> Compaction:
        """`async with turn.compaction() as compaction:` around the work that shortens the agent's context."""
        return Compaction(self)

    async def show(self, piece: Any) -> None:
        """Show text, a content block or a session update, as if a prompt handler yielded it. Otherwise like `say`.

        Raises UsageError for anything else.
        """
        if isinstance(piece, str):
            await self.say(piece)
            return
        from acp_server.schema.base import Model
        from acp_server.schema.content import TextContent
        from acp_server.schema.updates import AgentMessageChunk

        if not isinstance(piece, Model):
            shown = "an async iterator" if isinstance(piece, AsyncIterable) else type(piece).__name__
            raise UsageError(f"a turn cannot show {shown}; expected text, content or a session update")
        if "session_update" in type(piece).model_fields:
            await self.update(piece)
        elif isinstance(piece, TextContent) and piece.annotations is None and piece.meta is None:
            await self.say(piece.text)
        else:
            await self.update(AgentMessageChunk(content=cast("Any", piece)))

    async def update(self, update: Model) -> None:
        """Say any session update of `acp_server.schema`; otherwise like `say`.

        An update that only some clients understand (a notice, a compaction) is not sent to the others.
        """
        if self.record.ended_at is not None:
            await self._refuse()
        self.put(update)
        now = time.monotonic()
        if now > self._pause_at or self._updates.crowded:
            await self._pause(now)

    def put(self, update: Model) -> None:
        """`update` without waiting, for callbacks. Much said this way fills the memory if the client is behind.

        Raises TurnEnded.
        """
        if self.record.ended_at is not None:
            raise too_late()
        wire = update.to_wire()
        self.record.add(wire, self._updates.send(wire))

    async def _chunk(self, kind: ChunkKind, text: str) -> None:
        if self.record.ended_at is not None:
            await self._refuse()
        if not text:
            # Nothing to show, but a handler that says nothing over and over must not starve the others.
            await anyio.lowlevel.checkpoint()
            return
        self.record.add_text(kind, self._updates.text(kind, text))
        now = time.monotonic()
        if now > self._pause_at or self._updates.crowded:
            await self._pause(now)

    async def _pause(self, now: float) -> None:
        # A handler that never waits for anything itself would let nothing be written, and no cancel be read.
        self._pause_at = now + PACE
        if self._updates.crowded:
            await self._updates.room()
        else:
            await anyio.lowlevel.checkpoint()

    async def _refuse(self) -> NoReturn:
        # For the same reason: it may be that the handler catches this and goes on talking.
        await anyio.lowlevel.cancel_shielded_checkpoint()
        raise too_late()


class Compaction:
    """One of a turn's. It is `in_progress` in its `async with` block, and is told to have ended when that is left:
    `completed`; `cancelled` with the turn; `failed` if the block raises."""

    def __init__(self, turn: TurnUpdates) -> None:
        self._turn = turn
        self.id: Final = f"compaction_{os.urandom(12).hex()}"
        """New for each."""

    async def summarize(self, text: str) -> None:
        """Show a piece of the summary, which stays of what is shortened. Raises TurnEnded and ConnectionClosed."""
        from acp_server.schema.content import TextContent
        from acp_server.schema.updates import CompactionSummaryChunk

        await self._turn.update(CompactionSummaryChunk(compaction_id=self.id, content=TextContent(text=text)))

    async def __aenter__(self) -> Compaction:
        self._tell("in_progress")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A turn that has ended without it tells nothing any more.
        with suppress(TurnEnded, SessionClosed):
            self._tell("completed" if error is None else "cancelled" if self._turn.node.cause is not None else "failed")

    def _tell(self, status: Literal["in_progress", "completed", "cancelled", "failed"]) -> None:
        from acp_server.schema.updates import CompactionUpdate

        self._turn.put(CompactionUpdate(compaction_id=self.id, status=status))


def too_late() -> TurnEnded:
    """What is raised from the end of a turn on."""
    return TurnEnded("the turn is already answered; what is said now would reach the client too late")
