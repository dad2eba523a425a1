"""The directories a session may look into, and the one place where a path that a user typed becomes a path to open.

Confinement is decided on the path with every symbolic link resolved. A directory can be swapped for a link between the
check and the use: `Roots.place` says where a file is to be looked for, with no link followed (`acp_server.paths`). It
reads no files.

Users, files and names may hold anything: what is shown of them is made `printable`, and a request that cannot be
carried out is a `Refusal`.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anyio import to_thread

from acp_server.errors import AcpError, ConnectionClosed, RequestCancelled, RpcError, ToolFailed
from acp_server.paths import Place, is_inside
from acp_server.safe_text import escape, masked
from acp_server.schema.reading import problem
from acp_server.session.session import Session
from acp_server.tools.approval import code

if TYPE_CHECKING:
    from acp_server.tools.context import ToolContext

_LONGEST_QUOTE = 200


def printable(text: str) -> str:
    """The text on one line. U+FFFD stands for each character that must not be shown."""
    return masked(text).replace("\n", "\N{REPLACEMENT CHARACTER}")


def exactly(text: str) -> str:
    """A command, a path or a name on one line, with an escape for each character that cannot be seen as what it is."""
    return escape(text, exact=True).replace("\n", "\\n").replace("\t", "\\t")


def quoted(text: str) -> str:
    """What a user typed, to be named in a message, as code: `exactly`, and cut if it is very long."""
    return code(exactly(text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"))


class Refusal(ToolFailed):
    """A request that cannot be carried out.

    Its text is a sentence for the user, in Markdown; it names what the user typed and nothing else of the system.
    """


def is_end(error: AcpError, call: ToolContext) -> bool:
    """Whether what was asked of the client failed because the call or the connection ends, and not for what it was."""
    return isinstance(error, ConnectionClosed) or (isinstance(error, RequestCancelled) and call.is_cancelled)


def words_of(error: AcpError) -> str:
    """What a user may be told of the client's refusal: not its data, which may name what the user did not."""
    return f"{error.message} ({error.code})" if isinstance(error, RpcError) else str(error)


# Linux opens no longer ones, and resolving them would take a while.
LONGEST_PATH = 4096


class OutsideRoots(Refusal):
    """The path leads out of the session's directories."""


class _Root(NamedTuple):
    given: str  # as the client names it: what it may be shown
    real: str  # without symbolic links: what is compared


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
        """The directories as the client named them, `cwd` first, each once."""
        return tuple(root.given for root in self._roots)

    def resolve(self, text: str) -> Path:
        """The absolute path that `text` means, below one of the directories and without symbolic links below it.

        A relative path is relative to `cwd`. Nothing has to exist there.

        Raises:
            OutsideRoots: it leads out, by `..`, an absolute path, `~` or a symbolic link anywhere in it.
                Whether something exists out there cannot be told from the message.
            Refusal: no system could open it: empty, a NUL character, too long, links in a circle.
        """
        return Path(self.place(text)[0])

    def place(self, text: str) -> tuple[str, Place]:
        """What `resolve` returns, and the same place as it is to be opened. Raises as `resolve`."""
        real = _real_path(os.path.join(self.cwd, _plausible(text)), text)
        for root in self._roots:
            if is_inside(real, root.real):
                rest = real[len(root.real) :]
                return _join(root.given, rest), Place(root.real, rest)
        raise OutsideRoots(f"Outside of the session's directories: {quoted(text)}")

    def display(self, path: str | os.PathLike[str]) -> str:
        """How to show a path of ours: relative to `cwd` where it is below it, with `/`, fit to be shown."""
        text = os.fspath(path)
        if is_inside(text, self.cwd):
            text = text[len(self.cwd) :].lstrip(os.sep) or "."
        if os.sep != "/":
            text = text.replace(os.sep, "/")
        return exactly(text)


def _root(given: str) -> _Root:
    if not os.path.isabs(given) or "\0" in given:
        raise Refusal(f"Not an absolute path: {quoted(given)}")
    # Only the resolved path knows where the parent of a symbolic link is.
    named = os.path.realpath(given) if os.pardir in Path(given).parts else os.path.normpath(given)
    return _Root(named, os.path.realpath(named))


def _plausible(text: str) -> str:
    """`text` itself, unless it is something that is never a path below a directory."""
    if not text.strip():
        raise Refusal("An empty path")
    if len(text) > LONGEST_PATH:
        raise Refusal(f"The path is too long: {quoted(text)}")
    if "\0" in text:
        raise Refusal(f"A path with a NUL character: {quoted(text)}")
    if text.startswith("~"):
        raise OutsideRoots(
            f"Home directories are outside: {quoted(text)} (for a file of that name: {quoted('./' + text)})"
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
            raise Refusal(f"The symbolic links of this path go in a circle: {quoted(text)}") from None
        # Missing or not to be entered: what is known of it still says whether it leads out.
        return os.path.realpath(path)


def _join(directory: str, rest: str) -> str:
    rest = rest.lstrip(os.sep)
    return os.path.join(directory, rest) if rest else directory


async def open_roots(session: Session) -> None:
    """Find out where the session may look: `session.data`. Raises InvalidParams if that cannot be a directory."""
    session.data = await to_thread.run_sync(_roots, session.cwd, session.record.additional_directories)


def _roots(cwd: str, directories: list[str]) -> Roots:
    if not os.path.isdir(cwd):
        raise problem("cwd", "is not a directory")
    try:
        return Roots(cwd, directories)
    except (Refusal, ValueError):
        raise problem("additionalDirectories", "has a path that cannot exist here") from None
