"""One connection to a client: how long it may be silent, what of its requests is refused, and what a client
is told that does not speak HTTP.

What requests are answered is decided in `acp_server.gateway.app`; uvicorn reads and writes them. What h11 takes is
refused where a proxy in front may read it in another way.
"""

from __future__ import annotations

import logging
import re
import socket
from typing import Any, Final, Protocol

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from acp_server.gateway.errors import LOGID, ApiError, Code, failure, new_logid
from acp_server.gateway.limits import GatewayLimits
from acp_server.gateway.listener import Places

_BARE_LINE_FEED: Final = re.compile(rb"(?<!\r)\n")
_FOLDED: Final = re.compile(rb"\r\n[ \t]")
_FRAMING: Final = re.compile(rb"\r\n(content-length|transfer-encoding)[ \t]*:([^\r]*)", re.IGNORECASE)
_ORIGIN: Final = re.compile(rb"^https?://[^/?]*/?", re.IGNORECASE)
_CLOSE: Final = (b"connection", b"close")


class StrictParser(h11.Connection):
    """h11's side of a server, which refuses a head with lines that end in a bare LF or are folded, and a head
    with two lengths of its body. It lets a request name the whole URL, as clients do that take the gateway for a
    proxy (RFC 9112, section 3.2.2): uvicorn takes that for a path."""

    def next_event(self) -> Any:
        """See h11.Connection. Raises h11.RemoteProtocolError."""
        if self.their_state is h11.IDLE:
            _check(self.trailing_data[0])
        event = super().next_event()
        if not isinstance(event, h11.Request):
            return event
        headers, target = event.headers.raw_items(), _ORIGIN.sub(b"/", event.target)
        is_encoded = any(name == b"transfer-encoding" for name, _ in event.headers)
        if is_encoded:
            # Nothing is read behind such a body: h11 is lenient about the lines of its trailer, too.
            headers.append(_CLOSE)
        if not is_encoded and target == event.target:
            return event
        return h11.Request(method=event.method, target=target, http_version=event.http_version, headers=headers)


def _check(data: bytes) -> None:
    """Raise h11.RemoteProtocolError for a head, or what there is of it, that can be read in two ways."""
    end = data.find(b"\r\n\r\n")
    head = data if end < 0 else data[: end + 2]
    if _BARE_LINE_FEED.search(head):
        raise h11.RemoteProtocolError("a line ends in a bare LF")
    if end < 0:
        return
    if _FOLDED.search(head):
        raise h11.RemoteProtocolError("a folded line")
    framing = _FRAMING.findall(head)
    if len(framing) > 1 or any(b"," in value for _, value in framing):
        raise h11.RemoteProtocolError("several lengths of the body")
    if framing and framing[0][0].lower() == b"transfer-encoding" and b" HTTP/1.0\r\n" in head:
        raise h11.RemoteProtocolError("an encoding that HTTP/1.0 does not have")


ABORT: Final = "abort"
"""The key in `scope["state"]` of a function that breaks the connection off at once."""

_LONGEST_HEAD: Final = 16 * 1024
"""Bytes that a request may have before its body."""
_AT_ONCE: Final = 16 * 1024
"""Bytes that are taken from a client before others have their turn. As chunks of one byte they hold the loop for some
40 ms; asyncio takes 256 KiB by itself."""
_HEAD: Final = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n"
    b"%s: %s\r\n\r\n"
)

logger: logging.Logger = logging.getLogger("acp_server.gateway.access")


class _Timer(Protocol):
    def cancel(self) -> None: ...


class HttpConnection(H11Protocol):
    """uvicorn's connection, which by itself waits for ever for the rest of a request's head, and for a client that
    takes nothing."""

    def __init__(
        self,
        limits: GatewayLimits,
        *,
        app_state: dict[str, Any],
        places: Places,
        **options: Any,
    ) -> None:
        super().__init__(app_state={**app_state, ABORT: self.abort}, **options)
        self.conn: StrictParser = StrictParser(h11.SERVER, _LONGEST_HEAD)
        self._limits = limits
        self._places = places
        self._was_known = False
        self._waiting: _Timer | None = None
        self._stalled: _Timer | None = None

    def connection_made(self, transport: Any) -> None:
        """See asyncio.Protocol."""
        super().connection_made(transport)
        self._places.add(self)
        transport.max_size = _AT_ONCE
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
        self._places.remove(self)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP in the API's envelope, unless the connection has seen an answer already."""
        cycle: Any = self.cycle  # None before the first request
        if cycle is None or not cycle.response_started:
            logid = new_logid()
            body = failure(ApiError(Code.BAD_PARAMETER, "the request is not HTTP"), logid)
            self.transport.write(_HEAD % (len(body), LOGID, logid.encode()) + body)
            logger.info("a request that is not HTTP: HTTP 400, code %s, logid %s", Code.BAD_PARAMETER, logid)
        self.transport.close()

    def _should_upgrade(self) -> bool:
        # The API has no other protocol; a client that offers one is answered in this one.
        return False

    # -- see acp_server.gateway.listener.Closable

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

    def abort(self) -> None:
        """Break off at once."""
        self.transport.abort()

    def _watch(self) -> None:
        """Wait for a request only so long. Half a head is not a request."""
        if not self.is_idle:
            self._waiting = _stop(self._waiting)
        elif self._waiting is None:
            self._waiting = self.loop.call_later(self._limits.idle_seconds, self.abort)

    def _watch_writing(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._stalled = self.loop.call_later(self._limits.send_seconds, self._look_at_writing, left)

    def _look_at_writing(self, left: int) -> None:
        """A large answer may take longer, as long as the client takes some of it."""
        if self.transport.get_write_buffer_size() < left:
            self._watch_writing()
        else:
            self.abort()


def _stop(timer: _Timer | None) -> None:
    if timer is not None:
        timer.cancel()
