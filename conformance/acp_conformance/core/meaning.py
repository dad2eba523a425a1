"""Finds faults of an agent's messages that the schema cannot express, in paths, lines, and names of sessions and tool
calls.

The messages must already have the shape of their method.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .violation import Violation

_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")


class Strangers:
    """The sessions of a conversation, and the messages that name others."""

    def __init__(self) -> None:
        self._sessions: set[str] = set()
        self._strangers: list[tuple[str, Violation]] = []

    def created(self, session: object) -> None:
        """Record a session that the agent may name."""
        self._sessions.add(str(session))

    def announced(self, params: Any) -> None:
        """Record the params of a `session/update` that the schema does not have. It may announce a child session."""
        update = params["update"]
        if update["sessionUpdate"] == "subagent_update":
            self.created(update.get("sessionId"))

    def named(self, session: object, method: str, line: str) -> None:
        """Record a message of the agent that names a session."""
        if isinstance(session, str) and session not in self._sessions:
            self._strangers.append((session, Violation("session", f"{method} names the session {session!r}", line)))

    def found(self, unanswered: int) -> list[Violation]:
        """Return the messages that named a session which the conversation did not create.

        `unanswered` is the number of `session/new` requests without a response. Each of them may have created a session
        with an id unknown to the suite, so the same number of unknown sessions is not reported.
        """
        named = list(dict.fromkeys(session for session, _ in self._strangers if session not in self._sessions))
        return [violation for session, violation in self._strangers if session in named[unanswered:]]


class Meaning:
    """Checks the meaning of one conversation with an agent of version 1."""

    def __init__(self) -> None:
        self.sessions = Strangers()
        self._tools: set[tuple[str, str]] = set()

    def asked(self, method: str, params: Any) -> None:
        """Record a request to the agent. The request may name an earlier session, or an unknown session that the agent
        may accept."""
        if method in ("session/load", "session/resume", "session/prompt") and isinstance(params, dict):
            self.sessions.created(params.get("sessionId"))

    def result(self, method: str, result: Any, line: str) -> Iterator[Violation]:
        """Check a result of the agent."""
        if method == "session/new":
            self.sessions.created(result["sessionId"])
        elif method == "session/list":
            for session in result["sessions"]:
                yield from absolute(session["cwd"], "the working directory of a session", line)

    def call(self, method: str, params: Mapping[str, Any], line: str) -> Iterator[Violation]:
        """Check a request or notification of the agent."""
        session = params.get("sessionId")
        self.sessions.named(session, method, line)
        if method.startswith("fs/"):
            yield from absolute(params["path"], f"the path of {method}", line)
            yield from _line(params.get("line"), f"the line of {method}", line)
        elif method == "terminal/create":
            yield from absolute(params.get("cwd"), "the working directory of a terminal", line)
        elif method == "session/request_permission":
            yield from self._tool(str(session), params["toolCall"], line, known=True)
        elif method == "session/update":
            update = params["update"]
            kind = update["sessionUpdate"]
            if kind in ("tool_call", "tool_call_update"):
                yield from self._tool(str(session), update, line, known=kind == "tool_call")

    def _tool(self, session: str, tool: Mapping[str, Any], line: str, *, known: bool) -> Iterator[Violation]:
        key = session, tool["toolCallId"]
        if not known and key not in self._tools:
            yield Violation("tool-order", f"the tool call {key[1]!r} is updated before it was reported", line)
        self._tools.add(key)
        for location in tool.get("locations") or ():
            yield from absolute(location.get("path"), "the location of a tool call", line)
            yield from _line(location.get("line"), "the location of a tool call", line)
        for content in tool.get("content") or ():
            if content.get("type") == "diff":
                yield from absolute(content["path"], "the path of a diff", line)


def absolute(path: object, what: str, line: str) -> Iterator[Violation]:
    if isinstance(path, str) and not _ABSOLUTE.match(path):
        yield Violation("absolute-path", f"{what} is {path!r}", line)


def _line(number: object, what: str, line: str) -> Iterator[Violation]:
    if isinstance(number, int) and number < 1:
        yield Violation("line-number", f"{what} is line {number}", line)
