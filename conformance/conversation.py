"""A case's conversation with its subject: send, await what comes back, and answer what the subject asks.

Everything the subject writes is read at once by a task of its own, kept in `received` in order of arrival, checked
against the schema, and, where it is a request, answered by a well-behaved editor (`agent.editor`) unless the case has
taken that method over with `on` or `hold`. So a case awaits only what its rule is about. No wait is for ever: each
gives up after `patience` seconds, or at once when the subject's output ends, with a reason that says what was awaited.

What only agents know (sessions, prompts) is in `peer`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

from .editor import HOLD, Editor, Refuse
from .exchange import Ended, Incoming, NoAnswer, Pending, Received
from .lines import Framer, TooLong, Transcript
from .process import Process
from .schema import Checker, JsonId, parse, same_id
from .violation import Violation

T = TypeVar("T")

MAX_RECEIVED = 20_000
"""Messages of one conversation; a subject that writes more is flooding."""


class Conversation:
    """One conversation with one fresh process. `run` must be running in a task group while it is used."""

    def __init__(self, process: Process, checker: Checker, editor: Editor, *, patience: float) -> None:
        self.process = process
        self.checker = checker
        self.editor = editor
        self.patience = patience
        """Seconds that a wait lasts at most, unless it says otherwise."""
        self.transcript = Transcript()
        self.received: list[Received] = []
        """Everything the subject wrote, line by line."""
        self.violations: list[Violation] = []
        """What the background check of every message has found."""
        self.requests: list[Incoming] = []
        """The subject's requests, in order."""
        self.unfinished = b""
        """What followed the last newline of the subject's output."""
        self.ended = ""
        """Why no more can come, once the subject's output has ended; empty before."""
        self.input_broken = False
        """The subject stopped reading: a write met a broken pipe."""
        self.yields_to_cancel = True
        """Whether a held request that the subject withdraws is answered with -32800 at once."""
        self.waiting = ""
        """What the case awaits now, for the reason of a time-out."""
        self._handlers: dict[str, Callable[[Incoming], object]] = {}
        self._seen: dict[str | None, int] = {}
        self._asked: list[Pending] = []
        self._next_id = 1
        self._outbox: list[bytes] = []
        self._outgoing = Framer()
        self._changed = anyio.Event()

    # Sending.

    async def request(self, method: str, params: object = None, *, id: JsonId | None = None) -> Pending:
        """Send a request; its handle, at once. `params` None sends none; without `id` a new integer is taken."""
        if id is None:
            id, self._next_id = self._next_id, self._next_id + 1
        pending = self._pending(id, method)
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
        await self.send(message if params is None else {**message, "params": params})
        return pending

    async def notify(self, method: str, params: object = None) -> None:
        """Send a notification. `params` None sends none."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        await self.send(message if params is None else {**message, "params": params})

    async def send(self, message: object) -> None:
        """Send any JSON value as one line."""
        self.post(message)
        await self.flush()

    async def raw(self, data: bytes) -> None:
        """Send exactly these bytes, in one write where the pipe takes them; the newline is yours."""
        self._post_bytes(data)
        await self.flush()

    def expect(self, id: JsonId, method: str = "a message") -> Pending:
        """A handle for the answers that come from now on to the request `id`, however that is sent."""
        self.checker.expect(id)
        return self._pending(id, method)

    def new_id(self) -> int:
        """An id that no request had, for messages that are put together by hand."""
        id, self._next_id = self._next_id, self._next_id + 1
        return id

    def post(self, message: object) -> None:
        """Queue a JSON value as one line without waiting until it is written."""
        self._post_bytes(json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")

    async def flush(self) -> None:
        """Wait until everything that was sent has left for the pipe, or the subject stopped reading.

        Raises:
            NoAnswer: The subject does not read its input.
        """
        await self.wait_for(
            lambda: True if not self._outbox or self.input_broken else None, "room in its standard input", live=False
        )

    async def stop_reading(self) -> None:
        """Close our end of the subject's output: what it writes from now on meets a broken pipe."""
        self.process.close_output()
        await self.eof()

    async def end_input(self) -> None:
        """Close the subject's standard input, after everything that was sent is written."""
        await self.flush()
        self.checker.adverse |= bool(self._outgoing.rest())  # input that ends inside of a line may be answered
        self.process.end_input()

    def wants_login(self, method: str, error: object) -> bool:
        """Whether an error only says that the user has to authenticate first; an agent's conversation knows."""
        return False

    # Awaiting.

    async def wait_for(
        self, find: Callable[[], T | None], what: str, *, within: float | None = None, live: bool = True
    ) -> T:
        """Await what `find` finds: it is called again whenever something has happened, until it returns not None.

        Args:
            what: A noun phrase for the reason, should it not come.
            within: Seconds; default is `patience`.
            live: Give up as soon as the subject's output has ended.

        Raises:
            NoAnswer: It did not come in time.
            Ended: The subject's output ended first.
        """
        seconds = self.patience if within is None else within
        outer, self.waiting = self.waiting, what
        with anyio.move_on_after(seconds):
            while (found := find()) is None:
                if live and self.ended:
                    raise Ended(what, self.ended)
                await self._changed.wait()
            self.waiting = outer
            return found
        raise NoAnswer(what, seconds)

    async def next_request(self, method: str | None = None, *, within: float | None = None) -> Incoming:
        """The next request of the subject, of this method if one is given, that was not returned before.

        It may have been answered already, by the editor or a handler; to answer it yourself, `hold` its method first.
        """

        def find() -> Incoming | None:
            for request in self.requests[self._seen.get(method, 0) :]:
                if method in (None, request.method):
                    return request
            return None

        found = await self.wait_for(find, f"a request {method or 'of the subject'}", within=within)
        self._seen[method] = self.requests.index(found) + 1
        return found

    async def next_null_answer(self, *, within: float | None = None, since: int = 0) -> dict[str, Any]:
        """The first response with the id null from position `since` on, which is how unreadable input is answered."""
        return await self.wait_for(
            lambda: next(iter(self.null_answers(since)), None), "an error with the id null", within=within
        )

    def null_answers(self, since: int = 0) -> list[dict[str, Any]]:
        """The responses with the id null from position `since` on."""
        return Pending(self, None, "", since).answers

    def unasked(self, since: int = 0) -> list[Received]:
        """The lines from position `since` on that are neither calls nor the one answer to a request of ours."""
        owed = {pending.position for pending in self._asked}
        return [
            entry
            for entry in self.received[since:]
            if entry.position not in owed and not (isinstance(entry.message, dict) and "method" in entry.message)
        ]

    async def next_array(self, *, within: float | None = None, since: int = 0) -> list[Any]:
        """The first line from position `since` on that is an array: the answer to a batch."""
        return await self.wait_for(
            lambda: next((entry.message for entry in self.received[since:] if isinstance(entry.message, list)), None),
            "an array of answers",
            within=within,
        )

    async def eof(self, *, within: float | None = None) -> None:
        """Await the end of the subject's output."""
        await self.wait_for(lambda: self.ended or None, "the end of its output", within=within, live=False)

    async def exit(self, *, within: float | None = None) -> int:
        """Await the end of the subject's process and of everything it wrote: the status, negative for a signal."""
        status = None
        seconds = self.patience if within is None else within
        with anyio.move_on_after(seconds):
            status = await self.process.wait()
        if status is None:
            raise NoAnswer("the end of the process", seconds)
        # A child that was left behind may hold the pipe open.
        with anyio.move_on_after(0.2):
            while not self.ended:
                await self._changed.wait()
        return status

    async def settle(self, *, grace: float = 2.0) -> None:
        """End the input and read the output to its end: afterwards it is proven that nothing more comes.

        Unlike `exit` this is no judgement: a subject that lives on is killed after `grace` seconds.
        """
        await self.end_input()
        with anyio.move_on_after(grace):
            await self.process.wait()
        self.process.kill()
        with anyio.move_on_after(grace):
            while not self.ended:
                await self._changed.wait()

    # Answering.

    def on(self, method: str, handler: Callable[[Incoming], object]) -> None:
        """Answer this method by `handler(request)`: it returns the result, or `HOLD`, or raises `Refuse`."""
        self._handlers[method] = handler

    def hold(self, *methods: str) -> None:
        """Leave requests of these methods unanswered: take them with `next_request` and answer them when you like."""
        for method in methods:
            self._handlers[method] = lambda _request: HOLD

    def let_go(self) -> None:
        """Answer all methods by the editor again. What is held stays so."""
        self._handlers.clear()

    def held(self, method: str | None = None) -> Sequence[Incoming]:
        """The requests, of this method if one is given, that have no answer yet."""
        return [each for each in self.requests if not each.answered and method in (None, each.method)]

    # The two tasks.

    async def write(self) -> None:
        """Write what is sent, in order. Runs until it is cancelled."""
        while True:
            while self._outbox:
                try:
                    await self.process.send(self._outbox[0])
                except (BrokenPipeError, anyio.ClosedResourceError):
                    self.input_broken = True
                    self._outbox.clear()
                else:
                    self._outbox.pop(0)
                self._wake()
            await self._changed.wait()

    async def read(self) -> None:
        """Read what the subject writes, until its output ends."""
        framer = Framer()
        why = ""
        try:
            while not why and (data := await self.process.receive()):
                for count, line in enumerate(framer.feed(data)):
                    self._receive(line)
                    if len(self.received) >= MAX_RECEIVED:
                        why = f"it wrote more than {MAX_RECEIVED:,} messages"
                        break
                    if count % 50 == 49:
                        await anyio.lowlevel.checkpoint()
                self._wake()
            self.unfinished = b"" if why else framer.rest()
        except TooLong as error:
            why = f"it wrote {error}"
            self.unfinished = framer.rest()[:10_000]
        if self.unfinished:
            self.transcript.add("subject", self.unfinished)
        if why:
            self.process.kill()
        else:
            with anyio.move_on_after(0.1):
                await self.process.wait()
            status = self.process.returncode
            why = "its output ended" if status is None else f"the process ended with status {status}"
        self.ended = why
        self._wake()

    def _receive(self, line: bytes) -> None:
        self.transcript.add("subject", line)
        message, violations = self.checker.check(line)
        self.violations += violations
        position = len(self.received)
        self.received.append(Received(position, time.monotonic(), line, message))
        for each in message if isinstance(message, list) else [message]:
            match each:
                case {"method": str(method), "id": int() | str() | None as id}:
                    request = Incoming(self, id, method, each.get("params"), position)
                    self.requests.append(request)
                    self._serve(request)
                case {"method": "$/cancel_request", "params": {"requestId": id}}:
                    self._withdraw(id, position)
                case _:
                    pass

    def _serve(self, request: Incoming) -> None:
        handler = self._handlers.get(request.method, self.editor.handle)
        try:
            result = handler(request)
        except Refuse as refusal:
            request.refuse_now(refusal.code, refusal.message)
            return
        if result is not HOLD:
            request.answer_now(result)

    def _withdraw(self, id: object, position: int) -> None:
        for request in self.requests:
            if same_id(request.id, id):
                request.withdrawals.append(position)
                if not request.answered and self.yields_to_cancel:
                    request.refuse_now(-32800, "Request cancelled")

    def _pending(self, id: JsonId, method: str) -> Pending:
        pending = Pending(self, id, method, len(self.received))
        self._asked.append(pending)
        return pending

    def _post_bytes(self, data: bytes) -> None:
        for line in self._outgoing.feed(data):
            self.transcript.add("suite", line)
            try:
                self.checker.sent(parse(line))
            except ValueError:
                self.checker.adverse = True
        if not self.input_broken:
            self._outbox.append(data)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
