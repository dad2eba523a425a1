"""Standard output that takes nothing more: how a command ends then.

A reader that has seen enough closes its pipe, or a disk is full. Both reach a command as an OSError somewhere, often in
an ExceptionGroup. Here it becomes an error that the command line shows. Files that a command opens by itself are not
looked after here.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, Any, Final, cast

import click

from acp_server.agent.log import entry

_GONE: Final = {errno.EPIPE} | ({errno.EINVAL} if sys.platform == "win32" else set[int]())
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_CLOSED_PIPE: Final = 128 + 13
"""The exit status that a shell has for a program that SIGPIPE ends, as most programs are ended by a closed pipe."""


class CannotWrite(click.ClickException):
    """The command has ended since its output could not be written."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        """Say it in one line."""
        sys.stderr.write(entry(f"acp-server: {self.message}"))


class ReaderGone(CannotWrite):
    """The reader of the output has closed the pipe. It knows that, so nothing is said."""

    exit_code = _CLOSED_PIPE

    def show(self, file: IO[Any] | None = None) -> None:
        """See `CannotWrite`."""


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
        _let_go()
        kind = ReaderGone if cause.errno in _GONE else CannotWrite
        raise kind(f"cannot write: {cause.strerror}") from None


def _of_writing(error: BaseException) -> OSError | None:
    """The error of a write, if `error` is that, or a group of nothing else."""
    if isinstance(error, BaseExceptionGroup):
        causes = [_of_writing(each) for each in cast("BaseExceptionGroup[BaseException]", error).exceptions]
        return causes[0] if all(causes) else None
    # An error that names a file comes from opening that file.
    if isinstance(error, OSError) and error.filename is None and error.errno in _GONE | _FULL:
        return error
    return None


def _let_go() -> None:
    """What is left in the buffer would fail again when the interpreter ends, and be said there."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        return  # a caller of `main` has put something else there, not a file
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
