"""`connect_http`, `connect_ws` and `connect_url`: a `RemoteAgent` over a network.

    async with connect_http("https://agents.example.org/acp", handlers, token=token) as agent:
        await agent.initialize()

The agent is used like an agent in a child process. The first message opens the connection, so a failure to connect is
raised by that request.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from http.cookiejar import CookieJar
from typing import Any, Protocol, TypedDict, Unpack

from acp_server.client.handlers import Handlers
from acp_server.client.remote import RemoteAgent
from acp_server.client.turn import CANCEL_SECONDS
from acp_server.errors import ConnectionClosed
from acp_server.peer.limits import Limits
from acp_server.peer.stream import Stream
from acp_server.remote.address import address_of, headers_of, is_websocket
from acp_server.remote.settings import Backoff, ClientLimits


class RemoteStream(Stream, Protocol):
    """A stream that knows why it has ended."""

    problem: str | None
    """Why the stream has ended; None while it is open, or if this side closed it."""


class Distant:
    """An agent on another machine (see `acp_server.client.source.Source`). Each start opens a new connection."""

    can_start_anew = True

    def __init__(self, opening: Callable[[], RemoteStream]) -> None:
        self._open = opening
        self._stream: RemoteStream | None = None

    @property
    def process(self) -> None:
        """See `Source`."""

    async def start(self) -> Stream:
        """See `Source`."""
        await self.aclose()
        self._stream = self._open()
        return self._stream

    async def explain(self, error: ConnectionClosed) -> ConnectionClosed:
        """See `Source`."""
        problem = None if self._stream is None else self._stream.problem
        return error if problem is None else ConnectionClosed(error.method, problem)

    async def aclose(self) -> None:
        """See `Source`."""
        if self._stream is not None:
            await self._stream.aclose()


class RemoteOptions(TypedDict, total=False):
    """The optional arguments of `connect_http`, `connect_ws` and `connect_url`.

    headers: sent with each request. Redirects are not followed, so no other server gets them.
    token: a bearer token, sent with each request.
    verify: an SSL context, which may hold a client certificate; False trusts any server.
    cookies: pass a jar to keep the cookies of one connection for the next.
    limits: the limits of the JSON-RPC connection.
    bounds, backoff: the limits and the backoff of the transport.
    cancel_timeout (seconds): see `RemoteAgent`.
    """

    headers: Mapping[str, str] | None
    token: str | None
    verify: ssl.SSLContext | bool
    cookies: CookieJar | None
    limits: Limits | None
    bounds: ClientLimits | None
    backoff: Backoff | None
    cancel_timeout: float | None


def connect_http(url: str, handlers: Handlers | None = None, **options: Unpack[RemoteOptions]) -> RemoteAgent:
    """Return the agent at `url` over Streamable HTTP (a draft). Use it in an `async with` block, or from `start` to
    `aclose`.

    Proxies come from the environment. Raises UsageError for an invalid address or header. If the server cannot be
    reached, or the connection is lost, requests raise ConnectionClosed, which says why.
    """
    return _connect(url, False, handlers, **options)


def connect_ws(url: str, handlers: Handlers | None = None, **options: Unpack[RemoteOptions]) -> RemoteAgent:
    """Return the agent at `url` over one WebSocket (a draft). See `connect_http` for the errors."""
    return _connect(url, True, handlers, **options)


def connect_url(url: str, handlers: Handlers | None = None, **options: Unpack[RemoteOptions]) -> RemoteAgent:
    """Return the agent at `url`. `ws://`, `wss://` and `unix:PATH` are connected over WebSocket, `http://` and
    `https://` over HTTP. See `connect_http` for the errors."""
    return _connect(url, is_websocket(url), handlers, **options)


def _connect(
    url: str,
    websocket: bool,
    handlers: Handlers | None,
    *,
    limits: Limits | None = None,
    cancel_timeout: float | None = CANCEL_SECONDS,
    **transport: Any,
) -> RemoteAgent:
    opening = stream_to(url, websocket, **transport)
    return RemoteAgent(Distant(opening), handlers or Handlers(), limits, cancel_timeout)


def stream_to(
    url: str,
    websocket: bool,
    headers: Mapping[str, str] | None = None,
    token: str | None = None,
    verify: ssl.SSLContext | bool = True,
    cookies: CookieJar | None = None,
    bounds: ClientLimits | None = None,
    backoff: Backoff | None = None,
) -> Callable[[], RemoteStream]:
    """Return a function that opens a stream to the agent at `url`. Call it in an event loop. Raises UsageError."""
    address = address_of(url)
    checked = headers_of(headers, token, address)

    def opening() -> RemoteStream:
        # Imported here, because `--help` and servers do not need httpx.
        from acp_server.remote.exchange import Exchanges

        exchanges = Exchanges(address, checked, verify=verify, cookies=cookies, http2=not websocket)
        settings = (exchanges, bounds or ClientLimits(), backoff or Backoff())
        if websocket:
            from acp_server.remote.ws_client import WebSocketStream

            return WebSocketStream(*settings)
        from acp_server.remote.http_client import HttpStream

        return HttpStream(*settings)

    return opening
