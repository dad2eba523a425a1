"""Takes from the process what belongs to the protocol while it serves, and gives it back: standard input and output.

A process that is forked off must not share them: it is not an agent, and we end it. Only forks without a new program
are meant, as `multiprocessing` makes them. Signals are in `acp_server.agent.signals`.

No event loop is loaded here, for the output is taken before anything is loaded that could print.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TextIO

from acp_server.errors import UsageError

if TYPE_CHECKING:
    from acp_server.agent.fd_stream import FdStream
    from acp_server.agent.threaded_stream import ThreadedStream

_FIRST_PRIVATE: Final = 3
"""Below it are the descriptors that programs expect to have a fixed meaning."""


class StandardIO:
    """Standard input and output, taken for the protocol: `input` and `output` are descriptors that are private to this
    process. Its children do not inherit them, forked ones included.

    As a context manager it gives back at its end what it took. Without that (`close` alone), the program's standard
    output stays where it is: on standard error.

    Raises UsageError if standard input or output is closed, or claimed already.
    """

    _taken: ClassVar[bool] = False

    def __init__(self) -> None:
        if StandardIO._taken:
            # What is there now is empty, or standard error: it would be served for nothing, and the log be lost.
            raise UsageError("standard input and output serve an agent already")
        if sys.__stdin__ is None or not _is_open(0):
            raise UsageError("standard input is closed, so there is no client to serve")
        if sys.__stdout__ is None or not _is_open(1):
            raise UsageError("standard output is closed, so nothing could be answered")
        self.input: int = _duplicate(0)
        self.output: int = _duplicate(1)
        self._stderr: int | None = None
        self._stdout: TextIO | None = None
        self._line_buffering = False
        self._redirect()
        StandardIO._taken = True
        # A child would keep the peer from seeing the end.
        undo_in_forks(self.close)

    def __enter__(self) -> StandardIO:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def stream(self) -> FdStream | ThreadedStream:
        """The stream over both. They stay ours, and are not closed with it."""
        if sys.platform == "win32":
            from acp_server.agent.threaded_stream import ThreadedStream

            return ThreadedStream(self.input, self.output)
        else:
            from acp_server.agent.fd_stream import FdStream

            return FdStream(self.input, self.output)

    def release(self) -> None:
        """Give standard input and output back. Idempotent; no effect once closed."""
        if self.input < 0:
            return
        # What the program still holds back of its stray output must not follow it to the real one.
        if self._stdout is not None:
            _flush(self._stdout, line_buffering=self._line_buffering)
            sys.stdout = self._stdout
        os.dup2(self.input, 0)
        os.dup2(self.output, 1)
        if self._stderr is not None:
            os.dup2(self._stderr, 2)
        self.close()
        StandardIO._taken = False

    def restore_stderr(self) -> None:
        """Let standard error be what it was, also if it is one pipe with the output: nothing is sent any more, and what
        has gone wrong is to be seen. No effect once closed."""
        if self._stderr is not None:
            os.dup2(self._stderr, 2)

    def close(self) -> None:
        """Let go of the private descriptors, so that the peer sees the end. Idempotent."""
        if self.input < 0:
            return
        keep_in_forks(self.close)
        os.close(self.input)
        os.close(self.output)
        if self._stderr is not None:
            os.close(self._stderr)
            self._stderr = None
        self.input = self.output = -1

    def _redirect(self) -> None:
        lowest = os.open(os.devnull, os.O_RDWR)
        nowhere = _duplicate(lowest)
        os.close(lowest)
        try:
            os.dup2(nowhere, 0)
            if not _is_open(2):
                # Otherwise the next thing opened gets the number, and with it what is meant for standard error.
                os.dup2(nowhere, 2)
            if sys.__stderr__ is None:
                os.dup2(nowhere, 1)
            elif _same_pipe(self.output, 2):
                # The log would land between the frames.
                self._stderr = _duplicate(2)
                os.dup2(nowhere, 1)
                os.dup2(nowhere, 2)
            else:
                os.dup2(2, 1)
        finally:
            os.close(nowhere)
        if sys.stdout is sys.__stdout__:
            # What was printed earlier and is still in its buffer goes the new way too. What is printed from now on does
            # so at once, also by code that took hold of this object earlier.
            self._stdout = sys.stdout
            self._line_buffering = bool(sys.stdout.line_buffering)
            _flush(sys.stdout, line_buffering=True)
            if sys.stderr is not None:
                sys.stdout = sys.stderr


def _duplicate(fd: int) -> int:
    if sys.platform == "win32":
        import msvcrt

        private = os.dup(fd)
        # Otherwise the C library turns each newline into two bytes.
        msvcrt.setmode(private, os.O_BINARY)
        return private
    else:
        import fcntl

        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_PRIVATE)


def _flush(file: TextIO, *, line_buffering: bool) -> None:
    """Write what it holds back, and from now on hold back only parts of lines, or again as much as it likes."""
    try:
        file.flush()
        reconfigure: Any = getattr(file, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=line_buffering)
    except OSError:
        # Standard error is gone, or full. The agent serves without what strayed there.
        pass


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _same_pipe(one: int, other: int) -> bool:
    """Whether both lead to one pipe or socket. A terminal or a file has a reader who can tell the lines apart."""
    first, second = os.fstat(one), os.fstat(other)
    kind = stat.S_IFMT(first.st_mode)
    # On Windows pipes have no numbers to tell them apart.
    return kind in (stat.S_IFIFO, stat.S_IFSOCK) and first.st_ino != 0 and os.path.samestat(first, second)


_undo: Final[dict[Callable[[], None], None]] = {}
_blocked = threading.local()
_installed = False


def undo_in_forks(function: Callable[[], None]) -> None:
    """Call `function` in each process that is forked off from now on, until `keep_in_forks`.

    A signal to that process comes when it is done, so what it undoes may be a handler.
    """
    global _installed
    if not _installed and sys.platform != "win32":
        # Nothing takes this back, so it is there once, and empty as a rule.
        os.register_at_fork(before=_before, after_in_parent=_unblock, after_in_child=_forked)
        _installed = True
    _undo[function] = None


def keep_in_forks(function: Callable[[], None]) -> None:
    """Do not call it any more. No effect if it was not to be called."""
    _undo.pop(function, None)


if sys.platform != "win32":

    def _before() -> None:
        # Python forgets what a child gets before it is ready.
        signals: Iterable[int] = signal.valid_signals() if _undo else ()
        _blocked.before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)

    def _unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _blocked.before)

    def _forked() -> None:
        for function in list(_undo):
            function()
        _undo.clear()
        try:
            _unblock()
        except KeyboardInterrupt:
            # It would be lost here, for nothing can be raised from here.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)
