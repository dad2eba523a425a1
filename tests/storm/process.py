"""One storm over pipes: an agent in a process of its own, the raw client in front of it, and the end that it takes.

The seed says what the client does. When it does that, and what the agent has done by then, is up to the machine: a seed
is another storm each time, of the same kind. So time is not judged, and all that is waited for comes sooner or later.
"""

import fcntl
import functools
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from tests.agent.processes.driver import ROOT, environment
from tests.storm.agent import LIMITS
from tests.storm.client import RawClient
from tests.storm.journal import Journal, read_notes
from tests.storm.plans import Planner
from tests.storm.prompts_v2 import unended
from tests.storm.scenario import Scenario
from tests.storm.stacks import SHOW
from tests.storm.story import GOOD, Story, initialize

LONGEST = 45.0
"""Seconds after which what a storm waits for does not come. A good one takes one or two, and less than its test may."""
ENDS = {"calm": 6, "end of input": 2, "torn line": 1, "no reader": 1, "interrupt": 2, "terminate": 2, "hang up": 1}
SIGNALS = {"terminate": signal.SIGTERM, "hang up": signal.SIGHUP, "interrupt": signal.SIGINT}
DYING = 5.0
INTERRUPTS = 20
"""After so many no turn can run any more."""
SMALL = 4096
"""Bytes that a small pipe holds."""


class ProcessStorm:
    """One storm, whose client does what follows from `seed`. `version`: of the protocol. `transport`: `http` or `ws`,
    if the agent is behind that."""

    def __init__(self, backend: str, seed: int, version: int = 1, transport: str | None = None) -> None:
        self._program = ["tests.storm.agent"] if transport is None else ["tests.storm.remote"]
        self._transport = [] if transport is None else [transport]
        self._seed = seed
        self._random = Random(seed)
        self._backend = backend
        journal = self._journal = Journal(time.monotonic, time.monotonic_ns)
        self._client = RawClient(journal, lambda asked: self._asked(asked))
        self._scenario = Scenario(
            self._random, Planner(self._random, LIMITS.end_grace, process=True), self._client, version
        )
        self._asked: Callable[[Any], None] = self._scenario.asked
        self._unwritten = b""
        self._reads = True
        slack = float("inf")
        self.story = Story(journal, self._client, LIMITS, version, slack=slack, is_real=True, transport=transport)
        self.stderr = ""
        self._deadline = time.monotonic() + LONGEST

    def run(self) -> Story:
        """Let it rage, and tell what happened."""
        with TemporaryDirectory() as folder:
            self._path = Path(folder, "journal")
            log = Path(folder, "log")
            with log.open("wb") as errors:
                self._start(errors)
            try:
                self._rage()
            except TimeoutError as error:
                raise TimeoutError(f"{error}\n{self._where_it_waits(log)}") from error
            finally:
                self._clean_up()
                self.stderr = log.read_text(errors="replace")
            self._journal.notes.extend(read_notes(self._path))
        self._journal.notes.sort(key=lambda note: note.order)
        self.story.terminals = self._scenario.terminals
        if "internal task" in self.stderr:
            self.story.left.append("an internal task of the client failed, see the log")
        return self.story

    def _start(self, errors: Any) -> None:
        self._process = subprocess.Popen[bytes](
            [sys.executable, "-m", *self._program, self._backend, str(self._path), *self._transport],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(),
            cwd=ROOT,
            bufsize=0,
            process_group=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._into: int | None = self._process.stdin.fileno()
        self._out_of: int | None = self._process.stdout.fileno()
        for fd in (self._into, self._out_of):
            os.set_blocking(fd, False)
            if self._random.random() < 0.5 and sys.platform == "linux":
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, SMALL)

    def _rage(self) -> None:
        self._begin()
        for _ in range(self._random.randint(5, 40)):
            self._scenario.step()
            self._pause()
        self._reads = True
        story = self.story
        # What a signal means is told by tests of `acp-server connect`.
        ends = {end: weight for end, weight in ENDS.items() if not (self._transport and end in SIGNALS)}
        story.end = self._random.choices(list(ends), list(ends.values()))[0]
        if story.end == "calm":
            self._calm()
        else:
            self._until(lambda: not (self._unwritten or self._client.outbox))
        self._end()
        self._until(lambda: self._out_of is None)
        expected = 128 + SIGNALS[story.end] if story.end in SIGNALS else 0
        try:
            code = self._process.wait(self._left())
        except subprocess.TimeoutExpired:
            story.left.append("the process itself")
        else:
            story.closed = self._journal.note("closed", more=code)
            if code != expected:
                story.left.append(f"exit code {code} instead of {expected}")

    def _where_it_waits(self, log: Path) -> str:
        """The exit code of the agent, or the stacks of its tasks; what it has written before."""
        if self._transport and self._process.poll() is None:
            self._process.send_signal(SHOW)
            time.sleep(1.0)
        return f"exit code {self._process.poll()}\n{log.read_text(errors='replace')}"

    # -- its course

    def _begin(self) -> None:
        self._call("hello", "initialize", **initialize(self.story.version, self._seed))
        for number in range(self._random.randint(1, 3)):
            self._scenario.sessions.append(
                self._call(f"new-{number}", "session/new", cwd="/", mcpServers=[])["sessionId"]
            )

    def _call(self, id: str, method: str, **params: Any) -> Any:
        self._client.request(id, method, params)
        if not self._until(lambda: id in self._client.answers):
            raise TimeoutError(f"{method} is not answered")
        return self._client.answers[id][0].message["result"]

    def _pause(self) -> None:
        fate = self._random.random()
        if fate < 0.3:
            return
        if fate < 0.4:
            self._reads = not self._reads
        elif fate < 0.9:
            self._pump(self._random.choice((0.0, 0.001, 0.01)))
        else:
            end = time.monotonic() + LIMITS.end_grace * self._random.choice((0.1, 0.5, 1.2))
            while (left := end - time.monotonic()) > 0:
                self._pump(left)

    def _calm(self) -> None:
        """Cancel what runs, see it answered; let what hangs end, and answer what is asked; then ask for something."""
        client, scenario = self._client, self._scenario
        scenario.cancel_all()
        self._until(lambda: not unended(client))
        self._asked = lambda asked: scenario.answer(asked, "right")
        client.notify("_storm/over", {})
        for asked in client.asked.values():
            if not asked.answers:
                scenario.answer(asked, "right")
        self.story.over = self._journal.note("over")
        self._call("rest", "_storm/rest")
        new = self._call("new", "session/new", cwd="/", mcpServers=[])["sessionId"]
        for session in [*(session for session in scenario.sessions if session not in scenario.touched), new]:
            self.story.good.append(scenario.prompt_with(session, GOOD))
            self._until(lambda: self.story.good[-1] not in unended(client))

    def _end(self) -> None:
        story = self.story
        if story.end == "interrupt":
            self._interrupt()
            return
        story.ended = self._journal.note("ended")
        if story.end in SIGNALS:
            self._process.send_signal(SIGNALS[story.end])
            if self._random.random() < 0.3:
                self._close_input()
        elif story.end == "no reader":
            self._close_output()
        else:
            if story.end == "torn line":
                self._unwritten += b'{"jsonrpc": "2.0", "method": "session/canc'
                self._until(lambda: not (self._unwritten or self._client.outbox))
            self._close_input()

    def _interrupt(self) -> None:
        """Those that come while turns run are for the turns, unless they come fast."""
        for count in range(1, INTERRUPTS):
            self.story.ended = self._journal.note("ended")
            self._process.send_signal(signal.SIGINT)
            self._until(functools.partial(self._has_interrupted, count))
            if self._out_of is None:
                return

    def _has_interrupted(self, times: int) -> bool:
        return sum(note.what == "interrupt" for note in read_notes(self._path)) >= times

    # -- the pipes

    def _until(self, true: Callable[[], object]) -> bool:
        """Go on talking until it is true. False if the agent says nothing more, or for too long."""
        while not true():
            if self._out_of is None or self._left() == 0:
                return False
            self._pump(0.02)
        return True

    def _left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def _pump(self, seconds: float) -> None:
        """Write and read what goes, torn anywhere, after waiting so long for that at most."""
        self._unwritten += self._client.flush()
        into = [self._into] if self._unwritten and self._into is not None else []
        out_of = [self._out_of] if self._reads and self._out_of is not None else []
        readable, writable, _ = select.select(out_of, into, [], seconds)
        for fd in writable:
            piece = self._random.choice((7, 100, SMALL, 1 << 16))
            try:
                self._unwritten = self._unwritten[os.write(fd, self._unwritten[:piece]) :]
            except BlockingIOError:
                pass
            except BrokenPipeError:
                self._close_input()
        for fd in readable:
            data = os.read(fd, self._random.choice((50, 1 << 16)))
            if data:
                self._client.feed(data)
            else:
                self._close_output()

    def _close_input(self) -> None:
        self._unwritten = b""
        self._into = None
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _close_output(self) -> None:
        self._out_of = None
        assert self._process.stdout is not None
        self._process.stdout.close()

    # -- what is left

    def _clean_up(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._close_input()
        self._close_output()
        # What was killed may take a moment to go.
        end = time.monotonic() + DYING
        while (orphans := self._orphans()) and time.monotonic() < end:
            time.sleep(0.01)
        for orphan in orphans:
            self.story.left.append(f"a child process: {orphan.pid}")
            orphan.kill()

    def _orphans(self) -> list[psutil.Process]:
        """What its handlers have started."""
        command = ["sleep", "1000", f"0.{self._process.pid}"]
        return [process for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"] == command]
