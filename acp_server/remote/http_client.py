"""`HttpStream` is the stream to a remote agent over Streamable HTTP.

Each message is sent as a POST, in the order of `acp_server.remote.lanes`. The agent's messages arrive as server-sent
events, on one GET for the connection and one for each session. `acp_server.remote.labels` reads the members of a
message that decide on its stream; no other member is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, Final

import anyio
import httpx

from acp_server.remote.address import CONNECTION, MESSAGE, REPEATABLE, SESSION, is_header_id
from acp_server.remote.event_stream import EventStream, EventStreams, Source
from acp_server.remote.exchange import NOT_SENT, Exchanges, TooManyCookies, because, refusal
from acp_server.remote.inbox import Inbox
from acp_server.remote.labels import ENDS, TAKES_UP, Key, Labelled, as_line, failure, is_resumable, labelled
from acp_server.remote.lanes import Lanes
from acp_server.remote.settings import Backoff, ClientLimits
from acp_server.tasks.grace import grace
from acp_server.tasks.running import Spawner
from acp_server.wire import codec
from acp_server.wire.state_machine import CANCEL_METHOD

logger: logging.Logger = logging.getLogger("acp_server.remote")

_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"

_LAST_WORDS: Final = 0.5
"""Seconds for each step of `aclose`: the unsent messages, the DELETE, the HTTP client."""

_FATAL: Final = frozenset({401, 403, 404, 410})
"""HTTP statuses that end the whole connection."""

_LATE: Final = 1000
"""The most requests that were failed here although they may have arrived. Their late responses are dropped."""


class HttpStream:
    """A `Stream` (`acp_server.peer.stream`) over Streamable HTTP. The first message must be `initialize`. `problem` is
    the reason of the end, or None if `aclose` ended it."""

    def __init__(self, exchanges: Exchanges, limits: ClientLimits, backoff: Backoff) -> None:
        self._exchanges = exchanges
        self._name = exchanges.address.name
        self._limits = limits
        self._backoff = backoff
        self._inbox = Inbox(limits.arrived)
        self._tasks = Spawner(self._crashed)
        self._scopes: set[anyio.CancelScope] = set()
        self._connected = anyio.Event()
        self._is_repeatable = False
        """Whether the server accepts a repeated message only once (`Acp-Repeatable`)."""
        self._posts = 0
        self._lanes = Lanes(self._deliver, self._spawn, limits.unsent)
        self._open: dict[Key, Labelled] = {}
        """The program's in-flight requests."""
        self._source = Source(
            exchanges=exchanges,
            limits=limits,
            backoff=backoff,
            arrived=self._arrived,
            put=self._inbox.put,
            room=self._inbox.room,
            end=self._end,
        )
        self._streams = EventStreams(self._source, self._open, self._spawn)
        self._asked: dict[Key, str | None] = {}
        """The agent's in-flight requests, with the sessions on whose streams they arrived."""
        self._answered_here: dict[Key, None] = {}
        """Requests that may have arrived, and that were answered here with an error."""
        self._is_over = self._is_closed = False
        self.problem: str | None = None

    # -- the stream

    async def receive(self) -> bytes:
        """See `acp_server.peer.stream.Stream`."""
        return await self._inbox.take()

    async def send(self, data: bytes) -> None:
        """Queue each line as a message. Wait while more than `unsent` bytes are queued. Raises anyio's
        BrokenResourceError after the end."""
        for line in data.split(b"\n"):
            if line:
                await self._send(labelled(line))

    async def aclose(self) -> None:
        """Send the queued messages, end the connection and DELETE it at the server, within 1.5 s. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            with grace(_LAST_WORDS):
                await self._lanes.empty()
            self._end(None)
            with grace(_LAST_WORDS):
                await self._tasks.wait_idle()
                await self._say_goodbye()
        finally:
            self._end(None)
            with grace(_LAST_WORDS):
                await self._exchanges.aclose()

    # -- what is sent

    async def _send(self, message: Labelled) -> None:
        await self._lanes.room(for_cancel=message.is_cancel and self._source.connection != "")
        if self._is_over:
            raise anyio.BrokenResourceError(self.problem or "closed")
        key = message.key
        if message.kind == "answer" and key is not None:
            message.is_wanted = key in self._asked
            message.session = self._asked.get(key)
        if (why := self._unroutable(message)) is not None:
            self._failed(message, why)
        elif message.is_cancel and self._source.connection:
            self._lanes.put_cancel(message)
        else:
            if message.kind == "request" and key is not None:
                # The server refuses a second request with the id of one in flight.
                self._open.setdefault(key, message)
                self._streams.keep(message.session)
            self._lanes.put(message)

    def _unroutable(self, message: Labelled) -> str | None:
        session = message.session
        if session is None:
            return None
        if not is_header_id(session):
            return "the id of the session does not fit into a header"
        if message.kind != "answer" and not self._streams.has_room(session):
            return f"more than {self._limits.sessions} sessions are open over this connection"
        return None

    async def _deliver(self, message: Labelled) -> None:
        if not self._source.connection and message.session is None:
            await self._initialize(message)
            return
        await self._connected.wait()
        if message.session is not None:
            stream = self._stream_for(message, message.session)
            if stream is not None:
                await stream.ready.wait()
        await self._post(message)
        if message.kind == "answer" and (key := message.key) is not None:
            # Removed after the POST, so that a second response to the same request does not overtake the first.
            self._asked.pop(key, None)
            self._streams.settle(message.session)

    def _stream_for(self, message: Labelled, session: str) -> EventStream | None:
        """Return the stream that must be open before a message is sent.

        The response to a request comes on the session's stream. So does the `terminal/release` of the agent that
        follows a late response to a closed session. After a notification nothing has to come.
        """
        stream = self._streams.get(session)
        if message.kind == "request":
            stream = self._streams.follow(session)
        elif message.kind == "answer" and stream is None and self._streams.has_room(session):
            stream = self._streams.follow(session)
            stream.is_closing = True
        return stream

    async def _initialize(self, message: Labelled) -> None:
        most = self._limits.event
        headers = {"Content-Type": _JSON, "Accept": _JSON}
        delays = self._backoff.delays()
        while True:
            try:
                response, body = await self._exchanges.ask("POST", headers, message.line, most=most)
                break
            except (httpx.HTTPError, TooManyCookies) as error:
                # `initialize` is repeated even if it may have arrived: a connection that it began stays unused.
                delay = None if isinstance(error, (*NOT_SENT, TooManyCookies)) else next(delays, None)
                if delay is None:
                    self._end(f"{self._name} cannot be reached ({because(error)})")
                    return
            await anyio.sleep(delay)
        if response.status_code != HTTPStatus.OK:
            if labelled(body).key == message.key:
                self._arrived(as_line(body), None)
            # Without a connection no other message can be sent.
            self._end(refusal(response, body, self._exchanges.address))
            return
        answer = labelled(body)
        connection = response.headers.get(CONNECTION, "")
        if len(body) > most or answer.kind != "answer" or answer.key != message.key or not is_header_id(connection):
            self._end(f"{self._name} did not answer `initialize` as a server of ACP over HTTP does")
            return
        self._is_repeatable = response.headers.get(REPEATABLE, "").lower() == "true"
        self._source.is_resumable = is_resumable(body)
        self._source.connection = connection
        self._streams.follow(None)
        self._arrived(as_line(body), None)
        self._connected.set()

    async def _post(self, message: Labelled) -> None:
        """POST a message until it is accepted, refused or lost."""
        self._posts += 1
        headers = {"Content-Type": _JSON, CONNECTION: self._source.connection, MESSAGE: str(self._posts)}
        stream = self._streams.get(message.session)
        is_open = stream is not None and stream.is_known and not stream.is_closing
        # Without the header the response arrives on the connection's stream, as an unknown session has no stream yet.
        if message.session is not None and not (message.method in TAKES_UP and stream and not stream.is_known):
            headers[SESSION] = message.session
        delays = self._backoff.delays()
        while True:
            try:
                response, body = await self._exchanges.ask("POST", headers, message.line)
                break
            except TooManyCookies:
                self._end(f"{self._name} sets too many cookies")
                return
            except httpx.HTTPError as error:
                if not isinstance(error, NOT_SENT) and not self._may_repeat(message):
                    self._lost(message, error)
                    return
                if (delay := next(delays, None)) is None:
                    self._end(f"{self._name} cannot be reached ({because(error)})")
                    return
            await anyio.sleep(delay)
        if not 200 <= response.status_code < 300:
            self._refused(message, response, body, is_open or message.session is None)

    def _may_repeat(self, message: Labelled) -> bool:
        # A second response or cancel has no effect.
        return self._is_repeatable or message.is_cancel or message.kind == "answer"

    def _refused(self, message: Labelled, response: httpx.Response, body: bytes, is_open: bool) -> None:
        """Fail a message, or end the connection. `is_open`: whether the server had opened the session, so that an
        unknown session is not the reason of the refusal."""
        status = response.status_code
        why = refusal(response, body, self._exchanges.address)
        said = labelled(body)
        is_end = status in _FATAL and (is_open or status != HTTPStatus.NOT_FOUND)
        if message.kind in ("request", "other") and said.kind == "answer" and said.ids in ([None], message.ids):
            if message.key is not None and said.ids == [None] and self._open.get(message.key) is message:
                del self._open[message.key]
            self._arrived(as_line(body), message.session)
        elif is_end or 300 <= status < 400:
            self._end(why)
        elif message.is_cancel or (message.kind == "answer" and not is_open):
            logger.info("the server refused a message: %s", why)
        else:
            self._failed(message, why, {"status": status})

    def _failed(self, message: Labelled, why: str, data: Any = None) -> None:
        """Fail a message that did not reach the agent. Its requests are answered with an error, or the connection is
        ended."""
        if message.is_cancel:
            return
        if message.kind == "answer":
            if message.is_wanted:
                # The agent would wait for the response forever.
                self._end(why)
        elif message.kind == "notification":
            logger.warning("a notification may not have reached the agent: %s", why)
        for id in message.ids if message.kind == "request" else message.ids or [None] * (message.kind == "other"):
            self._arrived(failure(id, why, data), message.session)

    def _lost(self, message: Labelled, error: Exception) -> None:
        """Fail a message that may have arrived. If it was a request, a cancel withdraws it."""
        self._failed(message, f"the connection broke, and the message may have reached the agent ({because(error)})")
        if (key := message.key) is not None and not self._is_over:
            self._answered_here[key] = None
            if len(self._answered_here) > _LATE:
                del self._answered_here[next(iter(self._answered_here))]
            cancel = {"jsonrpc": "2.0", "method": CANCEL_METHOD, "params": {"requestId": message.ids[0]}}
            self._lanes.put_cancel(labelled(codec.encode(cancel)))

    # -- what arrives

    def _arrived(self, line: bytes, session: str | None) -> None:
        """Hand a message of the agent to the program, unless the program must not see it, or not yet."""
        if b'"id"' not in line:
            self._inbox.put(line)
            return
        message = labelled(line)
        if (key := message.key) is None:
            self._inbox.put(line)
        elif message.kind == "request":
            self._ask(key, session)
            self._inbox.put(line)
        elif key in self._answered_here:
            del self._answered_here[key]
        else:
            request = self._open.pop(key, None)
            is_held = request is not None and request.method in TAKES_UP and self._is_held(message)
            if request is not None:
                self._follow_as_answered(request, message)
            if not is_held:
                self._inbox.put(line)

    def _ask(self, key: Key, session: str | None) -> None:
        self._asked[key] = session
        if len(self._asked) > self._limits.asked:
            self._end(f"the agent has asked {self._limits.asked} questions and waits for the answers")

    def _is_held(self, response: Labelled) -> bool:
        """Hold a response that follows an event which has not arrived yet. Returns whether the response is held."""
        stream = self._streams.get(response.opens)
        return stream is not None and response.behind is not None and stream.hold(response.line, response.behind)

    def _follow_as_answered(self, request: Labelled, response: Labelled) -> None:
        """Begin or end GETs after a response that opens or closes a session."""
        session = request.session
        if not response.failed:
            if session is None or request.method not in ENDS | TAKES_UP:
                opened = response.opens
                if opened is not None and opened != session and is_header_id(opened):
                    self._streams.follow(opened)
            elif request.method in TAKES_UP:
                self._streams.reopen(session)
            else:
                self._streams.close(session)
        self._streams.settle(session)

    # -- its end

    def _end(self, problem: str | None) -> None:
        """End the stream: wake all waiters and cancel all tasks. `problem` is None if `aclose` ends the stream."""
        if self._is_over:
            return
        self._is_over = True
        self.problem = problem
        if problem is not None:
            logger.info("the connection to a remote agent has ended: %s", problem)
        self._inbox.end(None if problem is None else anyio.BrokenResourceError(problem))
        self._connected.set()
        self._lanes.end()
        self._streams.wake()
        for scope in list(self._scopes):
            scope.cancel()

    async def _say_goodbye(self) -> None:
        if not self._source.connection:
            return
        try:
            await self._exchanges.ask("DELETE", {CONNECTION: self._source.connection})
        except (httpx.HTTPError, TooManyCookies) as error:
            logger.debug("DELETE of the connection failed: %s", because(error))

    def _spawn(self, work: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        self._tasks.spawn(self._run, work, *args)

    async def _run(self, work: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                if not self._is_over:
                    await work(*args)
            finally:
                self._scopes.discard(scope)

    def _crashed(self, error: BaseException) -> None:
        if not isinstance(error, anyio.get_cancelled_exc_class()):
            logger.error("a task of a remote connection failed", exc_info=error)
            self._end("an internal error")
