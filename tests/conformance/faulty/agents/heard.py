"""Faults in what the agent makes of what it hears: params, ids, cancels and sessions."""

from __future__ import annotations

from clean import Clean
from rpc import Json, Pause, Request, RpcError


class FractionCode(Clean):
    """Has fractions for the codes of errors."""

    def fail(self, request: Request, error: RpcError) -> None:
        code: Json = error.code - 0.5
        super().fail(request, RpcError(code, error.message))


class NullMessage(Clean):
    """Has errors whose message is null."""

    def fail(self, request: Request, error: RpcError) -> None:
        nothing: Json = None
        super().fail(request, RpcError(error.code, nothing))


class InternalForParams(Clean):
    """Takes params that do not fit for a mistake of its own."""

    def param(self, request: Request, name: str, kind: type) -> Json:
        try:
            return super().param(request, name, kind)
        except RpcError as error:
            raise RpcError(-32603, "Internal error") from error


class NotFoundForParams(Clean):
    """Takes params that do not fit for another method."""

    def param(self, request: Request, name: str, kind: type) -> Json:
        try:
            return super().param(request, name, kind)
        except RpcError as error:
            raise RpcError(-32601, "Method not found") from error


class TrimsIds(Clean):
    """Strips the spaces of ids."""

    def answer(self, request: Request, message: Json) -> None:
        id = message["id"]
        super().answer(request, {**message, "id": " ".join(id.split()) if isinstance(id, str) else id})


class CutsIds(Clean):
    """Keeps 255 characters of an id."""

    def answer(self, request: Request, message: Json) -> None:
        id = message["id"]
        super().answer(request, {**message, "id": id[:255] if isinstance(id, str) else id})


class PositiveIds(Clean):
    """Forgets the sign of an id."""

    def answer(self, request: Request, message: Json) -> None:
        id = message["id"]
        super().answer(request, {**message, "id": abs(id) if isinstance(id, int) else id})


class WrapsIds(Clean):
    """Keeps 32 bits of an id."""

    def answer(self, request: Request, message: Json) -> None:
        id = message["id"]
        super().answer(request, {**message, "id": id % 2**31 if isinstance(id, int) else id})


class CancelsTheLast(Clean):
    """Cancels the turn that began last, whichever is named."""

    def cancel_session(self, params: Json) -> None:
        running = [each.turn for each in self.sessions.values() if each.turn]
        if running:
            self.cancel(running[-1])


class NoMetaInACancel(Clean):
    """Does not understand a session/cancel with `_meta`."""

    def cancel_session(self, params: Json) -> None:
        if "_meta" not in params:
            super().cancel_session(params)


class NoMetaInAPrompt(Clean):
    """Refuses a prompt with `_meta`."""

    async def prompt(self, request: Request) -> Json:
        if "_meta" in request.params:
            raise RpcError(-32602, "There is no _meta")
        return await super().prompt(request)


class DeletesTheLast(Clean):
    """Deletes the session that was made last."""

    async def delete_session(self, request: Request) -> Json:
        self.param(request, "sessionId", str)
        if self.sessions:
            self.sessions.popitem()
        return {}


class NoResume(Clean):
    """Announces to resume, and makes no prompt possible after it."""

    async def resume_session(self, request: Request) -> Json:
        session = self.reopened(request)
        session.open = False
        return self.state(session)


class ReplaysTwice(Clean):
    """Replays a conversation twice."""

    async def load_session(self, request: Request) -> Json:
        await super().load_session(request)
        return await super().load_session(request)


class CloseUnanswered(Clean):
    """Does not answer session/close."""

    async def close_session(self, request: Request) -> Json:
        await super().close_session(request)
        await Pause()
        return {}


class SameModeRefused(Clean):
    """Refuses to set the mode that is set."""

    async def set_mode(self, request: Request) -> Json:
        if request.params.get("modeId") == self.session(request).mode:
            raise RpcError(-32602, "It is set")
        return await super().set_mode(request)


class TwoInALine(Clean):
    """Writes two messages into one line."""

    def encode(self, message: Json) -> bytes:
        line = super().encode(message)
        return line[:-1] + line if "result" in message else line
