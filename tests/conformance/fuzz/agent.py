"""A small agent in memory with every situation: messages in, messages out, and no waiting. What it says is mutated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = Any

SITUATIONS = (
    *("quick", "stream", "hang", "stubborn", "permission", "read", "write", "terminal", "nested", "tool", "plan"),
    *("fails", "reports"),
)
CAPABILITIES = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
}
OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


class Over(Exception):
    """Raised where the agent's process ends."""


class SmallAgent:
    """Its state is what is open: prompts that wait for an answer of the client, or for a cancel."""

    def __init__(self) -> None:
        self._sessions = 0
        self._asked = 0
        self._waiting: dict[int, tuple[Json, str]] = {}
        self._hanging: dict[str, Json] = {}

    def take(self, message: Json) -> Iterator[Json]:
        """What it writes upon a message."""
        if not isinstance(message, dict):
            yield error(None, -32600)
        elif "method" not in message:
            id = message.get("id")
            if isinstance(id, int) and id in self._waiting:
                prompt, session = self._waiting.pop(id)
                yield chunk(session, "Answered.")
                yield result(prompt, {"stopReason": "end_turn"})
        elif message["method"] == "session/cancel":
            yield from self._cancel(message.get("params"))
        elif "id" in message:
            yield from self._answer(message["id"], message["method"], message.get("params"))

    def _answer(self, id: Json, method: Json, params: Json) -> Iterator[Json]:
        session = str(params.get("sessionId")) if isinstance(params, dict) else ""
        match method:
            case "initialize":
                info = {"name": "small", "version": "1"}
                yield result(id, {"protocolVersion": 1, "agentCapabilities": CAPABILITIES, "agentInfo": info})
            case "session/new":
                self._sessions += 1
                modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]}
                yield result(id, {"sessionId": f"session-{self._sessions}", "modes": modes})
            case "session/load" | "session/resume" | "session/close" | "session/delete" | "session/set_mode":
                yield result(id, {})
            case "session/list":
                listed = [{"sessionId": f"session-{n + 1}", "cwd": "/tmp"} for n in range(self._sessions)]
                yield result(id, {"sessions": listed})
            case "session/prompt":
                yield from self._prompt(id, session, params)
            case _:
                yield error(id, -32601)

    def _prompt(self, id: Json, session: str, params: Json) -> Iterator[Json]:
        text = str(params).partition("situation-")[2].partition("'")[0]
        tool = {"sessionUpdate": "tool_call", "toolCallId": f"call-{id}", "title": "Work", "kind": "edit"}
        match text:
            case "hang" | "stubborn":
                yield chunk(session, "Working.")
                self._hanging[session] = id
                return
            case "read" | "nested":
                yield self._ask(id, session, "fs/read_text_file", {"path": "/tmp/a.txt", "line": 1, "limit": 2})
                return
            case "write":
                yield self._ask(id, session, "fs/write_text_file", {"path": "/tmp/b.txt", "content": "new\n"})
                return
            case "terminal":
                yield self._ask(id, session, "terminal/create", {"command": "make", "args": ["test"], "cwd": "/tmp"})
                return
            case "permission":
                yield update(session, tool)
                call = {"toolCallId": f"call-{id}"}
                yield self._ask(id, session, "session/request_permission", {"toolCall": call, "options": OPTIONS})
                return
            case "fails":
                yield error(id, -32603)
                return
            case "tool":
                yield update(session, tool)
                yield update(session, {"sessionUpdate": "tool_call_update", "toolCallId": f"call-{id}"})
            case "plan":
                step = {"content": "Look", "priority": "low", "status": "completed"}
                yield update(session, {"sessionUpdate": "plan", "entries": [step]})
            case _:
                yield chunk(session, "Done.")
        yield result(id, {"stopReason": "end_turn"})

    def _ask(self, prompt: Json, session: str, method: str, params: Json) -> Json:
        self._asked += 1
        self._waiting[self._asked] = (prompt, session)
        return {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": {"sessionId": session, **params}}

    def _cancel(self, params: Json) -> Iterator[Json]:
        session = str(params.get("sessionId")) if isinstance(params, dict) else ""
        if (id := self._hanging.pop(session, None)) is not None:
            yield result(id, {"stopReason": "cancelled"})


def result(id: Json, value: Json) -> Json:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def error(id: Json, code: int) -> Json:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}


def update(session: str, body: Json) -> Json:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": body}}


def chunk(session: str, text: str) -> Json:
    content = {"type": "text", "text": text}
    return update(session, {"sessionUpdate": "agent_message_chunk", "content": content})
