"""`KeptAgent` is an agent process for one client after the other. Its work continues while no client is connected.

The agent sees one client that never leaves. Each request gets a new id. A later client gets the first response to
`initialize`, and the requests of the agent that no client has answered. While there is no client, other messages are
dropped, because `session/load` replays the updates of a session.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import Any, Final, cast

import anyio

from acp_server.agent.serve import Servable
from acp_server.peer.connection import Connection
from acp_server.peer.limits import Limits
from acp_server.peer.stream import Stream
from acp_server.remote.labels import Key, as_line, failure, key_of
from acp_server.remote.routing import is_state
from acp_server.wire import codec
from acp_server.wire.framing import LineFramer, TooLong
from acp_server.wire.state_machine import CANCEL_METHOD

logger: logging.Logger = logging.getLogger("acp_server.remote")

_MOST_ASKED: Final = 10_000
"""The most unanswered requests of the agent that are kept; the oldest is forgotten first."""
_FIRST: Final = 60.0
"""The least number of seconds that the first client has to connect."""
_OURS: Final = "keep-"
"""The prefix of the ids that the agent sees."""
_GONE: Final = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError)


class KeptAgent(Servable):
    """Serves clients from one agent process. Run `run` in a task beside the clients.

    `agent`: the stream of the process. `longest`: the most bytes of one of its lines.
    """

    def __init__(self, agent: Stream, longest: int) -> None:
        self._agent = agent
        self._framer = LineFramer(longest)
        self._ids = itertools.count()
        self._client: _Client | None = None
        self._greeting: dict[str, Any] | None = None
        """The first successful response to `initialize`."""
        self._under_way: dict[str, tuple[_Client, Any, str]] = {}
        """The in-flight requests to the agent, by the ids that the agent sees. Each has the client, the client's id,
        and the method."""
        self._asked: dict[Key, bytes] = {}
        """Unanswered requests of the agent, as lines."""
        self._busy: dict[str, None] = {}
        """The sessions of version 2 with a running turn. In version 2 the response to a prompt does not wait for the
        turn."""
        self.has_met: bool = False
        """Whether a client has connected."""
        self.is_over: bool = False
        """Whether the agent has ended."""
        self.changed: anyio.Event = anyio.Event()
        """Set when a client comes or leaves, a request or turn begins or ends, or the agent ends. Then a new event
        replaces it."""

    @property
    def is_idle(self) -> bool:
        """Whether there is no client, no in-flight request, and no running turn of version 2."""
        return self._client is None and not self._under_way and not self._busy

    def connect(self, stream: Stream, limits: Limits | None = None) -> Connection:
        """See `Servable`. The new client replaces the previous client."""
        return cast("Connection", _Client(self, stream))

    def interrupt(self, connection: Connection) -> bool:
        """See `Servable`. Signals are not handled here."""
        return False

    async def run(self) -> None:
        """Forward the agent's messages to the client until the agent ends."""
        try:
            while data := await self._agent.receive():
                for line in self._framer.feed(data):
                    if isinstance(line, TooLong):
                        logger.warning("dropped a line of the agent that exceeds the limit")
                    elif line.strip():
                        # Carriage returns and spaces between values are JSON, but end a line of an event stream.
                        await self._from_agent(as_line(bytes(line)).strip())
        except _GONE as error:
            logger.info("lost the connection to the agent: %s", type(error).__name__)
        self.is_over = True
        self._stir()
        if self._client is not None:
            self._client.end()

    # -- for its clients

    async def come(self, client: _Client) -> None:
        """Replace the client, and wait until the previous client has ended."""
        before, self._client = self._client, client
        self.has_met = True
        self._stir()
        if before is not None:
            before.end()
            await before.ended.wait()
        if self.is_over:
            client.end()

    def leave(self, client: _Client) -> None:
        """Record that a client has left. Its requests continue."""
        if self._client is client:
            self._client = None
        self._stir()

    async def take(self, client: _Client, line: bytes) -> None:
        """Forward a client's line to the agent. The `initialize` of a later client and invalid JSON are answered here
        instead."""
        try:
            message: Any = codec.decode(line)
        except codec.DecodeError:
            message = None
        if not isinstance(message, dict):
            await client.tell(failure(None, "not a message of JSON-RPC that can be kept", code=-32600))
            return
        said = cast("dict[str, Any]", message)
        method, id = said.get("method"), said.get("id")
        if "method" in said and "id" in said:
            if method == "initialize" and self._greeting is not None:
                await client.tell(codec.encode({**self._greeting, "id": id}).rstrip(b"\n"))
                for question in [*self._asked.values()]:
                    await client.tell(question)
                return
            own = f"{_OURS}{next(self._ids)}"
            self._under_way[own] = client, id, str(method)
            said["id"] = own
        elif method == CANCEL_METHOD and isinstance(params := said.get("params"), dict):
            self._withdraw(client, cast("dict[str, Any]", params))
        elif "method" not in said and self._asked.pop(key_of(id), None) is None:
            return  # Another client may have answered the request before.
        self._stir()
        await self._agent.send(codec.encode(said).rstrip(b"\n") + b"\n")

    # -- inside

    def _withdraw(self, client: _Client, params: dict[str, Any]) -> None:
        wanted = key_of(params.get("requestId"))
        for own, (whose, id, _) in self._under_way.items():
            if whose is client and key_of(id) == wanted:
                params["requestId"] = own

    async def _from_agent(self, line: bytes) -> None:
        try:
            message: Any = codec.decode(line)
        except codec.DecodeError:
            return
        if not isinstance(message, dict):
            return
        said = cast("dict[str, Any]", message)
        if "method" in said:
            self._note(said, line)
        elif (found := self._under_way.pop(str(said.get("id")), None)) is not None:
            client, id, method = found
            self._stir()
            said["id"] = id
            if method == "initialize" and "result" in said and self._greeting is None:
                self._greeting = {**said}
            if client is self._client:
                await client.tell(codec.encode(said).rstrip(b"\n"))
            return
        if self._client is not None:
            await self._client.tell(line)

    def _note(self, said: dict[str, Any], line: bytes) -> None:
        if "id" in said:
            self._asked[key_of(said["id"])] = line
            if len(self._asked) > _MOST_ASKED:
                del self._asked[next(iter(self._asked))]
        elif is_state(line, said):
            self._note_state(said["params"])
        elif said.get("method") == CANCEL_METHOD and isinstance(params := said.get("params"), dict):
            self._asked.pop(key_of(cast("dict[str, Any]", params).get("requestId")), None)

    def _note_state(self, params: dict[str, Any]) -> None:
        session = str(params.get("sessionId"))
        if params["update"].get("state") == "idle":
            self._busy.pop(session, None)
        else:
            self._busy[session] = None
            if len(self._busy) > _MOST_ASKED:
                del self._busy[next(iter(self._busy))]
        self._stir()

    def _stir(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


class _Client:
    """One client, with the methods that `serve` needs of a `Connection`."""

    def __init__(self, kept: KeptAgent, stream: Stream) -> None:
        self._kept = kept
        self._stream = stream
        self._scope = anyio.CancelScope()
        self._framer = LineFramer()
        self.ended: anyio.Event = anyio.Event()

    async def run(self) -> None:
        """Forward the client's lines until it leaves, another client replaces it, or the agent ends."""
        try:
            with self._scope:
                await self._kept.come(self)
                while data := await self._stream.receive():
                    for line in self._framer.feed(data):
                        if isinstance(line, TooLong):
                            await self.tell(failure(None, "the message is longer than a line may be", code=-32600))
                        elif line.strip():
                            await self._kept.take(self, bytes(line))
        finally:
            self._kept.leave(self)
            try:
                await self._stream.aclose()
            finally:
                self.ended.set()

    async def tell(self, line: bytes) -> None:
        """Send a line to the client. If the client is gone, end it."""
        try:
            await self._stream.send(line + b"\n")
        except _GONE:
            self.end()

    def end(self) -> None:
        """End the client's `run`."""
        self._scope.cancel()


async def until_idle(kept: KeptAgent, seconds: float, then: Callable[[], object]) -> None:
    """Call `then` once the agent was idle for `seconds` or has ended. The first client has at least a minute."""
    first = max(seconds, _FIRST)
    while not kept.is_over:
        changed = kept.changed
        with anyio.move_on_after((seconds if kept.has_met else first) if kept.is_idle else None) as patience:
            await changed.wait()
        if patience.cancelled_caught:
            break
    then()
