"""The gateway on a socket: where it listens, and how it ends."""

from __future__ import annotations

import ipaddress
import math
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import uvicorn

from acp_server.errors import UsageError
from acp_server.gateway.app import make_app
from acp_server.gateway.connection import Connection
from acp_server.gateway.gateway import Gateway

_LAST_ANSWERS: Final = 5
"""Seconds that open connections get for their last answers at the end."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises UsageError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise UsageError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None


def serve(gateway: Gateway, listening: socket.socket, on_started: Callable[[], None]) -> None:
    """Serve until a signal ends it. `on_started` is called when requests are taken."""
    config = uvicorn.Config(
        make_app(gateway),
        http=cast("Any", partial(Connection, gateway.limits)),
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
        # Longer than clients keep connections for, so that none is closed in the moment in which it is used again.
        timeout_keep_alive=math.ceil(gateway.limits.idle_seconds),
        timeout_graceful_shutdown=_LAST_ANSWERS,
    )
    _Server(config, gateway, on_started).run([listening])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, gateway: Gateway, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._gateway = gateway
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # First, since uvicorn waits for the streams to end.
        self._gateway.stop()
        await super().shutdown(sockets)
