"""The `session/update` notifications of one session, to a client that speaks version 2 (ACP v2, prompt lifecycle)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from acp_server.errors import EncodeError
from acp_server.session import updates as v1
from acp_server.session.v2.speech import Speech
from acp_server.wire import codec

if TYPE_CHECKING:
    from acp_server.peer.peer import Peer
    from acp_server.session.negotiation import ClientProfile
    from acp_server.session.settings import Settings
    from acp_server.session.updates import ChunkKind
    from acp_server.store.records import TurnRecord


class Updates(v1.Updates):
    """The way from one session to its client. What is said in no turn has a speech of its own."""

    __slots__ = ("_outside", "settings")

    def __init__(self, connection: Peer, profile: ClientProfile, session_id: str) -> None:
        super().__init__(connection, profile, session_id)
        self._outside: Final = Speech(self)
        self.settings: Settings
        """What the session offers to be set."""

    def of(self, turn: TurnRecord) -> Speech:
        """The way for what is said in one turn."""
        return Speech(self, turn.id)

    def replay(self) -> Updates:
        """See `acp_server.session.updates.Updates`."""
        replay = Updates(self._connection, self._profile, self._session_id)
        replay.settings = self.settings
        replay.open()
        return replay

    def text(self, kind: ChunkKind, text: str) -> bytes:
        """See `acp_server.session.updates.Updates`."""
        return self._outside.text(kind, text)

    def send(self, update: dict[str, Any]) -> bytes:
        """See `acp_server.session.updates.Updates`."""
        return self._outside.send(update)

    def put(self, json: bytes) -> None:
        """Say an update, which is in the form of version 2 already. Never waits."""
        self._put(b"%b%b}}\n" % (self._opening, json))

    def user_message(self, id: str, content: list[Any]) -> None:
        """The user's message is part of the conversation from now on."""
        message = {"sessionUpdate": "user_message", "messageId": id, "content": content}
        self.put(codec.encode(message)[:-1])

    def state(self, state: Literal["running", "requires_action", "idle"], **more: Any) -> None:
        """What the session does at present. `more`: of an idle one, why it ended."""
        update: dict[str, Any] = {"sessionUpdate": "state_update", "state": state, **more}
        try:
            json = codec.encode(update)
        except EncodeError:
            # The data of an author's error. Why it ended is more important.
            del update["error"]["data"]
            json = codec.encode(update)
        self.put(json[:-1])
