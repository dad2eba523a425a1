"""The directories of a session. Only this module turns a user's path into a path to open.

Confinement is checked on the path with every symbolic link resolved. A directory can be replaced by a link between the
check and the use. So `Roots.place` also returns what is needed to open the file without following links
(`acp_server.paths`). This module reads no files.

Input, files and names may have any characters, so text that is shown is made `printable`. A request that cannot be
carried out raises a `Refusal`.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anyio import to_thread

from acp_server import AcpError, ConnectionClosed, RequestCancelled, RpcError, Session, ToolFailed
from acp_server.paths import Place, is_inside
from acp_server.safe_text import escape, masked
from acp_server.schema import problem
from acp_server.tools.approval import code

if TYPE_CHECKING:
    from acp_server import ToolContext

_LONGEST_QUOTE = 200


def printable(text: str) -> str:
    """Return the text on one line, with U+FFFD for each unsafe character."""
    return masked(text).replace("\n", "\N{REPLACEMENT CHARACTER}")


def exactly(text: str) -> str:
    """Return a command, a path or a name on one line, with an escape for each character that is not clearly visible."""
    return escape(text, exact=True).replace("\n", "\\n").replace("\t", "\\t")


def quoted(text: str) -> str:
    """Return a user's input as code for a message, treated by `exactly` and shortened."""
    return code(exactly(text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"))


class Refusal(ToolFailed):
    """Raised for a request that cannot be carried out.

    Its text is a sentence for the user, in Markdown. It has the user's input and nothing else of the system.
    """


def is_end(error: AcpError, call: ToolContext) -> bool:
    """Whether a request to the client failed because the call or the connection is ending."""
    return isinstance(error, ConnectionClosed) or (isinstance(error, RequestCancelled) and call.is_cancelled)


def words_of(error: AcpError) -> str:
    """Return the text for the user about the client's refusal, without its data. The data may have paths that the user
    did not name."""
    return f"{error.message} ({error.code})" if isinstance(error, RpcError) else str(error)


# Linux opens no longer paths, and resolving them would take a while.
LONGEST_PATH = 4096


class OutsideRoots(Refusal):
    """Raised for a path that leads out of the directories of the session."""


class _Root(NamedTuple):
    given: str  # as the client spells it, and may see it
    real: str  # without symbolic links, to compare paths


class Roots:
    """A session's working directory and its additional directories (ACP, Session Setup).

    Args:
        cwd: the absolute path that relative paths are relative to.
        extra: absolute paths of further directories; they need not be below `cwd`.

    Raises:
        Refusal: one of them is not an absolute path.
    """

    def __init__(self, cwd: str | os.PathLike[str], extra: Iterable[str | os.PathLike[str]] = ()) -> None:
        found: dict[str, _Root] = {}
        for directory in (cwd, *extra):
            root = _root(os.fspath(directory))
            found.setdefault(root.real, root)
        self._roots = tuple(found.values())
        self.cwd: str = self._roots[0].given

    @property
    def directories(self) -> tuple[str, ...]:
        """Return the directories as the client spells them, `cwd` first, each once."""
        return tuple(root.given for root in self._roots)

    def resolve(self, text: str) -> Path:
        """Return the absolute path that `text` means, below one of the directories and without symbolic links below it.

        A relative path is relative to `cwd`. The path need not exist.

        Raises:
         OutsideRoots: the path leads out, by `..`, an absolute path, `~` or a symbolic link anywhere in it. The message
         does not reveal whether something exists there.
         Refusal: no system could open the path, because it is empty, has a NUL character, is too long, or has a cycle
         of links.
        """
        return Path(self.place(text)[0])

    def place(self, text: str) -> tuple[str, Place]:
        """Return the path that `resolve` returns, and the `Place` by which the file is opened without following links.
        Raises like `resolve`."""
        real = _real_path(os.path.join(self.cwd, _plausible(text)), text)
        for root in self._roots:
            if is_inside(real, root.real):
                rest = real[len(root.real) :]
                return _join(root.given, rest), Place(root.real, rest)
        raise OutsideRoots(f"Outside the session's directories: {quoted(text)}")

    def display(self, path: str | os.PathLike[str]) -> str:
        """Return a path as it is shown: relative to `cwd` if it is below it, with `/`, and escaped."""
        text = os.fspath(path)
        if is_inside(text, self.cwd):
            text = text[len(self.cwd) :].lstrip(os.sep) or "."
        if os.sep != "/":
            text = text.replace(os.sep, "/")
        return exactly(text)


def _root(given: str) -> _Root:
    if not os.path.isabs(given) or "\0" in given:
        raise Refusal(f"Not an absolute path: {quoted(given)}")
    # Only the resolved path determines the parent of a symbolic link.
    named = os.path.realpath(given) if os.pardir in Path(given).parts else os.path.normpath(given)
    return _Root(named, os.path.realpath(named))


def _plausible(text: str) -> str:
    """Return `text` itself. Raises Refusal if it can never be a path below a directory."""
    if not text.strip():
        raise Refusal("The path is empty")
    if len(text) > LONGEST_PATH:
        raise Refusal(f"The path is too long: {quoted(text)}")
    if "\0" in text:
        raise Refusal(f"The path contains a NUL character: {quoted(text)}")
    if text.startswith("~"):
        raise OutsideRoots(
            f"Home directories are outside the session's directories: {quoted(text)} (for a file with this name, "
            f"write {quoted('./' + text)})"
        )
    if sys.platform == "win32":
        drive, rest = os.path.splitdrive(text)
        # An alternate data stream; a path relative to the current directory of a drive.
        if ":" in rest or (drive.endswith(":") and rest[:1] not in ("/", "\\")):
            raise Refusal(f"Not a path: {quoted(text)}")
    return text


def _real_path(path: str, text: str) -> str:
    try:
        return os.path.realpath(path, strict=True)
    except UnicodeEncodeError:
        raise Refusal(f"Not a path: {quoted(text)}") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise Refusal(f"The path is too long: {quoted(text)}") from None
        if error.errno == errno.ELOOP:
            raise Refusal(f"The symbolic links of this path form a loop: {quoted(text)}") from None
        # Missing or not accessible: the known part still determines whether it leads out.
        return os.path.realpath(path)


def _join(directory: str, rest: str) -> str:
    rest = rest.lstrip(os.sep)
    return os.path.join(directory, rest) if rest else directory


async def open_roots(session: Session) -> None:
    """Determine the directories of the session, and store them in `session.data`. Raises InvalidParams if one of them
    cannot be a directory."""
    session.data = await to_thread.run_sync(_roots, session.cwd, session.record.additional_directories)


def _roots(cwd: str, directories: list[str]) -> Roots:
    if not os.path.isdir(cwd):
        raise problem("cwd", "is not a directory")
    try:
        return Roots(cwd, directories)
    except (Refusal, ValueError):
        raise problem("additionalDirectories", "has a path that cannot exist here") from None
