"""`EventStreams` reads the streams of a connection. Each stream is read by a GET, which is repeated when it breaks."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from typing import Any, Final

import anyio
import httpx

from acp_server.remote.address import CONNECTION, CURSOR, SESSION, is_header_id
from acp_server.remote.events import Event, EventReader, EventTooLong
from acp_server.remote.exchange import NOT_SENT, Exchanges, TooManyCookies, because, refusal
from acp_server.remote.labels import TAKES_UP, Key, Labelled
from acp_server.remote.lanes import Spawn
from acp_server.remote.routing import has_reached
from acp_server.remote.settings import Backoff, ClientLimits
from acp_server.tasks.grace import grace

logger: logging.Logger = logging.getLogger("acp_server.remote")

_EVENTS: Final = "text/event-stream"
_CLOSING: Final = 32
"""The most streams of closed sessions that are still read (`ClientLimits.closing`)."""


class _Unavailable(Exception):
    """Raised if the server did not open a stream, but may do so later. No message is lost."""


@dataclass(slots=True, kw_only=True)
class Source:
    """The connection of an `EventStream`, and the receiver of its messages."""

    exchanges: Exchanges
    limits: ClientLimits
    backoff: Backoff
    arrived: Callable[[bytes, str | None], None]
    """Takes a message, and the session of its stream."""
    put: Callable[[bytes], None]
    """Takes a message that `EventStream.hold` has held."""
    room: Callable[[], Awaitable[None]]
    """Waits until more messages may arrive."""
    end: Callable[[str], None]
    """Ends the connection, with the reason."""
    connection: str = ""
    """The id of the connection, or empty until `initialize` is answered."""
    is_resumable: bool = False
    """Whether the server resumes a stream after a cursor."""


class EventStream:
    """The stream of one session, or of the connection."""

    def __init__(self, session: str | None, source: Source) -> None:
        self.session = session
        self.ready: anyio.Event = anyio.Event()
        """Set when the server has opened the stream, or has answered that it does not know the session yet."""
        self.is_known: bool = True
        """Whether the server knows the session."""
        self.is_closing: bool = False
        """Whether the session was closed. Responses to its requests still arrive on the stream. So do requests of the
        agent that follow late responses, such as `terminal/release`."""
        self._source = source
        self._name = source.exchanges.address.name
        self._scope = anyio.CancelScope()
        self._cursor: str | None = None
        """The cursor of the last event."""
        self._heard = 0
        """The number of events that have arrived."""
        self._held: dict[str, list[bytes]] = {}
        """Responses that arrived on the connection's stream before the event that they follow, by the cursor of that
        event."""

    @property
    def deadline(self) -> float:
        """Return the time at which the stream ends, in seconds of the event loop's clock."""
        return self._scope.deadline

    @property
    def is_lingering(self) -> bool:
        """Whether the stream ends at a deadline. If it breaks before, the connection continues without it."""
        return self.deadline < math.inf

    @property
    def is_over(self) -> bool:
        """Whether the stream was ended by its deadline or by `end`."""
        return self._scope.cancel_called

    def linger(self, seconds: float) -> None:
        """End the stream after `seconds`; `math.inf` keeps it."""
        self._scope.deadline = anyio.current_time() + seconds

    async def run(self) -> None:
        """Read until the end, or until the server answers that it does not know the session. End the connection if
        messages are lost."""
        with self._scope:
            delays = self._source.backoff.delays()
            while True:
                heard = self._heard
                try:
                    why = await self._read()
                except (httpx.HTTPError, EventTooLong, TooManyCookies, _Unavailable) as error:
                    why = because(error)
                    if not self._may_resume(error):
                        self._fail(f"the connection to {self._name} broke, and messages are lost ({why})")
                        return
                if why is None:
                    return
                if self._heard > heard:
                    delays = self._source.backoff.delays()
                if (delay := next(delays, None)) is None:
                    self._fail(f"the connection to {self._name} broke too often ({why})")
                    return
                logger.info("the connection broke; reconnecting: %s", why)
                await anyio.sleep(delay)

    def end(self) -> None:
        """End the GET, and pass the held responses on."""
        self._scope.cancel()
        self.ready.set()
        for response in chain.from_iterable(self._held.values()):
            self._source.put(response)
        self._held.clear()

    def hold(self, response: bytes, behind: str) -> bool:
        """Hold a response until the event with the cursor `behind` has arrived. Returns False if the response need not
        wait."""
        if not self.is_known or has_reached(behind, self._cursor):
            return False
        self._held.setdefault(behind, []).append(response)
        return True

    def _fail(self, problem: str) -> None:
        if not self.is_lingering:
            self._source.end(problem)

    def _may_resume(self, error: Exception) -> bool:
        """Whether another GET loses no message, because the server resumes after a cursor or has sent nothing yet."""
        if isinstance(error, EventTooLong | TooManyCookies):
            return False
        if isinstance(error, (*NOT_SENT, _Unavailable)) or self._cursor is not None:
            return True
        if self._source.is_resumable and not self._heard:
            # Messages may have been sent without reaching the client. An empty cursor asks for all of them.
            self._cursor = ""
            return True
        return False

    async def _read(self) -> str | None:
        """Read one GET to its end. Returns why the GET must be repeated, or None if it must not be. Raises
        httpx.HTTPError, EventTooLong, TooManyCookies and _Unavailable."""
        headers: dict[str, Any] = {"Accept": _EVENTS, CONNECTION: self._source.connection}
        if self.session is not None:
            headers[SESSION] = self.session
        if self._cursor is not None:
            headers[CURSOR] = self._cursor
        async with self._source.exchanges.open("GET", headers) as response:
            if not self._is_opened(response):
                return None
            self.ready.set()
            await self._events(response)
        return None if self.is_lingering else "the server ended the stream"

    async def _events(self, response: httpx.Response) -> None:
        parser = EventReader(self._source.limits.event)
        problem: EventTooLong | None = None
        # The generators of httpx close in order, on trio too, only if they are cancelled while they wait. So the
        # loop is left by a cancel alone, and exceptions are raised after it.
        with anyio.CancelScope() as silence:
            async for chunk in response.aiter_raw():
                try:
                    for event in parser.feed(chunk):
                        self._take(event)
                except EventTooLong as error:
                    problem = error
                    silence.cancel()
                silence.deadline = math.inf
                with grace(None):
                    await self._source.room()
                if parser.has_comments:
                    silence.deadline = anyio.current_time() + self._source.limits.silence
        if problem is not None:
            raise problem
        if silence.cancelled_caught:
            raise httpx.ReadTimeout("the server has sent nothing for too long")
        if response.http_version.startswith("HTTP/1") and "transfer-encoding" not in response.headers:
            raise httpx.RemoteProtocolError("the stream ended without saying so")

    def _is_opened(self, response: httpx.Response) -> bool:
        """Whether the server has opened the stream. If not, the GET must not be repeated. Raises _Unavailable."""
        status = response.status_code
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if status == HTTPStatus.OK and kind == _EVENTS and "content-encoding" not in response.headers:
            self.is_known = True
            return True
        is_new = not self._heard and self._cursor is None
        if status == HTTPStatus.NOT_FOUND and self.session is not None and is_new:
            # Some servers know a session only once it is loaded or resumed. That response begins another GET.
            self.is_known = False
            self.ready.set()
            return False
        if status >= 500 or "retry-after" in response.headers:
            # For example, the server has not noticed yet that the connection of the last GET is dead.
            raise _Unavailable(f"status {status}")
        if status == HTTPStatus.OK:
            self._fail(f"{self._name} answered with something else than a stream of events")
        else:
            self._fail(refusal(response, b"", self._source.exchanges.address))
        return False

    def _take(self, event: Event) -> None:
        if event.id is not None:
            if event.id == self._cursor:
                return  # Some servers repeat the event of the cursor instead of starting after it.
            self._cursor = event.id if is_header_id(event.id) else None
        self._heard += 1
        if event.data and event.kind in (b"", b"message"):
            self._source.arrived(event.data, self.session)
        if self._held:
            for response in self._held.pop(self._cursor or "", ()):
                self._source.put(response)


class EventStreams:
    """The streams of one connection, by session. The stream of None is the connection's own. `requests`: the program's
    in-flight requests. `spawn` starts a task for each stream."""

    def __init__(self, source: Source, requests: Mapping[Key, Labelled], spawn: Spawn) -> None:
        self._source = source
        self._requests = requests
        self._spawn = spawn
        self._streams: dict[str | None, EventStream] = {}

    def get(self, session: str | None) -> EventStream | None:
        """Return the stream of a session, or None."""
        stream = self._streams.get(session)
        return None if stream is None or stream.is_over else stream

    def has_room(self, session: str) -> bool:
        """Whether the session has a stream or may have another one. If needed, a lingering stream is ended for it."""
        most = self._source.limits.sessions + 1
        return session in self._streams or len(self._streams) < most or self._end_lingering()

    def follow(self, session: str | None) -> EventStream:
        """Return the stream of a session. Begin its GET if there is none. Also begin it if the last GET found the
        session unknown, and no request is opening the session now."""
        stream = self.get(session)
        if stream is None or (not stream.is_known and stream.ready.is_set() and not self._is_taken_up(session)):
            stream = self._streams[session] = EventStream(session, self._source)
            self._spawn(self._run, stream)
        return stream

    def keep(self, session: str | None) -> None:
        """Keep the stream of a closed session for another request. If streams cannot be resumed, the request begins a
        new stream: the server may have forgotten the session, and a broken stream would end the connection."""
        stream = self.get(session)
        if stream is None or not stream.is_lingering:
            return
        if self._source.is_resumable:
            stream.linger(math.inf)
        else:
            self._drop(stream)

    def close(self, session: str | None) -> None:
        """Record that a session was closed (see `settle`)."""
        if (stream := self.get(session)) is not None:
            stream.is_closing = True

    def reopen(self, session: str) -> None:
        """Record that a session was opened again."""
        self.follow(session).is_closing = False

    def settle(self, session: str | None) -> None:
        """End the stream of a closed session after `closing` seconds, unless a request of the session is in flight."""
        stream = self.get(session)
        if stream is None or not stream.is_closing or any(each.session == session for each in self._requests.values()):
            return
        if not stream.is_known:
            self._drop(stream)
            return
        stream.linger(self._source.limits.closing)
        if sum(each.is_lingering for each in self._streams.values()) > _CLOSING:
            self._end_lingering()

    def wake(self) -> None:
        """Release the tasks that wait for a stream to open, because the connection has ended."""
        for stream in self._streams.values():
            stream.ready.set()

    def _is_taken_up(self, session: str | None) -> bool:
        return any(each.session == session and each.method in TAKES_UP for each in self._requests.values())

    def _end_lingering(self) -> bool:
        """End the lingering stream with the earliest deadline. Returns False if none lingers."""
        first = min(self._streams.values(), key=lambda each: each.deadline, default=None)
        if first is None or not first.is_lingering:
            return False
        self._drop(first)
        return True

    async def _run(self, stream: EventStream) -> None:
        await stream.run()
        if stream.is_lingering:
            self._drop(stream)

    def _drop(self, stream: EventStream) -> None:
        if self._streams.get(stream.session) is stream:
            del self._streams[stream.session]
        stream.end()
