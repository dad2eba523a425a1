"""A program at a terminal that takes and shows lines, and what its user does there."""

import os
import pty
import select
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.agent.processes.driver import Driven, environment, started
from tests.prefork import Prefork

CHAT = [sys.executable, "-m", "acp_server", "chat"]
TALKER = [sys.executable, "-m", "acp_server", "serve", "tests.apps.cli.talker"]
BUILT_IN = [sys.executable, "-m", "acp_server", "serve", "--store", "memory"]
PATIENCE = 20.0


class Terminal:
    """The user's side."""

    def __init__(self, fd: int, program: Driven) -> None:
        self.fd = fd
        self.program = program
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def expect(self, *texts: str) -> str:
        """Wait until the texts have appeared, in this order; everything up to the last of them."""
        before = ""
        end = time.monotonic() + PATIENCE
        for text in texts:
            while text not in self._seen:
                ready, _, _ = select.select([self.fd], [], [], max(0.0, end - time.monotonic()))
                data = b""
                if ready:
                    try:
                        data = os.read(self.fd, 65536)
                    except OSError:
                        pass  # nobody is at the other end any more
                assert data, f"waited for {text!r} after {before!r}, saw {self._seen!r}"
                self._seen += data.decode(errors="replace").replace("\r\n", "\n")
            end_of_text = self._seen.index(text) + len(text)
            before += self._seen[:end_of_text]
            self._seen = self._seen[end_of_text:]
        return before

    def answers(self, key: str) -> bool:
        """Type something; whether that leads to any output within a second."""
        self.type(key)
        return bool(select.select([self.fd], [], [], 1.0)[0])

    def leave(self) -> None:
        self.type("\x04")
        assert self.program.exit_code() == 0


@contextmanager
def chat(
    starting: Prefork,
    *arguments: str,
    agent: list[str] = TALKER,
    cwd: Path | None = None,
    colours: bool = False,
) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    mode = termios.tcgetattr(theirs)
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, mode)
    command = [*CHAT, *arguments, *agent]
    env = environment(TERM="dumb", **({} if colours else {"NO_COLOR": "1"}))
    try:
        with started(command, stdin=theirs, stdout=theirs, env=env, cwd=cwd, popen=starting.popen) as program:
            os.close(theirs)
            yield Terminal(ours, program)
    finally:
        os.close(ours)
