"""Standard output that takes nothing more: how a command ends then.

A reader that has seen enough closes its pipe, or a disk is full. What an agent says is written by handlers of its
messages, where an exception is only logged. So the first failure is kept here, and ends the block of the command that
needs its output (`StandardOutput.needed`). What a command writes elsewhere fails as an OSError, often in an
ExceptionGroup, which `written` finds. Files that a command opens by itself are not looked after here.
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
    """Standard output takes nothing any more, which ends the command with the exit status 1."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write: {error.strerror}")
        self.has_no_reader: bool = error.errno in _GONE
        """Whether its reader has seen enough, as `head` does: that is nothing to be told of."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Say it in one line."""
        if not self.has_no_reader:
            (file or sys.stderr).write(entry(f"acp-server: {self.message}"))


class StandardOutput:
    """Standard output of one command."""

    def __init__(self) -> None:
        self._needed_by: anyio.CancelScope | None = None
        self._error: OSError | None = None

    @contextmanager
    def needed(self) -> Generator[None]:
        """A block that is cancelled at the first text that cannot be written. Behind it CannotWrite is raised."""
        import anyio  # Not at the top: no help of a command needs it.

        with anyio.CancelScope() as self._needed_by:
            yield
        self._needed_by = None
        if self._error is not None:
            raise CannotWrite(self._error)

    def write(self, text: str, *, colour: bool | None = True) -> None:
        """Write `text`, and wait until it is written. `colour` False takes the control sequences out of it, and None
        does so where the output is not a terminal.

        In a block that needs the output nothing is raised, and what comes behind the first failure is dropped.
        Elsewhere CannotWrite is raised.
        """
        if self._error is not None:
            return
        try:
            # There is no object if the descriptor was closed when Python started.
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
    """A block that writes to standard output, all of which is written at its end. Raises CannotWrite."""
    try:
        yield
        # Where an agent was served, there is another in its place, which nothing waits for.
        if sys.stdout is sys.__stdout__ and sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, BaseExceptionGroup) as error:
        if (cause := _of_writing(error)) is None:
            raise
        _drop_what_is_left()
        raise CannotWrite(cause) from None


def _of_writing(error: BaseException) -> OSError | None:
    """The error of a write, if `error` is that, or a group of nothing else."""
    if isinstance(error, BaseExceptionGroup):
        causes = [_of_writing(each) for each in cast("BaseExceptionGroup[BaseException]", error).exceptions]
        return causes[0] if all(causes) else None
    # An error that names a file comes from opening that file.
    if isinstance(error, OSError) and error.filename is None and error.errno in _GONE | _FULL:
        return error
    return None


def _drop_what_is_left() -> None:
    """What could not be written is still in a buffer. At its end Python would try again, and complain."""
    try:
        descriptor = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    except (AttributeError, OSError, ValueError):
        pass  # not a file of the system's
