"""`acp-server record` runs any agent for any editor, and records the messages in both directions.

Bytes are forwarded as they arrive, whether they are whole lines or not. `acp-server trace` interprets them.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from acp_server.agent.log import entry
from acp_server.agent.record import Direction, Recorder
from acp_server.apps.cli.target import AgentCommand, agent_command, not_started
from acp_server.errors import UsageError
from acp_server.processes import own_group

_READ_SIZE: Final = 64 * 1024
_MIB: Final = 1024 * 1024
_LINGER: Final = 1.0
"""Seconds in which output is still forwarded after the agent has ended. A child process of the agent may hold the
pipe."""
_CLOSED: Final = 5.0
"""Seconds that the agent has to end after the editor is gone. Then it receives SIGTERM."""
_TERMINATED: Final = 2.0
"""Seconds that the agent has to end after SIGTERM. Then it is killed."""


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--to",
    "path",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of the recording; by default a new file in your state directory, named on standard error.",
)
@click.option(
    "--redact", is_flag=True, help="Remove the conversation: texts become their lengths. For a report of a fault."
)
@click.option(
    "--max-size",
    metavar="MIB",
    type=click.IntRange(min=1),
    help="Begin a new file when the recording has this many MiB; without it, there is one file of any size.",
)
@click.option(
    "--keep",
    metavar="NUMBER",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="With --max-size, the number of older files that stay: FILE.1 is the newest.",
)
@click.argument("agent", nargs=-1, required=True, type=click.UNPROCESSED)
def record(path: Path | None, redact: bool, max_size: int | None, keep: int, agent: tuple[str, ...]) -> int:
    """Start AGENT, and record its messages and its editor's.

    AGENT: as for `acp-server chat`, a Python file, module:attribute, or a command. In the settings of the editor, put
    this before the agent's command: acp-server record -- COMMAND... Signals, EOF and the exit code are forwarded.
    `acp-server trace` shows the recording.
    """
    command = agent_command(agent)
    path = path or _new_file()
    is_new = not path.exists()
    recorder = Recorder(path, redact=redact, most=None if max_size is None else max_size * _MIB, keep=keep)
    try:
        try:
            tee = _Tee(command, recorder)
        except UsageError:
            recorder.close()
            if is_new:
                path.unlink(missing_ok=True)
            raise
        return tee.run(f"acp-server: recording to {path}")
    finally:
        recorder.close()


def _new_file() -> Path:
    from platformdirs import user_state_path

    folder = user_state_path("acp-server", appauthor=False) / "recordings"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot record in {folder}: {error.strerror}") from None
    return folder / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{os.getpid()}.ndjson"


class _Tee:
    """One agent with its editor: a thread for each direction, and the main thread, which waits for the end."""

    def __init__(self, command: AgentCommand, recorder: Recorder) -> None:
        self._recorder = recorder
        self._recording = threading.Lock()
        try:
            self._process = subprocess.Popen(
                command.words,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **command.env},
                **own_group(),
            )
        except OSError as error:
            raise not_started(command.name, error.strerror) from None

    def run(self, first_words: str) -> int:
        """Forward both directions until the agent ends; returns its exit code in the form that a shell uses."""
        for name in "SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2":
            if (number := getattr(signal, name, None)) is not None and signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._signal)
        # A daemon thread: its read from the editor ends only with this process.
        threading.Thread(target=self._to_agent, daemon=True).start()
        output = threading.Thread(target=self._from_agent, daemon=True)
        output.start()
        try:
            # Not earlier: this write may block or fail, and the agent must not outlive it.
            sys.stderr.write(entry(first_words))
            code = self._wait()
            output.join(_LINGER)
        finally:
            self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        return code if code >= 0 else 128 - code

    def _wait(self) -> int:
        """Forward signals until the agent ends; returns its exit code.

        A system call that waits for the end does not see a signal that arrives just before it. Such a signal would be
        forwarded only with the next signal. So a thread waits for the end, and this thread waits for bytes. A signal
        also writes a byte.
        """
        woken, wakes = socket.socketpair()
        with woken, wakes:
            wakes.setblocking(False)
            signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
            ending = threading.Thread(target=self._tell_the_end, args=(wakes,), daemon=True)
            ending.start()
            try:
                while self._process.returncode is None:
                    woken.recv(_READ_SIZE)
            finally:
                signal.set_wakeup_fd(-1)
            ending.join()
        return self._process.returncode

    def _tell_the_end(self, wakes: socket.socket) -> None:
        self._process.wait()
        with suppress(BlockingIOError):  # it is full of signals, and wakes as well
            wakes.send(b"\0")

    def _to_agent(self) -> None:
        assert self._process.stdin is not None
        self._copy("in", 0, self._process.stdin.fileno())
        self._process.stdin.close()
        if sys.platform != "win32":
            self._outlive_nobody()

    def _from_agent(self) -> None:
        assert self._process.stdout is not None
        self._copy("out", self._process.stdout.fileno(), 1)
        # An agent whose editor reads no more gets a broken pipe.
        self._process.stdout.close()

    def _copy(self, direction: Direction, source: int, sink: int) -> None:
        try:
            while data := os.read(source, _READ_SIZE):
                # Before the write: the answer may pass before this thread continues.
                with self._recording:
                    self._recorder.add(direction, data)
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(sink, rest) :]
        except OSError:
            pass  # the other side is gone, which is an end like any other

    if sys.platform != "win32":

        def _outlive_nobody(self) -> None:
            """End the agent when the editor is gone. The editor's input has ended already. The editor is gone when it
            has closed its side of the output, too."""
            poll = select.poll()
            poll.register(1, 0)
            poll.poll()
            for patience, number in (_CLOSED, signal.SIGTERM), (_TERMINATED, signal.SIGKILL):
                try:
                    self._process.wait(patience)
                except subprocess.TimeoutExpired:
                    self._signal(number)

    def _signal(self, number: int, _frame: object = None) -> None:
        """Signal the agent's process group, as a terminal does."""
        try:
            if sys.platform == "win32":
                self._process.terminate()
            else:
                os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass
