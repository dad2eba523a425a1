"""Who is let in: the name that a request was sent to, the web page that sent it, and whose it is.

A page that a user happens to visit can send requests to a server on the user's machine. It cannot hide its origin, and
where it has its own name point to that machine (DNS rebinding), that name is in the Host header.
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
"""Gets the scope of a request, and says whose it is; None if it has not proved that."""

_QUIET: Final = 60.0
"""Seconds between two lines of the log about the same thing."""

AGAIN: Final = ((b"retry-after", b"1"),)
"""Headers of a refusal that holds for a moment."""
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})

_ALLOWED: Final = b"content-type, accept, authorization, acp-connection-id, acp-session-id, last-event-id"
_PREFLIGHT_SECONDS: Final = b"600"


@dataclass(frozen=True, slots=True)
class Refused(Exception):
    """A request that is answered with this status, and with nothing else."""

    status: int
    why: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    error: tuple[Any, int] | None = None
    """The id and the code, where JSON-RPC has an answer to the message."""

    @property
    def body(self) -> tuple[bytes, bytes]:
        """The content of the answer, and its type."""
        if self.error is None:
            return self.why.encode() + b"\n", b"text/plain; charset=utf-8"
        id, code = self.error
        message = {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": self.why}}
        return codec.encode(message), b"application/json"


class Guard:
    """Lets requests in. See `RemoteApp` for what the parameters mean."""

    def __init__(
        self, origins: Collection[str], hosts: Collection[str] | None, authenticate: Authenticate | None
    ) -> None:
        # A single one is what was meant, and not its letters.
        self._origins = frozenset((origins,) if isinstance(origins, str) else origins)
        named = (hosts,) if isinstance(hosts, str) else hosts
        # Who has to prove who they are cannot be impersonated by a page that knows nothing but the address.
        default: Collection[str] = LOOPBACK if authenticate is None else ("*",)
        self._hosts = frozenset(host.lower() for host in (default if named is None else named))
        self._authenticate = authenticate
        self._said: dict[str, float] = {}

    async def admit(self, scope: Scope) -> str | None:
        """Whose request it is; None where that is not asked. Raises Refused."""
        self._check_host(scope)
        self.check_origin(scope)
        if self._authenticate is None:
            return _noted(scope, None)
        found = self._authenticate(scope)
        principal = await found if isawaitable(found) else found
        if principal is None:
            logger.info("a request without a valid token is refused")
            raise Refused(401, "Not authenticated", ((b"www-authenticate", b"Bearer"),))
        return _noted(scope, principal)

    def check_origin(self, scope: Scope) -> None:
        """Raises Refused for a web page that may not come."""
        origin = header(scope, b"origin")
        if origin is not None and not self._may_come(origin):
            self._warn("a page of another origin is refused: %.200r", origin)
            raise Refused(403, "Origin not allowed")

    def headers_for(self, scope: Scope) -> Headers:
        """What lets a page that may come read the answer (CORS)."""
        origin = header(scope, b"origin")
        if origin is None or not self._may_come(origin):
            return []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", b"acp-connection-id"),
            (b"vary", b"origin"),
        ]

    def preflight(self) -> Headers:
        """What a browser is told before it sends the request of a page."""
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
            self._warn("a request to another host is refused: %.200r", host)
            raise Refused(403, "Host not allowed")


def _noted(scope: Scope, principal: str | None) -> str | None:
    """Our own server keeps connections with a caller longest."""
    scope.get("state", {})[CALLER] = principal
    return principal


def header(scope: Scope, name: bytes) -> str | None:
    """A header of a request. Several of one name are refused: they can be read in two ways."""
    found = [value for key, value in scope["headers"] if key.lower() == name]
    if len(found) > 1:
        raise Refused(400, f"Several headers {name.decode()}")
    return found[0].decode("latin-1") if found else None
