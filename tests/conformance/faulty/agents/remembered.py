"""Agents that keep too little or too much of a conversation, or do the wrong thing while a turn runs and behind it."""

from __future__ import annotations

import threading

from clean import Clean
from rpc import INVALID_REQUEST, Cancelled, Json, Request, RpcError
from situations import Session

FULL = 65_536


class KeepsALimitedPrompt(Clean):
    """Keeps of a prompt what one buffer holds."""

    def chunk(self, kind: str, text: str) -> dict[str, Json]:
        return super().chunk(kind, text[:FULL])


class KeepsTheFirstBlock(Clean):
    """Keeps only the first block of a prompt."""

    def text(self, prompt: list[Json]) -> str:
        return super().text(prompt[:1])


class ReplaysEverySession(Clean):
    """Replays what was said in all sessions."""

    async def load_session(self, request: Request) -> Json:
        session = self.reopened(request)
        for each in list(self.sessions.values()):
            for update in list(each.history):
                self.update(session, update)
        return self.state(session)


class ForgetsCancelledTurns(Clean):
    """Takes a turn that was cancelled out of the history."""

    async def turn(self, session: Session, text: str) -> str:
        before = len(session.history) - 1
        try:
            return await super().turn(session, text)
        except Cancelled:
            del session.history[before:]
            raise


class ReplaysToolCallsAsTheyBegan(Clean):
    """Replays tool calls without what became of them."""

    async def load_session(self, request: Request) -> Json:
        session = self.reopened(request)
        for update in list(session.history):
            if update["sessionUpdate"] != "tool_call_update":
                self.update(session, update)
        return self.state(session)


class ResumesAfresh(Clean):
    """Forgets what was said when a session is resumed."""

    async def resume_session(self, request: Request) -> Json:
        session = self.reopened(request)
        session.history.clear()
        return self.state(session)


class SetsNothingInATurn(Clean):
    """Refuses to set a mode or an option while a turn runs."""

    async def set_mode(self, request: Request) -> Json:
        self.must_be_idle(request)
        return await super().set_mode(request)

    async def set_config_option(self, request: Request) -> Json:
        self.must_be_idle(request)
        return await super().set_config_option(request)

    def must_be_idle(self, request: Request) -> None:
        if self.session(request).turn:
            raise RpcError(INVALID_REQUEST, "A turn is running")


class HasTwoModes(Clean):
    """Has an option for the mode that does not follow it."""

    def config(self, session: Session) -> Json:
        values = [{"value": value, "name": value.title()} for value in ("ask", "code")]
        mode = {"id": "mode", "name": "Mode", "type": "select", "category": "mode", "currentValue": "ask"}
        return [*super().config(session), {**mode, "options": values}]


class SpinsBehindACancel(Clean):
    """Goes on working at full speed when a turn was cancelled."""

    def cancel_session(self, params: Json) -> None:
        super().cancel_session(params)
        threading.Thread(target=self.spin, daemon=True).start()

    def spin(self) -> None:
        while True:
            pass


class AsksWhereElicitationIsEmpty(Clean):
    """Takes any `elicitation` for support of forms."""

    async def do_quick(self, session: Session) -> None:
        if (self.client or {}).get("elicitation") is not None:
            form = {"type": "object", "properties": {"name": {"type": "string"}}}
            params = {"sessionId": session.id, "mode": "form", "message": "Your name?", "requestedSchema": form}
            try:
                await self.ask("elicitation/create", params)
            except RpcError:
                pass
        await super().do_quick(session)


class LogsOutForEver(Clean):
    """Makes no session any more once the user has logged out."""

    def __init__(self) -> None:
        super().__init__()
        self.out = False
        self.methods["logout"] = self.log_out

    def capabilities(self) -> dict[str, Json]:
        return {**super().capabilities(), "auth": {"logout": {}}}

    async def log_out(self, request: Request) -> Json:
        self.out = True
        return {}

    async def new_session(self, request: Request) -> Json:
        if self.out:
            raise RpcError(-32000, "Authentication required")
        return await super().new_session(request)


class WritesSixtyKilobytes(Clean):
    """Cuts a line that does not fit into a buffer of 64 kB."""

    def put(self, data: bytes) -> None:
        super().put(data if len(data) <= 65_536 else data[:65_535] + b"\n")


class RefusesLongAnswers(Clean):
    """Writes no answer of more than 64 kB."""

    def put(self, data: bytes) -> None:
        if len(data) <= 65_536:
            super().put(data)


class StreamsAtTheEnd(Clean):
    """Keeps what a turn says until it is over."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Json] = []

    def notify(self, method: str, params: Json) -> None:
        if method == "session/update" and self.running:
            self.kept.append(params)
        else:
            super().notify(method, params)

    def answer(self, request: Request, message: Json) -> None:
        kept, self.kept = self.kept, []
        for params in kept:
            super().notify("session/update", params)
        super().answer(request, message)


class RemembersForAll(Clean):
    """Keeps what it says for every session."""

    def say(self, session: Session, text: str) -> None:
        update = self.chunk("agent_message_chunk", text)
        for each in self.sessions.values():
            each.history.append(update)
        self.update(session, update)
