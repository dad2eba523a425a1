"""The clean agent: the methods of ACP v1, with no fault. What a prompt makes it do is in `situations`."""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine

from rpc import INVALID_PARAMS, INVALID_REQUEST, Cancelled, Json, Pause, Peer, Request, RpcError
from servers_of import Servers
from situations import Session, Situations

RESOURCE_NOT_FOUND = -32002
MODES = ("ask", "code")
PAGE = 5
SESSIONS = ("list", "resume", "close", "delete", "additionalDirectories")
DATE = "2026-01-02T03:04:05Z"


class Clean(Situations, Peer):
    """A whole agent in small methods, so that a fault is one method of a subclass."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: dict[str, Session] = {}
        self.client: dict[str, Json] | None = None
        self.servers: dict[str, Servers] = {}
        self.methods = {
            "initialize": self.initialize,
            "authenticate": self.authenticate,
            "session/new": self.new_session,
            "session/load": self.load_session,
            "session/resume": self.resume_session,
            "session/list": self.list_sessions,
            "session/close": self.close_session,
            "session/delete": self.delete_session,
            "session/set_mode": self.set_mode,
            "session/set_config_option": self.set_config_option,
            "session/prompt": self.prompt,
        }

    def handler(self, request: Request) -> Coroutine[Pause, Json, Json] | None:
        method = self.methods.get(request.method)
        return method(request) if method else None

    def notification(self, method: str, params: Json) -> None:
        if method == "session/cancel":
            self.cancel_session(params)

    def ended(self) -> None:
        super().ended()
        for servers in self.servers.values():
            servers.close()

    # Initialization

    async def initialize(self, request: Request) -> Json:
        version = self.param(request, "protocolVersion", int)
        if isinstance(version, bool) or not 0 <= version <= 65535:
            raise RpcError(INVALID_PARAMS, "protocolVersion is out of range")
        client = request.params.get("clientCapabilities")
        self.client = client if isinstance(client, dict) else {}
        return {
            "protocolVersion": self.negotiated(version),
            "agentCapabilities": self.capabilities(),
            "agentInfo": {"name": "clean", "version": "1"},
            "authMethods": self.ways(),
        }

    def negotiated(self, version: int) -> int:
        return 1

    def capabilities(self) -> dict[str, Json]:
        return {
            "loadSession": True,
            "promptCapabilities": {"embeddedContext": True},
            "mcpCapabilities": {"http": True},
            "sessionCapabilities": {key: {} for key in SESSIONS},
        }

    def ways(self) -> list[Json]:
        return [{"id": "key", "name": "With a key"}]

    async def authenticate(self, request: Request) -> Json:
        if self.param(request, "methodId", str) != "key":
            raise RpcError(INVALID_PARAMS, "There is no such way to authenticate")
        return {}

    def announced(self, name: str) -> bool:
        """Whether the client has a capability, `fs.readTextFile` for example."""
        value: Json = self.client
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value is True

    # Sessions

    async def new_session(self, request: Request) -> Json:
        if self.client is None:
            raise RpcError(INVALID_REQUEST, "initialize comes first")
        session = Session(self.session_id(), self.directory(request))
        self.sessions[session.id] = session
        self.servers[session.id] = Servers()
        for server in request.params["mcpServers"]:
            self.connect(server)
        return {"sessionId": session.id, **self.state(session)}

    def connect(self, server: Json) -> None:
        """Connect the newest session to a server."""
        list(self.servers.values())[-1].connect(server)

    def let_go(self, session: Session) -> None:
        """End the servers of a session."""
        self.servers.pop(session.id).close()

    def session_id(self) -> str:
        return f"sess_{os.urandom(8).hex()}"

    def directory(self, request: Request) -> str:
        cwd = self.param(request, "cwd", str)
        self.param(request, "mcpServers", list)
        if not cwd.startswith("/"):
            raise RpcError(INVALID_PARAMS, "cwd is not an absolute path")
        for directory in request.params.get("additionalDirectories") or ():
            if not directory.startswith("/"):
                raise RpcError(INVALID_PARAMS, "a directory is not an absolute path")
        return cwd

    def state(self, session: Session) -> dict[str, Json]:
        modes = [{"id": mode, "name": mode.title()} for mode in MODES]
        return {
            "modes": {"currentModeId": session.mode, "availableModes": modes},
            "configOptions": self.config(session),
        }

    def config(self, session: Session) -> Json:
        values = [{"value": value, "name": value.title()} for value in ("fast", "careful")]
        pace = {"id": "pace", "name": "Pace", "type": "select", "currentValue": session.pace, "options": values}
        voice = [{"value": "plain", "name": "Plain"}]
        return [pace, {"id": "voice", "name": "Voice", "type": "select", "currentValue": "plain", "options": voice}]

    async def load_session(self, request: Request) -> Json:
        session = self.reopened(request)
        for update in list(session.history):
            self.update(session, update)
        return self.state(session)

    async def resume_session(self, request: Request) -> Json:
        return self.state(self.reopened(request))

    def reopened(self, request: Request) -> Session:
        id = self.param(request, "sessionId", str)
        cwd = self.directory(request)
        if id not in self.sessions:
            raise RpcError(RESOURCE_NOT_FOUND, "There is no such session")
        session = self.sessions[id]
        session.cwd = cwd
        session.open = True
        return session

    async def list_sessions(self, request: Request) -> Json:
        cursor = request.params.get("cursor")
        if cursor is not None and cursor not in self.sessions:
            raise RpcError(INVALID_PARAMS, "There is no such page")
        return self.page(self.listed(request.params.get("cwd"), cursor), cursor)

    def listed(self, cwd: Json, cursor: Json) -> list[Json]:
        """What a list without pages would have, in an order that lasts."""
        return [
            {"sessionId": s.id, "cwd": s.cwd, "updatedAt": DATE} for s in self.sessions.values() if cwd in (None, s.cwd)
        ]

    def page(self, listed: list[Json], cursor: Json) -> dict[str, Json]:
        """One page; the cursor is the last session of the page before."""
        ids = [each["sessionId"] for each in listed]
        start = 0 if cursor is None else ids.index(cursor) + 1
        page = listed[start : start + PAGE]
        return {"sessions": page, **({"nextCursor": ids[start + PAGE - 1]} if start + PAGE < len(ids) else {})}

    async def close_session(self, request: Request) -> Json:
        session = self.sessions.get(self.param(request, "sessionId", str))
        if session:
            self.close(session)
        return {}

    def close(self, session: Session) -> None:
        if session.id in self.servers:
            self.let_go(session)
        session.open = False
        if session.turn:
            self.cancel(session.turn)

    async def delete_session(self, request: Request) -> Json:
        session = self.sessions.pop(self.param(request, "sessionId", str), None)
        if session:
            self.close(session)
        return {}

    async def set_mode(self, request: Request) -> Json:
        session = self.session(request)
        mode = self.param(request, "modeId", str)
        if mode not in MODES:
            raise RpcError(INVALID_PARAMS, "There is no such mode")
        session.mode = mode
        return {}

    async def set_config_option(self, request: Request) -> Json:
        session = self.session(request)
        if request.params.get("configId") != "pace" or request.params.get("value") not in ("fast", "careful"):
            raise RpcError(INVALID_PARAMS, "There is no such option or value")
        session.pace = request.params["value"]
        return {"configOptions": self.config(session)}

    def session(self, request: Request) -> Session:
        session = self.sessions.get(self.param(request, "sessionId", str))
        if session is None or not session.open:
            raise RpcError(RESOURCE_NOT_FOUND, "There is no such session")
        return session

    def param(self, request: Request, name: str, kind: type) -> Json:
        if not isinstance(request.params, dict) or not isinstance(request.params.get(name), kind):
            raise RpcError(INVALID_PARAMS, f"{name} is missing or of a wrong type")
        return request.params[name]

    # Prompts

    async def prompt(self, request: Request) -> Json:
        session = self.session(request)
        text = self.text(self.param(request, "prompt", list))
        if session.turn:
            raise RpcError(INVALID_REQUEST, "A prompt of this session is running")
        session.turn = request
        session.history.append(self.chunk("user_message_chunk", text))
        try:
            reason = await self.turn(session, text)
        except Cancelled:
            reason = self.cancelled(request)
        finally:
            session.turn = None
        return {"stopReason": reason}

    def text(self, prompt: list[Json]) -> str:
        if not all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in prompt):
            raise RpcError(INVALID_PARAMS, "prompt has something that is no content")
        return "".join(str(block.get("text", "")) for block in prompt)

    async def do_reports(self, session: Session) -> None:
        self.update(session, {"sessionUpdate": "session_info_update", "title": "A title"})
        self.update(session, {"sessionUpdate": "usage_update", "used": 10, "size": 1000})
        self.update(session, {"sessionUpdate": "config_option_update", "configOptions": self.reported(session)})
        self.say(session, "Reported.")

    def reported(self, session: Session) -> Json:
        return self.config(session)

    def cancelled(self, request: Request) -> str:
        return "cancelled"

    def cancel_session(self, params: Json) -> None:
        session = self.sessions.get(params["sessionId"])
        if session and session.turn:
            self.cancel(session.turn)


if __name__ == "__main__":
    Clean().serve()
    sys.exit(0)
