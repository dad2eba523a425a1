"""Finds the faults of a conversation, and things that are worth a look."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from acp_server.apps.cli.trace.conversation import Conversation, Fault, duration
from acp_server.apps.cli.trace.parts import Cut, Span

SLOW: Final = 5.0
"""Seconds after which an answer counts as slow."""
LATE: Final = 1.0
"""Seconds after a cancel. An answer that comes later counts as late."""
_UNDER_WAY: Final = 0.1
"""Seconds after a cancel. An earlier answer may have been written before the cancel was read."""

WAITS: Final = frozenset(
    ["session/prompt", "session/request_permission", "elicitation/create", "authenticate", "terminal/wait_for_exit"]
)
"""Requests that wait for a user, a model or a program, and may take as long as they like."""

_FAULTS: Final[dict[Fault, str]] = {
    "garbage": "this is not a message",
    "id in use": "the id belongs to a request that is not answered",
    "answers nothing": "there is no request with this id",
    "answered twice": "the request was answered before",
    "update after the end": "the turn that it belongs to was answered before",
}


class Anomaly(NamedTuple):
    """A fault, or a thing that is worth a look.

    Attributes: what: its kind, one of a few. why: a sentence about this case. span: the span that has it. message: the
    number of the message in which it shows.
    """

    what: str
    why: str
    span: Span
    message: int


def anomalies(conversation: Conversation, slow: float = SLOW, late: float = LATE) -> list[Anomaly]:
    """Return all anomalies, in the order of the recording. `slow`: seconds after which an answer is slow. `late`:
    seconds after which the answer to a cancel is late."""
    found = [Anomaly(fault, _FAULTS[fault], span, message) for fault, span, message in conversation.faults]
    first_messages: dict[int, int] = {}
    for number, message in enumerate(conversation.messages):
        first_messages.setdefault(message.owner, number)
    for span in conversation.spans:
        number = first_messages.get(span.number, 0)
        found += (Anomaly(what, why, span, number) for what, why in _of(span, slow))
    for cut in conversation.cuts:
        found += (Anomaly(what, why, cut.target, cut.message) for what, why in _of_cut(cut, late))
    return sorted(found, key=lambda anomaly: anomaly.message)


def _of(span: Span, slow: float) -> Iterator[tuple[str, str]]:
    turn = span.above("turn")
    left_by = turn if turn is not span and turn is not None and turn.end is not None else None
    if span.kind == "tool":
        if span.is_open and left_by is not None and not left_by.cuts:
            yield "left open", "the turn ended, and the tool call has no final status"
    elif span.kind in ("turn", "request"):
        if span.end is None:
            yield "never answered", f"{span.title} has no answer in the recording"
        elif span.method not in WAITS and not span.cuts and span.end - span.begin > slow:
            yield "slow", f"the answer took {duration(span.end - span.begin)}"
        if left_by is not None and not span.cuts and (span.end is None or span.end > (left_by.end or 0)):
            yield "outlives its turn", "the turn was answered first, and this request was not withdrawn"


def _of_cut(cut: Cut, late: float) -> Iterator[tuple[str, str]]:
    if cut is not next(each for each in cut.target.cuts if each.target is cut.target):
        return  # only the first cancel of a request is followed by its answer
    took = cut.seconds
    if took is None:
        return  # the request has an anomaly for the missing answer
    if took > late:
        yield "answered late", f"the answer came {duration(took)} after {cut.how}"
    if cut.target.kind == "turn" and cut.target.state != "cancelled" and took > _UNDER_WAY:
        yield "not cancelled", f"{duration(took)} after {cut.how} the turn was answered as if there had been no cancel"
