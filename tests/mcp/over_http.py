"""An MCP server on loopback by hand, over each way of HTTP, whose answer to one method is any bytes.

`json` and `events` are Streamable HTTP, with an answer as JSON and as server-sent events; `sse` is the older transport.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

Way = Literal["json", "events", "sse"]


class OddServer:
    """`odd`: the answer to `method`, with `ID` in the place of its id."""

    def __init__(self, way: Way, method: str, odd: bytes) -> None:
        self._way = way
        self._method = method
        self._odd = odd
        self._events: SocketStream | None = None

    def _answer(self, request: dict[str, Any]) -> bytes:
        id, method = request["id"], request["method"]
        if method == self._method:
            return self._odd.replace(b"ID", str(id).encode())
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "raw", "version": "1"},
            },
            "tools/list": {
                "tools": [
                    {"name": "run", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
                ]
            },
        }
        if method in results:
            return json.dumps({"jsonrpc": "2.0", "id": id, "result": results[method]}).encode()
        error = {"code": -32601, "message": "Method not found"}
        return json.dumps({"jsonrpc": "2.0", "id": id, "error": error}).encode()

    async def serve(self, stream: SocketStream) -> None:
        """One connection."""
        reader = BufferedByteReceiveStream(stream)
        try:
            async with stream:
                while True:
                    head = (await reader.receive_until(b"\r\n\r\n", 65_536)).decode("latin-1")
                    fields = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:] if line)
                    body = await reader.receive_exactly(int(fields.get("content-length", 0)))
                    await self._respond(stream, head.split(" ", 1)[0], body)
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the client is gone

    async def _respond(self, stream: SocketStream, verb: str, body: bytes) -> None:
        if verb == "GET" and self._way == "sse":
            await stream.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            await stream.send(b"event: endpoint\ndata: /messages\n\n")
            self._events = stream
            return
        request = json.loads(body) if verb == "POST" else {}
        if "id" not in request or "method" not in request:
            await stream.send(_response(202 if verb == "POST" else 405, "text/plain", b""))
            return
        answer = self._answer(request)
        event = b"event: message\ndata: " + answer + b"\n\n"
        if self._way == "json":
            await stream.send(_response(200, "application/json", answer))
        elif self._way == "events":
            await stream.send(_response(200, "text/event-stream", event))
        else:
            await stream.send(_response(202, "text/plain", b""))
            assert self._events is not None
            await self._events.send(event)


def _response(status: int, kind: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %d .\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (
        status,
        kind.encode(),
        len(body),
        body,
    )


@asynccontextmanager
async def odd_server(way: Way, method: str, odd: bytes) -> AsyncGenerator[dict[str, Any]]:
    """Run it: how a client names it."""
    server = OddServer(way, method, odd)
    async with anyio.create_task_group() as group:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        group.start_soon(listener.serve, server.serve)
        port = listener.extra(SocketAttribute.local_port)
        kind, path = ("sse", "sse") if way == "sse" else ("http", "mcp")
        yield {"type": kind, "name": "raw", "url": f"http://127.0.0.1:{port}/{path}", "headers": []}
        group.cancel_scope.cancel()
    await listener.aclose()
