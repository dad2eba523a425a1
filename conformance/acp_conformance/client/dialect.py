"""The differences between the versions of the protocol on the agent's side, with a class for each version.

The classes give a message its form, so that a case for both versions is written once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from acp_conformance.core.case import not_applicable

if TYPE_CHECKING:
    from .conversation import Conversation, Message

INFO: Final = {"name": "conformance", "title": "Conformance suite", "version": "1"}

CASE_OF_ONE: Final = "the client does not ask for version 2"
"""Why no case of version 2 can be tried."""


class Dialect(Protocol):
    """One version of the protocol on the agent's side."""

    version: int
    capabilities: str
    """The member of `initialize` with the client's capabilities."""
    info: str
    """The member of `initialize` with the client's name."""
    agent_capabilities: str
    """The member of the response to `initialize` with the agent's capabilities."""
    session_capabilities: str
    """The member of the agent's capabilities about sessions."""

    def rule(self, name: str) -> str:
        """Return the name of a rule about messages. Each version has separate rules."""
        ...

    def hello(self, **fields: Any) -> dict[str, Any]:
        """Return the response to `initialize`, with `fields` added. None omits a field."""
        ...

    def asked(self, version: object) -> None:
        """End the case unless it applies to a client that requests this version."""
        ...

    async def begin_turn(self, conversation: Conversation, prompt: Message) -> None:
        """Begin the turn of a prompt."""
        ...

    async def end_turn(self, conversation: Conversation, prompt: Message, reason: str) -> None:
        """End the turn of the prompt."""
        ...

    def message(self, text: str) -> dict[str, Any]:
        """Return the update with a piece of the agent's message."""
        ...

    def call(self, call: str, **fields: Any) -> dict[str, Any]:
        """Return the update that begins a tool call."""
        ...

    def question(self, call: str, options: list[dict[str, str]]) -> dict[str, Any]:
        """Return the params of a permission request, without its session."""
        ...


class Version1:
    """Version 1, in which a prompt is answered when its turn ends."""

    version = 1
    capabilities = "clientCapabilities"
    info = "clientInfo"
    agent_capabilities = "agentCapabilities"
    session_capabilities = "sessionCapabilities"

    def rule(self, name: str) -> str:
        """Return the name unchanged."""
        return name

    def hello(self, **fields: Any) -> dict[str, Any]:
        """The response to `initialize`."""
        result = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": INFO, "authMethods": [], **fields}
        return _without_none(result)

    def asked(self, version: object) -> None:
        """See `Dialect.asked`. A client that requests a later version is answered version 1."""

    async def begin_turn(self, conversation: Conversation, prompt: Message) -> None:
        """Do nothing, because the prompt stays open."""

    async def end_turn(self, conversation: Conversation, prompt: Message, reason: str) -> None:
        """Answer the prompt."""
        await conversation.reply(prompt, {"stopReason": reason})

    def message(self, text: str) -> dict[str, Any]:
        """A chunk of text."""
        return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}

    def call(self, call: str, **fields: Any) -> dict[str, Any]:
        """A tool call."""
        return {"sessionUpdate": "tool_call", "toolCallId": call, "title": f"Run {call}", **fields}

    def question(self, call: str, options: list[dict[str, str]]) -> dict[str, Any]:
        """It is about a tool call."""
        return {"toolCall": {"toolCallId": call, "title": f"Run {call}", "status": "pending"}, "options": options}


class Version2:
    """The draft of version 2, in which a prompt is answered when it is in the conversation, and updates report its
    outcome."""

    version = 2
    capabilities = "capabilities"
    info = "info"
    agent_capabilities = "capabilities"
    session_capabilities = "session"

    def rule(self, name: str) -> str:
        """Return the name with the version."""
        return f"v2-{name}"

    def hello(self, **fields: Any) -> dict[str, Any]:
        """The response to `initialize`."""
        return _without_none({"protocolVersion": 2, "info": INFO, "capabilities": {"session": {}}, **fields})

    def asked(self, version: object) -> None:
        """See `Dialect.asked`. A client of version 1 is not judged."""
        if not isinstance(version, int) or isinstance(version, bool) or version < 2:
            not_applicable(CASE_OF_ONE)

    async def begin_turn(self, conversation: Conversation, prompt: Message) -> None:
        """Echo the message, answer the prompt, and report the state `running`."""
        id = self.message_of(prompt)
        content = prompt.param("prompt")
        await self._tell(conversation, prompt, {"sessionUpdate": "user_message", "messageId": id, "content": content})
        await conversation.reply(prompt, {"messageId": id})
        await self._tell(conversation, prompt, {"sessionUpdate": "state_update", "state": "running"})

    async def end_turn(self, conversation: Conversation, prompt: Message, reason: str) -> None:
        """Report the state `idle`."""
        idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": reason}
        await self._tell(conversation, prompt, idle)

    def message(self, text: str) -> dict[str, Any]:
        """A chunk of text, of one message."""
        content = {"type": "text", "text": text}
        return {"sessionUpdate": "agent_message_chunk", "messageId": "answer/ä", "content": content}

    def call(self, call: str, **fields: Any) -> dict[str, Any]:
        """The first patch of a tool call."""
        return {"sessionUpdate": "tool_call_update", "toolCallId": call, "title": f"Run {call}", **fields}

    def question(self, call: str, options: list[dict[str, str]]) -> dict[str, Any]:
        """It has a title, and a subject."""
        subject = {"type": "tool_call", "toolCall": {"toolCallId": call, "title": f"Run {call}", "status": "pending"}}
        return {"title": f"May I run {call}?", "subject": subject, "options": options}

    @staticmethod
    def message_of(prompt: Message) -> str:
        """Return the id of the message that a prompt becomes."""
        return f"user/{prompt.place}"

    async def _tell(self, conversation: Conversation, prompt: Message, update: dict[str, Any]) -> None:
        await conversation.notify("session/update", {"sessionId": prompt.param("sessionId"), "update": update})


def of(version: int) -> Dialect:
    """Return the dialect of a version."""
    return Version2() if version == Version2.version else Version1()


def _without_none(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if value is not None}
