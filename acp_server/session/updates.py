"""The `session/update` notifications of one session (ACP, Prompt Turn), in the order in which they are said.

Text chunks, of which there are many, are written around a prefix that is encoded once; that is twenty times cheaper
than building and dumping a model for each. It decides nothing about what may be said when: turns and sessions do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from acp_server.errors import SessionClosed
from acp_server.peer.peer import Peer
from acp_server.peer.writer import HIGH_WATER
from acp_server.wire import codec

if TYPE_CHECKING:
    from acp_server.session.negotiation import ClientProfile
    from acp_server.store.records import TurnRecord

ChunkKind: TypeAlias = Literal["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]

_NEEDS: Final = {"notice": "notices", "compaction_update": "compaction", "compaction_summary_chunk": "compaction"}
"""Kinds of update that only some clients understand, and what those announce under `clientCapabilities.session`."""


class Speech(Protocol):
    """The way from one turn to the client: those of the methods of `Updates` that a turn needs."""

    def text(self, kind: ChunkKind, text: str) -> bytes:
        """See `Updates.text`."""
        ...

    def send(self, update: dict[str, Any]) -> bytes:
        """See `Updates.send`."""
        ...

    @property
    def crowded(self) -> bool:
        """See `Updates.crowded`."""
        ...

    async def room(self) -> None:
        """See `Updates.room`."""
        ...


class Updates:
    """The way from one session to its client.

    Until `open` is called, what is said is kept back: a client must know a session before it hears of it. From `close`
    on it hears no more; saying something raises SessionClosed.
    """

    __slots__ = ("_connection", "_held", "_opening", "_prefixes", "_profile", "_put", "_session_id", "_writer")

    def __init__(self, connection: Peer, profile: ClientProfile, session_id: str) -> None:
        self._connection = connection
        self._profile = profile
        self._writer = connection.writer
        self._session_id = session_id
        self._opening: Final = (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":'
            % codec.encode_fragment(session_id)
        )
        self._prefixes: dict[ChunkKind, bytes] = {}
        self._held: list[bytes] = []
        self._put: Callable[[bytes], object] = self._held.append

    def open(self) -> None:
        """Let out what was kept back, and everything from now on."""
        for frame in self._held:
            self._writer.put(frame)
        self._held.clear()
        self._put = self._writer.put

    def close(self) -> None:
        """Let out nothing any more."""
        self._held.clear()
        self._put = self._refuse

    def replay(self) -> Updates:
        """A way around what is kept back: what is said again for a load reaches the client before the answer."""
        replay = Updates(self._connection, self._profile, self._session_id)
        replay.open()
        return replay

    def of(self, turn: TurnRecord) -> Speech:
        """The way for what is said in one turn."""
        return self

    def text(self, kind: ChunkKind, text: str) -> bytes:
        """Say a piece of text: its JSON. Never waits."""
        prefix = self._prefixes.get(kind)
        if prefix is None:
            prefix = self._prefixes[kind] = self._prefix(kind)
        fragment = codec.encode_fragment(text)
        self._put(b"%b%b}}}}\n" % (prefix, fragment))
        return fragment

    def send(self, update: dict[str, Any]) -> bytes:
        """Say any update, in its wire form: its JSON. Never waits. An update that this client does not understand is
        left out."""
        json = codec.encode(update)[:-1]
        need = _NEEDS.get(update.get("sessionUpdate", ""))
        if need is None or getattr(self._profile.capabilities.session, need, None) is not None:
            self._put(b"%b%b}}\n" % (self._opening, json))
        return json

    @property
    def crowded(self) -> bool:
        """Whether the client is behind with reading, so that a handler that says much should wait for `room`."""
        return self._writer.size > HIGH_WATER

    async def room(self) -> None:
        """Wait until the client has caught up. Raises ConnectionClosed."""
        await self._connection.send_room()

    def _refuse(self, _frame: bytes) -> None:
        raise SessionClosed(f"session {self._session_id} is closed")

    def _prefix(self, kind: ChunkKind) -> bytes:
        return b'%b{"sessionUpdate":"%b","content":{"type":"text","text":' % (self._opening, kind.encode())
