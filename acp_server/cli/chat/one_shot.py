"""One prompt for a script: the answer on standard output, or everything that happens as JSON, one object a line.

{"type": "session", "sessionId": ..., "agent": ...}
{"type": "update", "update": {...}}                       as the protocol has it
{"type": "permission", "request": {...}, "answer": ...}   the option's id; null for none
{"type": "result", "stopReason": ..., "text": ...}
{"type": "error", "message": ..., "code": ...}            in place of a result
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from acp_server.agent.log import entry
from acp_server.cli.chat import Exit, of_error, of_stop_reason, opening
from acp_server.cli.chat.commands import show_sessions
from acp_server.cli.chat.opening import Wishes
from acp_server.cli.screen import Screen, clean
from acp_server.client import LocalTerminals, RemoteAgent, allow_once, reject_once
from acp_server.client.handlers import PermissionAnswer
from acp_server.errors import AcpError, RpcError
from acp_server.schema import (
    AgentMessageChunk,
    PermissionOption,
    RequestPermissionRequest,
    SessionUpdate,
    TextContent,
    ToolCall,
    ToolCallUpdate,
)
from acp_server.wire import codec


async def prompt(wishes: Wishes, text: str, *, as_json: bool) -> Exit:
    """Have the prompt answered. Questions are answered as `wishes` say, and with no if they say nothing of it."""
    out = _Json() if as_json else _Text()
    try:
        async with _agent(wishes, out) as agent:
            name = await opening.initialized(agent, wishes)
            session = await opening.open_session(agent, wishes, lambda _: None)
            out.session(session.id, name)
            session.on_update = out.update
            answer = await session.run(text)
            out.result(answer.stop_reason)
            return of_stop_reason(answer.stop_reason)
    except AcpError as error:
        out.error(opening.without_last_words(error))
        return of_error(error)


async def list_sessions(wishes: Wishes, *, as_json: bool) -> Exit:
    """Show the agent's sessions of the folder."""
    out = _Json() if as_json else _Text()
    try:
        async with _agent(wishes, out) as agent:
            await opening.initialized(agent, wishes)
            known = await opening.sessions(agent, wishes.cwd)
            if as_json:
                for info in known:
                    _write({"type": "session", **info.to_wire()})
            else:
                show_sessions(Screen(), known)
            return Exit.DONE
    except AcpError as error:
        out.error(opening.without_last_words(error))
        return of_error(error)


@asynccontextmanager
async def _agent(wishes: Wishes, out: _Text | _Json) -> AsyncGenerator[RemoteAgent]:
    async def permission(request: RequestPermissionRequest) -> PermissionAnswer:
        answer = await (allow_once if wishes.answer == "yes" else reject_once)(request)
        out.permission(request, answer if isinstance(answer, PermissionOption) else None)
        return answer

    async with opening.started(wishes, permission, LocalTerminals(), _complain) as agent:
        yield agent


def _complain(line: str) -> None:
    sys.stderr.write(entry(line))


class _Text:
    """What the agent says, on standard output; all else on standard error."""

    def __init__(self) -> None:
        self._line_start = True

    def session(self, id: str, name: str) -> None:
        """The session is open."""

    def update(self, update: SessionUpdate) -> None:
        """The agent says or does something."""
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent):
            self._write(clean(update.content.text))
        elif isinstance(update, ToolCall | ToolCallUpdate) and update.title is not None:
            _complain(f"* {update.title}")

    def permission(self, request: RequestPermissionRequest, answer: PermissionOption | None) -> None:
        """The agent has asked, and was answered."""
        what = request.tool_call.title or request.tool_call.tool_call_id
        _complain(f"? {what}: {'none' if answer is None else answer.name}")

    def result(self, reason: str) -> None:
        """The turn is over."""
        self._end_line()
        if reason != "end_turn":
            _complain(f"({reason})")

    def error(self, error: AcpError) -> None:
        """There is no result."""
        self._end_line()
        _complain(f"acp-server: {error}")

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
            self._line_start = text.endswith("\n")

    def _end_line(self) -> None:
        if not self._line_start:
            self._write("\n")


class _Json:
    """Everything, on standard output."""

    def __init__(self) -> None:
        self._said: list[str] = []

    def session(self, id: str, name: str) -> None:
        """See `_Text`."""
        _write({"type": "session", "sessionId": id, "agent": name})

    def update(self, update: SessionUpdate) -> None:
        """See `_Text`."""
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent):
            self._said.append(update.content.text)
        _write({"type": "update", "update": update.to_wire()})

    def permission(self, request: RequestPermissionRequest, answer: PermissionOption | None) -> None:
        """See `_Text`."""
        chosen = None if answer is None else answer.option_id
        _write({"type": "permission", "request": request.to_wire(), "answer": chosen})

    def result(self, reason: str) -> None:
        """See `_Text`."""
        _write({"type": "result", "stopReason": reason, "text": "".join(self._said)})

    def error(self, error: AcpError) -> None:
        """See `_Text`."""
        code = error.code if isinstance(error, RpcError) else None
        _write({"type": "error", "message": str(error), "code": code})


def _write(value: dict[str, Any]) -> None:
    sys.stdout.write(codec.encode(value).decode())
    sys.stdout.flush()
