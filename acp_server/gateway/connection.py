"""One connection to a client: how long it may be silent, in which form it may name what it wants, and what a client
is told that does not speak HTTP.

What requests are answered is decided in `acp_server.gateway.app`; uvicorn reads and writes them.
"""

from __future__ import annotations

import logging
import socket
from typing import Any, Final, Protocol, cast
from urllib.parse import unquote

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from acp_server.gateway import log
from acp_server.gateway.entrance import Guests
from acp_server.gateway.errors import ApiError, Code, failure
from acp_server.gateway.limits import Limits
from acp_server.gateway.parser import StrictParser

ABORT: Final = "abort"
"""The key in `scope["state"]` of a function that breaks the connection off at once."""

_LONGEST_HEAD: Final = 16 * 1024
"""Bytes that a request may have before its body."""
_HEAD: Final = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n"
    b"%s: %s\r\n\r\n"
)

logger = logging.getLogger("acp_server.gateway.access")


class _Timer(Protocol):
    def cancel(self) -> None: ...


class Connection(H11Protocol):
    """uvicorn's connection, which by itself waits for ever for the rest of a request's head, and for a client that
    takes nothing."""

    def __init__(
        self,
        limits: Limits,
        *,
        app_state: dict[str, Any],
        guests: Guests,
        **options: Any,
    ) -> None:
        super().__init__(app_state={**app_state, ABORT: self.leave}, **options)
        self.app = cast("Any", _OriginForm(self.app))
        self.conn = StrictParser(h11.SERVER, _LONGEST_HEAD)
        self._limits = limits
        self._guests = guests
        self._was_known = False
        self._waiting: _Timer | None = None
        self._stalled: _Timer | None = None

    def connection_made(self, transport: Any) -> None:
        """See asyncio.Protocol."""
        super().connection_made(transport)
        self._guests.enter(self)
        # An answer is written in pieces, and the kernel would keep the second until the client has confirmed the first.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """The last of an answer is written, to the connection or to what waits to be sent."""
        self._was_known = self.is_known
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        super().pause_writing()
        self._watch_writing()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        super().resume_writing()
        self._stalled = _stop(self._stalled)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._waiting, self._stalled = _stop(self._waiting), _stop(self._stalled)
        super().connection_lost(exc)
        self._guests.leave(self)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP in the API's envelope, unless the connection has seen an answer already."""
        cycle: Any = self.cycle  # None before the first request
        if cycle is None or not cycle.response_started:
            logid = log.new_logid()
            body = failure(ApiError(Code.BAD_PARAMETER, "the request is not HTTP"), logid)
            self.transport.write(_HEAD % (len(body), log.HEADER, logid.encode()) + body)
            logger.info("a request that is not HTTP: HTTP 400, code %s, logid %s", Code.BAD_PARAMETER, logid)
        self.transport.close()

    def _should_upgrade(self) -> bool:
        # The API has no other protocol; a client that offers one is answered in this one.
        return False

    # -- see acp_server.gateway.entrance.Guest

    @property
    def is_known(self) -> bool:
        """Whether a request has shown a token, be it this one or one before."""
        scope: Any = self.scope  # None before the first request
        return self._was_known or (scope is not None and "caller" in scope["state"])

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered. Half a head is not a request."""
        cycle: Any = self.cycle  # None before the first request
        return cycle is None or cycle.response_complete

    def leave(self) -> None:
        """Break off at once."""
        self.transport.abort()

    def _watch(self) -> None:
        """Wait for a request only so long. Half a head is not a request."""
        if not self.is_idle:
            self._waiting = _stop(self._waiting)
        elif self._waiting is None:
            self._waiting = self.loop.call_later(self._limits.idle_seconds, self.leave)

    def _watch_writing(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._stalled = self.loop.call_later(self._limits.send_seconds, self._look_at_writing, left)

    def _look_at_writing(self, left: int) -> None:
        """A large answer may take longer, as long as the client takes some of it."""
        if self.transport.get_write_buffer_size() < left:
            self._watch_writing()
        else:
            self.leave()


class _OriginForm:
    """Lets a request name the whole URL, as clients do that take the gateway for a proxy (RFC 9112, section 3.2.2).

    uvicorn takes that for a path.
    """

    def __init__(self, app: Any) -> None:
        self._app: ASGIApp = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        target = scope["raw_path"]
        if target[:7].lower() == b"http://" or target[:8].lower() == b"https://":
            path = b"/" + target.partition(b"//")[2].partition(b"/")[2]
            scope = {**scope, "raw_path": path, "path": unquote(path.decode("ascii"))}
        await self._app(scope, receive, send)


def _stop(timer: _Timer | None) -> None:
    if timer is not None:
        timer.cancel()
