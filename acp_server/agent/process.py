"""Takes standard input and output for the protocol while the process serves an agent, and restores them.

A forked process must not share them, because it is not an agent; the runtime ends it. That concerns only forks that do
not start a new program, such as those made by `multiprocessing`. Signals are handled in `acp_server.agent.signals`.

This module does not import an event loop, because standard output must be taken before any import that could print.
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
"""Lower descriptors have a fixed meaning for programs."""


class StandardIO:
    """Takes standard input and output for the protocol. `input` and `output` are descriptors private to this process:
    its children do not inherit them, not even forked children.

    Used as a context manager, it restores everything at the end. After `close` alone, the program's standard output
    stays redirected to standard error.

    Raises UsageError if standard input or output is closed or already taken.
    """

    _taken: ClassVar[bool] = False

    def __init__(self) -> None:
        if StandardIO._taken:
            # The descriptors now lead to /dev/null and standard error: a second agent would serve no client, and the
            # log would be lost.
            raise UsageError("standard input and output already serve another agent")
        if sys.__stdin__ is None or not _is_open(0):
            raise UsageError("standard input is closed, so there is no client to serve")
        if sys.__stdout__ is None or not _is_open(1):
            raise UsageError("standard output is closed, so no request could be answered")
        self.input: int = _duplicate(0)
        self.output: int = _duplicate(1)
        self._stderr: int | None = None
        self._stdout: TextIO | None = None
        self._line_buffering = False
        self._redirect()
        StandardIO._taken = True
        # With a copy of it in a child, the peer would not see the end of output.
        undo_in_forks(self.close)

    def __enter__(self) -> StandardIO:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def stream(self) -> FdStream | ThreadedStream:
        """Return the stream over both descriptors. Closing the stream does not close them."""
        if sys.platform == "win32":
            from acp_server.agent.threaded_stream import ThreadedStream

            return ThreadedStream(self.input, self.output)
        else:
            from acp_server.agent.fd_stream import FdStream

            return FdStream(self.input, self.output)

    def release(self) -> None:
        """Restore standard input and output. Idempotent. Has no effect after `close`."""
        if self.input < 0:
            return
        # Stray output that is still buffered must not go to the real output.
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
        """Restore standard error, even if it is the same pipe as the output. No more messages are sent by then, and
        errors must be visible. Has no effect after `close`."""
        if self._stderr is not None:
            os.dup2(self._stderr, 2)

    def close(self) -> None:
        """Close the private descriptors, so that the peer sees the end of output. Idempotent."""
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
                # Otherwise the next opened file gets the number, and with it the text for standard error.
                os.dup2(nowhere, 2)
            if sys.__stderr__ is None:
                os.dup2(nowhere, 1)
            elif _same_pipe(self.output, 2):
                # Log entries would get between the frames.
                self._stderr = _duplicate(2)
                os.dup2(nowhere, 1)
                os.dup2(nowhere, 2)
            else:
                os.dup2(2, 1)
        finally:
            os.close(nowhere)
        if sys.stdout is sys.__stdout__:
            # Earlier prints that are still buffered go to standard error too. Later prints are written at once, also by
            # code that has a reference to this object.
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
    """Write the buffer, and set whether later prints are buffered by line or by block."""
    try:
        file.flush()
        reconfigure: Any = getattr(file, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=line_buffering)
    except OSError:
        # Standard error is closed or full. The agent is served without that stray output.
        pass


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _same_pipe(one: int, other: int) -> bool:
    """Whether both descriptors are the same pipe or socket. For a terminal or a file the answer is False, because its
    reader can tell the lines apart."""
    first, second = os.fstat(one), os.fstat(other)
    kind = stat.S_IFMT(first.st_mode)
    # On Windows pipes have no inode numbers.
    return kind in (stat.S_IFIFO, stat.S_IFSOCK) and first.st_ino != 0 and os.path.samestat(first, second)


_undo: Final[dict[Callable[[], None], None]] = {}
_blocked = threading.local()
_installed = False


def undo_in_forks(function: Callable[[], None]) -> None:
    """Call `function` in each process that is forked until `keep_in_forks` is called.

    Signals to the forked process are blocked until `function` returns, so it may remove a signal handler.
    """
    global _installed
    if not _installed and sys.platform != "win32":
        # A hook cannot be unregistered, so it is registered once; it does nothing while `_undo` is empty.
        os.register_at_fork(before=_before, after_in_parent=_unblock, after_in_child=_forked)
        _installed = True
    _undo[function] = None


def keep_in_forks(function: Callable[[], None]) -> None:
    """Stop calling `function` in forked processes. Has no effect if it is not registered."""
    _undo.pop(function, None)


if sys.platform != "win32":

    def _before() -> None:
        # Python drops signals that arrive in a child before the child is ready.
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
            # A hook cannot raise, so the interrupt would be lost: end the process by it instead.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)
