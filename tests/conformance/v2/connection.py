"""One connection of an agent of version 2: its messages, the version that it speaks, and its sessions.

What a session does is for `clean`.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.v2.lines import Write

INFO = {"name": "clean", "version": "1"}
PAGE = 5
"""Sessions of a page."""


class Refusal(Exception):
    """A request is answered with this error."""

    def __init__(self, code: int, data: Any = None) -> None:
        super().__init__(code)
        self.error = {"code": code, "message": "refused", **({} if data is None else {"data": data})}


@dataclass
class Session:
    """A session, and the turn that runs in it."""

    id: str
    cwd: str
    history: list[dict[str, Any]] = field(default_factory=list)
    turn: str = ""
    """The situation that runs; empty if there is nothing to do."""
    held: list[tuple[Any, Any]] = field(default_factory=list)
    """The id and the parameters of each prompt that was not inserted yet."""
    call: str = ""
    """The tool call that runs."""
    terminal: str = ""
    question: Any = None
    """The id of the request that waits for the user."""
    pace: str = "fast"


class Connection:
    """One connection. `serve_...` answers a method."""

    def __init__(self, write: Write) -> None:
        self.write = write
        self.version = 0
        self.settled = False
        """A request was made: the version stays."""
        self.sessions: dict[str, Session] = {}
        self.closed: dict[str, Session] = {}
        self.count = 0

    # Messages.

    def unreadable(self) -> None:
        self.refuse(None, -32700)

    def receive(self, message: Any) -> None:
        if isinstance(message, list):
            self.refuse(None, -32600)
            return
        id, method, params = message.get("id"), message.get("method"), message.get("params", {})
        if method is None:
            self.answered(id, message)
        elif "id" not in message:
            self.notified(method, params)
        elif isinstance(id, bool) or not isinstance(id, str | int):
            self.refuse(None, -32600)
        elif method == "initialize":
            self.reply(id, self.initialize, params)
        elif not self.version:
            self.early(id, method)
        else:
            self.settled = True
            self.request(id, method, params)

    def early(self, id: Any, method: str) -> None:
        self.refuse(id, -32600)

    def request(self, id: Any, method: str, params: Any) -> None:
        if method == "session/prompt":
            self.prompt(id, params)
            return
        serve = getattr(self, "serve_" + method.replace("/", "_"), None) if self.version == 2 else None
        if serve is None:
            self.refuse(id, -32601)
        else:
            self.reply(id, serve, params)

    def reply(self, id: Any, serve: Any, params: Any) -> None:
        try:
            result = serve(params)
        except Refusal as refusal:
            self.write({"jsonrpc": "2.0", "id": id, "error": refusal.error})
        else:
            self.write({"jsonrpc": "2.0", "id": id, "result": result})

    def refuse(self, id: Any, code: int, data: Any = None) -> None:
        self.write({"jsonrpc": "2.0", "id": id, "error": Refusal(code, data).error})

    def notified(self, method: str, params: Any) -> None:
        if not self.version:
            return
        if method == "session/cancel":
            if session := self.sessions.get(params["sessionId"]):
                self.cancel(session)
        elif method == "$/cancel_request":
            self.withdraw(params["requestId"])

    def tell(self, session: Session, kind: str, /, **members: Any) -> None:
        update = {"sessionUpdate": kind, **members}
        if kind != "state_update":
            session.history.append(update)
        self.write(
            {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session.id, "update": update}}
        )

    def state(self, session: Session, state: str, **members: Any) -> None:
        self.tell(session, "state_update", state=state, **members)

    def new_id(self, what: str) -> str:
        self.count += 1
        return f"{what}{self.count}"

    # Negotiation.

    def initialize(self, params: Any) -> Any:
        asked = params.get("protocolVersion")
        if self.version and (self.settled or asked < 2):
            raise Refusal(-32600)
        if asked == 1:
            self.version = 1
            return {"protocolVersion": 1, "agentInfo": INFO, "agentCapabilities": {}}
        if asked < 1:
            raise self.unsupported(asked)
        info = params.get("info")
        if asked == 2 and not (isinstance(info, dict) and {"name", "version"} <= info.keys()):
            raise Refusal(-32602)
        self.version = 2
        return self.hello()

    def unsupported(self, asked: Any) -> Refusal:
        return Refusal(-32022, {"requested": asked, "supported": [1, 2]})

    def hello(self) -> Any:
        methods = [{"type": "agent", "methodId": "key", "name": "Key"}]
        capabilities = {"session": {"delete": {}, "additionalDirectories": {}, "mcp": {"stdio": {}}}}
        return {"protocolVersion": 2, "info": INFO, "capabilities": capabilities, "authMethods": methods}

    def serve_auth_login(self, params: Any) -> Any:
        if params.get("methodId") != "key":
            raise Refusal(-32602)
        return {}

    def serve_auth_logout(self, params: Any) -> Any:
        return {}

    # Sessions.

    def known(self, params: Any) -> Session:
        session = self.sessions.get(params["sessionId"])
        if session is None:
            raise self.missing(params["sessionId"])
        return session

    def missing(self, id: Any) -> Refusal:
        return Refusal(-32002, {"sessionId": id})

    def options(self, session: Session) -> Any:
        values = [{"value": each, "name": each} for each in ("fast", "slow")]
        return [{"type": "select", "configId": "pace", "name": "Pace", "currentValue": session.pace, "options": values}]

    def serve_session_new(self, params: Any) -> Any:
        if not all(os.path.isabs(each) for each in self.folders(params)):
            raise Refusal(-32602)
        if any(not self.reaches(each) for each in params.get("mcpServers") or ()):
            raise Refusal(-32602)
        session = Session(self.new_id("s"), params["cwd"])
        self.sessions[session.id] = session
        return {"sessionId": session.id, "configOptions": self.options(session)}

    def folders(self, params: Any) -> list[str]:
        return [params["cwd"], *(params.get("additionalDirectories") or ())]

    def reaches(self, server: Any) -> bool:
        return server["type"] == "stdio"

    def serve_session_list(self, params: Any) -> Any:
        there = [*self.sessions.values(), *self.closed.values()]
        if (cwd := params.get("cwd")) is not None:
            there = [each for each in there if each.cwd == cwd]
        begin = self.place(params.get("cursor") or "0")
        found: dict[str, Any] = {"sessions": [self.listed(each) for each in there[begin : begin + PAGE]]}
        if begin + PAGE < len(there):
            found["nextCursor"] = self.cursor(begin + PAGE)
        return found

    def listed(self, session: Session) -> Any:
        return {"sessionId": session.id, "cwd": session.cwd}

    def cursor(self, begin: int) -> str:
        return str(begin)

    def place(self, cursor: str) -> int:
        if not cursor.isdecimal():
            raise Refusal(-32602)
        return int(cursor)

    def serve_session_set_config_option(self, params: Any) -> Any:
        session = self.known(params)
        if params["configId"] != "pace" or params["type"] != "id" or params["value"] not in ("fast", "slow"):
            raise Refusal(-32602)
        session.pace = params["value"]
        return {"configOptions": self.options(session)}

    def serve_session_resume(self, params: Any) -> Any:
        cursor = params.get("replayFrom")
        if cursor is not None and cursor.get("type") != "start":
            raise Refusal(-32602)
        id = params["sessionId"]
        session = self.sessions.get(id) or self.closed.pop(id, None)
        if session is None:
            raise self.missing(id)
        self.sessions[id] = session
        history, session.history = session.history, []
        if cursor is None:
            session.history = history
        else:
            self.replay(session, history)
        self.state(session, "running" if session.turn else "idle")
        return {"configOptions": self.options(session)}

    def replay(self, session: Session, history: list[dict[str, Any]]) -> None:
        for update in history:
            self.tell(session, update["sessionUpdate"], **{k: v for k, v in update.items() if k != "sessionUpdate"})

    def serve_session_close(self, params: Any) -> Any:
        if session := self.sessions.get(params["sessionId"]):
            self.end_of(session)
            self.closed[session.id] = self.sessions.pop(session.id)
        return {}

    def serve_session_delete(self, params: Any) -> Any:
        self.serve_session_close(params)
        self.closed.pop(params["sessionId"], None)
        return {}

    def end_of(self, session: Session) -> None:
        """What a close ends before it is answered."""
        self.cancel(session)

    # What sessions do.

    def prompt(self, id: Any, params: Any) -> None:
        """A prompt arrives."""
        raise NotImplementedError

    def cancel(self, session: Session) -> None:
        """The work of a session is cancelled, and what it holds."""
        raise NotImplementedError

    def withdraw(self, id: Any) -> None:
        """A request of the client is withdrawn."""
        raise NotImplementedError

    def answered(self, id: Any, message: Any) -> None:
        """The client has answered a request."""
        raise NotImplementedError
