"""`acp-server serve --listen` serves an agent to clients over HTTP and WebSocket, until a signal ends it.

Clients must be authenticated, except on the machine itself.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from acp_server.agent.serve import Servable
from acp_server.agent.until_signal import run_until_signal
from acp_server.errors import UsageError

logger: logging.Logger = logging.getLogger("acp_server.apps.cli")

PATH: Final = "/acp"
"""The path at which the agent is served."""

_UNIX: Final = "unix:"
_BACKLOG: Final = 512
_PLACES: Final = 4096
"""The most HTTP connections at the same time. A client needs about three."""
_OWN: Final = 128
"""The number of file descriptors that are needed for other purposes than clients."""
_SECOND: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """The settings of the command line."""

    address: str
    token_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    clients: Path | None = None
    """The certificate authorities of clients."""
    origins: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches the address."""
        return self.address.startswith(_UNIX) or _is_loopback(_host_and_port(self.address)[0])

    def check(self) -> None:
        """Check the settings. Raises UsageError for settings that may not be served."""
        if self.certificate is None and (self.key is not None or self.clients is not None):
            raise UsageError("--tls-key and --tls-client-ca need --tls-cert")
        if not self.is_local and self.clients is None and self.token_file is None:
            raise UsageError(
                f"every program that can connect to {self.address} could drive the agent; add --token-file, or "
                "--tls-cert and --tls-client-ca"
            )


def serve_listening(agent: Servable, options: Mapping[str, Any], listening: Listening) -> int:
    """Serve `agent` at an address; returns the exit code, which is 128 plus the number of the signal that has ended the
    server. `options`: `backend`, `loop` and `limits`. Raises UsageError."""
    try:
        from acp_server.http.server import Server
        from acp_server.http.websocket import Unfinished, WebSocketLimits
    except ModuleNotFoundError as error:
        raise UsageError(f"--listen needs {error.name}: pip install 'acp-server[remote]'") from None
    from acp_server.http.listener import Places, raise_descriptors
    from acp_server.remote.app import RemoteApp
    from acp_server.remote.limits import RemoteLimits

    if listening.certificate is None and not listening.is_local:
        logger.warning("tokens and conversations are sent unencrypted; add --tls-cert")
    allowed = raise_descriptors(_PLACES + _OWN)
    places = Places(_PLACES if allowed is None else max(1, min(_PLACES, allowed - _OWN)))
    # A quarter of the places is left for clients that are not authenticated yet. They give way to each other.
    limits = RemoteLimits(requests=max(1, places.most // 2), connections=max(1, places.most // 4))
    app = RemoteApp(
        agent,
        limits=options.get("limits"),
        remote=limits,
        origins=listening.origins,
        hosts="*" if listening.address.startswith(_UNIX) else None,
        authenticate=_authenticate(listening),
    )
    tls = None
    if listening.certificate is not None:
        from acp_server.http.tls import server_context

        tls = server_context(listening.certificate, listening.key, listening.clients)
    websocket = WebSocketLimits(message_bytes=limits.body, unfinished=Unfinished(limits.bodies))
    server = Server(At(app), places, websocket=websocket, tls=tls)
    with bound_to(listening.address) as bound:

        async def end() -> None:
            # First, since the server waits for the streams to end.
            await app.aclose()
            server.end()

        try:
            return run_until_signal(
                lambda: server.run([bound], lambda: _say(listening, bound)),
                end,
                server.hurry,
                backend=options.get("backend"),
                loop=options.get("loop"),
                limits=options.get("limits"),
            )
        finally:
            if listening.address.startswith(_UNIX):
                with suppress(OSError):
                    os.unlink(listening.address.removeprefix(_UNIX))


class At:
    """Serves the application at its path. Requests to other paths are refused."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See the ASGI specification."""
        if scope["type"] == "lifespan" or scope["path"].rstrip("/") == PATH:
            await self._app(scope, receive, send)
        else:
            # The server has the extension that lets a WebSocket be refused by any status.
            kind = "http" if scope["type"] == "http" else "websocket.http"
            await send({"type": f"{kind}.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
            await send({"type": f"{kind}.response.body", "body": b""})


def _authenticate(listening: Listening) -> Any:
    if listening.token_file is not None:
        from acp_server.remote.tokens import read_tokens

        return read_tokens(listening.token_file)
    return None if listening.clients is None else _by_certificate


def _by_certificate(scope: Mapping[str, Any]) -> str | None:
    return scope.get("extensions", {}).get("tls", {}).get("client_cert_name")


def _say(listening: Listening, bound: socket.socket) -> None:
    import click

    if listening.address.startswith(_UNIX):
        click.echo(f"Listening on {listening.address}", err=True)
        return
    host, _ = _host_and_port(listening.address)
    shown = f"[{host}]" if ":" in host else host
    scheme = "http" if listening.certificate is None else "https"
    click.echo(f"Listening on {scheme}://{shown}:{bound.getsockname()[1]}{PATH}", err=True)


def bound_to(address: str) -> socket.socket:
    """Return a socket that listens at the address. Raises UsageError."""
    if address.startswith(_UNIX):
        return _bound_unix(address.removeprefix(_UNIX))
    host, port = _host_and_port(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise _cannot(address, error) from None


def _bound_unix(path: str) -> socket.socket:
    """Return a socket that only the user can connect to. A stale socket of an earlier server is replaced."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if _is_left_behind(path):
            os.unlink(path)
        before = os.umask(0o177)
        try:
            found.bind(path)
        finally:
            os.umask(before)
        found.listen(_BACKLOG)
    except OSError as error:
        found.close()
        raise _cannot(_UNIX + path, error) from None
    return found


def _is_left_behind(path: str) -> bool:
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return False
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_SECOND)
        return probe.connect_ex(path) == errno.ECONNREFUSED


def _cannot(address: str, error: OSError) -> UsageError:
    # Python appends the address in brackets to some errors.
    why, _, _ = (error.strerror or str(error)).partition(" (while ")
    return UsageError(f"cannot listen on {address}: {why}")


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--listen {address!r}: expected HOST:PORT or unix:PATH")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
