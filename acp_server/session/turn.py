"""One prompt turn (ACP, Prompt Turn): its life, what it says, what it may ask.

The states and the moves between them are data, and every move goes through one function. Which turn runs when, and
which answer its prompt gets, is decided in `acp_server.session.prompting`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, cast

import anyio.lowlevel

from acp_server.errors import TurnEnded
from acp_server.session.history import TurnRecord
from acp_server.tasks.cause import Cause
from acp_server.tasks.tree import Node

if TYPE_CHECKING:
    from acp_server.peer.context import Call
    from acp_server.schema.base import Model
    from acp_server.schema.content import ContentBlock
    from acp_server.schema.plan import PlanEntry
    from acp_server.schema.prompt import PromptRequest
    from acp_server.session.client import Client
    from acp_server.session.session import Session
    from acp_server.session.updates import ChunkKind


_PACE: Final = 0.02
"""Seconds for which a handler may talk before the rest of the program gets a chance to run."""


class TurnState(Enum):
    """Where a turn is in its life, and where it can go from there."""

    successors: tuple[TurnState, ...]

    CREATED = "created"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


for _state, _successors in {
    TurnState.CREATED: (TurnState.IN_PROGRESS, TurnState.CANCELED, TurnState.FAILED),
    TurnState.IN_PROGRESS: (TurnState.COMPLETED, TurnState.FAILED, TurnState.CANCELED),
    TurnState.COMPLETED: (),
    TurnState.FAILED: (),
    TurnState.CANCELED: (),
}.items():
    _state.successors = _successors


class Turn:
    """What a prompt handler works with: the user's message, the ways to answer, the client, the session."""

    def __init__(
        self, session: Session, call: Call, request: PromptRequest | None, node: Node, give_up: Callable[[], None]
    ) -> None:
        self.session: Final = session
        self._params = call.params
        self._request = request
        self.node: Final = node
        self.give_up: Callable[[], None] | None = give_up
        """Answers the prompt now, without waiting any longer for a handler that was cut and does not end. None once the
        turn has left its session."""
        self.stop_reason: Literal["end_turn", "max_tokens", "max_turn_requests", "refusal"] = "end_turn"
        """Why the turn ended, unless it is cancelled or fails. The handler sets it."""
        self.state = TurnState.CREATED
        self.created_at: Final = time.time()
        """Seconds since the epoch, like the other times."""
        self.ended_at: float | None = None
        self.record: Final = TurnRecord(self._params["prompt"])
        self._updates = session.updates
        self._pause_at = time.monotonic() + _PACE
        self._id: str | None = None

    @property
    def id(self) -> str:
        """New for every turn."""
        if self._id is None:
            self._id = f"turn_{os.urandom(8).hex()}"
        return self._id

    @property
    def prompt(self) -> Sequence[ContentBlock]:
        """The user's message as content blocks (ACP, Content)."""
        if self._request is None:
            from acp_server.schema.prompt import PromptRequest

            self._request = PromptRequest.from_wire(self._params)
        return self._request.prompt

    @property
    def meta(self) -> dict[str, Any]:
        """The request's `_meta`; empty if it has none or a malformed one."""
        meta = self._params.get("_meta")
        return cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}

    @property
    def text(self) -> str:
        """The text blocks of the user's message, one below the other."""
        return "\n".join(block["text"] for block in self._params["prompt"] if block["type"] == "text")

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
        """Show a piece of the agent's message. Waits if the client is behind with reading.

        Raises TurnEnded once the turn is answered, and ConnectionClosed.
        """
        await self._chunk("agent_message_chunk", text)

    async def think(self, text: str) -> None:
        """Show a piece of the agent's reasoning; otherwise like `say`."""
        await self._chunk("agent_thought_chunk", text)

    async def plan(self, entries: Sequence[PlanEntry]) -> None:
        """Show the plan, all of it; it replaces the one before (ACP, Agent Plan)."""
        from acp_server.schema.plan import Plan

        await self.update(Plan(entries=list(entries)))

    async def update(self, update: Model) -> None:
        """Say any session update of `acp_server.schema`; otherwise like `say`.

        One that only some clients understand (a notice, a compaction) is not sent to the others.
        """
        if self.ended_at is not None:
            await self._refuse()
        wire = update.to_wire()
        self._updates.send(wire)
        self.record.add(wire)
        now = time.monotonic()
        if now > self._pause_at or self._updates.crowded:
            await self._pause(now)

    async def _chunk(self, kind: ChunkKind, text: str) -> None:
        if self.ended_at is not None:
            await self._refuse()
        if not text:
            # Nothing to show, but whoever says nothing over and over must not keep the others from their turn.
            await anyio.lowlevel.checkpoint()
            return
        self._updates.text(kind, text)
        self.record.add_text(kind, text)
        now = time.monotonic()
        if now > self._pause_at or self._updates.crowded:
            await self._pause(now)

    async def _pause(self, now: float) -> None:
        # A handler that never waits for anything itself would let nothing be written, and no cancel be read.
        self._pause_at = now + _PACE
        if self._updates.crowded:
            await self._updates.room()
        else:
            await anyio.lowlevel.checkpoint()

    async def _refuse(self) -> NoReturn:
        # For the same reason: it may be that the handler catches this and goes on talking.
        await anyio.lowlevel.cancel_shielded_checkpoint()
        raise TurnEnded("the turn is already answered; what is said now would reach the client too late")

    # -- its life

    def move(self, state: TurnState) -> bool:
        """The one way to change the state. False if the turn cannot go there (any more)."""
        if state not in self.state.successors:
            return False
        self.state = state
        self.record.status = state.value
        if state is TurnState.CANCELED:
            self.record.stop_reason = "cancelled"
        elif state is TurnState.COMPLETED:
            self.record.stop_reason = self.stop_reason
        if not state.successors:
            # From here on nothing is said: what comes behind the prompt's answer confuses clients.
            self.ended_at = time.time()
            self.record.pack()
        return True

    def end(self, error: BaseException | None = None) -> None:
        """It is over, or its answer is out: decide how it ended. `error` is what the handler raised. The first time
        counts."""
        if self.ended_at is not None:
            return
        if self.cause is not None:
            self.move(TurnState.CANCELED if self.cause.asked_for else TurnState.FAILED)
        else:
            self.move(TurnState.COMPLETED if error is None else TurnState.FAILED)
