"""What a prompt makes the agent do: its first word names a situation. Knows nothing of methods or the wire."""

from __future__ import annotations

import time
from collections.abc import Callable

from rpc import Call, Cancelled, Json, Pause, Request, RpcError

OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


class Session:
    """One conversation. `turn` is the prompt that runs in it."""

    def __init__(self, id: str, cwd: str) -> None:
        self.id = id
        self.cwd = cwd
        self.mode = "ask"
        self.pace = "fast"
        self.open = True
        self.turn: Request | None = None
        self.history: list[Json] = []
        self.tools = 0


class Situations:
    """The turns. An agent gives them `ask`, `notify` and what its client announced."""

    ask: Callable[..., Call]
    notify: Callable[[str, Json], None]
    announced: Callable[[str], bool]

    async def turn(self, session: Session, text: str) -> str:
        """Run one turn and say why it stopped."""
        word = text.split()[0] if text.split() else ""
        situation = getattr(self, f"do_{word}", None)
        if situation is None:
            self.say(session, f"You said: {text}")
            return "end_turn"
        return await situation(session) or "end_turn"

    async def do_stream(self, session: Session) -> None:
        for word in ("one ", "two ", "three ", "four ", "five"):
            self.say(session, word)

    async def do_quick(self, session: Session) -> None:
        self.say(session, "Done.")

    async def do_hang(self, session: Session) -> None:
        self.say(session, "Working.")
        await Pause()

    async def do_stubborn(self, session: Session) -> None:
        self.say(session, "Working.")
        try:
            await Pause()
        finally:
            self.tidy_up()
            self.say(session, "Stopped.")

    def tidy_up(self) -> None:
        time.sleep(0.2)

    async def do_fails(self, session: Session) -> None:
        raise ValueError("a mishap with a secret in it")

    async def do_tool(self, session: Session) -> None:
        tool = self.tool_call(session, "Count lines", "read")
        self.tool_update(session, tool, status="in_progress")
        self.tool_update(session, tool, status="completed", content=[text_content("5 lines")])

    async def do_plan(self, session: Session) -> None:
        for status in ("pending", "in_progress", "completed"):
            entry = {"content": "Look at it", "priority": "medium", "status": status}
            last = {"content": "Tell of it", "priority": "low", "status": "pending"}
            self.plan(session, [entry, last])

    def plan(self, session: Session, entries: list[Json]) -> None:
        self.update(session, {"sessionUpdate": "plan", "entries": entries})

    async def do_permission(self, session: Session) -> None:
        tool = self.tool_call(session, "Change things", "edit")
        params = {"sessionId": session.id, "toolCall": {"toolCallId": tool}, "options": OPTIONS}
        try:
            answer = await self.ask("session/request_permission", params)
        except RpcError:
            answer = {}
        if self.allowed(answer):
            await self.run_tool(session, tool)
        else:
            self.tool_update(session, tool, status="failed", content=[text_content("Not allowed.")])

    def allowed(self, answer: Json) -> bool:
        outcome = answer.get("outcome") if isinstance(answer, dict) else None
        return isinstance(outcome, dict) and (outcome.get("outcome"), outcome.get("optionId")) == ("selected", "yes")

    async def run_tool(self, session: Session, tool: str) -> None:
        self.tool_update(session, tool, status="in_progress")
        self.tool_update(session, tool, status="completed", content=[text_content("Changed.")])

    async def do_read(self, session: Session) -> None:
        if not self.can(session, "fs.readTextFile"):
            return
        try:
            answer = await self.ask("fs/read_text_file", {"sessionId": session.id, "path": f"{session.cwd}/a.txt"})
            self.say(session, f"It says: {answer.get('content')}")
        except RpcError as error:
            self.say(session, f"It cannot be read: {error.message}")

    async def do_write(self, session: Session) -> None:
        if not self.can(session, "fs.writeTextFile"):
            return
        params = {"sessionId": session.id, "path": f"{session.cwd}/b.txt", "content": "new\n"}
        try:
            await self.ask("fs/write_text_file", params)
            self.say(session, "Written.")
        except RpcError as error:
            self.say(session, f"It cannot be written: {error.message}")

    async def do_nested(self, session: Session) -> None:
        self.say(session, "Asking.")
        await self.do_read(session)

    async def do_terminal(self, session: Session) -> None:
        if not self.can(session, "terminal"):
            return
        tool = self.tool_call(session, "Run the tests", "execute")
        params = {"sessionId": session.id, "command": "make", "args": ["test"], "cwd": session.cwd}
        try:
            created = await self.ask("terminal/create", params, late=lambda result: self.release(session, result))
        except RpcError:
            self.tool_update(session, tool, status="failed")
            return
        terminal = created["terminalId"]
        content = [{"type": "terminal", "terminalId": terminal}]
        self.tool_update(session, tool, status="in_progress", content=content)
        await self.use_terminal(session, tool, terminal)

    async def use_terminal(self, session: Session, tool: str, terminal: str) -> None:
        where = {"sessionId": session.id, "terminalId": terminal}
        try:
            await self.ask("terminal/wait_for_exit", where)
            await self.ask("terminal/output", where)
        except Cancelled:
            self.kill(where)
            raise
        except RpcError:
            self.tool_update(session, tool, status="failed")
            return
        finally:
            self.release(session, where)
        self.tool_update(session, tool, status="completed")

    def kill(self, where: Json) -> None:
        self.ask("terminal/kill", where)

    def release(self, session: Session, created: Json) -> None:
        self.ask("terminal/release", {"sessionId": session.id, "terminalId": created["terminalId"]})

    def can(self, session: Session, capability: str) -> bool:
        """Whether the client can do it; the user is told if not."""
        able = self.announced(capability)
        if not able:
            self.say(session, f"The client has no {capability}.")
        return able

    # What the client is told

    def say(self, session: Session, text: str) -> None:
        update = self.chunk("agent_message_chunk", text)
        session.history.append(update)
        self.update(session, update)

    def chunk(self, kind: str, text: str) -> dict[str, Json]:
        return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}

    def tool_call(self, session: Session, title: str, kind: str) -> str:
        session.tools += 1
        id = f"call_{session.tools}"
        update = {"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind, "status": "pending"}
        session.history.append(update)
        self.update(session, update)
        return id

    def tool_update(self, session: Session, tool: str, **changes: Json) -> None:
        update = {"sessionUpdate": "tool_call_update", "toolCallId": tool, **changes}
        session.history.append(update)
        self.update(session, update)

    def update(self, session: Session, update: Json) -> None:
        self.notify("session/update", {"sessionId": session.id, "update": update})


def text_content(text: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": text}}
