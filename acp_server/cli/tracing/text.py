"""A conversation as lines of text: a line for each message, and below them one for each anomaly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from acp_server.cli.tracing.anomalies import Anomaly
from acp_server.cli.tracing.conversation import Conversation
from acp_server.cli.tracing.message import Mark

_ARROWS: Final = {"in": "-->", "out": "<--"}
_COLOURS: Final[dict[Mark, str]] = {
    "request": "cyan",
    "answer": "green",
    "cancelled": "yellow",
    "cancel": "yellow",
    "failed": "red",
    "garbage": "red",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line. `rest` is what may be cut off."""

    text: str
    rest: str = ""
    colour: str | None = None


def rows(conversation: Conversation, found: Sequence[Anomaly]) -> Iterator[Row]:
    """What to show."""
    for message in conversation.messages:
        text = f"{message.t:9.3f} {_ARROWS[message.dir]} {message.title}"
        yield Row(text, message.rest, _COLOURS.get(message.mark))
    for anomaly in found:
        t = conversation.messages[anomaly.message].t
        yield Row(f"{t:9.3f} !!! {anomaly.what}: {anomaly.span.title}", anomaly.why, "red")
