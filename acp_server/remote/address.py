"""The address of a remote agent and the headers of each request to it. This module opens no connection.

Each value that goes into a header is checked: a line break in it would begin another header, or another request.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from acp_server.errors import UsageError

logger: logging.Logger = logging.getLogger("acp_server.remote")

CONNECTION: Final = "Acp-Connection-Id"
SESSION: Final = "Acp-Session-Id"
CURSOR: Final = "Last-Event-ID"
MESSAGE: Final = "Acp-Message-Id"
"""The number of a client's message. A repeated POST has the same number."""
REPEATABLE: Final = "Acp-Repeatable"
"""`true` in the response to `initialize` if the server accepts each number only once. This is an extension that is not
in the draft."""

LONGEST_ID: Final = 1024
"""The most characters of an id or a cursor in a header."""

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[!-~](?:[ \t!-~]*[!-~])?|")
_ID: Final = re.compile(r"[!-~](?:[ !-~]*[!-~])?")
_OWN: Final = frozenset(
    {"acp-connection-id", "acp-message-id", "acp-session-id", "last-event-id", "accept", "accept-encoding"}
    | {"connection", "content-length", "content-type", "host", "te", "trailer", "transfer-encoding", "upgrade"}
)
_SECURE: Final = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
"""The HTTP scheme for each scheme of an address, because a WebSocket begins with an HTTP request."""


@dataclass(frozen=True, slots=True)
class Address:
    """`url` has the scheme `http` or `https`. `socket` is the path of a Unix socket, or None for the network."""

    url: str
    socket: str | None = None

    @property
    def name(self) -> str:
        """Return the address for messages, without user, password, path and query, which may be secrets."""
        if self.socket is not None:
            return f"unix:{self.socket}"
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def address_of(url: str) -> Address:
    """Parse `http://`, `https://`, `ws://`, `wss://` or `unix:PATH`. Raises UsageError."""
    if url.startswith("unix:"):
        path = url.removeprefix("unix:")
        if not path or "\0" in path:
            raise UsageError("the address of a Unix socket must be unix:PATH")
        return Address("http://localhost/acp", path)
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, None
    if parts is None or parts.scheme not in _SECURE or not host or not url.isprintable() or " " in url:
        raise UsageError(
            "the address of an agent must begin with http://, https://, ws://, wss:// or unix:, and must name a host"
        )
    # A fragment is never sent.
    return Address(parts._replace(scheme=_SECURE[parts.scheme], fragment="").geturl())


def is_websocket(url: str) -> bool:
    """Whether `url` is connected by WebSocket. That holds for `unix:PATH`, too, because a WebSocket needs one
    descriptor for all sessions."""
    return url.startswith(("ws://", "wss://", "unix:"))


def headers_of(headers: Mapping[str, str] | None, token: str | None, address: Address) -> dict[str, str]:
    """Return the headers of each request. Raises UsageError for an invalid header, and for a header of the transport.

    Logs a warning if a token, `Authorization` or `Cookie` is sent over the network without encryption.
    """
    checked: dict[str, str] = {}
    for name, value in (headers or {}).items():
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"{name!r} is not a valid name of a header")
        if name.lower() in _OWN:
            raise UsageError(f"the transport sets the header {name}; leave it out")
        if _VALUE.fullmatch(value) is None:
            # The value may be a secret.
            raise UsageError(f"the value of the header {name} must be one line of printable ASCII")
        checked[name] = value
    if token is not None:
        if _ID.fullmatch(token) is None or " " in token:
            raise UsageError("the token must be one word of printable ASCII")
        checked["Authorization"] = f"Bearer {token}"
    if any(name.lower() in ("authorization", "cookie") for name in checked) and not _is_private(address):
        logger.warning(
            "the connection to %s is not encrypted, so others in the network can read the token", address.name
        )
    return checked


def is_header_id(value: str) -> bool:
    """Whether an id that the peer has sent can be used as the value of a header without escaping."""
    return len(value) <= LONGEST_ID and _ID.fullmatch(value) is not None


def _is_private(address: Address) -> bool:
    parts = urlsplit(address.url)
    if address.socket is not None or parts.scheme == "https":
        return True
    host = parts.hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
