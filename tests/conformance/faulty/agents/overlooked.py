"""Faults of a reader who knew the specification and not the cases."""

from __future__ import annotations

import copy
import json
import os

from clean import Clean
from rpc import INTERNAL_ERROR, PARSE_ERROR, Json, Request, RpcError
from situations import Session


class DigitsOfResults(Clean):
    """Answers the request "7" as 7 where it has a result."""

    def succeed(self, request: Request, result: Json) -> None:
        digits = isinstance(request.id, str) and request.id.isdigit()
        self.answer(request, {"jsonrpc": "2.0", "id": int(request.id) if digits else request.id, "result": result})


class RoundsIdsOfResults(Clean):
    """Answers with ids that have been through a double where it has a result."""

    def succeed(self, request: Request, result: Json) -> None:
        id = int(float(request.id)) if isinstance(request.id, int) else request.id
        self.answer(request, {"jsonrpc": "2.0", "id": id, "result": result})


class ReadsLatin(Clean):
    """Reads its input as Latin-1."""

    def decode(self, line: bytes) -> Json:
        return json.loads(line.decode("latin-1"))


class SplitsAtEveryLineEnd(Clean):
    """Takes U+2028 in a string for the end of a message."""

    def receive(self, line: bytes) -> None:
        for part in line.decode("utf-8", "replace").splitlines():
            super().receive(part.encode())


class ParseErrorWithoutId(Clean):
    """Leaves the id out where it could not be read."""

    def unreadable(self, line: bytes) -> None:
        self.write({"jsonrpc": "2.0", "error": {"code": PARSE_ERROR, "message": "Parse error"}})


class ExtensionFails(Clean):
    """Answers an extension that it does not know with an internal error."""

    def fail(self, request: Request, error: RpcError) -> None:
        own = request.method.startswith("_")
        super().fail(request, RpcError(INTERNAL_ERROR, "There is no handler") if own else error)


class ClaimsToLogOut(Clean):
    """Announces logout and does not have it."""

    def capabilities(self) -> dict[str, Json]:
        return {**super().capabilities(), "auth": {"logout": {}}}


class FirstServerOnly(Clean):
    """Starts the first of the MCP servers."""

    async def new_session(self, request: Request) -> Json:
        del request.params["mcpServers"][1:]
        return await super().new_session(request)


class KeepsTheServers(Clean):
    """Lets the MCP servers of a closed session run."""

    def let_go(self, session: Session) -> None:
        pass


class ClosesAllTurns(Clean):
    """Cancels the turns of all sessions when one is closed."""

    def close(self, session: Session) -> None:
        super().close(session)
        for each in self.sessions.values():
            if each.turn:
                self.cancel(each.turn)


class ClosedTurnFails(Clean):
    """Answers the prompt of a session that is closed with an error."""

    def cancelled(self, request: Request) -> str:
        if any(each.turn is request and not each.open for each in self.sessions.values()):
            raise RpcError(INTERNAL_ERROR, "The session is closed")
        return super().cancelled(request)


class FolderOfTheLast(Clean):
    """Reads in the folder of the newest session."""

    async def do_read(self, session: Session) -> None:
        moved = copy.copy(session)
        moved.cwd = list(self.sessions.values())[-1].cwd
        await super().do_read(moved)


class LoadsIntoItsHistory(Clean):
    """Takes what it replays for something that was said anew."""

    async def load_session(self, request: Request) -> Json:
        state = await super().load_session(request)
        session = self.sessions[request.params["sessionId"]]
        session.history += session.history
        return state


class LoadsUnderAnotherId(Clean):
    """Replays a conversation under an id of its own."""

    async def load_session(self, request: Request) -> Json:
        session, id = self.reopened(request), self.session_id()
        for update in session.history:
            self.notify("session/update", {"sessionId": id, "update": update})
        return self.state(session)


class OneValueForAll(Clean):
    """Sets an option of all sessions."""

    async def set_config_option(self, request: Request) -> Json:
        result = await super().set_config_option(request)
        for session in self.sessions.values():
            session.pace = request.params["value"]
        return result


class ListsBaseNames(Clean):
    """Lists the last part of each folder's path."""

    def listed(self, cwd: Json, cursor: Json) -> list[Json]:
        return [{**each, "cwd": os.path.basename(each["cwd"])} for each in super().listed(cwd, cursor)]
