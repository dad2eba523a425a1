"""Faults at the end of input and at a pipe that breaks."""

from __future__ import annotations

import os
import select
import signal
import sys

from clean import Clean
from rpc import Json, Request
from situations import Session


class OutlivesItsInput(Clean):
    """Lives on when its input has ended."""

    def ended(self) -> None:
        super().ended()
        signal.pause()


class WaitsForItsTurns(Clean):
    """Lives on at the end of its input while a turn runs."""

    def ended(self) -> None:
        if self.running:
            signal.pause()


class LosesAnswers(Clean):
    """Ends at once when its input ends, whatever it still has to answer."""

    def serve(self) -> None:
        rest = b""
        chunk = os.read(0, 65536)
        while chunk:
            # On a busy machine, the end may come a while behind the last request.
            wait = 0.0 if b'"initialize"' in chunk else 1.0
            ahead = os.read(0, 65536) if select.select([0], [], [], wait)[0] else None
            if ahead == b"":
                return
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self.receive(line)
            chunk = ahead or os.read(0, 65536)


class FailsAtTheEnd(Clean):
    """Ends with a failure when its input ends."""

    def ended(self) -> None:
        super().ended()
        sys.exit(1)


class EndsWithASignal(Clean):
    """Is killed by its own hand when its input ends."""

    def ended(self) -> None:
        super().ended()
        os.kill(os.getpid(), signal.SIGKILL)


class DeafToBrokenPipes(Clean):
    """Lives on when nobody reads what it writes."""

    def put(self, data: bytes) -> None:
        try:
            os.write(1, data)
        except BrokenPipeError:
            return


class LastWordsTorn(Clean):
    """Leaves the newline off the last message before the end."""

    def serve(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: None)
        super().serve()

    def ended(self) -> None:
        super().ended()
        self.put(b'{"jsonrpc": "2.0", "method": "session/upd')


class LeavesAChild(Clean):
    """Leaves a process behind that it started."""

    def ended(self) -> None:
        super().ended()
        if os.fork() == 0:
            signal.alarm(30)
            signal.pause()


class ClosesOutputFirst(Clean):
    """Closes its output when a session is closed."""

    def close(self, session: Session) -> None:
        os.close(1)

    def answer(self, request: Request, message: Json) -> None:
        if request.method != "session/close":
            super().answer(request, message)
