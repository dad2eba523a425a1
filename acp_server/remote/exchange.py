"""`Exchanges` sends HTTP requests to one address, with headers, cookies, certificates and a limit on response bodies.

Redirects are not followed, because the other server would get the token and the message.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from http.cookiejar import CookieJar
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import httpx

from acp_server.remote.address import Address
from acp_server.safe_text import one_line
from acp_server.tasks.grace import grace

NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
"""Errors that mean that the server has received nothing of the request."""

_CONNECT: Final = 10.0
"""Seconds that connecting may take."""
_STALLED: Final = 60.0
"""Seconds that one write may wait for the server to read."""
_KEPT: Final = 2.0
"""Seconds for which an idle connection is kept for reuse. Other servers close an idle connection after five seconds,
and a message that is sent at that moment is lost."""
_COOKIES: Final = 64
"""The most cookies. Each response may add some, and each request carries all of them."""
_EXCUSE: Final = 8 * 1024
"""The most bytes that are read of the body of a refusal."""
_LEAVING: Final = 1.0
"""Seconds that closing a response may take, even when cancelled."""


class TooManyCookies(Exception):
    """Raised if the server has set more cookies than the limit."""


class Exchanges:
    """Sends requests to `address` and keeps cookies. Create it in the event loop that uses it."""

    def __init__(
        self,
        address: Address,
        headers: Mapping[str, str],
        *,
        verify: ssl.SSLContext | bool,
        cookies: CookieJar | None,
        http2: bool,
    ) -> None:
        transport = None if address.socket is None else httpx.AsyncHTTPTransport(uds=address.socket)
        if not address.url.startswith("https:"):
            # Without TLS the certificates are not needed, and loading them is slow.
            verify = False
        self.address = address
        self._client = httpx.AsyncClient(
            # No compression: a small body could unpack to more than the bound.
            headers={**headers, "Accept-Encoding": "identity"},
            cookies=cookies,
            verify=verify,
            http2=http2,
            transport=transport,
            timeout=httpx.Timeout(None, connect=_CONNECT, write=_STALLED),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=_KEPT),
        )

    @asynccontextmanager
    async def open(
        self, method: str, headers: Mapping[str, str], content: bytes | None = None
    ) -> AsyncGenerator[httpx.Response]:
        """Send a request, and yield the response, whose body is not read yet.

        Raises httpx.TransportError and TooManyCookies.
        """
        request = self._client.build_request(method, self.address.url, headers=headers, content=content)
        response = await self._client.send(request, stream=True)
        try:
            if len(self._client.cookies.jar) > _COOKIES:
                raise TooManyCookies
            yield response
        finally:
            with grace(_LEAVING):
                await response.aclose()

    async def ask(
        self, method: str, headers: Mapping[str, str], content: bytes | None = None, *, most: int = _EXCUSE
    ) -> tuple[httpx.Response, bytes]:
        """Send a request. Returns the response and the beginning of its body (see `body_of`).

        `most` limits the body of a 200. Of any other response at most 8 KiB are read. Raises like `open`.
        """
        async with self.open(method, headers, content) as response:
            return response, await body_of(response, most if response.status_code == HTTPStatus.OK else _EXCUSE)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.aclose()


async def body_of(response: httpx.Response, most: int) -> bytes:
    """Return the beginning of a body: up to `most` bytes, and one byte more if the body is longer, so that the caller
    can see that."""
    body = bytearray()
    # A cancel ends the iteration, so that the generators of httpx close in order, on trio too.
    with anyio.CancelScope() as scope:
        async for piece in response.aiter_raw():
            body += piece[: most + 1 - len(body)]
            if len(body) > most:
                scope.cancel()
    return bytes(body)


def refusal(response: httpx.Response, body: bytes, address: Address) -> str:
    """Return a sentence that says why a request was refused, with the beginning of `body`. If the refusal is a
    redirect, only the scheme and host of its target are named, because the path may hold secrets."""
    status = response.status_code
    if 300 <= status < 400:
        parts = urlsplit(str(response.headers.get("location", "")))
        where = one_line(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", 200) if parts.netloc else "elsewhere"
        return f"{address.name} redirects to {where} (status {status}), which is not followed"
    why = {
        401: "requires a valid token",
        403: "does not admit this client",
        404: "does not know the connection or the path",
        406: "does not send server-sent events",
        409: "has lost messages of the stream, or has another reader of it",
        410: "has ended the connection",
    }.get(status, "refused a message")
    text = one_line(body.decode(errors="replace"), 200).strip()
    return f"{address.name} {why} (status {status}{': ' + text if text else ''})"


def because(error: BaseException) -> str:
    """Return the text of a transport error for messages: its type and its message on one line."""
    text = one_line(str(error), 200).strip()
    kind: Any = type(error).__name__
    return f"{kind}: {text}" if text else kind
