"""One prompt turn (ACP, Prompt Turn): its life, what it says, what it may ask.

The states and the moves between them are data, and every move goes through one function. Which turn runs when, and
which answer its prompt gets, is decided in `acp_server.session.prompting`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import anyio

from acp_server.errors import TurnEnded
from acp_server.schema.base import Model
from acp_server.schema.content import ContentBlock, TextContent
from acp_server.schema.plan import Plan, PlanEntry
from acp_server.schema.prompt import PromptRequest
from acp_server.session.client import Client
from acp_server.session.history import TurnRecord
from acp_server.session.updates import ChunkKind
from acp_server.tasks.cause import Cause
from acp_server.tasks.tree import Node

if TYPE_CHECKING:
    from acp_server.session.session import Session


class TurnState(Enum):
    """Where a turn is in its life."""

    CREATED = "created"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


_MOVES: Final[dict[TurnState, frozenset[TurnState]]] = {
    TurnState.CREATED: frozenset({TurnState.IN_PROGRESS, TurnState.CANCELED, TurnState.FAILED}),
    TurnState.IN_PROGRESS: frozenset({TurnState.COMPLETED, TurnState.FAILED, TurnState.CANCELED}),
    TurnState.COMPLETED: frozenset(),
    TurnState.FAILED: frozenset(),
    TurnState.CANCELED: frozenset(),
}


class Turn:
    """What a prompt handler works with: the user's message, the ways to answer, the client, the session."""

    def __init__(self, session: Session, request: PromptRequest, node: Node) -> None:
        self.id: Final = f"turn_{os.urandom(8).hex()}"
        """New for every turn."""
        self.session: Final = session
        self.prompt: Final[Sequence[ContentBlock]] = request.prompt
        """The user's message as content blocks (ACP, Content)."""
        self.meta: Final[dict[str, Any]] = request.meta or {}
        """The request's `_meta`."""
        self.node: Final = node
        self.stop_reason: str = "end_turn"
        """Why the turn ended, unless it is cancelled or fails: `end_turn`, `max_tokens`, `max_turn_requests`,
        `refusal`."""
        self.state = TurnState.CREATED
        self.created_at: Final = time.time()
        """Seconds since the epoch, like the other times."""
        self.ended_at: float | None = None
        self.record: Final = TurnRecord([block.to_wire() for block in request.prompt])
        self._ended: anyio.Event | None = None
        self._updates = session.updates

    @property
    def text(self) -> str:
        """The text blocks of the user's message, one below the other."""
        blocks = self.prompt
        if len(blocks) == 1 and isinstance(blocks[0], TextContent):
            return blocks[0].text
        return "\n".join(block.text for block in blocks if isinstance(block, TextContent))

    @property
    def client(self) -> Client:
        """The client: its files, terminals, permission."""
        return self.session.client

    @property
    def is_cancelled(self) -> bool:
        """Whether the turn is being cancelled, by whomever."""
        return self.node.cause is not None

    @property
    def cause(self) -> Cause | None:
        """Why it is being cancelled."""
        return self.node.cause

    # -- what it says

    async def say(self, text: str) -> None:
        """Show a piece of the agent's message. Raises TurnEnded once the turn is answered."""
        await self._chunk("agent_message_chunk", text)

    async def think(self, text: str) -> None:
        """Show a piece of the agent's reasoning. Raises TurnEnded once the turn is answered."""
        await self._chunk("agent_thought_chunk", text)

    async def plan(self, entries: Sequence[PlanEntry]) -> None:
        """Show the plan, all of it; it replaces the one before (ACP, Agent Plan)."""
        await self.update(Plan(entries=list(entries)))

    async def update(self, update: Model) -> None:
        """Say any session update of `acp_server.schema`. Raises TurnEnded once the turn is answered."""
        self._check_open()
        wire = update.to_wire()
        self._updates.send(wire)
        self.record.add(wire)
        if self._updates.crowded:
            await self._updates.room()

    async def _chunk(self, kind: ChunkKind, text: str) -> None:
        self._check_open()
        if text:
            self._updates.text(kind, text)
            self.record.add_text(kind, text)
            if self._updates.crowded:
                await self._updates.room()

    def _check_open(self) -> None:
        if self.ended_at is not None:
            raise TurnEnded("the turn is already answered; what is said now would reach the client too late")

    # -- its life

    def move(self, state: TurnState) -> bool:
        """The one way to change the state. False if the turn cannot go there (any more)."""
        if state not in _MOVES[self.state]:
            return False
        self.state = state
        self.record.status = state.value
        if state is TurnState.CANCELED:
            self.record.stop_reason = "cancelled"
        elif state is TurnState.COMPLETED:
            self.record.stop_reason = self.stop_reason
        if not _MOVES[state]:
            # From here on nothing is said: what comes behind the prompt's answer confuses clients.
            self.ended_at = time.time()
        return True

    def leave(self) -> None:
        """Its handler is really through, which may be long after the answer. The next turn of the session may begin."""
        self.node.close()
        if self._ended is not None:
            self._ended.set()

    async def wait_left(self) -> None:
        """Wait until `leave`."""
        while not self.node.closed:
            if self._ended is None:
                self._ended = anyio.Event()
            await self._ended.wait()
