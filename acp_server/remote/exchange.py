"""Requests of HTTP to one address: headers, cookies, certificates, and how much of an answer is read.

No redirect is followed: the next server would get the token, or a message that was meant for this one.
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
"""What says that a server has got nothing of the request."""

_CONNECT: Final = 10.0
"""Seconds that a connection may take to be made."""
_STALLED: Final = 60.0
"""Seconds in which a server may take nothing of what is written."""
_KEPT: Final = 2.0
"""Seconds that a connection without a request is used again: the servers of others close it after five, and a message
that meets that close is lost."""
_COOKIES: Final = 64
"""Cookies of one server at most: each of its answers may bring more, and each request carries all of them."""
_EXCUSE: Final = 8 * 1024
"""Bytes that are read of an answer that says why something was refused."""
_LEAVING: Final = 1.0
"""Seconds that the end of an exchange may take once it was cancelled."""


class TooManyCookies(Exception):
    """The server sets more cookies than are kept."""


class Exchanges:
    """What sends requests to `address`, and keeps the cookies. Made in the event loop that uses it."""

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
            # To read all certificates takes its time.
            verify = False
        self.address = address
        self._client = httpx.AsyncClient(
            # An answer that unpacks to more than was bounded does not come.
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
        """Send a request; its answer, of which the body is to be read. Raises httpx.TransportError, TooManyCookies."""
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
        """Send a request; its answer with the body, of which no more than `most` bytes are read."""
        async with self.open(method, headers, content) as response:
            return response, await body_of(response, most if response.status_code == HTTPStatus.OK else _EXCUSE)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.aclose()


async def body_of(response: httpx.Response, most: int) -> bytes:
    """The beginning of a body: `most` bytes, or one more where there are more."""
    body = bytearray()
    # Left by a cancel of its own: the generators of the library end in order, on trio too.
    with anyio.CancelScope() as scope:
        async for piece in response.aiter_raw():
            body += piece[: most + 1 - len(body)]
            if len(body) > most:
                scope.cancel()
    return bytes(body)


def refusal(response: httpx.Response, body: bytes, address: Address) -> str:
    """Why a request was refused, in words."""
    status = response.status_code
    if 300 <= status < 400:
        parts = urlsplit(str(response.headers.get("location", "")))
        where = one_line(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", 200) if parts.netloc else "elsewhere"
        return f"{address.name} sends to {where} (status {status}), which is not followed"
    why = {
        401: "does not know the token, or wants one",
        403: "does not let this client in",
        404: "knows no such connection or path",
        406: "sends no server-sent events",
        409: "no longer has what came before",
        410: "has ended the connection",
    }.get(status, "refused a message")
    text = one_line(body.decode(errors="replace"), 200).strip()
    return f"{address.name} {why} (status {status}{': ' + text if text else ''})"


def because(error: BaseException) -> str:
    """What went wrong on the line, in words."""
    text = one_line(str(error), 200).strip()
    kind: Any = type(error).__name__
    return f"{kind}: {text}" if text else kind
