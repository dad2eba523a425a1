"""The gateway on a socket: where it listens, and how it ends.

Signals end it as they end other servers, each with the exit code that a shell expects: it waits a moment for agents
and clients, and no longer if Ctrl-C comes once more.
"""

from __future__ import annotations

import ipaddress
import math
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, Final, cast

import anyio.lowlevel
import uvicorn

from acp_server.errors import UsageError
from acp_server.gateway.app import make_app
from acp_server.gateway.connection import Connection
from acp_server.gateway.gateway import Gateway

_LAST_ANSWERS: Final = 5
"""Seconds that open connections get for their last answers at the end."""
_HANGUP: Final[int | None] = getattr(signal, "SIGHUP", None)
"""None on Windows."""


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
    """Serve until a signal ends it. `on_started` is called when requests are taken.

    Raises KeyboardInterrupt at Ctrl-C; at SIGTERM and SIGHUP the process is gone.
    """
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
        self._soon: Callable[[Callable[[], object]], object] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # Of all that the event loop can do, the only thing that a signal handler may.
        self._soon = cast("Any", anyio.lowlevel.current_token().native_token).call_soon_threadsafe
        await super().startup(sockets)
        if self.started:
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # First, since uvicorn waits for the streams to end.
        self._gateway.stop()
        await super().shutdown(sockets)
        if self.force_exit and not self.lifespan.shutdown_event.is_set():
            # Otherwise nobody would see to the end of the agents.
            await self.lifespan.shutdown()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        with super().capture_signals():
            # A terminal that is closed; one who has it ignored, as `nohup` does, wants to go on.
            if _HANGUP is None or not _in_main_thread() or signal.getsignal(_HANGUP) is signal.SIG_IGN:
                yield
                return
            before = signal.signal(_HANGUP, self.handle_exit)
            try:
                yield
            finally:
                signal.signal(_HANGUP, before)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit and sig == signal.SIGINT and self._soon is not None:
            self.force_exit = True
            self._soon(self._hurry)
        else:
            super().handle_exit(sig, frame)

    def _hurry(self) -> None:
        self._gateway.hurry()
        for connection in list(self.server_state.connections):
            cast("Any", connection).transport.abort()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
