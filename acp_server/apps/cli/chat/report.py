"""The output of one prompt for a script: the answer as text, or all events as JSON, one object a line.

{"type": "session", "sessionId": ..., "agent": ...}
{"type": "update", "update": {...}}                       as the protocol has it
{"type": "permission", "request": {...}, "answer": ...}   the option's id; null for none
{"type": "result", "stopReason": ..., "text": ...}
{"type": "error", "message": ..., "code": ...}            in place of a result

It asks and decides nothing.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from acp_server.agent.log import entry
from acp_server.apps.cli.chat.opening import Answer, is_repeated
from acp_server.apps.cli.output import StandardOutput
from acp_server.apps.cli.screen import clean, step
from acp_server.apps.cli.screen_call import Calls
from acp_server.errors import AcpError, RpcError
from acp_server.safe_text import UNSAFE
from acp_server.schema import (
    AgentMessageChunk,
    Content,
    PermissionOption,
    Plan,
    Record,
    RequestPermissionRequest,
    SessionUpdate,
    TextContent,
    ToolCall,
    ToolCallUpdate,
)
from acp_server.wire import codec


class TextReport:
    """Writes the agent's messages to standard output, and all else to standard error. `wish` is the answer to
    questions."""

    def __init__(self, wish: Answer) -> None:
        self._wish: Answer = wish
        self.output: StandardOutput = StandardOutput()
        self._line_start = True
        self._calls = Calls()
        self._steps: list[str] = []
        self._complaint = ""
        """The last line on standard error."""

    def session(self, id: str, name: str) -> None:
        """Report that the session is open."""

    def update(self, update: SessionUpdate) -> None:
        """Report an update of the session."""
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent):
            self._write(clean(update.content.text))
        elif isinstance(update, ToolCall | ToolCallUpdate):
            self._call(update)
        elif isinstance(update, Plan):
            # The agent sends its whole plan again when a step begins or ends.
            before, self._steps = self._steps, [step(entry) for entry in update.entries]
            for line in self._steps:
                if line not in before:
                    self.complain(line)

    def _call(self, update: ToolCall | ToolCallUpdate) -> None:
        call = self._calls.of(update)
        if call.change(update) and call.status == "failed":
            self.complain(f"* {call.title} [{call.state}]")
            # Its text says why. If a cancel has ended it, that is all that is left of its work.
            for line in call.news([content for content in call.contents or () if isinstance(content, Content)]):
                self.complain(f"    {line.text}")
        elif update.title is not None:
            self.complain(f"* {update.title}")

    def permission(self, request: RequestPermissionRequest, answer: PermissionOption | None) -> None:
        """Report a question of the agent and its answer."""
        # Of a call that was shown before, the request need not have more than the id.
        call = self._calls.of(request.tool_call)
        call.change(request.tool_call)
        refused = {"ask": "refused (--yes allows it)", "no": "refused (--deny)"}
        self.complain(f"? {call.title}: {refused.get(self._wish) or ('none' if answer is None else answer.name)}")
        for line in call.asked():
            self.complain(f"    {line.text}")

    def result(self, reason: str) -> None:
        """Report the stop reason of the turn."""
        self._end_line()
        if reason != "end_turn":
            self.complain(f"({reason})")

    def error(self, error: AcpError) -> None:
        """Report an error, in place of a result."""
        self._end_line()
        if not is_repeated(error, self._complaint):
            self.complain(f"acp-server: {error}")

    def complain(self, line: str) -> None:
        """Write a line to standard error. It begins a new line if both outputs are terminals."""
        if sys.stderr.isatty() and sys.stdout and sys.stdout.isatty():
            self._end_line()
        self._complaint = line
        sys.stderr.write(entry(line))

    def _write(self, text: str) -> None:
        if text:
            self.output.write(text)
            self._line_start = text.endswith("\n")

    def _end_line(self) -> None:
        if not self._line_start:
            self._write("\n")


class JsonReport:
    """Writes all events as JSON to standard output."""

    def __init__(self) -> None:
        self.output: StandardOutput = StandardOutput()
        self._said: list[str] = []

    def session(self, id: str, name: str) -> None:
        """See `TextReport`."""
        self.write({"type": "session", "sessionId": id, "agent": name})

    def update(self, update: SessionUpdate) -> None:
        """See `TextReport`."""
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent):
            self._said.append(update.content.text)
        self.write({"type": "update", "update": _as_it_came(update)})

    def permission(self, request: RequestPermissionRequest, answer: PermissionOption | None) -> None:
        """See `TextReport`."""
        chosen = None if answer is None else answer.option_id
        self.write({"type": "permission", "request": _as_it_came(request), "answer": chosen})

    def result(self, reason: str) -> None:
        """See `TextReport`."""
        self.write({"type": "result", "stopReason": reason, "text": "".join(self._said)})

    def error(self, error: AcpError) -> None:
        """See `TextReport`."""
        code = error.code if isinstance(error, RpcError) else None
        self.write({"type": "error", "message": str(error), "code": code})

    def complain(self, line: str) -> None:
        """See `TextReport`."""
        sys.stderr.write(entry(line))

    def write(self, value: dict[str, Any]) -> None:
        """Write one object."""
        line = codec.encode(value).decode()
        # Only strings contain such characters, and JSON has an escape for each.
        self.output.write(UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], line))


def _as_it_came(received: Record) -> dict[str, Any]:
    # `to_wire` changes keys with lone surrogates, or fails, and fails for what is nested deep. It is for what we made:
    # what was received has nothing in it that JSON could not express.
    return received.model_dump(by_alias=True, exclude_none=True)
