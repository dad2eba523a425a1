"""Faults in what comes before what."""

from __future__ import annotations

from clean import Clean
from rpc import Json, Request
from situations import Session


class UpdateBeforeSession(Clean):
    """Reports on a session before it has said that there is one."""

    async def new_session(self, request: Request) -> Json:
        result = await super().new_session(request)
        commands = [{"name": "help", "description": "Says what there is."}]
        update = {"sessionUpdate": "available_commands_update", "availableCommands": commands}
        self.update(self.sessions[result["sessionId"]], update)
        return result


class ChunksSwapped(Clean):
    """Sends every second chunk before the one that it follows."""

    held: Json = None

    def say(self, session: Session, text: str) -> None:
        if self.held is None and text.endswith(" "):
            self.held = text
            return
        super().say(session, text)
        if self.held is not None:
            held, self.held = self.held, None
            super().say(session, held)


class UpdatesLast(Clean):
    """Sends the updates of a turn when its answer has gone out."""

    def __init__(self) -> None:
        super().__init__()
        self.updates: list[tuple[Session, Json]] = []

    def update(self, session: Session, update: Json) -> None:
        if session.turn:
            self.updates.append((session, update))
        else:
            super().update(session, update)

    def succeed(self, request: Request, result: Json) -> None:
        super().succeed(request, result)
        for session, update in self.updates:
            super().update(session, update)
        self.updates.clear()


class AnswersHeld(Clean):
    """Sends an answer only when the next request has come."""

    held: tuple[Request, Json] | None = None

    def answer(self, request: Request, message: Json) -> None:
        if request.method == "initialize":
            super().answer(request, message)
            return
        if self.held:
            super().answer(*self.held)
        self.held = request, message


class ReportsFirst(Clean):
    """Reports that a tool runs before it has reported the tool."""

    def tool_call(self, session: Session, title: str, kind: str) -> str:
        self.tool_update(session, f"call_{session.tools + 1}", status="in_progress")
        return super().tool_call(session, title, kind)
