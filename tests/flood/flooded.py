"""A real agent or client as a process that is flooded over real pipes, and what is measured of it from outside."""

import fcntl
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import orjson

from tests.flood.meter import peak
from tests.prefork import Forked, Prefork

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 50.0
_F_SETPIPE_SZ = 1031
_READ = 1 << 20
_NAP = 0.02

Pipe = Literal["64 KiB pipe", "socket pair", "1 MiB pipe"]
Side = Literal["agent", "agent with a store", "hostile", "client"]


class Flooded:
    """The other end of the process. Nothing here waits for longer than `PATIENCE` seconds without anything coming."""

    def __init__(
        self, process: "subprocess.Popen[bytes] | Forked", folder: str, into: int, out_of: int, notes: int
    ) -> None:
        self.process = process
        self.folder = folder
        self.sent = 0
        """Bytes that were written."""
        self.got: Counter[str] = Counter()
        """How many answers came, by code, and how many messages, by method."""
        self.answers: dict[str, Any] = {}
        """The answers to requests whose id is a word."""
        self.asked: deque[Any] = deque()
        """The requests that it sent."""
        self.noted: dict[str, dict[str, Any]] = {}
        """The last note of each kind."""
        self.peak = 0
        """The most bytes of memory that were seen."""
        self.resident: tuple[int, int] | None = None
        """Bytes of memory after the first part of a long flood, and at its end."""
        self.arrived = 0.0
        self.answered = 0.0
        """CPU seconds of the process when the probe's cancel was written, and when its answer was here."""
        self._into = into
        self._out_of = out_of
        self._notes = notes
        self._pieces: list[bytes] = []
        self._note = bytearray()
        # The clock of another process's CPU time, as clock_getcpuclockid(3) makes it.
        self._clock = ~process.pid << 3 | 2
        self._seen = 0.0

    @property
    def cpu(self) -> float:
        """CPU seconds that the process has taken, as far as they were seen before its end."""
        with suppress(OSError):
            self._seen = time.clock_gettime(self._clock)
        return self._seen

    @property
    def gap(self) -> float:
        """The loop's longest gap, in CPU seconds, as it was noted last."""
        return max((note["gap"] for note in self.noted.values()), default=0.0)

    @property
    def cut(self) -> float:
        """CPU seconds from the cancel's arrival until the probe was cut; 0 if it was not cancelled."""
        return self.noted["cut"]["cpu"] - self.arrived if self.arrived and "cut" in self.noted else 0.0

    # -- talking

    def write(self, data: bytes, *, reading: bool = True) -> float:
        """Write all of it, and read meanwhile if `reading`. CPU seconds of the process before its last bytes went."""
        rest = memoryview(data)
        before = self.cpu
        while rest:
            self._turn(reading, writing=True)
            before = self.cpu
            try:
                written = os.write(self._into, rest)
            except BlockingIOError:
                continue
            self.sent += written
            rest = rest[written:]
        return before

    def ask(self, id: str, method: str, **params: Any) -> Any:
        """A request and its answer, an error too."""
        self.write(request(id, method, **params))
        self.until(lambda: id in self.answers)
        return self.answers[id]

    def begin(self) -> None:
        """Let it measure its loop, and begin the probe, a request that hangs."""
        self.write(request("watch", "_watch") + request("probe", "_probe"))
        self.until(lambda: "begun" in self.noted)

    def cancel(self, data: bytes = b"", *, reading: bool = True) -> None:
        """Write `data` and right behind it the probe's cancel; wait until it is cut."""
        self.arrived = self.write(data + cancel("probe"), reading=reading)
        self.until(lambda: "cut" in self.noted, reading=reading)

    def until(self, condition: Callable[[], bool], *, reading: bool = True) -> None:
        """Read until the condition holds; only notes, if not `reading`."""
        while not condition():
            if not self._turn(reading):
                raise EOFError(f"it ended: {self.got}, {self.noted}")

    def burn(self, seconds: float) -> None:
        """Leave its output unread until it has taken so much CPU time."""
        end = self.cpu + seconds
        while self.cpu < end:
            self._turn(reading=False, most=_NAP)

    def stop(self) -> None:
        """Read until what came before is answered, and its last measure is noted."""
        self.write(cancel("watch"))
        self.until(lambda: "watched" in self.noted and "watch" in self.answers)

    def last_words(self) -> int:
        """Wait until it ends by itself, without reading its output. Its exit code."""
        while self._turn(reading=False):
            pass
        return self.process.wait(PATIENCE)

    def finish(self) -> int:
        """End the input, read until its end. Its exit code."""
        os.close(self._into)
        self._into = -1
        while self._turn(reading=True):
            pass
        return self.process.wait(PATIENCE)

    def close_output(self) -> None:
        """Read no more, for good."""
        os.close(self._out_of)
        self._out_of = -1

    def close(self) -> None:
        """Kill it, if it has not ended."""
        self.process.kill()
        self.process.wait()
        for fd in (self._into, self._out_of, self._notes):
            if fd >= 0:
                os.close(fd)

    def _turn(self, reading: bool, writing: bool = False, most: float = PATIENCE) -> bool:
        """Wait until something can be done, and read what there is. False if the notes have ended."""
        sources = [self._notes] + ([self._out_of] if reading and self._out_of >= 0 else [])
        ready, writable, _ = select.select(sources, [self._into] if writing else [], [], most)
        if not ready and not writable and most == PATIENCE:
            raise TimeoutError(f"nothing comes and nothing goes: {self.got}, {self.noted}")
        self.peak = max(self.peak, peak(self.process.pid))
        if self._out_of in ready:
            data = os.read(self._out_of, _READ)
            if not data:
                self.close_output()
            whole, newline, rest = data.rpartition(b"\n")
            if newline:
                lines = b"".join([*self._pieces, whole]).split(b"\n")
                self._pieces = [rest]
                for line in lines:
                    self._take(orjson.loads(line))
            else:
                self._pieces.append(rest)
        if self._notes in ready:
            data = os.read(self._notes, _READ)
            *lines, self._note = (self._note + data).split(b"\n")
            for line in lines:
                note = json.loads(line)
                self.noted[note["what"]] = note
                self.peak = max(self.peak, note["peak"])
            return bool(data)
        return True

    def _take(self, message: Any) -> None:
        if isinstance(message, list):
            self.got["batch"] += 1
        elif "method" in message:
            self.got[message["method"]] += 1
            if "id" in message:
                self.asked.append(message)
        else:
            self.got[str(message["error"]["code"]) if "error" in message else "result"] += 1
            id = message["id"]
            if isinstance(id, str) and len(id) < 20:
                self.answers[id] = message
            if id == "probe":
                self.answered = self.cpu


def request(id: int | str, method: str, **params: Any) -> bytes:
    """One line."""
    return orjson.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + b"\n"


def notification(method: str, **params: Any) -> bytes:
    """One line."""
    return orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params}) + b"\n"


def result(id: int | str, value: Any) -> bytes:
    """One line."""
    return orjson.dumps({"jsonrpc": "2.0", "id": id, "result": value}) + b"\n"


def cancel(id: str) -> bytes:
    """One line."""
    return notification("$/cancel_request", requestId=id)


def _ends(pipe: Pipe) -> tuple[int, int]:
    """Two descriptors: what is written to the second one is read from the first."""
    if pipe == "socket pair":
        source, sink = socket.socketpair()
        return source.detach(), sink.detach()
    ends = os.pipe()
    if pipe == "1 MiB pipe":
        fcntl.fcntl(ends[1], _F_SETPIPE_SZ, 1 << 20)
    return ends


@contextmanager
def flooded(side: Side, backend: str, pipe: Pipe, folder: str, forks: Prefork | None = None) -> Iterator[Flooded]:
    """Start it, as one of the forks if there are some, with such a pipe or pair of sockets each way. At the end it is
    killed, if it has not ended."""
    its_in, into = _ends(pipe)
    out_of, its_out = _ends(pipe)
    os.set_blocking(into, False)
    notes, its_notes = os.pipe()
    module, *how = side.split(" with a ")
    command = [sys.executable, "-m", f"tests.flood.{module}", backend]
    try:
        if forks is None:
            command += [str(its_notes), folder, *how]
            process = subprocess.Popen(command, cwd=ROOT, stdin=its_in, stdout=its_out, pass_fds=[its_notes])
        else:
            streams = {"stdin": its_in, "stdout": its_out, "stderr": 2, "fourth": its_notes}
            process = forks.popen([*command, "3", folder, *how], env=os.environ, cwd=ROOT, **streams)
    finally:
        for fd in (its_in, its_out, its_notes):
            os.close(fd)
    wire = Flooded(process, folder, into, out_of, notes)
    try:
        yield wire
    finally:
        wire.close()
