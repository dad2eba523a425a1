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

if TYPE_CHECKING:
    from acp_server.session.live_session import LiveSession
    from acp_server.session.updates import Updates
    from acp_server.store.records import TurnRecord

_CHUNKS: Final = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")

_LONGEST: Final = 500
"""Characters of the reason why a turn has failed."""


async def replay(session: LiveSession, way: Updates, *, as_terminals: bool = False) -> None:
    """Say again all that was said in the turns of a session. `as_terminals`: in the form of version 2, where each
    message has an id already; see `TurnRecord.replay`."""
    for turn in list(session.record.turns):
        speech = way.of(turn)
        updates = await _updates(turn, as_terminals)
        for update in updates if as_terminals else _with_ids(turn.id, updates):
            speech.send(update)
            if way.crowded:
                await way.room()
        if (words := _end(turn)) is not None:
            end = {} if as_terminals else {"messageId": f"{turn.id}_end"}
            content = {"type": "text", "text": words}
            speech.send({"sessionUpdate": "agent_message_chunk", **end, "content": content})


async def _updates(turn: TurnRecord, as_terminals: bool) -> Iterable[dict[str, Any]]:
    # What has to be read from a disk first is read in a thread.
    if turn.is_here:
        return turn.replay(as_terminals=as_terminals)
    return await to_thread.run_sync(lambda: list(turn.replay(as_terminals=as_terminals)))


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
