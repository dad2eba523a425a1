"""`Guard` admits requests by Host header, by origin and by principal.

A web page that a user visits can send requests to a server on the user's machine. The page cannot hide its origin. If
the page points its own name at that machine (DNS rebinding), that name is in the Host header.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Final, TypeAlias

import anyio

from acp_server.http.asgi import CALLER, Headers
from acp_server.wire import codec

logger: logging.Logger = logging.getLogger("acp_server.remote")

Scope: TypeAlias = "Mapping[str, Any]"
Authenticate: TypeAlias = "Callable[[Scope], str | Awaitable[str | None] | None]"
"""Returns the principal of the request with this scope, or None to refuse the request."""

_QUIET: Final = 60.0
"""Seconds between two log lines with the same message, because a page can send many requests."""

AGAIN: Final = ((b"retry-after", b"1"),)
"""Headers of a refusal whose reason may be gone in a second."""
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})

_ALLOWED: Final = b"content-type, accept, authorization, acp-connection-id, acp-session-id, last-event-id"
_PREFLIGHT_SECONDS: Final = b"600"


@dataclass(eq=False)
class Refused(Exception):
    """Raised to refuse a request with this HTTP status. `why` is the text of the body."""

    status: int
    why: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    error: tuple[Any, int] | None = None
    """The id and the code of a JSON-RPC error response. If set, that response is the body."""

    @property
    def body(self) -> tuple[bytes, bytes]:
        """Return the body of the HTTP response, and its content type."""
        if self.error is None:
            return self.why.encode() + b"\n", b"text/plain; charset=utf-8"
        id, code = self.error
        message = {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": self.why}}
        return codec.encode(message), b"application/json"


class Guard:
    """Admits requests. See `RemoteApp` for the parameters."""

    def __init__(
        self, origins: Collection[str], hosts: Collection[str] | None, authenticate: Authenticate | None
    ) -> None:
        # A single string would otherwise be a collection of its letters.
        self._origins = frozenset((origins,) if isinstance(origins, str) else origins)
        named = (hosts,) if isinstance(hosts, str) else hosts
        # With `authenticate` by default every host is allowed: a rebound page does not have the user's token.
        default: Collection[str] = LOOPBACK if authenticate is None else ("*",)
        self._hosts = frozenset(host.lower() for host in (default if named is None else named))
        self._authenticate = authenticate
        self._said: dict[str, float] = {}

    async def admit(self, scope: Scope) -> str | None:
        """Return the principal of a request; None without `authenticate`. Raises Refused."""
        self._check_host(scope)
        self.check_origin(scope)
        if self._authenticate is None:
            return _noted(scope, None)
        found = self._authenticate(scope)
        principal = await found if isawaitable(found) else found
        if principal is None:
            logger.info("refused a request without a valid token or certificate")
            raise Refused(401, "Not authenticated", ((b"www-authenticate", b"Bearer"),))
        return _noted(scope, principal)

    def check_origin(self, scope: Scope) -> None:
        """Raises Refused for a web page of an origin that is not allowed."""
        origin = header(scope, b"origin")
        if origin is not None and not self._may_come(origin):
            self._warn("refused a page of another origin: %.200r", origin)
            raise Refused(403, "Origin not allowed")

    def headers_for(self, scope: Scope) -> Headers:
        """Return the headers with which an allowed page may read the response (CORS); no headers for any other
        request."""
        origin = header(scope, b"origin")
        if origin is None or not self._may_come(origin):
            return []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", b"acp-connection-id"),
            (b"vary", b"origin"),
        ]

    def preflight(self) -> Headers:
        """Return the headers of the response to a preflight, which a browser sends before the request of a page
        (CORS)."""
        return [
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", _ALLOWED),
            (b"access-control-max-age", _PREFLIGHT_SECONDS),
        ]

    def _warn(self, what: str, name: str) -> None:
        now = anyio.current_time()
        if now - self._said.get(what, -_QUIET) >= _QUIET:
            self._said[what] = now
            logger.warning(what, name)

    def _may_come(self, origin: str) -> bool:
        return "*" in self._origins or origin in self._origins

    def _check_host(self, scope: Scope) -> None:
        if "*" in self._hosts:
            return
        host = header(scope, b"host") or ""
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name.lower() not in self._hosts:
            self._warn("refused a request to another host: %.200r", host)
            raise Refused(403, "Host not allowed")


def _noted(scope: Scope, principal: str | None) -> str | None:
    """Record the principal for `acp_server.http`, which closes connections without a principal first."""
    scope.get("state", {})[CALLER] = principal
    return principal


def header(scope: Scope, name: bytes) -> str | None:
    """Return a header of a request, or None. Raises Refused if there are several of this name, because that can be read
    in two ways."""
    found = [value for key, value in scope["headers"] if key.lower() == name]
    if len(found) > 1:
        raise Refused(400, f"Several headers {name.decode()}")
    return found[0].decode("latin-1") if found else None
