"""Faults at the edges: legal input that is refused, cancels and answers that are nearly right, what comes too late."""

from __future__ import annotations

import os
import threading

from clean import Clean
from rpc import INVALID_PARAMS, Json, Pause, Request, RpcError
from situations import Session


class NoAnnotations(Clean):
    """Refuses content with annotations."""

    def text(self, prompt: list[Json]) -> str:
        if any(block.get("annotations") for block in prompt):
            raise RpcError(INVALID_PARAMS, "annotations are not known")
        return super().text(prompt)


class NoNulls(Clean):
    """Refuses content with members that are null."""

    def text(self, prompt: list[Json]) -> str:
        if any(None in block.values() for block in prompt):
            raise RpcError(INVALID_PARAMS, "null is no value")
        return super().text(prompt)


class NoLinks(Clean):
    """Refuses links to resources."""

    def text(self, prompt: list[Json]) -> str:
        if any(block.get("type") == "resource_link" for block in prompt):
            raise RpcError(INVALID_PARAMS, "links are not known")
        return super().text(prompt)


class NoBlobs(Clean):
    """Takes embedded resources that are text and no others, and announces embedded context."""

    def text(self, prompt: list[Json]) -> str:
        if any("text" not in block["resource"] for block in prompt if block.get("type") == "resource"):
            raise RpcError(INVALID_PARAMS, "a resource has text")
        return super().text(prompt)


class CancelsAllAtBadParams(Clean):
    """Cancels every turn upon a session/cancel that names no session."""

    def cancel_session(self, params: Json) -> None:
        named = params.get("sessionId") if isinstance(params, dict) else None
        if isinstance(named, str) and named in self.sessions:
            super().cancel_session(params)
            return
        for session in self.sessions.values():
            if session.turn:
                self.cancel(session.turn)


class DeafAfterBadParams(Clean):
    """Does not hear a session/cancel any more after one that names no session."""

    def cancel_session(self, params: Json) -> None:
        self.deaf = getattr(self, "deaf", False) or not isinstance(params, dict) or "sessionId" not in params
        if not self.deaf:
            super().cancel_session(params)


class ForgetsItsQueue(Clean):
    """Holds a second prompt until the turn ends, and forgets it where the turn is cancelled."""

    async def prompt(self, request: Request) -> Json:
        session = self.session(request)
        if session.turn:
            await Pause()
        return await super().prompt(request)


class AnswersByLook(Clean):
    """Takes the answer to "1" as the answer to 1."""

    def take_response(self, value: dict[str, Json]) -> None:
        if isinstance(value.get("id"), str) and value["id"].isdecimal():
            value = {**value, "id": int(value["id"])}
        super().take_response(value)


class SpeaksAfterTheAnswer(Clean):
    """Says something more a moment after the answer to the prompt."""

    async def do_stream(self, session: Session) -> None:
        await super().do_stream(session)
        later = threading.Timer(0.1, self.say, (session, "six"))
        later.daemon = True
        later.start()


class PlanOfChanges(Clean):
    """Sends only the steps of a plan that have changed."""

    def plan(self, session: Session, entries: list[Json]) -> None:
        self.told = getattr(self, "told", 0) + 1
        super().plan(session, entries if self.told != 2 else entries[:1])


class MemberInAnUpdate(Clean):
    """Puts a member of its own beside those of an update."""

    def chunk(self, kind: str, text: str) -> dict[str, Json]:
        return {**super().chunk(kind, text), "tokens": 3}


class MemberInAResult(Clean):
    """Puts a member of its own beside those of a result."""

    async def prompt(self, request: Request) -> Json:
        return {**await super().prompt(request), "elapsed": 3}


class ProcessFolder(Clean):
    """Runs commands in the folder that the agent was started in."""

    def ask(self, method: str, params: Json, late: Json = None) -> Json:
        if method == "terminal/create":
            params = {**params, "cwd": os.getcwd()}
        return super().ask(method, params, late)


class TerminalOfTheLast(Clean):
    """Asks for terminals in the name of the session that was made last."""

    def ask(self, method: str, params: Json, late: Json = None) -> Json:
        if method == "terminal/create":
            params = {**params, "sessionId": list(self.sessions)[-1]}
        return super().ask(method, params, late)
