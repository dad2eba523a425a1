"""Replays a session to a client that loads it (ACP, Session Setup).

`acp_server.store.records` has the stored updates of a turn. This module adds what clients need. Each message gets an
id, so that no message is appended to the one before it. A cancelled or failed turn gets a text at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from anyio import to_thread

from acp_server.safe_text import one_line
from acp_server.store.children import CHILD, message, state_of
from acp_server.store.records import TurnRecord

if TYPE_CHECKING:
    from acp_server.session.live_session import LiveSession
    from acp_server.session.updates import Speech, Updates

_CHUNKS: Final = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")

_LONGEST: Final = 500
"""The most characters of the reason of a failed turn."""


async def replay(session: LiveSession, way: Updates, *, as_terminals: bool = False) -> None:
    """Replay the turns of a session and their child sessions. `as_terminals`: replay in the form of version 2, whose
    messages already have ids (see `TurnRecord.replay`)."""
    again = _Again(as_terminals, folds=not session.tells_children)
    for turn in list(session.record.turns):
        speech = await again.turn(turn, way, session.id)
        if (words := _end(turn)) is not None:
            end = {} if as_terminals else {"messageId": f"{turn.id}_end"}
            content = {"type": "text", "text": words}
            speech.send({"sessionUpdate": "agent_message_chunk", **end, "content": content})


class _Again:
    """Replays ended turns. `folds`: see `TurnRecord.replay`."""

    def __init__(self, as_terminals: bool, *, folds: bool) -> None:
        self._as_terminals = as_terminals
        self._folds = folds

    async def turn(self, turn: TurnRecord, way: Updates, session_id: str, but: str = "") -> Speech:
        """Replay one turn, without updates of the kind `but`. Returns the `Speech` that sends the updates."""
        speech = way.of(turn)
        updates = await self._updates(turn)
        for update in updates if self._as_terminals else _with_ids(turn.id, updates):
            kind = update["sessionUpdate"]
            if kind == CHILD:
                await self._child(update, way, speech, session_id)
            elif kind != but:
                speech.send(update)
            if way.crowded:
                await way.room()
        return speech

    async def _updates(self, turn: TurnRecord) -> Iterable[dict[str, Any]]:
        # A turn that is not in memory is read in a thread.
        if turn.is_here:
            return turn.replay(as_terminals=self._as_terminals, folds=self._folds)
        return await to_thread.run_sync(lambda: list(turn.replay(as_terminals=self._as_terminals, folds=self._folds)))

    async def _child(self, kept: dict[str, Any], way: Updates, speech: Speech, parent_id: str) -> None:
        """Replay a child session: its announcement, its updates, and its end if that is known. The client is not
        offered to cancel the child session."""
        id = f"{parent_id}.{kept['key']}"
        about = {name: kept[name] for name in ("title", "description", "cwd") if name in kept}
        speech.send({"sessionUpdate": "subagent_update", "sessionId": id, **about})
        child, its = TurnRecord.of_child(kept), way.child(id)
        if child.prompt:
            its.send(message(child.id, parent_id, id, child.prompt))
        await self.turn(child, its, id, but="user_message_chunk")
        if (state := state_of(child)) is not None:
            its.state(**state)
            speech.send({"sessionUpdate": "subagent_update", "sessionId": id, "state": state})


def _with_ids(id: str, updates: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Give an id to the chunks without a message id. Consecutive chunks of one kind share the id."""
    before, number = "", 0
    for update in updates:
        kind: str = update["sessionUpdate"]
        number += kind != before
        before = kind
        yield {**update, "messageId": f"{id}_{number}"} if _needs_id(kind, update) else update


def _needs_id(kind: str, update: dict[str, Any]) -> bool:
    return kind in _CHUNKS and update.get("messageId") is None


def _end(turn: TurnRecord) -> str | None:
    """Return the text at the end of a cancelled or failed turn; None for other turns."""
    if turn.status == "canceled":
        return "[stopped]"
    if turn.status != "failed":
        return None
    error = turn.last_error
    return "[failed]" if error is None else f"[failed: {one_line(error.message, _LONGEST)}]"
