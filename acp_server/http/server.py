"""Serves an ASGI application on listening sockets until `end` is called."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import TaskGroup, TaskStatus

from acp_server.http.asgi import Application, Message
from acp_server.http.connection import HttpConnection, HttpLimits, not_http
from acp_server.http.listener import Listener, Places

if TYPE_CHECKING:
    import ssl

    from acp_server.http.websocket import WebSocketLimits

logger: logging.Logger = logging.getLogger("acp_server.http")

_LAST_ANSWERS: Final = 5.0
"""Seconds that open connections have for their last responses at the end."""


class Server:
    """Serves `app`. `places`: limits the connections. `refusal`: see `HttpConnection`. `websocket`: also serve
    WebSockets, within these limits. `tls`: encrypt the connections.

    `end` and `hurry` may be called from any task of the event loop, but not from other threads or signal handlers.
    """

    def __init__(
        self,
        app: Application,
        places: Places,
        limits: HttpLimits | None = None,
        *,
        refusal: Callable[[], Any] = not_http,
        websocket: WebSocketLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._app = app
        self._places = places
        self._limits = limits or HttpLimits()
        self._kind: dict[str, Any] = {"refusal": refusal, "websocket": websocket, "tls": tls}
        self._connections: set[HttpConnection] = set()
        self._state: dict[str, Any] = {}
        self._ending = anyio.Event()
        self._is_hurried = False
        self._changed = anyio.Event()
        """Set when the last connection is closed, or the server stops waiting for clients."""

    async def run(self, sockets: Sequence[socket.socket], on_started: Callable[[], None] = lambda: None) -> None:
        """Serve until `end`. `on_started` is called when connections are accepted. Raises RuntimeError if the
        application does not start."""
        async with anyio.create_task_group() as group:
            lifespan = Lifespan(self._app)
            self._state = await group.start(lifespan.run)
            try:
                async with anyio.create_task_group() as connections:
                    await self._accept(sockets, connections, on_started)
                    await self._finish()
                    connections.cancel_scope.cancel()
            finally:
                logger.info("waiting for the application to shut down")
                lifespan.end()

    def end(self) -> None:
        """Stop accepting connections, wait a moment for responses that have begun, and shut the application down."""
        logger.info("shutting down")
        self._ending.set()

    def hurry(self) -> None:
        """Do the same as `end`, but without waiting for clients. The application is still shut down."""
        self.end()
        self._is_hurried = True
        self._changed.set()

    async def _accept(
        self, sockets: Sequence[socket.socket], connections: TaskGroup, on_started: Callable[[], None]
    ) -> None:
        async with anyio.create_task_group() as group:
            for each in sockets:
                group.start_soon(Listener(each, self._places, partial(self._enter, connections)).run)
            on_started()
            await self._ending.wait()
            group.cancel_scope.cancel()

    def _enter(self, group: TaskGroup, accepted: socket.socket) -> None:
        try:
            connection = HttpConnection(self._app, accepted, self._limits, state=self._state, **self._kind)
        except OSError:
            accepted.close()
            return  # the client has disconnected already
        self._connections.add(connection)
        self._places.add(connection)
        group.start_soon(self._serve, connection)

    async def _serve(self, connection: HttpConnection) -> None:
        try:
            await connection.serve()
        except Exception:
            # A client's error must end only its own connection.
            logger.exception("serving a connection failed")
        finally:
            self._places.remove(connection)
            self._connections.discard(connection)
            if not self._connections:
                self._changed.set()

    async def _finish(self) -> None:
        for connection in [*self._connections]:
            connection.end()
        with anyio.move_on_after(_LAST_ANSWERS):
            while self._connections and not self._is_hurried:
                logger.info("%d connections are still open", len(self._connections))
                self._changed = anyio.Event()
                await self._changed.wait()


class Lifespan:
    """The lifespan of an ASGI application. An application without a lifespan is served too."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._state: dict[str, Any] = {}
        self._ending = anyio.Event()
        self._asked = False
        self._started: Callable[[], None] = lambda: None
        self._failure: str | None = None

    async def run(self, *, task_status: TaskStatus[dict[str, Any]]) -> None:
        """Start the application, keep it until `end`, and shut it down. Raises RuntimeError if it does not start."""
        is_up = False

        async def send(message: Message) -> None:
            nonlocal is_up
            if message["type"] == "lifespan.startup.complete":
                is_up = True
                task_status.started(self._state)
            elif message["type"].endswith(".failed"):
                self._failure = message.get("message", "")

        try:
            scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self._state}
            await self._app(scope, self._receive, send)
        except Exception:
            if is_up or self._failure is not None:
                raise
            logger.debug("the application does not support the ASGI lifespan protocol", exc_info=True)
        if self._failure is not None and not is_up:
            raise RuntimeError(f"the application does not start: {self._failure}")
        if not is_up:
            task_status.started(self._state)

    def end(self) -> None:
        """Shut the application down."""
        self._ending.set()

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "lifespan.startup"}
        await self._ending.wait()
        return {"type": "lifespan.shutdown"}


__all__ = ["Server"]
