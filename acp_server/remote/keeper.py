"""`KeptAgent`: an agent in a process, for one client after the other. What it does goes on while none is there.

The agent sees one client that never leaves. Requests get ids of their own, and later clients are answered `initialize`
as the first one was. What the agent has asked and no client has answered is asked of the next one. What it says of
sessions meanwhile is what `session/load` brings back.
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
from acp_server.remote.labels import Key, failure, key_of
from acp_server.remote.routing import is_state
from acp_server.wire import codec
from acp_server.wire.framing import LineFramer, TooLong
from acp_server.wire.state_machine import CANCEL_METHOD

logger: logging.Logger = logging.getLogger("acp_server.remote")

_MOST_ASKED: Final = 10_000
_FIRST: Final = 60.0
_OURS: Final = "keep-"
_GONE: Final = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError)


class KeptAgent(Servable):
    """`agent`: the stream to its process. `longest`: bytes of one of its lines. Run `run` beside the clients."""

    def __init__(self, agent: Stream, longest: int) -> None:
        self._agent = agent
        self._framer = LineFramer(longest)
        self._ids = itertools.count()
        self._client: _Client | None = None
        self._greeting: dict[str, Any] | None = None
        """The answer to the first `initialize`."""
        self._under_way: dict[str, tuple[_Client, Any, str]] = {}
        """Requests to the agent, by our ids: whose they are, their own ids, and their methods."""
        self._asked: dict[Key, bytes] = {}
        """What the agent asks and is not answered."""
        self._busy: dict[str, None] = {}
        """Sessions of version 2 whose turns run: there the response to a prompt does not wait for its turn."""
        self.has_met: bool = False
        """Whether a client has come."""
        self.is_over: bool = False
        self.changed: anyio.Event = anyio.Event()
        """Set when a client has come or gone, or a request has begun or ended; then replaced."""

    @property
    def is_idle(self) -> bool:
        """Whether there is no client, and nothing that the agent does for one."""
        return self._client is None and not self._under_way and not self._busy

    def connect(self, stream: Stream, limits: Limits | None = None) -> Connection:
        """See `Servable`. A client takes the place of the one before."""
        return cast("Connection", _Client(self, stream))

    def interrupt(self, connection: Connection) -> bool:
        """See `Servable`. There are no signals here."""
        return False

    async def run(self) -> None:
        """Hand on what the agent says, until it ends."""
        try:
            while data := await self._agent.receive():
                for line in self._framer.feed(data):
                    if isinstance(line, TooLong):
                        logger.warning("the agent has written a line that is too long; it is dropped")
                    elif line.strip():
                        await self._from_agent(bytes(line))
        except _GONE as error:
            logger.info("the agent is gone: %s", type(error).__name__)
        self.is_over = True
        self._stir()
        if self._client is not None:
            self._client.end()

    # -- for its clients

    async def come(self, client: _Client) -> None:
        """A client takes the place of the one before, which is gone then."""
        before, self._client = self._client, client
        self.has_met = True
        self._stir()
        if before is not None:
            before.end()
            await before.ended.wait()
        if self.is_over:
            client.end()

    def leave(self, client: _Client) -> None:
        """A client is gone. What it has asked goes on."""
        if self._client is client:
            self._client = None
        self._stir()

    async def take(self, client: _Client, line: bytes) -> None:
        """What a client says."""
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
            return  # It was answered before, by another client maybe.
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
    """One client, as `serve` has a connection."""

    def __init__(self, kept: KeptAgent, stream: Stream) -> None:
        self._kept = kept
        self._stream = stream
        self._scope = anyio.CancelScope()
        self._framer = LineFramer()
        self.ended: anyio.Event = anyio.Event()

    async def run(self) -> None:
        """Hand on what it says, until it is gone or another one has come."""
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
        """Say something to it, if it is there."""
        try:
            await self._stream.send(line + b"\n")
        except _GONE:
            self.end()

    def end(self) -> None:
        """It gets nothing more."""
        self._scope.cancel()


async def until_idle(kept: KeptAgent, seconds: float, then: Callable[[], object]) -> None:
    """Call `then` once the agent has had no client and nothing to do for so long, or is over. The first client may
    take a minute."""
    first = max(seconds, _FIRST)
    while not kept.is_over:
        changed = kept.changed
        with anyio.move_on_after((seconds if kept.has_met else first) if kept.is_idle else None) as patience:
            await changed.wait()
        if patience.cancelled_caught:
            break
    then()
