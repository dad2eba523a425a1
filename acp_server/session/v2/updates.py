"""Sends the `session/update` notifications of one session to a client of version 2 (ACP v2, updates, prompt lifecycle).

Messages have ids. Tool calls have a capability if the client can cancel them alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from acp_server.errors import EncodeError
from acp_server.session import updates as v1
from acp_server.session.v2 import forms
from acp_server.wire import codec

if TYPE_CHECKING:
    from acp_server.peer.peer import Peer
    from acp_server.session.negotiation import ClientProfile
    from acp_server.session.settings import Settings
    from acp_server.session.updates import ChunkKind
    from acp_server.store.records import TurnRecord

_CANCELLABLE: Final[dict[str, Any]] = {"cancel": {}}


class Speech:
    """Sends one turn's updates to the client. `turn_id`: also the id of the user's message.

    The ids of the agent's messages are numbered, so that a replay sends the same ids. A tool call ends a message, and
    so does a message of another kind.
    """

    def __init__(self, updates: Updates, turn_id: str | None = None) -> None:
        self._updates = updates
        self._turn_id = turn_id
        self._messages = 0
        self._kind: str | None = None
        """The kind of the present message; None without one."""
        self._message_id = ""
        self._prefix = b""
        self._calls: set[str] = set()
        """The ids of the tool calls that were sent."""
        self.offered: set[str] = set()
        """The tool calls that the client may cancel alone."""
        self.runs: Callable[[str], bool] = lambda _id: False
        """Returns whether a tool call is running in this agent, so that it can be cancelled alone."""
        self.on_calls: Callable[[], object] = lambda: None
        """Called when a tool call that can be cancelled alone has begun or ended."""

    def text(self, kind: ChunkKind, text: str) -> bytes:
        """See `acp_server.session.updates.Updates`."""
        if kind != self._kind or not self._prefix:
            self._prefix = b'{"sessionUpdate":"%b","messageId":%b,"content":{"type":"text","text":' % (
                kind.encode(),
                codec.encode_fragment(self._message(kind)),
            )
        fragment = codec.encode_fragment(text)
        self._updates.put(b"%b%b}}" % (self._prefix, fragment))
        return fragment

    def user_message(self, id: str, content: list[Any]) -> None:
        """Send a message of the user. Text that the agent sends after it is a new message."""
        self._kind = None
        self._updates.user_message(id, content)

    def send(self, update: dict[str, Any], meta: dict[str, Any] | None = None) -> bytes:
        """Send any update, given in the form of version 1. Returns its JSON in that form, for the store. An update that
        version 1 does not have is sent unchanged. `meta`: see `acp_server.session.updates.Updates.send`."""
        json = codec.encode(update)[:-1]
        running = len(self.offered)
        told = self._told(update)
        self._updates.put(json if told is update else codec.encode(told)[:-1], meta)
        if len(self.offered) != running:
            self.on_calls()
        return json

    def _told(self, update: dict[str, Any]) -> dict[str, Any]:
        match update.get("sessionUpdate"):
            case "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk" as kind:
                if update.get("messageId") is None:
                    return {**update, "messageId": self._message(kind)}
                self._kind = None
                return update
            case "tool_call" | "tool_call_update":
                return self._tool_call(update)
            case "plan":
                return forms.plan(update)
            case "available_commands_update":
                return forms.commands(update)
            case "config_option_update":
                told = forms.with_mode(self._updates.settings, update.get("configOptions", []))
                return {**update, "configOptions": told}
            case "current_mode_update":
                settings = self._updates.settings
                shown = [option.to_wire() for option in settings.offered()]
                told = forms.with_mode(settings, shown, update.get("currentModeId"))
                return {"sessionUpdate": "config_option_update", "configOptions": told}
            case _:
                return update

    def _message(self, kind: str) -> str:
        """Return the id of the message to which a chunk of this kind belongs."""
        if kind != self._kind:
            self._kind = kind
            self._prefix = b""
            if self._turn_id is None:
                # Messages outside of turns are not stored, so their ids need not be the same after a restart.
                self._turn_id = f"said_{os.urandom(8).hex()}"
            if kind == "user_message_chunk":
                self._message_id = self._turn_id
            else:
                self._messages += 1
                self._message_id = f"{self._turn_id}.{self._messages}"
        return self._message_id

    def _tool_call(self, update: dict[str, Any]) -> dict[str, Any]:
        told = forms.tool_call(update)
        id = told.get("toolCallId")
        if not isinstance(id, str):
            return told
        if id not in self._calls:
            self._calls.add(id)
            self._kind = None
            if self.runs(id):
                self.offered.add(id)
                told["capabilities"] = _CANCELLABLE
        if told.get("status") in forms.FINAL and id in self.offered:
            self.offered.discard(id)
            told["capabilities"] = None
        return told


class Updates(v1.Updates):
    """Sends one session's updates to its client. Updates outside of turns have a `Speech` in common."""

    __slots__ = ("_outside", "settings")

    def __init__(self, connection: Peer, profile: ClientProfile, session_id: str) -> None:
        super().__init__(connection, profile, session_id)
        self._outside: Final = Speech(self)
        self.settings: Settings
        """The settings of the session."""

    def of(self, turn: TurnRecord) -> Speech:
        """Return the `Speech` for the updates of one turn."""
        return Speech(self, turn.id)

    def replay(self) -> Updates:
        """See `acp_server.session.updates.Updates`."""
        return self.child(self._session_id)

    def child(self, session_id: str) -> Updates:
        """See `acp_server.session.updates.Updates`."""
        child = Updates(self._connection, self._profile, session_id)
        child.settings = self.settings
        child.open()
        return child

    def text(self, kind: ChunkKind, text: str) -> bytes:
        """See `acp_server.session.updates.Updates`."""
        return self._outside.text(kind, text)

    def send(self, update: dict[str, Any], meta: dict[str, Any] | None = None) -> bytes:
        """See `acp_server.session.updates.Updates`."""
        return self._outside.send(update, meta)

    def put(self, json: bytes, meta: dict[str, Any] | None = None) -> None:
        """Send an update that is in the form of version 2, without waiting."""
        self._put(b"%b%b%b}}\n" % (self._opening, json, b"" if meta is None else v1.beside(meta)))

    def user_message(self, id: str, content: list[Any]) -> None:
        """Send the user's message, which becomes part of the conversation."""
        message = {"sessionUpdate": "user_message", "messageId": id, "content": content}
        self.put(codec.encode(message)[:-1])

    def state(self, state: str, **more: Any) -> None:
        """Send the state of the session. `more`: for `idle`, how the turn ended."""
        update: dict[str, Any] = {**more, "sessionUpdate": "state_update", "state": state}
        try:
            json = codec.encode(update)
        except EncodeError:
            # The data of an author's error cannot be encoded. The reason of the end is more important.
            del update["error"]["data"]
            json = codec.encode(update)
        self.put(json[:-1])
