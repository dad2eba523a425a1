"""Ends a command when standard output accepts no more data.

That happens if a reader that has seen enough closes its pipe, or if a disk is full. Message handlers write the agent's
output, and an exception in a message handler is only logged. So the first failure is kept here, and ends the block of
the command that needs its output (`StandardOutput.needed`). Other writes of a command fail with an OSError, often in an
ExceptionGroup, which `written` finds. Files that a command opens itself are not covered.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final, cast

import click

from acp_server.agent.log import entry

if TYPE_CHECKING:
    import anyio

_GONE: Final = {errno.EPIPE} | ({errno.EINVAL} if sys.platform == "win32" else set[int]())
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class CannotWrite(click.ClickException):
    """Raised when standard output accepts no more data. The command then ends with exit status 1."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write: {error.strerror}")
        self.has_no_reader: bool = error.errno in _GONE
        """Whether the reader has closed the pipe, as `head` does. That is not reported."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Report the error in one line."""
        if not self.has_no_reader:
            (file or sys.stderr).write(entry(f"acp-server: {self.message}"))


class StandardOutput:
    """Standard output of one command."""

    def __init__(self) -> None:
        self._needed_by: anyio.CancelScope | None = None
        self._error: OSError | None = None

    @contextmanager
    def needed(self) -> Generator[None]:
        """Enter a block that is cancelled at the first failed write. After the block CannotWrite is raised."""
        import anyio  # Not at the top: no help of a command needs it.

        with anyio.CancelScope() as self._needed_by:
            yield
        self._needed_by = None
        if self._error is not None:
            raise CannotWrite(self._error)

    def write(self, text: str, *, colour: bool | None = True) -> None:
        """Write `text`, and wait until it is written. With `colour` False the control sequences are removed. With None
        they are removed if the output is not a terminal.

        In a block that needs the output nothing is raised, and text after the first failure is dropped. Elsewhere
        CannotWrite is raised.
        """
        if self._error is not None:
            return
        try:
            # `sys.stdout` is None if the descriptor was closed when Python started.
            if not sys.stdout and self._needed_by is not None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            click.echo(text, file=sys.stdout, nl=False, color=colour)
        except OSError as error:
            _drop_what_is_left()
            if self._needed_by is None:
                raise CannotWrite(error) from None
            self._error = error
            self._needed_by.cancel()


@contextmanager
def written() -> Generator[None]:
    """Enter a block that writes to standard output. At its end all output is flushed. Raises CannotWrite."""
    try:
        yield
        # If an agent was served, another stream has replaced it, and nothing waits for that.
        if sys.stdout is sys.__stdout__ and sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, BaseExceptionGroup) as error:
        if (cause := _of_writing(error)) is None:
            raise
        _drop_what_is_left()
        raise CannotWrite(cause) from None


def _of_writing(error: BaseException) -> OSError | None:
    """Return the error of a write, if `error` is such an error or a group that contains only such errors."""
    if isinstance(error, BaseExceptionGroup):
        causes = [_of_writing(each) for each in cast("BaseExceptionGroup[BaseException]", error).exceptions]
        return causes[0] if all(causes) else None
    # An error that names a file was raised when that file was opened.
    if isinstance(error, OSError) and error.filename is None and error.errno in _GONE | _FULL:
        return error
    return None


def _drop_what_is_left() -> None:
    """Discard the buffer. Otherwise Python would write it again at its end, and report the failure."""
    try:
        descriptor = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    except (AttributeError, OSError, ValueError):
        pass  # not a file of the system
