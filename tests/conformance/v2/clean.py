"""A small agent of version 2 that keeps its rules; the faulty ones break one each by overriding a method.

Nothing of it waits: a turn that runs is a record, and each message is served to its end before the next is taken.
"""

from __future__ import annotations

import base64
from typing import Any

from tests.conformance.v2.connection import Connection, Refusal, Session

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
CAN_CANCEL = {"cancel": {}}
PERMISSION = "session/request_permission"


class Clean(Connection):
    """The work of the sessions of one connection: `do_...` is a situation."""

    # Prompts.

    def prompt(self, id: Any, params: Any) -> None:
        try:
            session = self.known(params)
            self.check(params["prompt"])
        except Refusal as refusal:
            self.refuse(id, code=refusal.error["code"], data=refusal.error.get("data"))
            return
        if session.turn:
            self.hold(session, id, params)
        else:
            self.insert(session, id, params)

    def check(self, prompt: Any) -> None:
        if not prompt or any(not self.supports(block) for block in prompt):
            raise Refusal(-32602)

    def supports(self, block: Any) -> bool:
        needed = {"text": {"text"}, "resource_link": {"uri", "name"}}.get(block["type"])
        return needed is not None and needed <= block.keys()

    def hold(self, session: Session, id: Any, params: Any) -> None:
        session.held.append((id, params))

    def insert(self, session: Session, id: Any, params: Any) -> None:
        session.turn = params["prompt"][0]["text"]
        message = self.new_id("m")
        self.accept(session, id, message, params["prompt"])
        self.state(session, "running")
        getattr(self, "do_" + session.turn, self.do_quick)(session)

    def accept(self, session: Session, id: Any, message: str, prompt: Any) -> None:
        self.tell(session, "user_message", messageId=message, content=prompt)
        self.write({"jsonrpc": "2.0", "id": id, "result": {"messageId": message}})

    def finish(self, session: Session, reason: str = "end_turn", **members: Any) -> None:
        session.turn = ""
        self.idle(session, stopReason=reason, **members)
        if session.held and reason != "cancelled":
            self.insert(session, *session.held.pop(0))

    def idle(self, session: Session, **members: Any) -> None:
        self.state(session, "idle", **members)

    def say(self, session: Session, *words: str) -> None:
        message = self.new_id("a")
        for word in words:
            content = {"type": "text", "text": word}
            self.tell(session, "agent_message_chunk", messageId=message, content=content)

    def do_quick(self, session: Session) -> None:
        self.say(session, "Done.")
        self.finish(session)

    def do_stream(self, session: Session) -> None:
        self.say(session, "one ", "two ", "three")
        self.finish(session)

    def do_hang(self, session: Session) -> None:
        self.say(session, "Working.")

    do_stubborn = do_hang

    def do_fails(self, session: Session) -> None:
        self.finish(session, "error", error={"code": -32603, "message": "Internal error"})

    def do_plan(self, session: Session) -> None:
        plan = self.new_id("p")
        for status in ("pending", "completed"):
            entries = [{"content": "Look", "priority": "low", "status": status}]
            self.tell(session, "plan_update", plan={"type": "items", "planId": plan, "entries": entries})
        self.finish(session)

    def begin_call(self, session: Session, **members: Any) -> str:
        session.call = self.new_id("c")
        members = {"title": "Work", "kind": "other", "status": "in_progress", **members}
        self.tell(session, "tool_call_update", toolCallId=session.call, **members)
        return session.call

    def end_call(self, session: Session, status: str, **members: Any) -> None:
        call, session.call = session.call, ""
        if call:
            self.tell(session, "tool_call_update", toolCallId=call, status=status, **members)

    def do_tool(self, session: Session) -> None:
        self.begin_call(session)
        self.end_call(session, "completed")
        self.finish(session)

    def do_cancellable(self, session: Session) -> None:
        self.begin_call(session, capabilities=CAN_CANCEL)

    def serve_tool_call_cancel(self, params: Any) -> Any:
        session = self.known(params)
        if not session.call or params["toolCallId"] != session.call:
            raise Refusal(-32602)
        self.stop_call(session)
        return {}

    def stop_call(self, session: Session) -> None:
        content = {"type": "content", "content": {"type": "text", "text": "half"}}
        self.tell(session, "tool_call_content_chunk", toolCallId=session.call, content=content)
        self.end_call(session, "cancelled", capabilities=None)
        self.finish(session)

    def do_shell(self, session: Session) -> None:
        session.terminal = self.new_id("t")
        self.begin_call(session, content=[{"type": "terminal", "terminalId": session.terminal}])
        members = {"command": "make", "cwd": session.cwd, "capabilities": CAN_CANCEL}
        self.tell(session, "terminal_update", terminalId=session.terminal, **members)
        data = base64.b64encode(b"begun").decode()
        self.tell(session, "terminal_output_chunk", terminalId=session.terminal, data=data)

    def serve_terminal_cancel(self, params: Any) -> Any:
        session = self.known(params)
        if not session.terminal or params["terminalId"] != session.terminal:
            raise Refusal(-32602)
        self.stop_terminal(session)
        return {}

    def stop_terminal(self, session: Session) -> None:
        self.end_terminal(session)
        self.end_call(session, "failed")
        self.finish(session)

    def end_terminal(self, session: Session) -> None:
        terminal, session.terminal = session.terminal, ""
        if terminal:
            ended = {"exitStatus": {"signal": "SIGTERM"}, "capabilities": None}
            self.tell(session, "terminal_update", terminalId=terminal, **ended)

    # Questions.

    def do_permission(self, session: Session) -> None:
        call = {"toolCallId": self.begin_call(session, status="pending"), "title": "Work"}
        session.question = self.new_id("q")
        self.needs_user(session)
        params = {"sessionId": session.id, "title": "May I?", "subject": {"type": "tool_call", "toolCall": call}}
        self.ask(session, {**params, "options": OPTIONS})

    def needs_user(self, session: Session) -> None:
        self.state(session, "requires_action")

    def ask(self, session: Session, params: Any) -> None:
        self.write({"jsonrpc": "2.0", "id": session.question, "method": PERMISSION, "params": params})

    def answered(self, id: Any, message: Any) -> None:
        for session in self.sessions.values():
            if session.question == id:
                session.question = None
                outcome = message.get("result", {}).get("outcome", {})
                self.state(session, "running")
                self.end_call(session, "completed" if self.allows(outcome) else "failed")
                self.finish(session)

    def allows(self, outcome: Any) -> bool:
        return outcome.get("outcome") == "selected" and outcome.get("optionId") == "yes"

    # Cancels.

    def cancel(self, session: Session) -> None:
        self.drop_held(session)
        if not session.turn:
            return
        self.withdraw_question(session)
        self.end_terminal(session)
        self.end_call(session, "cancelled", capabilities=None)
        self.finish(session, "cancelled")

    def withdraw_question(self, session: Session) -> None:
        question, session.question = session.question, None
        if question is not None:
            self.write({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": question}})

    def drop_held(self, session: Session) -> None:
        for id, _ in session.held:
            self.refuse(id, -32800)
        session.held.clear()

    def withdraw(self, id: Any) -> None:
        for session in self.sessions.values():
            for held in session.held:
                if held[0] == id:
                    session.held.remove(held)
                    self.refuse(id, -32800)
                    return
