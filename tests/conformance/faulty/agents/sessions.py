"""Faults in making, listing, loading and closing sessions."""

from __future__ import annotations

from clean import Clean
from rpc import Json, Request, RpcError
from situations import Session


class OneId(Clean):
    """Gives every session the same id."""

    def session_id(self) -> str:
        return "session"


class NoId(Clean):
    """Does not say what the new session is called."""

    async def new_session(self, request: Request) -> Json:
        result = await super().new_session(request)
        del result["sessionId"]
        return result


class ReplaysLate(Clean):
    """Answers session/load first and replays the conversation afterwards."""

    async def load_session(self, request: Request) -> Json:
        self.loaded = self.reopened(request)
        return self.state(self.loaded)

    def succeed(self, request: Request, result: Json) -> None:
        super().succeed(request, result)
        if request.method == "session/load":
            for update in self.loaded.history:
                self.update(self.loaded, update)


class ReplaysNothing(Clean):
    """Loads a session and does not replay its conversation."""

    async def load_session(self, request: Request) -> Json:
        return self.state(self.reopened(request))


class ReplaysHalf(Clean):
    """Replays what the agent said and not what the user said."""

    async def load_session(self, request: Request) -> Json:
        session = self.reopened(request)
        for update in session.history:
            if update["sessionUpdate"] != "user_message_chunk":
                self.update(session, update)
        return self.state(session)


class ResumeReplays(Clean):
    """Replays the conversation when a session is resumed."""

    async def resume_session(self, request: Request) -> Json:
        return await self.load_session(request)


class LoadsAnything(Clean):
    """Loads a session that never was."""

    def reopened(self, request: Request) -> Session:
        id = self.param(request, "sessionId", str)
        self.sessions.setdefault(id, Session(id, self.directory(request)))
        return super().reopened(request)


class PromptsAnything(Clean):
    """Runs a prompt in a session that never was."""

    def session(self, request: Request) -> Session:
        id = self.param(request, "sessionId", str)
        return self.sessions.setdefault(id, Session(id, "/"))


class CloseLeavesTheTurn(Clean):
    """Closes a session and lets its turn run."""

    def close(self, session: Session) -> None:
        session.open = False


class CloseForgetsTheAnswer(Clean):
    """Closes a session and never answers the prompt that ran in it."""

    def close(self, session: Session) -> None:
        session.open = False
        if session.turn:
            session.turn.pause = None
            session.turn = None


class ListsTheDeleted(Clean):
    """Lists a session that was deleted."""

    async def delete_session(self, request: Request) -> Json:
        return {}


class DeleteComplains(Clean):
    """Answers an error where the session to delete is gone already."""

    async def delete_session(self, request: Request) -> Json:
        if request.params.get("sessionId") not in self.sessions:
            raise RpcError(-32002, "There is no such session")
        return await super().delete_session(request)


class ListsEverywhere(Clean):
    """Lists sessions of other directories than the one asked for."""

    async def list_sessions(self, request: Request) -> Json:
        request.params.pop("cwd", None)
        return await super().list_sessions(request)


class AnyMode(Clean):
    """Accepts a mode that it does not have."""

    async def set_mode(self, request: Request) -> Json:
        self.session(request).mode = request.params["modeId"]
        return {}


class UnlistedMode(Clean):
    """Says that a session is in a mode that is not among its modes."""

    async def new_session(self, request: Request) -> Json:
        result = await super().new_session(request)
        result["modes"]["currentModeId"] = "secret"
        return result


class ConfigHalved(Clean):
    """Answers a changed option without the options as they are now."""

    async def set_config_option(self, request: Request) -> Json:
        await super().set_config_option(request)
        return {"configOptions": []}
