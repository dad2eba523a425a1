"""Keeps the state of a conversation between a client and its agent, so that a new process of the agent can continue it.

This module reads and writes nothing. It replaces the id of each request from the agent. Each process counts its request
ids from the beginning, so a response to an earlier process must not reach the next process.
"""

from __future__ import annotations

from itertools import count
from typing import Any, cast

from acp_server.wire.messages import Notification, Request, RequestId, Response, classify, is_request_id


class Conversation:
    """The conversation of one client with successive processes of the agent."""

    def __init__(self) -> None:
        self.initialize: Request | None = None
        """The last `initialize` request that was answered with a result."""
        self.offered: dict[str, Any] = {}
        """The result of that request."""
        self.login: Request | None = None
        """The `authenticate` request (version 2: `auth/login`), if the agent has accepted it."""
        self.sessions: dict[str, dict[str, Any]] = {}
        """The open sessions, each with the parameters that open it again."""
        self._open: dict[RequestId, Request] = {}
        self._asked: dict[RequestId, RequestId] = {}
        """The agent's requests that the client has not answered: the id of the agent, by the id that the client
        received."""
        self._withdrawn: set[RequestId] = set()
        """The requests of the agent that the agent has withdrawn. A late response is still forwarded."""
        self._ids = count(1)
        self._busy: set[str] = set()
        """Sessions of version 2 whose prompt was answered, and whose turn still runs."""

    @property
    def is_quiet(self) -> bool:
        """Whether no request of the client is open and no turn runs."""
        return not self._open and not self._busy

    def from_client(self, value: Any) -> Any:
        """Record a message or a batch; returns the message for the agent, or None for nothing."""
        if isinstance(value, list) and value:
            return [each for each in map(self._from_client, cast("list[Any]", value)) if each is not None] or None
        return self._from_client(value)

    def from_agent(self, value: Any) -> Any:
        """Record a message or a batch; returns the message for the client, or None for nothing."""
        if isinstance(value, list) and value:
            return [each for each in map(self._from_agent, cast("list[Any]", value)) if each is not None] or None
        return self._from_agent(value)

    def forget_process(self) -> tuple[list[RequestId], list[RequestId]]:
        """Record the end of the process. Returns the ids of the client's in-flight requests, and the ids of the
        requests to the client that the client has not answered and that were not withdrawn. None of them will be
        answered."""
        left, asked = list(self._open), [id for id in self._asked if id not in self._withdrawn]
        self._open.clear()
        self._asked.clear()
        self._withdrawn.clear()
        self._busy.clear()
        return left, asked

    def reopening(self, offered: dict[str, Any]) -> str | None:
        """Return the method that opens a session again with an agent that offers these capabilities; None if it has no
        such method.

        `session/resume` is preferred because it does not replay the history.
        """
        if offered.get("protocolVersion") != 1:
            return "session/resume"
        capabilities = _object(offered.get("agentCapabilities"))
        if _object(capabilities.get("sessionCapabilities")).get("resume") is not None:
            return "session/resume"
        return "session/load" if capabilities.get("loadSession") is True else None

    def _from_client(self, message: Any) -> Any:
        match classify(message):
            case Request() as request:
                self._open[request.id] = request
            case Response(id=id) if id is not None:
                if not is_request_id(id) or id not in self._asked:
                    return None  # a process that has ended wanted to know
                self._withdrawn.discard(id)
                return message | {"id": self._asked.pop(id)}
            case _:
                pass
        return message

    def _from_agent(self, message: Any) -> Any:
        match classify(message):
            case Request(id=id):
                number = next(self._ids)
                self._asked[number] = id
                return message | {"id": number}
            case Notification(method="$/cancel_request", params=dict() as params):
                known = [ours for ours, theirs in self._asked.items() if theirs == params.get("requestId")]
                if not known:
                    return None
                self._withdrawn.add(known[-1])
                return message | {"params": params | {"requestId": known[-1]}}
            case Notification(method="session/update", params=dict() as params):
                self._note_state(params)
            case Response(id=id, error=error) as answer if is_request_id(id):
                request = self._open.pop(id, None)
                if request is not None and error is None:
                    self._learn(request, _object(answer.result))
            case _:
                pass
        return message

    def _note_state(self, params: dict[str, Any]) -> None:
        update, session = _object(params.get("update")), params.get("sessionId")
        if update.get("sessionUpdate") == "state_update" and isinstance(session, str):
            # An unknown state is never idle (ACP v2, session states).
            (self._busy.discard if update.get("state") == "idle" else self._busy.add)(session)

    def _learn(self, request: Request, result: dict[str, Any]) -> None:
        params = _object(request.params)
        match request.method:
            case "initialize":
                self.initialize, self.offered = request, result
            case "authenticate" | "auth/login":
                self.login = request
            case "logout" | "auth/logout":
                self.login = None
            case "session/new" | "session/fork":
                self._opened(result.get("sessionId"), params)
            case "session/load" | "session/resume":
                self._opened(params.get("sessionId"), params)
            case "session/close" | "session/delete":
                self.sessions.pop(str(params.get("sessionId")), None)
            case _:
                pass

    def _opened(self, session: Any, params: dict[str, Any]) -> None:
        if isinstance(session, str):
            self.sessions[session] = params | {"sessionId": session}


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
