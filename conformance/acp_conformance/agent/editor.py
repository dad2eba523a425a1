"""A well-behaved client, which answers the subject's requests unless a case takes over their method.

Files and terminals are in memory. A file that is not there is read from the working directory. The editor runs no
command, and judges nothing.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp_conformance.core.schema import errors_of, methods

from .exchange import Incoming


class Refuse(Exception):
    """Raised by a handler to answer the request with this error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Hold:
    """Returned by a handler that sends no response now. The case answers the request later, or never."""


HOLD = Hold()


@dataclass
class Terminal:
    """One terminal of the editor."""

    id: str
    params: Mapping[str, Any]
    output: str = "conformance\n"
    status: Mapping[str, Any] | None = None
    """`exitCode` and `signal`, once its command has ended."""
    killed: bool = False
    released: bool = False
    waiting: list[Incoming] = field(default_factory=list)

    def end(self, status: Mapping[str, Any]) -> None:
        """End the command of the terminal, and answer the requests that wait for the end."""
        if self.status is None:
            self.status = status
            for request in self.waiting:
                request.answer_now(dict(status))


class Editor:
    """The files, terminals and permissions of the client."""

    def __init__(self, cwd: Path, answers: Mapping[str, Any] | None = None) -> None:
        self.cwd = cwd
        self.answers = answers
        """The user's input for the fields of forms, by their names; None: it shows no forms."""
        self.files: dict[str, str] = {}
        """By absolute path: files written by the subject, and files that a case puts there."""
        self.terminals: dict[str, Terminal] = {}
        self.commands_end = True
        """Whether a command in a terminal ends at once with status 0; else it runs until it is killed."""
        self._handlers = {
            "session/request_permission": self._permission,
            "fs/read_text_file": self._read,
            "fs/write_text_file": self._write,
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }
        if answers is not None:
            self._handlers["elicitation/create"] = self._form

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The announced `clientCapabilities`."""
        announced: dict[str, Any] = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
        return announced if self.answers is None else {**announced, "elicitation": {"form": {}}}

    def handle(self, request: Incoming) -> object:
        """Return the result of a request, or `HOLD`. The params are first checked against the schema.

        Raises:
            Refuse: The response is an error.
        """
        handler = self._handlers.get(request.method)
        if handler is None:
            raise Refuse(-32601, f"Method not found: {request.method}")
        if wrong := errors_of(methods()[request.method]["params"], request.params):
            raise Refuse(-32602, f"Invalid params: {wrong}")
        return handler(request)

    def _permission(self, request: Incoming) -> object:
        for kind in ("allow_once", "allow_always", "reject_once", "reject_always"):
            for option in request.params["options"]:
                if option["kind"] == kind:
                    return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
        return {"outcome": {"outcome": "cancelled"}}

    def _form(self, request: Incoming) -> object:
        if request.params["mode"] != "form":
            raise Refuse(-32602, "the client shows forms only")
        wanted = request.params["requestedSchema"]
        answers = self.answers or {}
        if any(name not in answers for name in wanted.get("required") or ()):
            return {"action": "decline"}
        return {"action": "accept", "content": {k: answers[k] for k in wanted.get("properties") or {} if k in answers}}

    def _read(self, request: Incoming) -> object:
        text = self._text(self._path(request))
        line, limit = request.params.get("line"), request.params.get("limit")
        if line is not None or limit is not None:
            lines = text.splitlines(keepends=True)
            start = max(1, int(line or 1)) - 1  # the schema accepts 1.0 as an integer
            text = "".join(lines[start : None if limit is None else start + int(limit)])
        return {"content": text}

    def _write(self, request: Incoming) -> object:
        self.files[self._path(request)] = request.params["content"]
        return {}

    def _path(self, request: Incoming) -> str:
        path = request.params["path"]
        if not posixpath.isabs(path):
            raise Refuse(-32602, "path must be absolute")
        return posixpath.normpath(path)

    def _text(self, path: str) -> str:
        if path in self.files:
            return self.files[path]
        try:
            real = Path(path).resolve()
            if real.is_relative_to(self.cwd.resolve()) and real.is_file():
                return real.read_text("utf-8")
        except (OSError, ValueError) as error:  # no file can have such a name, or it is not text
            raise Refuse(-32002, f"Resource cannot be read: {path:.200}") from error
        raise Refuse(-32002, f"Resource not found: {path:.200}")

    def _create(self, request: Incoming) -> object:
        terminal = Terminal(f"term-{len(self.terminals) + 1}", request.params)
        self.terminals[terminal.id] = terminal
        if self.commands_end:
            terminal.end({"exitCode": 0, "signal": None})
        return {"terminalId": terminal.id}

    def _output(self, request: Incoming) -> object:
        terminal = self._terminal(request)
        answer: dict[str, Any] = {"output": terminal.output, "truncated": False}
        if terminal.status is not None:
            answer["exitStatus"] = dict(terminal.status)
        return answer

    def _wait(self, request: Incoming) -> object:
        terminal = self._terminal(request)
        if terminal.status is not None:
            return dict(terminal.status)
        terminal.waiting.append(request)
        return HOLD

    def _kill(self, request: Incoming) -> object:
        terminal = self._terminal(request)
        terminal.killed = True
        terminal.end({"exitCode": None, "signal": "SIGKILL"})
        return {}

    def _release(self, request: Incoming) -> object:
        terminal = self._terminal(request)
        terminal.end({"exitCode": None, "signal": "SIGKILL"})
        terminal.released = True
        return {}

    def _terminal(self, request: Incoming) -> Terminal:
        terminal = self.terminals.get(request.params["terminalId"])
        if terminal is None or terminal.released:
            raise Refuse(-32002, "Resource not found: no such terminal")
        return terminal
