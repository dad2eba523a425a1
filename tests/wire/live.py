"""A live connection whose other end is a test: raw bytes in, every line that comes out read strictly."""

import json
import math
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from acp_server.peer.call import Call, Route, Routes
from acp_server.peer.connection import Connection, Limits
from acp_server.testing.streams import MemoryStream, memory_pair

PATIENCE = 10.0
"""Seconds after which a test that waits for a line has failed. None ever waits that long."""


def strict(line: bytes) -> Any:
    """The value of one line, which must be UTF-8 JSON to the letter and a line to every reader of lines."""
    text = line.decode("utf-8")
    assert text.endswith("\n")
    assert not set("\n\r\u2028\u2029") & set(text[:-1])
    return json.loads(text, parse_constant=_refuse, parse_float=_finite)


def request(id: Any, method: str, params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method} | ({} if params is None else {"params": params})


def notification(method: str, params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})


def cancel(id: Any) -> dict[str, Any]:
    return notification("$/cancel_request", {"requestId": id})


class Peer:
    """The other end of a connection that is being served."""

    def __init__(self, connection: Connection, stream: MemoryStream) -> None:
        self.connection = connection
        self.raw = b""
        """Everything that has come out."""
        self._stream = stream
        self._unread = b""
        self._pings = 0

    def send(self, *messages: Any) -> None:
        """Put messages in front of the connection as one chunk; bytes as they are, everything else as JSON lines."""
        self._stream.send_nowait(
            b"".join(m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n" for m in messages)
        )

    def send_eof(self) -> None:
        self._stream.send_eof()

    async def next(self) -> Any:
        """The next line that comes out."""
        while b"\n" not in self._unread:
            data = await self._stream.receive()
            assert data, "the connection closed its output"
            self.raw += data
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        return strict(line + b"\n")

    async def answer(self, id: Any) -> Any:
        """The next line, which must be the answer to this id: its result, or its whole error object."""
        message = await self.next()
        assert message["jsonrpc"] == "2.0"
        assert message["id"] == id
        assert type(message["id"]) is type(id)
        return message["result"] if "result" in message else message["error"]

    async def ping(self) -> list[Any]:
        """A good request, which must work; what came out before its answer."""
        self._pings += 1
        id = f"ping {self._pings}"
        self.send(request(id, "ping"))
        before: list[Any] = []
        while (message := await self.next()) != {"jsonrpc": "2.0", "id": id, "result": "pong"}:
            before.append(message)
        return before

    async def rest(self) -> list[Any]:
        """What comes out until the connection closes its output."""
        while data := await self._stream.receive():
            self.raw += data
            self._unread += data
        lines, self._unread = self._unread.splitlines(keepends=True), b""
        return [strict(line) for line in lines]

    def assert_whole(self) -> None:
        """Whole lines only, no id answered twice except null, and nothing left in any table."""
        lines = [strict(line) for line in self.raw.splitlines(keepends=True)]
        answers = [m for line in lines for m in (line if isinstance(line, list) else [line]) if "method" not in m]
        twice = [id for id, count in Counter(json.dumps(m["id"]) for m in answers).items() if count > 1]
        assert set(twice) <= {"null"}
        ledger = self.connection.endpoint.ledger
        assert (
            len(self.connection.endpoint.incoming),
            ledger.outgoing,
            ledger.withdrawn,
            self.connection.tree.size,
        ) == (0, 0, 0, 0)


@asynccontextmanager
async def served(
    routes: Routes | None = None, limits: Limits | None = None, patience: float = PATIENCE
) -> AsyncIterator[Peer]:
    """A connection that answers `ping` and the given routes; closed by EOF and checked at the end."""
    here, there = memory_pair()
    routes = routes or Routes()
    routes.requests["ping"] = Route(_ping)
    peer = Peer(Connection(here, routes, limits or Limits(drain=0)), there)
    with anyio.fail_after(patience):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.connection.run)
            yield peer
            peer.send_eof()
            await peer.connection.wait_closed()
        await peer.rest()
    peer.assert_whole()


async def _ping(_call: Call) -> str:
    return "pong"


def _refuse(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    assert math.isfinite(float(digits))
    return float(digits)
