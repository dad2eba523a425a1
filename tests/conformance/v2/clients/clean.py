"""A small client of version 2 that keeps its rules; the faulty ones break one each by overriding a method.

It prompts once and leaves; with `--again` it prompts once more, when its user types a line behind the end of the first
turn; with `--resume` it takes up an earlier session. Its user answers a question by the number of an option.
"""

from __future__ import annotations

from typing import Any

from tests.conformance.v2.clients.lines import Lines

PERMISSION = "session/request_permission"
CANCELLED = {"outcome": {"outcome": "cancelled"}}


class Clean:
    """One run."""

    info: Any = {"name": "clean", "version": "1"}  # noqa: RUF012
    cwd = "/tmp"
    replay: Any = {"type": "start"}  # noqa: RUF012

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.ids = 0
        self.asked: dict[int, str] = {}
        self.questions: dict[Any, dict[str, Any]] = {}
        self.session = ""
        self.version = 2
        self.in_turn = False
        self.answered = False
        """The prompt of the turn is in the conversation."""
        self.idle = False
        """The session was idle since the prompt was sent."""
        self.turns = 0

    def send(self, **message: Any) -> None:
        self.lines.write({"jsonrpc": "2.0", **message})

    def request(self, method: str, params: Any) -> None:
        self.ids += 1
        self.asked[self.ids] = method
        self.send(id=self.ids, method=method, params=params)

    # The opening.

    def begin(self) -> None:
        self.initialize(2)

    def initialize(self, version: int) -> None:
        elicitation = {"elicitation": {"form": {}}}
        params = {"protocolVersion": version, "info": self.info, "capabilities": elicitation}
        self.request("initialize", params if version == 2 else {"protocolVersion": 1})

    def after_initialize(self, result: Any) -> None:
        self.version = result["protocolVersion"]
        if self.version not in (1, 2):
            self.lines.leave()
        elif "--resume" in self.lines.arguments:
            self.session = "earlier"
            self.request("session/resume", {"sessionId": self.session, "cwd": self.cwd, "replayFrom": self.replay})
        else:
            self.request("session/new", {"cwd": self.cwd, **({"mcpServers": []} if self.version == 1 else {})})

    def after_session_new(self, result: Any) -> None:
        self.session = result["sessionId"]
        self.prompt()

    def after_session_resume(self, result: Any) -> None:
        self.prompt()

    def failed(self, method: str, error: Any) -> None:
        if method == "initialize" and error["code"] == -32022 and self.version == 2:
            self.version = 1
            self.initialize(1)
        elif method == "session/prompt":
            self.end_turn()
        else:
            self.lines.leave()

    # Turns.

    def prompt(self) -> None:
        self.in_turn, self.answered, self.idle = True, False, False
        self.turns += 1
        self.request("session/prompt", {"sessionId": self.session, "prompt": [{"type": "text", "text": "hello"}]})

    def after_session_prompt(self, result: Any) -> None:
        self.answered = True
        if self.idle or self.version == 1:
            self.end_turn()

    def updated(self, update: Any) -> None:
        if update["sessionUpdate"] == "state_update":
            self.state(update)

    def state(self, update: Any) -> None:
        if update["state"] == "idle" and self.in_turn:
            self.idle = True
            if self.answered:
                self.end_turn()

    def end_turn(self) -> None:
        self.in_turn = False
        if "--again" not in self.lines.arguments or self.turns > 1:
            self.lines.leave()

    # The user.

    def typed(self, line: str) -> None:
        if self.questions:
            id, params = next(iter(self.questions.items()))
            self.decide(id, params["options"], int(line))
        elif not self.in_turn and self.turns:
            self.prompt()

    def decide(self, id: Any, options: Any, number: int) -> None:
        del self.questions[id]
        self.send(id=id, result={"outcome": {"outcome": "selected", "optionId": options[number - 1]["optionId"]}})

    def interrupted(self) -> None:
        if self.in_turn:
            self.cancel()
            for id in list(self.questions):
                self.dismiss(id)

    def cancel(self) -> None:
        self.send(method="session/cancel", params={"sessionId": self.session})

    def dismiss(self, id: Any) -> None:
        params = self.questions.pop(id)
        self.send(id=id, result=CANCELLED if "options" in params else {"action": "cancel"})

    def lost(self) -> None:
        self.lines.leave()

    # Messages.

    def receive(self, message: Any) -> None:
        if isinstance(message, list):
            self.array(message)
        elif "method" not in message:
            method = self.asked.pop(message["id"])
            if "error" in message:
                self.failed(method, message["error"])
            else:
                getattr(self, "after_" + method.replace("/", "_"), lambda _: None)(message["result"])
        elif "id" in message:
            self.serve(message["id"], message["method"], message["params"])
        elif message["method"] == "session/update":
            self.updated(message["params"]["update"])
        elif message["method"] == "$/cancel_request" and message["params"]["requestId"] in self.questions:
            self.dismiss(message["params"]["requestId"])

    def array(self, messages: list[Any]) -> None:
        self.send(id=None, error={"code": -32600, "message": "Batches are not supported"})

    def serve(self, id: Any, method: str, params: Any) -> None:
        if method in (PERMISSION, "elicitation/create"):
            self.questions[id] = params
        else:
            self.unknown(id, method)

    def unknown(self, id: Any, method: str) -> None:
        self.send(id=id, error={"code": -32601, "message": "Method not found"})
