"""One session of a recording: its turns, tool calls and terminals, and what a request of the agent's is nested in."""

from __future__ import annotations

from typing import Any, Final, cast

from acp_server.cli.tracing.message import Message, json, object_in
from acp_server.cli.tracing.span import Span, State

_OF_A_TURN: Final = {
    "agent_message_chunk",
    "agent_thought_chunk",
    "plan",
    "tool_call",
    "tool_call_update",
    "user_message_chunk",
}
_ENDS: Final[dict[object, State]] = {"completed": "done", "failed": "failed", "cancelled": "cancelled"}


class Lane:
    """What is known of one session.

    Attributes:
        span: the session itself.
        turns: those that are open.
    """

    def __init__(self, id: str, t: float, connection: Span) -> None:
        self.span = Span("session", f"session {id}", t, connection)
        self.turns: list[Span] = []
        self._had_turn = False
        self._requests = 0
        self._tools: dict[str, Span] = {}
        self._open_tools: dict[Span, None] = {}
        self._terminals: dict[str, Span] = {}
        """The tool calls that show them, or else the requests that made them."""

    def asked(self, span: Span) -> None:
        """The client has begun a request that names the session."""
        self._requests += 1
        if span.kind == "turn":
            self.turns.append(span)
            self._had_turn = True

    def answered(self, span: Span) -> None:
        """One of these was answered."""
        self._requests -= 1
        if span.kind == "turn":
            self.turns.remove(span)
            for tool in [tool for tool in self._open_tools if tool.above("turn") is span]:
                del self._open_tools[tool]

    def has_terminal(self, request: Span, result: dict[str, Any]) -> None:
        """The client has made a terminal."""
        self._terminals.setdefault(json(result.get("terminalId")), request)

    def parent_of(self, message: Message) -> Span:
        """What a request of the agent's is nested in."""
        params = message.member("params")
        call = object_in(params, "toolCall")
        if "toolCallId" in call:
            return self._tool(call, message.t)
        if "terminalId" in params and (shown := self._terminals.get(json(params["terminalId"]))) is not None:
            return shown.parent or shown if shown.kind == "request" else shown
        if len(self._open_tools) == 1:
            return next(iter(self._open_tools))
        return self._current

    def update(self, message: Message) -> tuple[Span, bool]:
        """Take in an update: what it belongs to, and whether its turn had ended by then."""
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
