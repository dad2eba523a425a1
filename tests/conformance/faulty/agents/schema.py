"""Faults in the shape of what is sent."""

from __future__ import annotations

from clean import Clean
from rpc import Json
from situations import Session


class UnknownUpdate(Clean):
    """Sends a kind of update that is not in the specification."""

    def chunk(self, kind: str, text: str) -> dict[str, Json]:
        return {**super().chunk(kind, text), "sessionUpdate": kind.replace("agent_message_chunk", "agent_says")}


class CamelUpdate(Clean):
    """Names its updates in camel case."""

    def chunk(self, kind: str, text: str) -> dict[str, Json]:
        camel = {"agent_message_chunk": "agentMessageChunk", "user_message_chunk": "userMessageChunk"}
        return {**super().chunk(kind, text), "sessionUpdate": camel[kind]}


class SnakeParams(Clean):
    """Names parameters in snake case."""

    def notify(self, method: str, params: Json) -> None:
        if method == "session/update":
            params = {"session_id": params["sessionId"], "update": params["update"]}
        super().notify(method, params)


class CancelledTool(Clean):
    """Gives a tool call the status `cancelled`."""

    def tool_update(self, session: Session, tool: str, **changes: Json) -> None:
        if changes.get("status") == "completed":
            changes["status"] = "cancelled"
        super().tool_update(session, tool, **changes)


class PlainText(Clean):
    """Sends a string where a content block belongs."""

    def chunk(self, kind: str, text: str) -> dict[str, Json]:
        return {"sessionUpdate": kind, "content": text}


class UntitledTool(Clean):
    """Reports a tool call without a title."""

    def update(self, session: Session, update: Json) -> None:
        update.pop("title", None)
        super().update(session, update)


class CamelMethod(Clean):
    """Calls a method by a name that the client does not have."""

    def ask(self, method: str, params: Json, late: Json = None) -> Json:
        return super().ask(method.replace("read_text_file", "readTextFile"), params, late)


class AsksAgentMethod(Clean):
    """Asks the client what only agents can be asked."""

    async def do_quick(self, session: Session) -> None:
        self.ask("session/prompt", {"sessionId": session.id, "prompt": []})


class NotifiesUnknown(Clean):
    """Sends a notification that is not in the specification."""

    async def do_quick(self, session: Session) -> None:
        self.notify("session/progress", {"sessionId": session.id, "percent": 50})


class PositionalParams(Clean):
    """Sends the parameters of an update as an array."""

    def notify(self, method: str, params: Json) -> None:
        super().notify(method, list(params.values()) if method == "session/update" else params)


class CapabilityAsText(Clean):
    """Announces a capability as a string."""

    def capabilities(self) -> dict[str, Json]:
        return {**super().capabilities(), "loadSession": "yes"}


class AuthAsText(Clean):
    """Lists ways to authenticate that are strings."""

    async def initialize(self, request: Json) -> Json:
        return {**await super().initialize(request), "authMethods": ["api-key"]}
