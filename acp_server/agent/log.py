"""The log of a program that serves an agent. Logging never blocks, and no peer can forge an entry.

Programs log in the event loop, and some clients open a pipe for standard error and never read from it. So a thread
writes the entries. Entries that exceed the buffer are lost and counted. The author, or the command line
(`acp_server.apps.cli`), decides which entries are logged.
"""

from __future__ import annotations

import atexit
import logging
import os
import select
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from functools import cache
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Final, TypeAlias, cast
from weakref import WeakSet

from acp_server.safe_text import indented

MOST_WAITING: Final = 1 << 20
"""Bytes of buffered entries. An entry that does not fit is lost."""

LONGEST_ENTRY: Final = 16_000
"""The maximum number of characters of an entry. The middle of a longer entry is omitted."""

LAST_WORDS: Final = 1.0
"""Seconds that the end of the program waits for a log that nothing reads."""

_AT_ONCE: Final = 512
"""Bytes that a pipe takes without blocking once it is ready (POSIX, PIPE_BUF)."""


def entry(text: str) -> str:
    """Return one log entry as it is written: bounded, escaped, and indented after its first line, so that no text
    within it can look like another entry."""
    text = text.removesuffix("\n")
    if (missing := len(text) - LONGEST_ENTRY) > 0:
        half = LONGEST_ENTRY // 2
        text = f"{text[:half]}\n... {missing:,} characters omitted ...\n{text[-half:]}"
    return indented(text) + "\n"


class LogStream:
    """A stream for `logging.StreamHandler` that writes to a file descriptor without blocking the caller. The caller
    owns the descriptor.

    Entries that could not be written are lost, and their number is written as soon as writing works again. A forked
    process has no writing thread, so an entry that cannot be written at once is lost there.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._torn = False
        """Whether the last entry was written only in part."""
        self._begin(direct=False)
        _streams.add(self)

    def _begin(self, *, direct: bool) -> None:
        self._lock = threading.RLock()
        self._queue: SimpleQueue[tuple[int, bytes] | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._direct = direct
        self._accepted = self._written = 0
        self._lost = 0
        """The number of entries that were lost since the last accepted entry."""

    def write(self, text: str) -> int:
        """Accept one entry for the thread to write, or drop it. Never blocks and never raises."""
        data = entry(text).encode("utf-8", "backslashreplace")
        with self._lock:
            if not self._direct and self._thread is None:
                self._start()
            if self._direct:
                self._lost = self._try(self._lost, data, wait=False)
            elif self._accepted - self._written + len(data) > MOST_WAITING:
                self._lost += 1
            else:
                self._accepted += len(data)
                self._queue.put((self._lost, data))
                self._lost = 0
        return len(text)

    def flush(self) -> None:
        """Do nothing, because `logging.StreamHandler` calls this method after each entry. `drain` waits."""

    def drain(self, seconds: float) -> bool:
        """Wait at most `seconds` until everything is written. Returns whether everything was written."""
        if self._thread is None:
            return True
        reached = threading.Event()
        self._queue.put(reached)
        return reached.wait(seconds)

    def close(self) -> None:
        """Drain the stream and end its thread. A later entry is written by the caller's thread, unless that would
        block."""
        self.drain(LAST_WORDS)
        with self._lock:
            self._direct = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(LAST_WORDS)

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="acp_server log", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # The interpreter is shutting down, or the system has no more threads.
            self._direct = True
        else:
            self._thread = thread

    def _run(self) -> None:
        lost = 0
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
                continue
            before, data = item
            lost = self._try(lost + before, data, wait=True)
            self._written += len(data)
            if self._queue.empty():
                with self._lock:
                    lost, self._lost = lost + self._lost, 0
                lost = self._try(lost, b"", wait=True)

    def _try(self, lost: int, data: bytes, *, wait: bool) -> int:
        """Write an entry, after the number of lost entries if there are any. Returns the number of entries that are
        lost now."""
        text = data
        if lost:
            text = b"(%d log entries were lost: they could not be written)\n%b" % (lost, data)
        if self._torn:
            text = b"\n" + text
        if not lost and not data:
            return 0
        rest = memoryview(text)
        try:
            while rest and (wait or self._has_room()):
                rest = self._put(rest, wait=wait)
        except OSError:
            pass  # the log itself failed, so it cannot be logged
        self._torn = bool(rest) and len(rest) < len(text)
        return lost + bool(data) if rest else 0

    def _put(self, rest: memoryview, *, wait: bool) -> memoryview:
        try:
            return rest[os.write(self._fd, rest if wait else rest[:_AT_ONCE]) :]
        except BlockingIOError:
            # Another process that shares the descriptor made it non-blocking.
            if not wait:
                raise
            self._has_room(None)
            return rest

    def _has_room(self, milliseconds: int | None = 0) -> bool:
        """Wait until the descriptor accepts bytes, at most `milliseconds` (None: no limit). Returns True where that
        cannot be determined (Windows)."""
        if not hasattr(select, "poll"):
            return True
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        return bool(poll.poll(milliseconds))

    def forked(self) -> None:
        """Start afresh in a forked process, since the thread and the buffered entries belong to the parent."""
        self._begin(direct=True)


_streams: Final[WeakSet[LogStream]] = WeakSet()


@cache
def standard_error() -> LogStream:
    """Return the stream for standard error."""
    return LogStream(2)


def drain(seconds: float = LAST_WORDS) -> None:
    """Wait at most `seconds` until all streams have written everything."""
    end = time.monotonic() + seconds
    for stream in list(_streams):
        stream.drain(max(0.0, end - time.monotonic()))


def _forked() -> None:
    for stream in list(_streams):
        stream.forked()


atexit.register(drain)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_LONGEST_ROUND: Final = 8
"""The most frames of a repeated group. A recursion through more functions is not folded."""

_Raised: TypeAlias = "tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]"


class LogFormatter(logging.Formatter):
    """Formats an entry as one line, even if a peer's text in it has several, followed by a traceback with folded
    recursion. The stream escapes control characters."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is that of `logging`
        """See `logging.Formatter`."""
        return super().formatMessage(record).replace("\n", "\\n")

    def formatException(self, ei: _Raised) -> str:  # noqa: N802
        """See `logging.Formatter`."""
        kind, error, trace = ei
        if kind is None or error is None:
            return ""
        told = traceback.TracebackException(kind, error, trace, lookup_lines=False, compact=True)
        for each in _all(told):
            each.stack = _Stack(each.stack)
        return "".join(told.format()).removesuffix("\n")


class LogHandler(logging.StreamHandler[LogStream]):
    """Writes entries of at least `level` to a stream that never blocks."""

    def __init__(self, stream: LogStream, level: int = logging.NOTSET) -> None:
        super().__init__(stream)
        self.setLevel(level)
        self.setFormatter(LogFormatter())

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Log that an entry cannot be formatted. The method of `logging` would write a traceback and could block."""
        where = f"{record.pathname}:{record.lineno}"
        self.stream.write(f"ERROR {record.name}: the log entry of {where} cannot be formatted: {sys.exc_info()[1]!r}")


class UnblockedLog:
    """Redirects all logging that goes to standard error to a stream that does not wait for the client to read. This
    includes a program without log handlers; its entries are formatted as on the command line.

    Each existing `logging.StreamHandler` is redirected. Used as a context manager, the object restores them at the
    end.
    """

    def __init__(self) -> None:
        self._before: list[tuple[logging.StreamHandler[Any], Any]] = []
        self._last_resort = logging.lastResort
        logging.lastResort = LogHandler(standard_error(), logging.WARNING)
        for handler in _stream_handlers():
            if _is_standard(handler.stream):
                self._before.append((handler, handler.setStream(standard_error())))

    def __enter__(self) -> UnblockedLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()

    def restore(self) -> None:
        """Restore the handlers, after waiting until their entries are written or the wait timed out. Idempotent."""
        drain()
        while self._before:
            handler, stream = self._before.pop()
            handler.setStream(stream)
        logging.lastResort = self._last_resort


class _Stack(traceback.StackSummary):
    """Formats repeated frames once."""

    def format(self, **options: Any) -> list[str]:
        lines: list[str] = []
        for frames, more in _rounds(self):
            lines += traceback.StackSummary.from_list(frames).format(**options)
            if more:
                what = f"the {len(frames)} frames above come" if len(frames) > 1 else "the frame above comes"
                lines.append(f"  [{what} {more} more times]\n")
        return lines


def _rounds(frames: Sequence[traceback.FrameSummary]) -> Iterator[tuple[list[traceback.FrameSummary], int]]:
    """Yield the frames in order. Each repeated group of a recursion comes once, with the number of its repetitions."""
    places = [(frame.filename, frame.lineno, frame.name) for frame in frames]
    at = 0
    while at < len(places):
        for length in range(1, _LONGEST_ROUND + 1):
            end = at + length
            while places[end : end + length] == places[at : at + length]:
                end += length
            if (more := (end - at) // length - 1) > 1:
                yield list(frames[at : at + length]), more
                at = end
                break
        else:
            yield [frames[at]], 0
            at += 1


def _all(told: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """Yield an exception with its causes, its contexts and the members of its groups."""
    waiting = [told]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += [other for other in (each.__cause__, each.__context__) if other is not None]
        waiting += each.exceptions or ()


def _stream_handlers() -> list[logging.StreamHandler[Any]]:
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    handlers = [handler for logger in loggers if isinstance(logger, logging.Logger) for handler in logger.handlers]
    return [cast("Any", handler) for handler in handlers if isinstance(handler, logging.StreamHandler)]


def _is_standard(stream: Any) -> bool:
    """Whether the stream writes to standard error. While an agent is served, standard output does so too."""
    return stream is not None and stream in (sys.stderr, sys.__stderr__, sys.stdout, sys.__stdout__)
