"""Follows a recording from message to message: what begins, what ends, what is nested in what, what a cancel cuts.

A request of the agent's belongs to the tool call that it names or whose terminal it uses; else to the only tool call
that is open in its session; else to the turn. A request that names no session belongs to the only request of the
client's that is open. What is wrong with all that is for `acp_server.cli.tracing.anomalies` to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import shorten
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from acp_server.agent.record import Direction, Entry
from acp_server.cli.tracing.lane import Lane
from acp_server.cli.tracing.message import Message, json, messages
from acp_server.cli.tracing.span import Cut, Span, State, numbered

_OTHER: Final[dict[Direction, Direction]] = {"in": "out", "out": "in"}
_TITLE: Final = 100
_CLOSES: Final = ("session/close", "session/delete")
_STATES: Final[dict[str, State]] = {"answer": "done", "failed": "failed", "cancelled": "cancelled"}
_WORDS: Final[dict[State, str]] = {"failed": " FAILED", "cancelled": " CANCELLED"}

Fault: TypeAlias = Literal["garbage", "id in use", "answers nothing", "answered twice", "update after the end"]


class _Open(NamedTuple):
    """A request that is not answered, and the session that it names."""

    span: Span
    lane: Lane | None


class Conversation:
    """A recording, understood.

    Attributes:
        messages: in the order of the recording.
        spans: from the top down; the first is the connection.
        cuts: in the order in which they came.
        faults: what is wrong with single messages: what it is, the span, the number of the message.
        started: when it began, in seconds since 1970.
        seconds: how long it lasts.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        entries = list(entries)
        self.started = entries[0].t if entries else 0.0
        self.messages: list[Message] = []
        self.cuts: list[Cut] = []
        self.faults: list[tuple[Fault, Span, int]] = []
        self._root = Span("connection", "connection", 0.0)
        self._lanes: dict[str, Lane] = {}
        self._open: dict[Direction, dict[str, _Open]] = {"in": {}, "out": {}}
        self._answered: dict[tuple[Direction, str], Span] = {}
        owners = [self._take(message) for message in messages(entries)]
        self.seconds = self.messages[-1].t if self.messages else 0.0
        self.spans = numbered(self._root)
        for message, owner in zip(self.messages, owners, strict=True):
            message.owner = owner.number

    def _take(self, message: Message) -> Span:
        """One more message: what it belongs to."""
        self.messages.append(message)
        match message.mark:
            case "request":
                return self._begin(message)
            case "answer" | "failed" | "cancelled":
                return self._end(message)
            case "cancel":
                return self._cancel(message)
            case "update" if (lane := self._lane(message)) is not None:
                span, late = lane.update(message)
                return self._fault("update after the end", span) if late else span
            case "garbage":
                return self._fault("garbage", self._root)
            case _:
                return self._root if (lane := self._lane(message)) is None else lane.span

    def _fault(self, fault: Fault, span: Span) -> Span:
        self.faults.append((fault, span, len(self.messages) - 1))
        return span

    def _lane(self, message: Message) -> Lane | None:
        """The session that a message names."""
        id = message.member("params").get("sessionId")
        return self._lane_of(id, message.t) if isinstance(id, str) else None

    def _lane_of(self, id: str, t: float) -> Lane:
        if id not in self._lanes:
            self._lanes[id] = Lane(id, t, self._root)
        return self._lanes[id]

    # -- requests

    def _begin(self, message: Message) -> Span:
        id, lane = str(message.id), self._lane(message)
        is_turn = message.method == "session/prompt" and message.dir == "in" and lane is not None
        kind = "turn" if is_turn else "request"
        title = f"#{id} {_asked(message)}" if is_turn else message.title
        span = Span(kind, title, message.t, self._parent(message, lane), message.dir, message.method)
        opened = self._open[message.dir]
        if id in opened:
            self._fault("id in use", span)
        opened[id] = _Open(span, lane)
        if lane is not None and message.dir == "in":
            if message.method in _CLOSES:
                for turn in lane.turns:
                    self._cut(turn, message)
            lane.asked(span)
        return span

    def _parent(self, message: Message, lane: Lane | None) -> Span:
        if lane is not None:
            return lane.span if message.dir == "in" else lane.parent_of(message)
        if message.dir == "out" and len(theirs := self._open["in"]) == 1:
            return next(iter(theirs.values())).span
        return self._root

    def _end(self, message: Message) -> Span:
        way, id = _OTHER[message.dir], str(message.id)
        found = self._open[way].pop(id, None)
        if found is None:
            before = self._answered.get((way, id))
            message.title += " answers no request" if before is None else f" {before.method} is answered again"
            return self._fault("answers nothing" if before is None else "answered twice", before or self._root)
        span, lane = found
        self._answered[way, id] = span
        span.finish(message.t, _STATES[message.mark])
        message.title += f" {span.method} {duration(message.t - span.begin)}{_WORDS.get(span.state, '')}"
        result = message.member("result")
        if lane is None:
            if way == "in" and span.parent is self._root and isinstance(new := result.get("sessionId"), str):
                span.move(self._lane_of(new, span.begin).span)
        elif way == "in":
            lane.answered(span)
        elif span.method == "terminal/create":
            lane.has_terminal(span, result)
        return span

    # -- cancels

    def _cancel(self, message: Message) -> Span:
        if message.method == "session/cancel":
            lane = self._lane(message)
            targets = [] if lane is None else list(lane.turns)
            elsewhere = self._root if lane is None else lane.span
        else:
            id = json(message.member("params").get("requestId"))
            found = self._open[message.dir].get(id)
            targets = [] if found is None else [found.span]
            elsewhere = self._answered.get((message.dir, id), self._root)
            what = "which is not waiting for an answer" if found is None else found.span.method
            message.title, message.rest = f"cancel #{id} {what}", ""
        for target in targets:
            self._cut(target, message)
        return targets[0] if targets else elsewhere

    def _cut(self, target: Span, message: Message) -> None:
        reached = [span for span in target.below() if span.is_open]
        because = target.cuts[-1] if target.cuts and target.cuts[-1].target is not target else None
        cut = Cut(message.t, len(self.messages) - 1, message.method, target, reached, because)
        for span in reached:
            span.cuts.append(cut)
        self.cuts.append(cut)


def _asked(message: Message) -> str:
    """The first words of a prompt."""
    prompt = message.member("params").get("prompt")
    for content in cast("list[Any]", prompt if isinstance(prompt, list) else []):
        if isinstance(content, dict) and isinstance(text := cast("dict[str, Any]", content).get("text"), str):
            return f"prompt: {shorten(text[:_TITLE], _TITLE)}"
    return message.method


def duration(seconds: float) -> str:
    """A time for people."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
