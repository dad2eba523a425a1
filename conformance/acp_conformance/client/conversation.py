"""The messages between the client and one of its agent processes, whose messages the suite writes.

A conversation reads in the background, keeps messages until a case reads them, and matches responses to requests. It
answers requests that the case does not test, so that every client gets as far as with a real agent. It judges nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

import anyio

from acp_conformance.core.lines import Framer, TooLong, Transcript
from acp_conformance.core.schema import announced, encoded, errors_of, methods, same_id

from .checks import Watch
from .dialect import Dialect
from .link import Gone, Link
from .pace import Pace

MAX_MESSAGES = 20_000
"""Messages of one conversation beyond which the client floods."""

_HELD = frozenset({"initialize", "session/new", "session/prompt"})
_EMPTY: dict[str, Any] = {
    "session/list": {"sessions": []},
    "session/set_config_option": {"configOptions": []},
}

T = TypeVar("T")


class Silent(Exception):
    """The client did not send an expected message in time. `ready` tells whether the message has arrived since."""

    def __init__(self, what: str, seconds: float, ready: Callable[[], object] = lambda: None) -> None:
        super().__init__(f"{what} did not come within {seconds:.3g} s")
        self.what = what
        self.ready = ready


class Ended(Exception):
    """The client closed the connection before it sent an expected message."""


class Message:
    """A request or a notification of the client."""

    def __init__(self, value: dict[str, Any], place: int) -> None:
        self.value = value
        self.place = place
        """Its index among all messages of the client."""
        self.method: str = value["method"]
        self.params: Any = value.get("params")

    @property
    def is_request(self) -> bool:
        """Whether the message needs a response."""
        return "id" in self.value

    def param(self, name: str) -> Any:
        """Return a parameter, or None."""
        return self.params.get(name) if isinstance(self.params, dict) else None


class Ask:
    """A request to the client, and all its responses."""

    def __init__(self, id: Any, method: str) -> None:
        self.id = id
        self.method = method
        self.answers: list[dict[str, Any]] = []
        self.place = 0
        """The index of the first response among all messages of the client; 0 before it."""


class Conversation:
    """The conversation of one agent process. `run` reads the messages; cases call the other methods."""

    def __init__(self, link: Link, watch: Watch, transcript: Transcript, pace: Pace, dialect: Dialect) -> None:
        self.pace = pace
        self.dialect = dialect
        self.capabilities: dict[str, Any] = {}
        """The features that the suite, as the agent, has announced."""
        self.first: dict[str, Any] | None = None
        """The first message of the client."""
        self.log: list[str] = []
        """The methods of all its requests and notifications so far."""
        self.strays: list[dict[str, Any]] = []
        """Responses without a request."""
        self.closed = anyio.Event()
        """The client has closed the agent's input."""
        self.over = anyio.Event()
        """The agent process has ended, for whatever reason."""
        self._link = link
        self._watch = watch
        self._transcript = transcript
        self._framer = Framer()
        self._waiting: list[Message] = []
        self._held = set(_HELD)
        self._asks: list[Ask] = []
        self._ids = itertools.count(1)
        self._sessions = itertools.count(1)
        self._messages = 0
        self._place = 0
        self._ending = "the client closed the connection"
        self._written = anyio.Event()
        self._changed = anyio.Event()

    @property
    def patience(self) -> float:
        """The time-out of the client for one response, in seconds."""
        return self.pace.patience

    # -- in the background

    async def run(self) -> None:
        """Read until the agent process has ended."""
        try:
            while True:
                kind, content = await self._link.frame()
                if kind == b"I":
                    await self._feed(content)
                elif kind == b"E":
                    if rest := self._framer.rest():
                        await self._line(rest)
                    self._note("the client closes its agent's input")
                    self.closed.set()
                elif kind == b"W":
                    self._written.set()
                self._signal()
        except (Gone, TooLong) as error:
            if isinstance(error, TooLong):
                self._ending = f"the client wrote {error}"
                self._note(self._ending)
        finally:
            self.closed.set()
            self.over.set()
            self._signal()
            with anyio.CancelScope(shield=True):
                await self._link.aclose()

    async def _feed(self, data: bytes) -> None:
        for line in self._framer.feed(data):
            await self._line(line)

    async def _line(self, line: bytes) -> None:
        self._messages += 1
        if self._messages > MAX_MESSAGES:
            raise TooLong(f"more than {MAX_MESSAGES:,} messages")
        self._transcript.add("subject", line)
        message = self._watch.received(line)
        for each in message if isinstance(message, list) else [message]:
            if isinstance(each, dict):
                await self._take(each)

    async def _take(self, value: dict[str, Any]) -> None:
        self._place += 1
        self.first = self.first or value
        if "method" not in value:
            ask = next((ask for ask in self._asks if same_id(ask.id, value.get("id"))), None)
            if ask is None:
                self.strays.append(value)
            else:
                ask.answers.append(value)
                ask.place = ask.place or self._place
        elif isinstance(value["method"], str):
            message = Message(value, self._place)
            self.log.append(message.method)
            if message.method in self._held or not message.is_request:
                self._waiting.append(message)
            else:
                await self.answer_by_itself(message)

    # -- waiting

    async def until(self, ready: Callable[[], T | None], what: str, patience: float | None = None) -> T:
        """Wait until `ready` returns something, and return it.

        Raises:
            Silent: `ready` returned nothing in time. The text names `what`, the expected message.
            Ended: The connection was closed before.
        """
        patience = self.patience if patience is None else patience
        with anyio.move_on_after(patience):
            while True:
                if (found := ready()) is not None:
                    return found
                if self.closed.is_set():
                    raise Ended(f"{self._ending}; {what} was to come")
                await self._changed.wait()
        raise Silent(what, patience, ready)

    async def comes_late(self, missing: Silent) -> bool:
        """Whether `ready` returns something after the time-out, within the same time again."""
        try:
            await self.until(missing.ready, missing.what)
        except (Silent, Ended):
            return False
        return True

    async def receive(self, method: str, patience: float | None = None) -> Message:
        """Wait for the next request or notification of the client by this name. Raises like `until`."""
        return await self.any_of(method, patience=patience)

    async def any_of(self, *names: str, patience: float | None = None) -> Message:
        """Wait for the next request or notification by one of these names. Raises like `until`."""
        return await self.until(lambda: next(self._pick(names), None), " or ".join(names), patience)

    async def answer(self, ask: Ask, patience: float | None = None) -> dict[str, Any]:
        """Wait for the first response to `ask`. Raises like `until`."""
        return await self.until(
            lambda: ask.answers[0] if ask.answers else None, f"an answer to {ask.method} ({ask.id!r})", patience
        )

    # -- sending

    async def send(self, message: Any) -> None:
        """Write a message. Nothing happens if the agent process has ended."""
        self._watch.sent(message)
        line = encoded(message)
        self._transcript.add("suite", line)
        await self._frame(b"O", line + b"\n")

    async def write(self, data: bytes, *messages: Any) -> None:
        """Write bytes unchanged, such as several `messages` at once, or bytes that are not a message."""
        for message in messages or [None]:
            self._watch.sent(message)
        for line in data.removesuffix(b"\n").split(b"\n"):
            self._transcript.add("suite", line)
        await self._frame(b"O", data)

    async def ask(self, method: str, params: Any, **id: Any) -> Ask:
        """Send a request with the id `id`, or with a new id."""
        ask = self.expect(method, **id)
        await self.send({"jsonrpc": "2.0", "id": ask.id, "method": method, "params": params})
        return ask

    def expect(self, method: str, **id: Any) -> Ask:
        """Expect the responses to a request that is sent by other means."""
        ask = Ask(id["id"] if id else next(self._ids), method)
        # The newest first: an id may be used again.
        self._asks.insert(0, ask)
        return ask

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def reply(self, request: Message, result: Any) -> None:
        """Answer a request. Has no effect for a notification."""
        if request.is_request:
            await self.send({"jsonrpc": "2.0", "id": request.value["id"], "result": result})

    async def refuse(self, request: Message, code: int, message: str) -> None:
        """Answer a request with an error. Has no effect for a notification."""
        if request.is_request:
            await self.send({"jsonrpc": "2.0", "id": request.value["id"], "error": {"code": code, "message": message}})

    # -- the agent process itself

    async def write_stderr(self, data: bytes) -> None:
        """Make the agent process write to its standard error, and wait until the text is written. Raises like
        `until`."""
        self._note(f"the agent writes {len(data):,} bytes to its standard error")
        for start in range(0, len(data), 65536):
            self._written = written = anyio.Event()
            await self._frame(b"W", data[start : start + 65536])
            await self.until(
                lambda event=written: event.is_set() or None, "room in the pipe for the agent's standard error"
            )

    async def exit(self, status: int) -> None:
        """End the agent process."""
        self._note(f"the agent exits with status {status}")
        await self._frame(b"X", str(status).encode())

    async def close_output(self) -> None:
        """Make the agent process close its output."""
        self._note("the agent closes its output")
        await self._frame(b"C")

    async def aclose(self) -> None:
        """Release the agent process."""
        await self._link.aclose()

    # -- requests that no case is about

    async def answer_by_itself(self, message: Message) -> None:
        """Answer a request like a simple agent, which refuses params that the schema does not allow."""
        known = methods(self.dialect.version).get(message.method)
        params = {} if message.params is None else message.params
        checked = known is not None and known["receiver"] == "agent" and self.dialect.version == 1
        if known is not None and checked and errors_of(known["params"], params):
            await self.refuse(message, -32602, "Invalid params")
            return
        match message.method:
            case "initialize":
                await self.reply(message, self.dialect.hello())
            case "session/new":
                await self.reply(message, {"sessionId": self.new_session_id()})
            case "session/prompt":
                await self.dialect.begin_turn(self, message)
                await self.dialect.end_turn(self, message, "end_turn")
            case method:
                if known is None or known["receiver"] == "client" or not self._announces(known["capability"]):
                    await self.refuse(message, -32601, "Method not found")
                else:
                    await self.reply(message, _EMPTY.get(method, {}))

    def hold(self, *names: str) -> None:
        """Leave later requests of these names to the case."""
        self._held.update(names)

    async def release(self, *names: str) -> None:
        """Answer requests of these names again, including waiting requests."""
        self._held.difference_update(names)
        for message in list(self._pick(names)):
            await self.answer_by_itself(message)

    def new_session_id(self) -> str:
        """Return a session id that was not used."""
        return f"sess_Ü/{next(self._sessions)}"

    def _announces(self, capability: str | None) -> bool:
        return capability is None or announced(self.capabilities, capability.partition(".")[2])

    def _pick(self, names: Collection[str]) -> Iterator[Message]:
        for message in list(self._waiting):
            if message.method in names:
                self._waiting.remove(message)
                yield message

    async def _frame(self, kind: bytes, content: bytes = b"") -> None:
        try:
            for start in range(0, max(len(content), 1), 1 << 20):
                await self._link.send(kind, content[start : start + (1 << 20)])
        except Gone:
            pass  # the waiting task is notified

    def _note(self, text: str) -> None:
        self._transcript.add("suite", f"# {text}".encode())

    def _signal(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
