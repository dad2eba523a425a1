"""Recordings, made by hand."""

import json
from pathlib import Path
from typing import Any

from acp_server.agent.record import Direction, Entry
from acp_server.apps.cli.trace.conversation import Conversation


class Recording:
    """Entries of a recording, one after the other; a message takes a millisecond unless `at` or `wait` says more."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._now = 1000.0

    def wait(self, seconds: float) -> None:
        self._now += seconds

    def add(self, direction: Direction, **members: Any) -> None:
        self._now += 0.001
        self.entries.append(Entry(self._now, direction, {"jsonrpc": "2.0", **members}))

    def ask(self, direction: Direction, id: Any, method: str, **params: Any) -> None:
        self.add(direction, id=id, method=method, params=params)

    def answer(self, direction: Direction, id: Any, result: Any = None) -> None:
        self.add(direction, id=id, result={} if result is None else result)

    def fail(self, direction: Direction, id: Any, code: int = -32800) -> None:
        self.add(direction, id=id, error={"code": code, "message": "words"})

    def prompt(self, id: Any, text: str = "hello", session: str = "s") -> None:
        self.ask("in", id, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def update(self, kind: str = "agent_message_chunk", session: str = "s", **members: Any) -> None:
        self.add(
            "out", method="session/update", params={"sessionId": session, "update": {"sessionUpdate": kind} | members}
        )

    def tool(self, id: str, status: str, **members: Any) -> None:
        self.update("tool_call_update", toolCallId=id, status=status, **members)

    def cancel(self, session: str = "s") -> None:
        self.add("in", method="session/cancel", params={"sessionId": session})

    def withdraw(self, direction: Direction, id: Any) -> None:
        self.add(direction, method="$/cancel_request", params={"requestId": id})

    @property
    def conversation(self) -> Conversation:
        return Conversation(self.entries)

    def write(self, path: Path) -> Path:
        path.write_text("".join(json.dumps({"t": e.t, "dir": e.dir, "msg": e.msg}) + "\n" for e in self.entries))
        return path


def cancelled_turn() -> Recording:
    """A turn whose tool waits for a terminal when it is cancelled: seven spans, two cuts, nothing wrong."""
    talk = Recording()
    talk.ask("in", 0, "session/new", cwd="/")
    talk.answer("out", 0, {"sessionId": "s"})
    talk.prompt(1, "run it")
    talk.tool("c", "in_progress", title="Run it")
    talk.ask("out", 0, "terminal/create", sessionId="s", command="sleep")
    talk.answer("in", 0, {"terminalId": "t"})
    talk.tool("c", "in_progress", content=[{"type": "terminal", "terminalId": "t"}])
    talk.ask("out", 1, "terminal/wait_for_exit", sessionId="s", terminalId="t")
    for _ in range(20):
        talk.update(content={"type": "text", "text": "word "})
    talk.cancel()
    talk.withdraw("out", 1)
    talk.fail("in", 1)
    talk.tool("c", "failed")
    talk.answer("out", 1, {"stopReason": "cancelled"})
    return talk
