"""A client and an agent for tests with raw messages. Messages are dictionaries, which are sent unchecked and unchanged.

    async with scripted(lambda stream: agent.connect(stream).run()) as client:
        await client.ask("initialize", {"protocolVersion": 1})
        client.answer("session/request_permission", {"outcome": {"outcome": "cancelled"}})
        id = await client.request("session/prompt", {...})
        await client.expect("session/update")
        await client.notify("session/cancel", {...})
        assert (await client.response(id))["result"] == {"stopReason": "cancelled"}

Every wait has a time-out. If it fails, the failure shows all messages so far. This module does not know the methods of
the protocol, so it can test any agent and any client.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, NoReturn, Self, cast

import anyio

from acp_server.agent.record import Direction, Transcript
from acp_server.peer.stream import Stream
from acp_server.tasks.running import Spawner
from acp_server.testing.streams import memory_pair
from acp_server.wire import codec
from acp_server.wire.framing import LineFramer, TooLong

Message = dict[str, Any]
Match = str | Callable[[Message], bool]
"""The method of a request or notification, or a function that checks the message."""

BARRIER = "_test/barrier"
"""The method that `barrier` sends. No agent has it."""

_SHOWN: Final = 200
"""The number of lines of the transcript that a failure shows."""


class _Peer:
    """One end of `stream`. It is used in an `async with` block, which closes the stream at its end.

    `patience`: seconds that each wait may take.
    """

    _other: Direction
    """The direction of the other end's messages."""

    def __init__(self, stream: Stream, *, patience: float = 20.0) -> None:
        self.received: list[Message] = []
        """Every message from the other end, in order."""
        self._responses: dict[bytes, Message] = {}
        """The first response to each id. The key is the id as JSON, in which 7, 7.0 and "7" differ."""
        self.transcript: Transcript = Transcript()
        """All messages in both directions."""
        self.patience = patience
        self._stream = stream
        self._framer = LineFramer()
        self._ids = itertools.count()
        self._seen = 0
        self._answers: dict[str, Any] = {}
        self._changed = anyio.Event()
        self._ended = False
        self._failure: BaseException | None = None
        self._reading = anyio.CancelScope()
        self._house = Spawner(self.failed)

    async def __aenter__(self) -> Self:
        self._house.spawn(self._read)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._reading.cancel()
        try:
            await self._stream.aclose()
        finally:
            await self._house.wait_idle()
        if kind is None and self._failure is not None:
            raise self._failure

    # -- sending

    async def send(self, *messages: Any) -> None:
        """Send messages unchanged, all in one chunk."""
        await self.send_raw(b"".join(codec.encode(message) for message in messages))

    async def send_raw(self, data: bytes) -> None:
        """Send any bytes."""
        for line in data.splitlines():
            self.transcript.add("in" if self._other == "out" else "out", line)
        try:
            await self._stream.send(data)
        except anyio.BrokenResourceError:
            if self._failure is None:
                raise
            self.fail(f"nothing can be sent, and {self._end()}")

    async def request(self, method: str, params: Any = None, *, id: Any = None) -> Any:
        """Send a request without waiting for its response. Returns its id, by default the next integer."""
        message = self.new_request(method, params, id=id)
        await self.send(message)
        return message["id"]

    async def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        await self.send(new_notification(method, params))

    async def ask(self, method: str, params: Any = None) -> Message:
        """Send a request and wait for its response. Returns the whole response."""
        return await self.response(await self.request(method, params))

    async def result(self, method: str, params: Any = None) -> Any:
        """Send a request and wait for its result. Fails the test if the response is an error."""
        response = await self.ask(method, params)
        if "result" not in response:
            self.fail(f"{method} was answered with an error")
        return response["result"]

    async def respond(self, request: Message, result: Any) -> None:
        """Answer a request of the other end."""
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def refuse(self, request: Message, code: int, message: str = "refused") -> None:
        """Answer a request of the other end with an error."""
        await self.send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}})

    def answer(self, method: str, result: Any) -> None:
        """Answer later requests of this method with `result` as soon as they arrive.

        If `result` is a function, it gets the whole request and returns the result, or a coroutine for it. While the
        coroutine runs, later messages are not read. Requests without an answer stay unanswered.
        """
        self._answers[method] = result

    def leave_unanswered(self, method: str) -> None:
        """Stop answering requests of this method, so that `expect` and `respond` can handle them."""
        self._answers.pop(method, None)

    async def barrier(self) -> None:
        """Wait until the other end has read everything that was sent before. Sends a request that the other end must
        refuse."""
        response = await self.ask(BARRIER)
        if "error" not in response:
            self.fail(f"the other end knows {BARRIER}")

    def new_request(self, method: str, params: Any = None, *, id: Any = None) -> Message:
        """Make a request without sending it; see `request`."""
        return {"jsonrpc": "2.0", "id": next(self._ids) if id is None else id, **_call(method, params)}

    # -- waiting

    async def expect(self, match: Match) -> Message:
        """Wait for the next message that matches, after the message that the last `expect` returned. Messages in
        between are skipped."""
        for index in itertools.count(self._seen):
            await self._wait_for(lambda index=index: len(self.received) > index, f"no message fits {_described(match)}")
            message = self.received[index]
            if _fits(match, message):
                self._seen = index + 1
                return message
        raise AssertionError

    async def expect_request(self, method: str) -> Message:
        """Wait for a request like `expect`. Fails the test if the message has no id."""
        message = await self.expect(method)
        if "id" not in message:
            self.fail(f"{method} came as a notification")
        return message

    async def response(self, id: Any) -> Message:
        """Return the response to the request with this id. Waits if it has not arrived yet."""
        key = codec.encode(id)
        await self._wait_for(lambda: key in self._responses, f"request {id!r} has no answer")
        return self._responses[key]

    async def wait_ended(self) -> None:
        """Wait until the other end has closed its side."""
        await self._wait_for(lambda: self._ended, "the other end did not close the connection", at_end=True)

    def all(self, match: Match) -> list[Message]:
        """Return all messages so far that match."""
        return [message for message in self.received if _fits(match, message)]

    def updates(self, session_id: str | None = None) -> list[Message]:
        """Return all session updates so far, of one session or of all sessions. Each is the member `update` of its
        notification."""
        return [
            message["params"]["update"]
            for message in self.all("session/update")
            if session_id is None or message["params"]["sessionId"] == session_id
        ]

    def fail(self, why: str) -> NoReturn:
        """Fail the test and show the transcript. If it is long, its middle is omitted."""
        lines = str(self.transcript).split("\n")
        if len(lines) > _SHOWN:
            half = _SHOWN // 2
            lines[half:-half] = [f"     ... {len(lines) - 2 * half} lines omitted; `transcript` has them ..."]
        raise AssertionError("\n".join([why, *lines])) from self._failure

    async def _wait_for(self, true: Callable[[], bool], otherwise: str, at_end: bool = False) -> None:
        with anyio.move_on_after(self.patience):
            while not true():
                if self._ended and not at_end:
                    self.fail(f"{otherwise}, and {self._end()}")
                await self._changed.wait()
            return
        self.fail(f"{otherwise}, after {self.patience:g} s")

    # -- receiving

    async def _read(self) -> None:
        try:
            with self._reading:
                while data := await self._stream.receive():
                    for line in self._framer.feed(data):
                        await self._line(line.head if isinstance(line, TooLong) else bytes(line))
        except anyio.ClosedResourceError:
            # `__aexit__` has closed the stream before the cancel of this task was delivered.
            if not self._reading.cancel_called:
                raise
        finally:
            self._ended = True
            self._signal()

    async def _line(self, line: bytes) -> None:
        message = self.transcript.add(self._other, line)
        if not isinstance(message, dict):
            # A response to a batch, or a line that is not a message.
            message = {"line": message if message is not None else line}
        message = cast("Message", message)
        self.received.append(message)
        method = message.get("method")
        if "id" in message and "method" not in message:
            self._responses.setdefault(codec.encode(message["id"]), message)
        self._signal()
        if "id" in message and method in self._answers:
            result = self._answers[method]
            if callable(result):
                result = result(message)
                if inspect.isawaitable(result):
                    result = await result
            await self.respond(message, result)

    def _end(self) -> str:
        """Return why no more messages come."""
        error = self._failure
        return f"{type(error).__name__}: {error}" if error is not None else "the other end has closed the connection"

    def _signal(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def failed(self, error: BaseException) -> None:
        """Make waits that fail show this error as their cause."""
        if self._failure is None and not isinstance(error, anyio.get_cancelled_exc_class()):
            self._failure = error


class ScriptedClient(_Peer):
    """A client for tests of agents."""

    _other = "out"


class ScriptedAgent(_Peer):
    """An agent for tests of clients. Its `request` is sent to the client."""

    _other = "in"


def new_notification(method: str, params: Any = None) -> Message:
    """Make a notification without sending it."""
    return {"jsonrpc": "2.0", **_call(method, params)}


def _call(method: str, params: Any) -> Message:
    return {"method": method} if params is None else {"method": method, "params": params}


def _fits(match: Match, message: Message) -> bool:
    return message.get("method") == match if isinstance(match, str) else match(message)


def _described(match: Match) -> str:
    return repr(match) if isinstance(match, str) else getattr(match, "__name__", repr(match))


@asynccontextmanager
async def scripted(
    serve: Callable[[Stream], Awaitable[Any]], *, patience: float = 20.0, wrap: Callable[[Stream], Stream] | None = None
) -> AsyncGenerator[ScriptedClient]:
    """Connect a client in memory to the server `serve(stream)`, for example `lambda stream:
    agent.connect(stream).run()`.

    `wrap` may put a `FaultyStream` around the server's end. At the end of the block the client closes its end. The
    server has `patience` seconds to end, and its exception is raised.
    """
    here, there = memory_pair()
    ended: list[BaseException | None] = []

    client = ScriptedClient(here, patience=patience)

    async def run() -> None:
        try:
            await serve(there if wrap is None else wrap(there))
        except Exception as error:
            # The client's pending waits will fail: show them the cause.
            client.failed(error)
            await there.aclose()
            raise
        ended.append(None)

    house = Spawner(ended.append)
    house.spawn(run)
    try:
        async with client:
            yield client
    finally:
        with anyio.move_on_after(patience):
            await house.wait_idle()
    if not ended:
        client.fail(f"the server did not end within {patience:g} s")
    if ended[0] is not None:
        raise ended[0]
