"""`connect_http`, `connect_ws` and `connect_url`: a `RemoteAgent` that is at the other end of a network.

    async with connect_http("https://agents.example.org/acp", handlers, token=token) as agent:
        await agent.initialize()

It is used like an agent that was started here. The line is made with the first message, and what is wrong with it is
said by the error of what was asked.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from functools import partial
from http.cookiejar import CookieJar
from typing import Protocol

from acp_server.client.handlers import Handlers
from acp_server.client.remote import RemoteAgent
from acp_server.client.turn import CANCEL_SECONDS
from acp_server.errors import ConnectionClosed
from acp_server.peer.limits import Limits
from acp_server.peer.stream import Stream
from acp_server.remote.address import Address, address_of, headers_of, is_websocket
from acp_server.remote.settings import Backoff, ClientLimits


class RemoteStream(Stream, Protocol):
    """A stream that knows why it has ended."""

    problem: str | None
    """Why, in words; None while it goes on, or if it was closed here."""


class Distant:
    """An agent on another machine, see `acp_server.client.source.Source`. Each start is a connection of its own."""

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


def connect_http(
    url: str,
    handlers: Handlers | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    token: str | None = None,
    verify: ssl.SSLContext | bool = True,
    cookies: CookieJar | None = None,
    limits: Limits | None = None,
    bounds: ClientLimits | None = None,
    backoff: Backoff | None = None,
    cancel_timeout: float | None = CANCEL_SECONDS,
) -> RemoteAgent:
    """The agent at `url` over Streamable HTTP, in an `async with` block or from `start` to `aclose`.

    `token` is sent as a bearer's, and `headers` with each request; no other server gets them, for no redirect is
    followed. `verify` is a context with certificates, also with one of the client's; False trusts any server.
    `cookies` are kept and returned; a jar of your own keeps them from one connection to the next. Proxies are those
    of the environment. `bounds` and `backoff` are those of the line, and `limits` those of what it carries.

    Raises UsageError for an address or a header that cannot be one. A server that cannot be reached, or a line that is
    lost, is a ConnectionClosed of what was asked, which says why.
    """
    line = stream_to(url, False, headers, token, verify, cookies, bounds, backoff)
    return RemoteAgent(Distant(line), handlers or Handlers(), limits, cancel_timeout)


def connect_ws(
    url: str,
    handlers: Handlers | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    token: str | None = None,
    verify: ssl.SSLContext | bool = True,
    cookies: CookieJar | None = None,
    limits: Limits | None = None,
    bounds: ClientLimits | None = None,
    backoff: Backoff | None = None,
    cancel_timeout: float | None = CANCEL_SECONDS,
) -> RemoteAgent:
    """The same over one WebSocket. For the arguments see `connect_http`."""
    line = stream_to(url, True, headers, token, verify, cookies, bounds, backoff)
    return RemoteAgent(Distant(line), handlers or Handlers(), limits, cancel_timeout)


def connect_url(
    url: str,
    handlers: Handlers | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    token: str | None = None,
    verify: ssl.SSLContext | bool = True,
    limits: Limits | None = None,
) -> RemoteAgent:
    """The agent at an address of either kind: WebSocket for `ws://`, `wss://` and `unix:PATH`, else HTTP."""
    line = stream_to(url, is_websocket(url), headers, token, verify)
    return RemoteAgent(Distant(line), handlers or Handlers(), limits)


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
    """What opens a stream to the agent at `url`, to be called in an event loop. Raises UsageError."""
    address = address_of(url)
    checked = headers_of(headers, token, address)
    return partial(_open, address, checked, verify, cookies, bounds or ClientLimits(), backoff or Backoff(), websocket)


def _open(
    address: Address,
    headers: Mapping[str, str],
    verify: ssl.SSLContext | bool,
    cookies: CookieJar | None,
    bounds: ClientLimits,
    backoff: Backoff,
    websocket: bool,
) -> RemoteStream:
    # Not at the top: who only asks for help, or serves, needs none of it.
    from acp_server.remote.exchange import Exchanges

    exchanges = Exchanges(address, headers, verify=verify, cookies=cookies, http2=not websocket)
    if websocket:
        from acp_server.remote.ws_client import WebSocketStream

        return WebSocketStream(exchanges, bounds, backoff)
    from acp_server.remote.http_client import HttpStream

    return HttpStream(exchanges, bounds, backoff)
