"""Carries the lines between a case and its subject. Every line is read at once, kept and checked, and every wait has a
time-out.

A separate task reads all lines of the subject, keeps them in `received` in the order of arrival, and has them checked
against the schema. A wait fails after `patience` seconds, or as soon as the subject's output ends. The reason of the
failure names the expected message. `conversation` interprets the messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

from acp_conformance.core.checker import Checker
from acp_conformance.core.lines import Framer, TooLong, Transcript
from acp_conformance.core.process import Process
from acp_conformance.core.schema import encoded, parse
from acp_conformance.core.violation import Violation

from .exchange import Ended, Flooded, NoAnswer, Received

T = TypeVar("T")

MAX_RECEIVED = 20_000
"""Messages of one conversation; a subject that writes more is flooding."""


class Channel:
    """The lines of one new process. `read` and `write` must be running in a task group while the channel is used."""

    def __init__(self, process: Process, checker: Checker, *, patience: float, start_patience: float) -> None:
        self.process = process
        self.checker = checker
        self.patience = patience
        """The default time-out of a wait, in seconds."""
        self.start_patience = start_patience
        """The same for the first message of the subject, which has to start first."""
        self.transcript = Transcript()
        self.received: list[Received] = []
        """Everything the subject wrote, line by line."""
        self.violations: list[Violation] = []
        """The findings of the background check of every message."""
        self.unfinished = b""
        """The bytes after the last newline of the subject's output."""
        self.ended = ""
        """Why nothing more can come, once the subject's output has ended; empty before."""
        self.input_broken = False
        """The subject stopped reading: a write met a broken pipe."""
        self.waiting = ""
        """What the case is waiting for, for the reason of a time-out."""
        self._outbox: list[bytes] = []
        self._outgoing = Framer()
        self._changed = anyio.Event()

    def begin_case(self) -> int:
        """Begin another case in the same process, and return the position in `received`. The messages of earlier cases
        no longer count."""
        self.transcript = Transcript()
        self.violations = []
        return len(self.received)

    # Sending.

    async def send(self, message: object) -> None:
        """Send any JSON value as one line."""
        self.post(message)
        await self.flush()

    async def raw(self, data: bytes) -> None:
        """Send exactly these bytes, in one write if the pipe has room. The caller adds the newline."""
        self._post_bytes(data)
        await self.flush()

    def post(self, message: object) -> None:
        """Queue a JSON value as one line without waiting until it is written."""
        self._post_bytes(encoded(message) + b"\n")

    async def flush(self) -> None:
        """Wait until everything that was sent is in the pipe, or the subject has stopped reading.

        Raises:
            NoAnswer: The subject does not read its input.
        """
        await self.wait_for(
            lambda: True if not self._outbox or self.input_broken else None, "room in its standard input", live=False
        )

    async def stop_reading(self) -> None:
        """Close the suite's end of the subject's output. The subject's next write then fails with a broken pipe."""
        self.process.close_output()
        await self.eof()

    async def end_input(self) -> None:
        """Close the subject's standard input, after all queued lines are written."""
        await self.flush()
        self.checker.adverse |= bool(self._outgoing.rest())  # input that ends inside a line may be answered
        self.process.end_input()

    # Waiting.

    async def wait_for(
        self, find: Callable[[], T | None], what: str, *, within: float | None = None, live: bool = True
    ) -> T:
        """Wait until `find` returns something else than None, and return that. `find` is called again at each event.

        Args:
            what: A noun phrase that names the expected message in the reason of a failure.
            within: Seconds; by default `patience`, or `start_patience` until the subject has written something.
            live: Stop waiting as soon as the subject's output has ended.

        Raises:
            NoAnswer: `find` found nothing in time.
            Ended: The subject's output ended first.
            Flooded: The subject wrote too much, so the suite stopped reading.
        """
        seconds = (self.patience if self.received else self.start_patience) if within is None else within
        outer, self.waiting = self.waiting, what
        with anyio.move_on_after(seconds):
            while (found := find()) is None:
                if live and self.ended:
                    ended = Flooded if len(self.received) >= MAX_RECEIVED else Ended
                    raise ended(what, self.ended)
                await self._changed.wait()
            self.waiting = outer
            return found
        raise NoAnswer(what, seconds, find)

    async def pause(self, seconds: float = 0.3) -> None:
        """Wait until the subject has been silent for this time, but at most five times as long."""
        with anyio.move_on_after(5 * seconds):
            seen = -1
            while seen != len(self.received) and not self.ended:
                seen = len(self.received)
                await anyio.sleep(seconds)

    async def eof(self, *, within: float | None = None) -> None:
        """Wait for the end of the subject's output."""
        await self.wait_for(lambda: self.ended or None, "the end of its output", within=within, live=False)

    async def exit(self, *, within: float | None = None) -> int:
        """Wait for the end of the subject's process and of all its output. Return the exit status, negative for a
        signal."""
        status = None
        # A subject that has written nothing may still be starting.
        seconds = (self.patience if self.received else self.start_patience) if within is None else within
        with anyio.move_on_after(seconds):
            status = await self.process.wait()
        if status is None:
            raise NoAnswer("the end of the process", seconds)
        # A child that outlives the process may hold the pipe open.
        with anyio.move_on_after(0.2):
            while not self.ended:
                await self._changed.wait()
        return status

    async def settle(self, *, grace: float = 2.0) -> None:
        """End the input and read the output to its end. After that no more messages can arrive.

        Unlike `exit`, this never fails a case. A subject that continues to run is killed after `grace` seconds.
        """
        await self.end_input()
        with anyio.move_on_after(grace):
            await self.process.wait()
        self.process.kill()
        with anyio.move_on_after(grace):
            while not self.ended:
                await self._changed.wait()

    # The two tasks.

    async def write(self) -> None:
        """Write queued messages, in order. Runs until it is cancelled."""
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
        """Read the subject's output, until it ends."""
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
            rest = framer.rest()
            # A signal of the suite may have cut the line; it cannot have cut the newline alone.
            is_cut = bool(why) or (self.process.signalled and not _is_json(rest))
            self.unfinished = b"" if is_cut else rest
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
        self.take(message, position)

    def take(self, message: Any, position: int) -> None:
        """React to a message when it arrives. A channel does nothing; subclasses do."""

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


def _is_json(line: bytes) -> bool:
    try:
        parse(line)
    except ValueError:
        return False
    return True
