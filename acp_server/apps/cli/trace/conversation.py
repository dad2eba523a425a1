"""Follows a recording from message to message, and finds the beginning and the end of spans, their nesting, and the
cancels.

A request of the agent belongs to the tool call that it names or whose terminal it uses. Otherwise it belongs to the
only open tool call of its session, or else to the turn. A request that names no session belongs to the only open
request of the client. `acp_server.apps.cli.trace.anomalies` finds the faults.
"""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import shorten
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from acp_server.agent.record import Direction, Entry
from acp_server.apps.cli.trace.parts import Cut, Span, State, TracedMessage, json, messages, numbered, object_in

_OF_A_TURN: Final = {
    "agent_message_chunk",
    "agent_thought_chunk",
    "plan",
    "tool_call",
    "tool_call_update",
    "user_message_chunk",
}
_ENDS: Final[dict[object, State]] = {"completed": "done", "failed": "failed", "cancelled": "cancelled"}


class RecordedSession:
    """The state of one session.

    Attributes: span: the session itself. turns: the open turns.
    """

    def __init__(self, id: str, t: float, connection: Span) -> None:
        self.span: Span = Span("session", f"session {id}", t, connection)
        self.turns: list[Span] = []
        self._had_turn = False
        self._requests = 0
        self._tools: dict[str, Span] = {}
        self._open_tools: dict[Span, None] = {}
        self._terminals: dict[str, Span] = {}
        """The tool calls that show the terminals, or else the requests that created them."""

    def asked(self, span: Span) -> None:
        """Record that the client has begun a request that names the session."""
        self._requests += 1
        if span.kind == "turn":
            self.turns.append(span)
            self._had_turn = True

    def answered(self, span: Span) -> None:
        """Record that one of these requests was answered."""
        self._requests -= 1
        if span.kind == "turn":
            self.turns.remove(span)
            for tool in [tool for tool in self._open_tools if tool.above("turn") is span]:
                del self._open_tools[tool]

    def has_terminal(self, request: Span, result: dict[str, Any]) -> None:
        """Record that the client has created a terminal."""
        self._terminals.setdefault(json(result.get("terminalId")), request)

    def parent_of(self, message: TracedMessage) -> Span:
        """Return the span that contains a request of the agent."""
        params = message.member("params")
        call = object_in(params, "toolCall")
        if "toolCallId" in call:
            return self._tool(call, message.t)
        if "terminalId" in params and (shown := self._terminals.get(json(params["terminalId"]))) is not None:
            return shown.parent or shown if shown.kind == "request" else shown
        if len(self._open_tools) == 1:
            return next(iter(self._open_tools))
        return self._current

    def update(self, message: TracedMessage) -> tuple[Span, bool]:
        """Apply an update; returns its span, and whether its turn had already ended."""
        update = object_in(message.member("params"), "update")
        kind = update.get("sessionUpdate")
        late = kind in _OF_A_TURN and not self._requests and self._had_turn
        if kind not in ("tool_call", "tool_call_update") or "toolCallId" not in update:
            return self._current, late
        tool = self._tool(update, message.t)
        for content in cast("list[Any]", update.get("content") if isinstance(update.get("content"), list) else []):
            if isinstance(content, dict):
                self._shows(tool, cast("dict[str, Any]", content))
        if (state := _ENDS.get(update.get("status"))) is not None and tool.is_open:
            tool.finish(message.t, "cancelled" if tool.cuts and state == "failed" else state)
            self._open_tools.pop(tool, None)
        return tool, late

    @property
    def _current(self) -> Span:
        return self.turns[-1] if self.turns else self.span

    def _tool(self, call: dict[str, Any], t: float) -> Span:
        id = json(call["toolCallId"])
        tool = self._tools.get(id)
        if tool is None:
            tool = self._tools[id] = Span("tool", id.strip('"'), t, self._current)
            self._open_tools[tool] = None
        if isinstance(call.get("title"), str):
            tool.title = str(call["title"])
        return tool

    def _shows(self, tool: Span, content: dict[str, Any]) -> None:
        if content.get("type") != "terminal":
            return
        id = json(content.get("terminalId"))
        made = self._terminals.get(id)
        if made is not None and made.kind == "request" and made is not tool:
            made.move(tool)
            tool.begin = min(tool.begin, made.begin)
        self._terminals[id] = tool


_OTHER: Final[dict[Direction, Direction]] = {"in": "out", "out": "in"}
_TITLE: Final = 100
_CLOSES: Final = ("session/close", "session/delete")
_STATES: Final[dict[str, State]] = {"answer": "done", "failed": "failed", "cancelled": "cancelled"}
_WORDS: Final[dict[State, str]] = {"failed": " FAILED", "cancelled": " CANCELLED"}

Fault: TypeAlias = Literal["garbage", "id in use", "answers nothing", "answered twice", "update after the end"]


class _Open(NamedTuple):
    """An open request, and the session that it names."""

    span: Span
    session: RecordedSession | None


class Conversation:
    """The analysis of a recording.

    Attributes: messages: in the order of the recording. spans: from the top down; the first is the connection. cuts: in
    the order in which they arrived. faults: faults of single messages: the kind, the span, the number of the message.
    started: seconds since 1970 at the beginning. seconds: its duration.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        entries = list(entries)
        self.started: float = entries[0].t if entries else 0.0
        self.messages: list[TracedMessage] = []
        self.cuts: list[Cut] = []
        self.faults: list[tuple[Fault, Span, int]] = []
        self._root = Span("connection", "connection", 0.0)
        self._sessions: dict[str, RecordedSession] = {}
        self._open: dict[Direction, dict[str, _Open]] = {"in": {}, "out": {}}
        self._answered: dict[tuple[Direction, str], Span] = {}
        owners = [self._take(message) for message in messages(entries)]
        self.seconds: float = self.messages[-1].t if self.messages else 0.0
        self.spans: list[Span] = numbered(self._root)
        for message, owner in zip(self.messages, owners, strict=True):
            message.owner = owner.number

    def _take(self, message: TracedMessage) -> Span:
        """Apply one message; returns its span."""
        self.messages.append(message)
        match message.mark:
            case "request":
                return self._begin(message)
            case "answer" | "failed" | "cancelled":
                return self._end(message)
            case "cancel":
                return self._cancel(message)
            case "update" if (session := self._session(message)) is not None:
                span, late = session.update(message)
                return self._fault("update after the end", span) if late else span
            case "garbage":
                return self._fault("garbage", self._root)
            case _:
                return self._root if (session := self._session(message)) is None else session.span

    def _fault(self, fault: Fault, span: Span) -> Span:
        self.faults.append((fault, span, len(self.messages) - 1))
        return span

    def _session(self, message: TracedMessage) -> RecordedSession | None:
        """Return the session that a message names."""
        id = message.member("params").get("sessionId")
        return self._session_of(id, message.t) if isinstance(id, str) else None

    def _session_of(self, id: str, t: float) -> RecordedSession:
        if id not in self._sessions:
            self._sessions[id] = RecordedSession(id, t, self._root)
        return self._sessions[id]

    # -- requests

    def _begin(self, message: TracedMessage) -> Span:
        id, session = str(message.id), self._session(message)
        is_turn = message.method == "session/prompt" and message.dir == "in" and session is not None
        kind = "turn" if is_turn else "request"
        title = f"#{id} {_asked(message)}" if is_turn else message.title
        span = Span(kind, title, message.t, self._parent(message, session), message.dir, message.method)
        opened = self._open[message.dir]
        if id in opened:
            self._fault("id in use", span)
        opened[id] = _Open(span, session)
        if session is not None and message.dir == "in":
            if message.method in _CLOSES:
                for turn in session.turns:
                    self._cut(turn, message)
            session.asked(span)
        return span

    def _parent(self, message: TracedMessage, session: RecordedSession | None) -> Span:
        if session is not None:
            return session.span if message.dir == "in" else session.parent_of(message)
        if message.dir == "out" and len(theirs := self._open["in"]) == 1:
            return next(iter(theirs.values())).span
        return self._root

    def _end(self, message: TracedMessage) -> Span:
        way, id = _OTHER[message.dir], str(message.id)
        found = self._open[way].pop(id, None)
        if found is None:
            before = self._answered.get((way, id))
            message.title += " answers no request" if before is None else f" {before.method} is answered again"
            return self._fault("answers nothing" if before is None else "answered twice", before or self._root)
        span, session = found
        self._answered[way, id] = span
        span.finish(message.t, _STATES[message.mark])
        message.title += f" {span.method} {duration(message.t - span.begin)}{_WORDS.get(span.state, '')}"
        result = message.member("result")
        if session is None:
            if way == "in" and span.parent is self._root and isinstance(new := result.get("sessionId"), str):
                span.move(self._session_of(new, span.begin).span)
        elif way == "in":
            session.answered(span)
        elif span.method == "terminal/create":
            session.has_terminal(span, result)
        return span

    # -- cancels

    def _cancel(self, message: TracedMessage) -> Span:
        if message.method == "session/cancel":
            session = self._session(message)
            targets = [] if session is None else list(session.turns)
            elsewhere = self._root if session is None else session.span
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

    def _cut(self, target: Span, message: TracedMessage) -> None:
        reached = [span for span in target.below() if span.is_open]
        because = target.cuts[-1] if target.cuts and target.cuts[-1].target is not target else None
        cut = Cut(message.t, len(self.messages) - 1, message.method, target, reached, because)
        for span in reached:
            span.cuts.append(cut)
        self.cuts.append(cut)


def _asked(message: TracedMessage) -> str:
    """Return the first words of a prompt."""
    prompt = message.member("params").get("prompt")
    for content in cast("list[Any]", prompt if isinstance(prompt, list) else []):
        if isinstance(content, dict) and isinstance(text := cast("dict[str, Any]", content).get("text"), str):
            return f"prompt: {shorten(text[:_TITLE], _TITLE)}"
    return message.method


def duration(seconds: float) -> str:
    """Return a time in a form for people."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
