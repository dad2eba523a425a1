"""The gateway on a socket: where it listens, what signals do, and how it ends.

SIGTERM lets the chats that run come to their end first (`Drain` in `acp_server.gateway.gateway`), Ctrl-C does not; the
second signal waits for nothing at all. SIGHUP has the tokens and the bots read again. The exit code is what a
shell expects.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, cast

import anyio
import anyio.lowlevel
import uvicorn

from acp_server.errors import UsageError
from acp_server.gateway.app import make_app
from acp_server.gateway.connection import HttpConnection
from acp_server.gateway.gateway import Gateway
from acp_server.gateway.listener import Listener, Places, number_of_places

logger: logging.Logger = logging.getLogger("acp_server.gateway")

_LAST_ANSWERS: Final = 5
"""Seconds that open connections get for their last answers at the end."""
_BACKLOG: Final = 512
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
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # Python says in brackets behind some errors where it would have listened.
        why, _, _ = (error.strerror or str(error)).partition(" (while ")
        raise UsageError(f"cannot listen on {host}, port {port}: {why}") from None


def serve(
    gateway: Gateway, listening: socket.socket, on_started: Callable[[], None], reload: Callable[[], None]
) -> None:
    """Serve until a signal ends it. `on_started` is called when requests are taken, `reload` at SIGHUP; UsageError
    of it goes to the log.

    Raises KeyboardInterrupt at Ctrl-C; at SIGTERM, and when its terminal is gone, the process is.
    """
    config = uvicorn.Config(
        make_app(gateway),
        http="h11",
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
        # Longer than clients keep connections for, so that none is closed in the moment in which it is used again.
        timeout_keep_alive=math.ceil(gateway.limits.idle_seconds),
        timeout_graceful_shutdown=_LAST_ANSWERS,
    )
    _Server(config, gateway, on_started, reload).run([listening])


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, gateway: Gateway, on_started: Callable[[], None], reload: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._gateway = gateway
        self._on_started = on_started
        self._reload = reload
        self._loop: Any = None
        self._todo: list[Callable[[], None]] = []
        """What signals want done, by the task of this server."""
        self._terminal = _has_terminal()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = cast("Any", anyio.lowlevel.current_token().native_token)
        # uvicorn itself would take connections as long as there are descriptors, and fail at each one behind them.
        await super().startup([])
        limits = self._gateway.limits
        places = Places(number_of_places(limits))

        def connection() -> HttpConnection:
            return HttpConnection(
                limits,
                places=places,
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
                _loop=self._loop,
            )

        listeners = [Listener(listening, places, connection) for listening in sockets or ()]
        self.servers = cast("Any", listeners)
        for listener in listeners:
            listener.open()
        self._on_started()

    async def on_tick(self, counter: int) -> bool:
        while self._todo:
            self._todo.pop(0)()
        if self._gateway.has_drained():
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # First, since uvicorn waits for the streams to end.
        self._gateway.stop()
        await super().shutdown(sockets)
        if self.force_exit and not self.lifespan.shutdown_event.is_set():
            # Otherwise the agents would not be ended.
            await self.lifespan.shutdown()

    # -- signals

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        with super().capture_signals():
            # Where it is ignored, as by `nohup`, it stays so.
            if _HANGUP is None or not _in_main_thread() or signal.getsignal(_HANGUP) is signal.SIG_IGN:
                yield
                return
            before = signal.signal(_HANGUP, self._hang_up)
            try:
                yield
            finally:
                signal.signal(_HANGUP, before)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._loop is None:
            super().handle_exit(sig, frame)
        elif self.should_exit or self._captured_signals:
            self._captured_signals.append(sig)
            self.should_exit = self.force_exit = True
            # Of all that the event loop can do, the only thing that a signal handler may.
            self._loop.call_soon_threadsafe(self._hurry)
        elif sig == signal.SIGTERM:
            self._captured_signals.append(sig)
            self._todo.append(self._gateway.drain)
        else:
            super().handle_exit(sig, frame)

    def _hurry(self) -> None:
        self._gateway.hurry()
        for connection in list(self.server_state.connections):
            cast("Any", connection).transport.abort()

    def _hang_up(self, sig: int, frame: FrameType | None) -> None:
        if self._terminal and not _has_terminal():
            # It was closed, and with it goes what was started from it.
            super().handle_exit(sig, frame)
        else:
            self._todo.append(self._read_again)

    def _read_again(self) -> None:
        try:
            self._reload()
        except UsageError as error:
            logger.error("not reloaded, everything stays as it was: %s", error)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _has_terminal() -> bool:
    """Whether the process has a terminal that sends it a signal when it is closed."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | getattr(os, "O_NOCTTY", 0)))
    except OSError:
        return False
    return True
