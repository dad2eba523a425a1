"""Keeps the owners of sessions when several principals share one agent, because a session's id is not a credential.

For a principal, another principal's session looks like a session that does not exist, because its id is replaced by a
random id before the agent sees it. A list of sessions contains the principal's sessions only.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Any, Final, cast

from acp_server.peer.shares import Share
from acp_server.peer.stream import LanedStream
from acp_server.remote.routing import session_in
from acp_server.wire import codec

_MOST_OWNED: Final = 100_000
"""The most sessions whose owner is remembered. The session that its owner has not named for the longest time is
forgotten first."""
_MOST_PENDING: Final = 100_000
"""The most unanswered requests that are remembered per connection. The oldest is forgotten first."""
_MAKING: Final = frozenset({"session/new", "session/fork"})


class Owners:
    """The principals that own the sessions. A session that was not created here, for example before a restart, has no
    owner."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, str | None] = OrderedDict()

    def note(self, session: str, principal: str | None) -> None:
        """Record that a session was created for a principal. The first owner of an id is kept."""
        self._of.setdefault(session, principal)
        if len(self._of) > _MOST_OWNED:
            self._of.popitem(last=False)

    def may(self, session: str, principal: str | None) -> bool:
        """Whether `principal` owns the session."""
        if session not in self._of or self._of[session] != principal:
            return False
        self._of.move_to_end(session)
        return True


class OwnedStream:
    """The stream of a connection of `principal`, which hides the sessions of other principals."""

    def __init__(self, stream: LanedStream, owners: Owners, principal: str | None, share: Share) -> None:
        self._stream = stream
        self._owners = owners
        self._principal = principal
        self.share: Share = share
        """See `acp_server.peer.stream.SharingStream`."""
        self._held = b""
        """The beginning of a line whose end has not arrived."""
        self._asked: dict[tuple[type, Any], str] = {}
        """The methods of in-flight requests whose results name sessions, by the ids of the requests."""

    async def receive(self) -> bytes:
        """See `acp_server.peer.stream.Stream`."""
        while data := await self._stream.receive():
            lines = (self._held + data).split(b"\n")
            self._held = lines.pop()
            if lines:
                return b"\n".join([*map(self._incoming, lines), b""])
        return b""

    async def send(self, data: bytes) -> None:
        """See `acp_server.peer.stream.Stream`."""
        await self._stream.send(b"\n".join(map(self._outgoing, data.split(b"\n"))))

    def is_full(self, lane: str) -> bool:
        """See `acp_server.peer.stream.LanedStream`."""
        return self._stream.is_full(lane)

    async def room(self, lane: str) -> None:
        """See `acp_server.peer.stream.LanedStream`."""
        await self._stream.room(lane)

    async def aclose(self) -> None:
        """See `acp_server.peer.stream.Stream`."""
        await self._stream.aclose()

    def _incoming(self, line: bytes) -> bytes:
        try:
            value = codec.decode(line)
        except codec.DecodeError:
            return line  # The agent answers it with an error.
        # A list, since `any` of a generator would stop at the first message that is replaced.
        replaced = [self._replace(message) for message in _objects(value)]
        return codec.encode(value).rstrip(b"\n") if any(replaced) else line

    def _replace(self, message: dict[str, Any]) -> bool:
        method, id = message.get("method"), message.get("id")
        if isinstance(method, str) and isinstance(id, (int, str)) and (method in _MAKING or method == "session/list"):
            if len(self._asked) >= _MOST_PENDING:
                self._asked.pop(next(iter(self._asked)))
            self._asked[type(id), id] = method
        params: Any = message.get("params")
        session = session_in(params)
        if session is None or self._owners.may(session, self._principal):
            return False
        params["sessionId"] = secrets.token_hex(16)
        return True

    def _outgoing(self, line: bytes) -> bytes:
        if not self._asked or not line or b'"method"' in line[:40]:
            return line
        value = codec.decode(line)
        changed = [self._answer(message) for message in _objects(value)]
        return codec.encode(value).rstrip(b"\n") if any(changed) else line

    def _answer(self, message: dict[str, Any]) -> bool:
        id = message.get("id")
        if "method" in message or not isinstance(id, (int, str)):
            return False
        method = self._asked.pop((type(id), id), None)
        result = message.get("result")
        if method is None or not isinstance(result, dict):
            return False
        result = cast("dict[str, Any]", result)
        if method in _MAKING and (session := session_in(result)) is not None:
            self._owners.note(session, self._principal)
        elif isinstance(sessions := result.get("sessions"), list):
            own = [each for each in cast("list[Any]", sessions) if self._is_own(each)]
            result["sessions"] = own
            return True
        return False

    def _is_own(self, listed: Any) -> bool:
        session = session_in(listed)
        return session is not None and self._owners.may(session, self._principal)


def _objects(value: Any) -> list[dict[str, Any]]:
    """Return the messages of a line: one message, or the messages of a batch."""
    messages = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [message for message in messages if isinstance(message, dict)]
