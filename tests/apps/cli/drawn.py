"""`acp-server chat` at a terminal that it draws on, with what the user sees there."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyte

from tests.agent.processes.driver import Driven, environment, started
from tests.apps.cli.at_terminal import CHAT, PATIENCE
from tests.prefork import Prefork

COLUMNS, ROWS = 100, 40
ENTER = "\r"
PASTE = "\x1b[200~{}\x1b[201~"
"""As a terminal marks what is pasted, once it was asked to."""


class Drawn:
    """The user, and a screen with what has scrolled off it."""

    def __init__(self, fd: int, program: Driven, columns: int, folder: Path) -> None:
        self.program = program
        self.folder = folder
        self.raw = b""
        """All that the program has written."""
        self._fd = fd
        self._screen = pyte.HistoryScreen(columns, ROWS, history=5_000)
        self._stream = pyte.ByteStream(self._screen)

    def type(self, text: str) -> None:
        self.send(text.encode())

    def send(self, data: bytes) -> None:
        """What a keyboard with another character set sends."""
        os.write(self._fd, data)

    def paste(self, text: str) -> None:
        self.type(PASTE.format(text.replace("\n", "\r")))

    @property
    def text(self) -> str:
        """The screen, with what was there before."""
        above = ["".join(line[x].data for x in range(self._screen.columns)) for line in self._screen.history.top]
        return "\n".join(line.rstrip() for line in [*above, *self._screen.display]).rstrip()

    @property
    def draft(self) -> str:
        """What stands at the prompt, which is the last thing on the screen."""
        return self.text.rpartition("\n> ")[2] if "\n> " in self.text else ""

    def shows(self, *texts: str) -> str:
        """Wait until the screen has the texts in this order; the whole of it."""
        end = time.monotonic() + PATIENCE
        while not _in_order(self.text, texts):
            assert self._look(max(0.0, end - time.monotonic())), f"waited for {texts!r}, saw:\n{self.text}"
        return self.text

    def hides(self, text: str) -> str:
        """Wait until the text is no more to be seen."""
        end = time.monotonic() + PATIENCE
        while text in self.text:
            assert self._look(max(0.0, end - time.monotonic())), f"waited for the end of {text!r}, saw:\n{self.text}"
        return self.text

    def look_for(self, seconds: float) -> str:
        """The screen after so long, however much was drawn meanwhile."""
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0:
            self._look(rest)
        return self.text

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen.resize(rows, columns)
        self.program.signal(signal.SIGWINCH)

    def clear(self) -> None:
        """Have nothing but the prompt on a screen of the usual size, and forget what was there."""
        self.resize(COLUMNS, ROWS)
        self.type("\x0c")
        end = time.monotonic() + PATIENCE
        while self.text.strip() != ">":
            assert time.monotonic() < end, self.text
            if not self._look(0.2):
                # The last of a turn was drawn behind it.
                self.type("\x0c")
            self._screen.history.top.clear()
        self.raw = b""

    def leave(self) -> None:
        self.type("\x04")
        self.ends(0)

    def ends(self, code: int) -> None:
        """The program has ended, whatever it still draws meanwhile."""
        end = time.monotonic() + PATIENCE
        while self.program.process.poll() is None:
            assert time.monotonic() < end, self.text
            self._look(0.05)
        self._look(0.05)
        assert self.program.process.returncode == code, self.text

    def _look(self, seconds: float) -> bool:
        if not select.select([self._fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError:
            return False  # nobody is at the other end any more
        self.raw += data
        self._stream.feed(data)
        return bool(data)


class Shared:
    """A chat that several tests use, one after the other. Each leaves it at an empty prompt. Behind a test that fails
    each test gets a chat of its own."""

    def __init__(self, start: Callable[[], AbstractContextManager[Drawn]], user: Drawn) -> None:
        self._start = start
        self._user: Drawn | None = user

    @contextmanager
    def used(self) -> Iterator[Drawn]:
        """It looks as if it had just been started, but for the greeting."""
        if self._user is None:
            with self._start() as user:
                user.shows("\n>")
                _clear(user)
                try:
                    yield user
                finally:
                    # Nothing else ends it: the test leaves a shared chat running.
                    user.program.process.kill()
            return
        user, self._user = self._user, None
        _clear(user)
        yield user
        self._user = user


def _clear(user: Drawn) -> None:
    user.clear()
    for file in user.folder.iterdir():
        file.unlink()


@contextmanager
def drawn(
    starting: Prefork,
    *arguments: str,
    cwd: Path | None = None,
    columns: int = COLUMNS,
    state: Path | None = None,
) -> Iterator[Drawn]:
    """A chat at such a terminal, with what the user types behind `acp-server chat`."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    command = [*CHAT, *arguments]
    env = environment(TERM="xterm-256color", **({} if state is None else {"XDG_STATE_HOME": str(state)}))
    env.pop("NO_COLOR", None)
    try:
        with started(command, stdin=theirs, stdout=theirs, env=env, cwd=cwd, popen=starting.popen) as program:
            os.close(theirs)
            yield Drawn(ours, program, columns, cwd or Path.cwd())
    finally:
        os.close(ours)


def _in_order(text: str, parts: tuple[str, ...]) -> bool:
    at = 0
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True
