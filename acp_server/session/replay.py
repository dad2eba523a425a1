"""What was said in a session, said again to a client that loads it (ACP, Session Setup).

What is kept of a turn, and how that is said, is in `acp_server.store.records`. Here is what clients need besides. Each
message has an id, so that none is taken for the rest of the one before it. A turn that was stopped or has failed ends
in a word about that.
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
"""Characters of the reason why a turn has failed."""


async def replay(session: LiveSession, way: Updates, *, as_terminals: bool = False) -> None:
    """Say again all that was said in the turns of a session, and in their child sessions. `as_terminals`: in the form
    of version 2, where each message has an id already; see `TurnRecord.replay`."""
    again = _Again(as_terminals, folds=not session.tells_children)
    for turn in list(session.record.turns):
        speech = await again.turn(turn, way, session.id)
        if (words := _end(turn)) is not None:
            end = {} if as_terminals else {"messageId": f"{turn.id}_end"}
            content = {"type": "text", "text": words}
            speech.send({"sessionUpdate": "agent_message_chunk", **end, "content": content})


class _Again:
    """How a client is told of turns that are over. `folds`: see `TurnRecord.replay`."""

    def __init__(self, as_terminals: bool, *, folds: bool) -> None:
        self._as_terminals = as_terminals
        self._folds = folds

    async def turn(self, turn: TurnRecord, way: Updates, session_id: str, but: str = "") -> Speech:
        """Say one turn again, but no updates of this kind; the way that they went."""
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
        # What has to be read from a disk first is read in a thread.
        if turn.is_here:
            return turn.replay(as_terminals=self._as_terminals, folds=self._folds)
        return await to_thread.run_sync(lambda: list(turn.replay(as_terminals=self._as_terminals, folds=self._folds)))

    async def _child(self, kept: dict[str, Any], way: Updates, speech: Speech, parent_id: str) -> None:
        """A child session: announced, said again, and as it ended, if that is known. Nothing can be done to it."""
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
    """With the id of a message at each piece that has none; pieces of one kind behind each other share it."""
    before, number = "", 0
    for update in updates:
        kind: str = update["sessionUpdate"]
        number += kind != before
        before = kind
        yield {**update, "messageId": f"{id}_{number}"} if _needs_id(kind, update) else update


def _needs_id(kind: str, update: dict[str, Any]) -> bool:
    return kind in _CHUNKS and update.get("messageId") is None


def _end(turn: TurnRecord) -> str | None:
    """What is said of a turn that was cancelled or has failed; None for any other."""
    if turn.status == "canceled":
        return "[stopped]"
    if turn.status != "failed":
        return None
    error = turn.last_error
    return "[failed]" if error is None else f"[failed: {one_line(error.message, _LONGEST)}]"
