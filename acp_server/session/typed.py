"""Finds the text that a user typed in a prompt to which clients add files, notes, tags and earlier messages. This
module knows no commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final

from acp_server.session.repeated import unrepeated

if TYPE_CHECKING:
    from acp_server.session.turn import Turn

EMPTY: Final = "The prompt is empty: there is nothing to do."

TITLE: Final = 80
"""The most characters of a session's title."""

_TAG: Final = re.compile(r"<([A-Za-z][\w-]{0,80})>(.*)</\1>", re.DOTALL)
_OF_USERS: Final = re.compile("user|message|query|prompt|request|task|command|question", re.IGNORECASE)
_OF_OTHERS: Final = re.compile("assistant|system|context|agent", re.IGNORECASE)
_EARLIER: Final = "previous_user_message"


def is_empty(turn: Turn) -> bool:
    """Whether the prompt of the turn is empty."""
    return all(block["type"] == "text" and not block["text"].strip() for block in turn.record.prompt)


def typed(turn: Turn) -> list[str]:
    """Return the typed messages of the user, the latest last. Messages of earlier turns are left out, unless the prompt
    has no others."""
    earlier = [record for record in turn.session.record.turns if record is not turn.record and record.is_here]
    prompt = turn.record.prompt
    return _in_order(_texts(unrepeated(prompt, earlier))) or _in_order(_texts(prompt))


async def entitle(turn: Turn) -> None:
    """Title the session with the beginning of its first prompt, unless it has a title."""
    if turn.session.record.title is None and (title := title_of(turn.record.prompt)):
        await turn.session.set_title(title)


def title_of(prompt: Sequence[dict[str, Any]]) -> str:
    """Return the first line of the user's message. If there are several texts in a row, the last one is the message,
    because clients put notes before it. Texts after a link continue the message."""
    for is_text, blocks in groupby(prompt, lambda block: block["type"] == "text"):
        if is_text and (texts := _in_order(_texts(blocks))):
            return shorten(texts[-1].partition("\n")[0], TITLE, placeholder=" ...")
    return ""


def _texts(blocks: Iterable[dict[str, Any]]) -> list[str]:
    return [block["text"] for block in blocks if block["type"] == "text"]


def _in_order(texts: Sequence[str]) -> list[str]:
    messages = list(_messages(texts))
    earlier = [text for tag, text in messages if tag == _EARLIER]
    # Avante sends these with the latest first, unless the responses are between them.
    if len(earlier) == len(messages) and not any("<previous_assistant_message>" in text for text in texts):
        earlier.reverse()
        return earlier
    return [text for _, text in messages]


def _messages(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the texts of the user, each with the tag that encloses it, or ""."""
    for text in map(str.strip, texts):
        tag = _TAG.fullmatch(text)
        if tag is None:
            yield "", text
        elif _OF_USERS.search(tag[1]) and not _OF_OTHERS.search(tag[1]):
            yield tag[1], tag[2].strip()


__all__ = ["EMPTY", "entitle", "is_empty", "typed"]
