"""The log of a program that serves an agent: nothing that logs waits for it, and no peer can forge an entry.

How entries are written is the matter of `acp_server.agent.log_stream`; what is logged at all is decided by the author,
or on the command line (`acp_server.cli.logs`).
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Final, TypeAlias, cast

from acp_server.agent.log_stream import LogStream, drain, standard_error

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_LONGEST_ROUND: Final = 8
"""Frames; a recursion through more functions than that is not folded."""

_Raised: TypeAlias = "tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]"


class LogFormatter(logging.Formatter):
    """An entry is one line, whatever a peer has put into it; a traceback follows it, with its recursion folded.

    Control characters are escaped by the stream.
    """

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
    """Writes to a stream that never waits, what is worth at least `level`."""

    def __init__(self, stream: LogStream, level: int = logging.NOTSET) -> None:
        super().__init__(stream)
        self.setLevel(level)
        self.setFormatter(LogFormatter())

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Log that an entry cannot be formatted. `logging` itself writes a traceback, and waits for room for it."""
        where = f"{record.pathname}:{record.lineno}"
        self.stream.write(f"ERROR {record.name}: the log entry of {where} cannot be formatted: {sys.exc_info()[1]!r}")


class UnblockedLog:
    """From now on nothing that is logged to standard error waits for a client to read it; nor does what is logged where
    no handler was set up, which looks as on the command line.

    It takes hold of each `logging.StreamHandler` that is there already. As a context manager it gives them back.
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
        """Give the handlers back, once what they have logged is written or has had its time. Idempotent."""
        drain()
        while self._before:
            handler, stream = self._before.pop()
            handler.setStream(stream)
        logging.lastResort = self._last_resort


class _Stack(traceback.StackSummary):
    """Writes frames that come again and again once."""

    def format(self, **options: Any) -> list[str]:
        lines: list[str] = []
        for frames, more in _rounds(self):
            lines += traceback.StackSummary.from_list(frames).format(**options)
            if more:
                what = f"the {len(frames)} frames above come" if len(frames) > 1 else "the frame above comes"
                lines.append(f"  [{what} {more} more times]\n")
        return lines


def _rounds(frames: Sequence[traceback.FrameSummary]) -> Iterator[tuple[list[traceback.FrameSummary], int]]:
    """The frames in order, and how often those of a recursion follow themselves."""
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
    """It, and those that it tells of."""
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
    """Whether it leads to standard error, as standard output does while an agent is served."""
    return stream is not None and stream in (sys.stderr, sys.__stderr__, sys.stdout, sys.__stdout__)
