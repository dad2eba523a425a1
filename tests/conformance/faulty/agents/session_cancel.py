"""Faults in what session/cancel does."""

from __future__ import annotations

import os
import sys

from clean import Clean
from rpc import Cancelled, Json, Request, RpcError
from situations import Session


class Ignored(Clean):
    """Runs on."""

    def cancel_session(self, params: Json) -> None:
        pass


class Unanswered(Clean):
    """Never answers the cancelled prompt."""

    def answer(self, request: Request, message: Json) -> None:
        if request.cancelled and request.method == "session/prompt":
            self.running.pop(self.key(request.id))
        else:
            super().answer(request, message)


class CancelledError(Clean):
    """Answers the cancelled prompt with the error -32800."""

    def cancelled(self, request: Request) -> str:
        raise RpcError(-32800, "Request cancelled")


class AbortError(Clean):
    """Lets the error of an aborted operation answer the cancelled prompt."""

    def cancelled(self, request: Request) -> str:
        raise RuntimeError("This operation was aborted")


class EndTurn(Clean):
    """Says that a cancelled turn ended by itself."""

    def cancelled(self, request: Request) -> str:
        return "end_turn"


class Refusal(Clean):
    """Says that it refused the cancelled turn."""

    def cancelled(self, request: Request) -> str:
        return "refusal"


class TwoAnswers(Clean):
    """Answers the cancelled prompt, and once more when its work has ended."""

    def succeed(self, request: Request, result: Json) -> None:
        super().succeed(request, result)
        if request.cancelled and request.method == "session/prompt":
            self.write({"jsonrpc": "2.0", "id": request.id, "result": {"stopReason": "end_turn"}})


class AnswersTheNotification(Clean):
    """Answers session/cancel as if it were a request."""

    def cancel_session(self, params: Json) -> None:
        self.write({"jsonrpc": "2.0", "id": None, "result": None})
        super().cancel_session(params)


class EverySession(Clean):
    """Stops the turns of all sessions."""

    def cancel_session(self, params: Json) -> None:
        for session in self.sessions.values():
            if session.turn:
                self.cancel(session.turn)


class LateUpdate(Clean):
    """Goes on reporting after the answer of the cancelled turn."""

    def succeed(self, request: Request, result: Json) -> None:
        super().succeed(request, result)
        if request.cancelled and request.method == "session/prompt":
            self.say(self.sessions[request.params["sessionId"]], "I was just about to finish.")


class Sticky(Clean):
    """Keeps a cancel that came too late for the next turn."""

    late = False

    def cancel_session(self, params: Json) -> None:
        session = self.sessions.get(params["sessionId"])
        self.late = session is not None and session.turn is None
        super().cancel_session(params)

    async def turn(self, session: Session, text: str) -> str:
        if self.late:
            self.late = False
            raise Cancelled
        return await super().turn(session, text)


class SessionLost(Clean):
    """Refuses all prompts of a session after a cancelled one."""

    def cancelled(self, request: Request) -> str:
        self.session(request).open = False
        return "cancelled"


class SessionBusy(Clean):
    """Takes a cancelled turn for one that runs."""

    async def prompt(self, request: Request) -> Json:
        session = self.session(request)
        result = await super().prompt(request)
        if request.cancelled:
            session.turn = request
        return result


class Ends(Clean):
    """Ends when a turn is cancelled."""

    def succeed(self, request: Request, result: Json) -> None:
        super().succeed(request, result)
        if request.cancelled:
            sys.exit(0)


class UnknownSessionEnds(Clean):
    """Ends at a cancel for a session that it does not know."""

    def cancel_session(self, params: Json) -> None:
        if params["sessionId"] not in self.sessions:
            sys.exit(1)
        super().cancel_session(params)


class UnknownSessionAnswered(Clean):
    """Answers an error to a cancel for a session that it does not know."""

    def cancel_session(self, params: Json) -> None:
        if params["sessionId"] not in self.sessions:
            self.refuse(None, -32002, "There is no such session", None)
        else:
            super().cancel_session(params)


class TooEarly(Clean):
    """Misses a cancel that is read together with its prompt."""

    def serve(self) -> None:
        rest = b""
        while chunk := os.read(0, 65536):
            *lines, rest = (rest + chunk).split(b"\n")
            prompted = False
            for line in lines:
                if not (prompted and b"session/cancel" in line):
                    self.receive(line)
                prompted |= b"session/prompt" in line
        self.ended()


class OnlyOnce(Clean):
    """Stops the first turn of a session and no other."""

    def cancel_session(self, params: Json) -> None:
        session = self.sessions.get(params["sessionId"])
        if session and sum(update["sessionUpdate"] == "user_message_chunk" for update in session.history) == 1:
            super().cancel_session(params)


class NextTurnToo(Clean):
    """Stops the prompt that comes right behind the cancel as well."""

    stopped: Session | None = None

    def cancel_session(self, params: Json) -> None:
        super().cancel_session(params)
        self.stopped = self.sessions.get(params["sessionId"])

    def take_request(self, request: Request) -> None:
        super().take_request(request)
        if self.stopped and self.stopped.turn is request:
            self.cancel(request)
        self.stopped = None
