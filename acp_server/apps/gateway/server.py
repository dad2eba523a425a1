"""The gateway on a socket: listening, signals, and the shutdown.

After SIGTERM, running chats may end first (`Drain` in `acp_server.apps.gateway.gateway`); after Ctrl-C they may not.
After a second signal the gateway waits for nothing. SIGHUP reloads the tokens and the bots. At the end the first signal
ends the process, as a shell expects.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from typing import Final

import anyio

from acp_server import UsageError
from acp_server.apps.gateway.app import make_app
from acp_server.apps.gateway.errors import LOGID, ApiError, Code, failure, new_logid
from acp_server.apps.gateway.gateway import Gateway
from acp_server.apps.gateway.limits import GatewayLimits
from acp_server.http.asgi import Headers
from acp_server.http.connection import HttpLimits
from acp_server.http.listener import Places, raise_descriptors
from acp_server.http.server import Server

logger: logging.Logger = logging.getLogger("acp_server.apps.gateway")

_BACKLOG: Final = 512
_TICK: Final = 0.1
"""Seconds between two checks whether the gateway has drained."""
_HANGUP: Final[int | None] = getattr(signal, "SIGHUP", None)
"""The number of SIGHUP; None on Windows."""
_OF_AN_AGENT: Final = 4
"""The number of descriptors for an agent: three pipes, and one to wait for the process."""
_OF_THE_GATEWAY: Final = 64
"""The number of descriptors for the gateway itself: the store, the log, the event loop, temporary files."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises UsageError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # Python appends the address in brackets to some errors.
        why, _, _ = (error.strerror or str(error)).partition(" (while ")
        raise UsageError(f"cannot listen on {host}, port {port}: {why}") from None


def serve(
    gateway: Gateway, listening: socket.socket, on_started: Callable[[], None], reload: Callable[[], None]
) -> None:
    """Serve until a signal ends the gateway. `on_started` is called when requests are accepted. `reload` is called at
    SIGHUP; if it raises UsageError, that is logged.

    Raises KeyboardInterrupt at Ctrl-C. SIGTERM and a closed terminal end the process by their signal.
    """
    running = _Running(gateway, reload)
    anyio.run(running.run, listening, on_started)
    if running.first_signal is not None:
        # The handler is restored: Ctrl-C raises, and other signals end the process as a shell expects.
        signal.raise_signal(running.first_signal)


class _Running:
    def __init__(self, gateway: Gateway, reload: Callable[[], None]) -> None:
        self._gateway = gateway
        self._reload = reload
        self._has_terminal = _has_terminal()
        limits = gateway.limits
        self._server = Server(
            make_app(gateway),
            Places(number_of_places(limits)),
            HttpLimits(idle_seconds=limits.idle_seconds, send_seconds=limits.send_seconds),
            refusal=_not_http,
        )
        self.first_signal: int | None = None

    async def run(self, listening: socket.socket, on_started: Callable[[], None]) -> None:
        signals = [signal.SIGINT, signal.SIGTERM]
        # If it is ignored, as by `nohup`, it stays ignored.
        if _HANGUP is not None and signal.getsignal(_HANGUP) is not signal.SIG_IGN:
            signals.append(signal.Signals(_HANGUP))
        with anyio.open_signal_receiver(*signals) as received:
            async with anyio.create_task_group() as group:
                group.start_soon(self._obey, received)
                group.start_soon(self._watch)
                await self._server.run([listening], on_started)
                group.cancel_scope.cancel()

    async def _obey(self, received: AsyncIterator[signal.Signals]) -> None:
        async for number in received:
            if number != _HANGUP or (self._has_terminal and not _has_terminal()):
                # A closed terminal ends the programs that were started from it.
                self._end(number)
            else:
                self._read_again()

    def _end(self, number: int) -> None:
        if self.first_signal is not None:
            self._gateway.hurry()
            self._server.hurry()
            return
        self.first_signal = number
        if number == signal.SIGTERM:
            self._gateway.drain()
        else:
            self._stop()

    async def _watch(self) -> None:
        while not self._gateway.has_drained():  # noqa: ASYNC110 - it ends at a time, not by an event
            await anyio.sleep(_TICK)
        self._stop()

    def _stop(self) -> None:
        # First, since the server waits for the streams to end.
        self._gateway.stop()
        self._server.end()

    def _read_again(self) -> None:
        try:
            self._reload()
        except UsageError as error:
            logger.error("the reload failed and changed nothing: %s", error)


def _not_http() -> tuple[Headers, bytes]:
    """Return the API's envelope for a request that is not HTTP."""
    logid = new_logid()
    logger.getChild("access").info("a request that is not HTTP: HTTP 400, code %s, logid %s", Code.BAD_PARAMETER, logid)
    body = failure(ApiError(Code.BAD_PARAMETER, "the request is not HTTP"), logid)
    return [(b"content-type", b"application/json"), (LOGID, logid.encode())], body


def number_of_places(limits: GatewayLimits) -> int:
    """Return the most connections at once, after raising the process's limit of descriptors accordingly.

    If the limit cannot be raised, the connections leave a quarter of the descriptors to the agents, or fewer if the
    agents need fewer.
    """
    others = _OF_THE_GATEWAY + _OF_AN_AGENT * limits.chats
    allowed = raise_descriptors(limits.connections + others)
    if allowed is None:
        return limits.connections
    return max(1, min(limits.connections, allowed - min(others, allowed // 4)))


def _has_terminal() -> bool:
    """Whether the process has a terminal that sends it a signal when it is closed."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | getattr(os, "O_NOCTTY", 0)))
    except OSError:
        return False
    return True
