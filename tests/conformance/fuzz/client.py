"""A small client in memory that does all that a case can want: messages in, messages out, and no waiting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .agent import error, result

Json = Any

CAPABILITIES = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


class SmallClient:
    """Its state is what it has asked, and its session."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._session: Json = None
        self._terminals = 0
        self._turn = False

    def begin(self) -> Iterator[Json]:
        """What it writes at its start."""
        info = {"name": "small", "version": "1"}
        params = {"protocolVersion": 1, "clientCapabilities": CAPABILITIES, "clientInfo": info}
        yield {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}

    def act(self, line: str) -> Iterator[Json]:
        """What it writes when its user types a line or, with an empty line, sends a signal."""
        if not line and self._turn:
            yield {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self._session}}
        elif line and self._session is not None:
            yield self._prompt()

    def take(self, message: Json) -> Iterator[Json]:
        """What it writes upon a message."""
        if not isinstance(message, dict):
            return
        if "method" not in message:
            yield from self._answered(message)
        elif "id" in message:
            try:
                yield self._serve(message["id"], message["method"], message.get("params"))
            except (TypeError, KeyError):
                yield error(message["id"], -32602)

    def _answered(self, message: Json) -> Iterator[Json]:
        match message.get("id"), message.get("result"):
            case 1, {"protocolVersion": 1}:
                params = {"cwd": self._folder, "mcpServers": []}
                yield {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": params}
            case 2, {"sessionId": session}:
                self._session = session
                yield self._prompt()
            case 3, _:
                self._turn = False
            case _:
                pass

    def _prompt(self) -> Json:
        self._turn = True
        params = {"sessionId": self._session, "prompt": [{"type": "text", "text": "hello"}]}
        return {"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": params}

    def _serve(self, id: Json, method: Json, params: Json) -> Json:
        match method:
            case "session/request_permission":
                return result(id, {"outcome": {"outcome": "selected", "optionId": params["options"][0]["optionId"]}})
            case "fs/read_text_file":
                return result(id, {"content": "first\nzweite Zeile: ä\n"})
            case "fs/write_text_file" | "terminal/kill" | "terminal/release":
                return result(id, {})
            case "terminal/create":
                self._terminals += 1
                return result(id, {"terminalId": f"terminal-{self._terminals}"})
            case "terminal/output":
                return result(id, {"output": "begun\n", "truncated": False, "exitStatus": {"exitCode": 7}})
            case "terminal/wait_for_exit":
                return result(id, {"exitCode": 7, "signal": None})
            case _:
                return error(id, -32601)
