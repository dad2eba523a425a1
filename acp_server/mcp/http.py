"""Transports over HTTP (MCP, Transports: streamable HTTP and the older SSE): the official ones, within bounds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from acp_server.mcp.stdio import MESSAGE

if TYPE_CHECKING:
    from acp_server.schema.session import McpServerHttp, McpServerSse

_CONNECTING: Final = 30.0
"""Seconds to connect, and to be read by the server. How long an answer may take is the caller's matter: tools build."""


@asynccontextmanager
async def streamable(spec: McpServerHttp) -> AsyncGenerator[Any]:
    """Streamable HTTP."""
    transport = import_module("mcp.client.streamable_http")
    async with (
        _client(headers=_headers(spec)) as client,
        transport.streamable_http_client(spec.url, http_client=client, max_sse_event_size=MESSAGE) as streams,
    ):
        yield streams


@asynccontextmanager
async def sse(spec: McpServerSse) -> AsyncGenerator[Any]:
    """Server-sent events, and a request for each message."""
    transport = import_module("mcp.client.sse")
    async with transport.sse_client(
        spec.url, headers=_headers(spec), timeout=_CONNECTING, sse_read_timeout=None, httpx_client_factory=_client
    ) as streams:
        yield streams


def _headers(spec: McpServerHttp | McpServerSse) -> dict[str, str]:
    return {header.name: header.value for header in spec.headers}


def _client(headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
    httpx = import_module("httpx2")

    class Bounded(httpx.AsyncByteStream):
        """A body that is read whole, up to a bound."""

        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for data in self._stream:
                size += len(data)
                if size > MESSAGE:
                    raise httpx.StreamError(f"an answer of more than {MESSAGE} bytes")
                yield data

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def bound(response: Any) -> None:
        # What is packed may be any size unpacked, and it was not asked for.
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise httpx.StreamError("an answer in an encoding that was not asked for")
        # A stream of events goes on for as long as the session; there each event is bounded.
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = Bounded(response.stream)

    return httpx.AsyncClient(
        headers={**(headers or {}), "accept-encoding": "identity"},
        timeout=timeout or httpx.Timeout(_CONNECTING, read=None),
        auth=auth,
        event_hooks={"response": [bound]},
    )
