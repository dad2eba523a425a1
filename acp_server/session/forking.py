"""Finds the number of turns that a fork copies.

In the protocol a fork copies the whole session. Editors that fork at a message name the message in `_meta` by its id
(JetBrains AIR). Not all agents send ids. So these editors also send the hash of the message's text, and its number
among the messages with the same text.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from anyio import to_thread

from acp_server.errors import InvalidParams

if TYPE_CHECKING:
    from acp_server.store.records import SessionRecord, TurnRecord


async def turns_until(source: SessionRecord, params: dict[str, Any]) -> int | None:
    """Return the number of turns of `source` that the parameters of a `session/fork` select; None for all. A turn is
    copied as a whole. Raises InvalidParams if the message is in none of the turns."""
    wanted = _wanted(params)
    if wanted is None:
        return None
    # In a thread, because the contents of the turns may be read from a file.
    turns = [turn for turn in source.turns if not turn.is_open]
    found = await to_thread.run_sync(_find, turns, wanted, abandon_on_cancel=True)
    if found is None:
        raise InvalidParams(
            "The session has no message with this messageId", data={"messageId": wanted.get("messageId")}
        )
    return 1 + source.turns.index(found)


def _wanted(params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the selected message, if the client named it in a form that is known here."""
    place: dict[str, Any] = params
    for key in ("_meta", "jetbrains", "air", "fork"):
        inner = place.get(key)
        if not isinstance(inner, dict):
            return None
        place = cast("dict[str, Any]", inner)
    return place if place.get("version") == 1 else None


def _find(turns: list[TurnRecord], wanted: dict[str, Any]) -> TurnRecord | None:
    id, print_ = wanted.get("messageId"), wanted.get("messageFingerprint")
    ids = {id.strip(), id.strip().partition(":segment:")[0]} if isinstance(id, str) else set[str]()
    nth = wanted.get("messageOccurrence", 1)
    by_text: list[TurnRecord] = []
    for turn in turns:
        for said, text in _messages(turn):
            if said in ids:
                return turn
            if print_ == f"sha256:{sha256(text.encode()).hexdigest()}":
                by_text.append(turn)
    return by_text[nth - 1] if type(nth) is int and 1 <= nth <= len(by_text) else None


def _messages(turn: TurnRecord) -> list[tuple[str | None, str]]:
    """Return the ids and texts of a turn's messages. Consecutive chunks without an id are one message."""
    found: list[tuple[str | None, str]] = []
    before: tuple[Any, Any] | None = None
    for event in turn.events:
        kind, id = event.get("sessionUpdate"), event.get("messageId")
        if kind not in ("agent_message_chunk", "user_message_chunk"):
            before = None
            continue
        text = event["content"].get("text", "")
        if before == (kind, id) and found:
            found[-1] = (id, found[-1][1] + text)
        else:
            found.append((id, text))
        before = kind, id
    return found
