"""The tools that change a file: what is to change is found out and shown, and after a yes it is done, or nothing is.

A file is read and written through the client where that offers both, so that the editor's unsaved text counts. Else it
is on disk, and is replaced as a whole: there is the old text or the new one, and never a part of it.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from anyio import to_thread

from acp_server.errors import AcpError
from acp_server.tools.approval import Approval
from acp_server.tools.context import ToolContext
from acp_server.tools.editor import EditRefused, ReplaceInstruction, line_break, replace, with_line_breaks
from acp_server.workspace.read import read_bytes, read_text, reason_of
from acp_server.workspace.roots import Refusal, Roots, is_end, quoted, words_of

if TYPE_CHECKING:
    from acp_server.tools.editor import Editor

_BYTE_ORDER_MARK = "\ufeff"
"""Where a file has one, it is not text that the user typed, and stays."""


@dataclass(slots=True)
class Change:
    """A change of one file, and how far it is: a cancel before it is made prevents it, and tells the user which it was.

    Attributes:
        path: absolute, and without symbolic links below the session's directories.
        name: for messages.
        old: all that was in the file when the change was planned; None if there was no file.
        new: all that is to be in it.
    """

    path: str
    name: str
    old: str | None
    new: str
    _lock: Lock = field(default_factory=Lock)
    _stopped: bool = False
    _asked: bool = False
    _made: bool = False

    def make(self, change: Callable[[], None]) -> None:
        """Make it, unless it was stopped."""
        with self._lock:
            if not self._stopped:
                change()
                self._made = True

    def asking(self) -> bool:
        """From now on the editor may make it at any time; False if it was stopped."""
        with self._lock:
            self._asked = not self._stopped
            return self._asked

    def asked(self) -> None:
        """The editor has made it."""
        self._made = True

    def stop(self) -> str:
        """Do not make it any more: what is to be said of it."""
        with self._lock:
            self._stopped = True
        if self._made:
            return f"{self.name} was changed before that."
        if self._asked:
            return f"The editor was asked to change {self.name}, and may have done so."
        return f"{self.name} is as it was."


# -- what is asked


def edit_title(path: str, old: str, new: str) -> str:
    """What the user sees."""
    return f"Edit {quoted(path)}"


def write_title(path: str, content: str) -> str:
    """What the user sees."""
    return f"Write {quoted(path)}"


async def ask_edit(path: str, old: str, new: str, call: ToolContext) -> Approval:
    """What an edit would do. Raises Refusal, if it cannot be done."""

    def edited(text: str | None, name: str) -> str:
        if text is None:
            raise Refusal(f"No such file: {name}")
        try:
            return replace(text, [ReplaceInstruction(old, new)])
        except EditRefused as refused:
            raise Refusal(f"{name}: {refused}") from None

    return await _planned(call, path, edited)


async def ask_write(path: str, content: str, call: ToolContext) -> Approval:
    """What a write would do. Raises Refusal, if it cannot be done."""

    def written(text: str | None, _name: str) -> str:
        text = text or ""
        mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
        return mark + with_line_breaks(content.removeprefix(mark), line_break(text))

    return await _planned(call, path, written)


async def _planned(call: ToolContext, typed: str, make: Callable[[str | None, str], str]) -> Approval:
    from acp_server.schema.tool_call import Diff

    roots: Roots = call.session.data
    path = await to_thread.run_sync(_resolved, roots, typed)
    name = quoted(roots.display(path))
    old = await _read(path, name, call)
    new = make(old, name)
    if new == old:
        raise Refusal(f"Nothing would change in {name}")
    call.data = Change(path, name, old, new)
    call.locate(path, None if old is None else _first_change(old, new))
    verb = "Make" if old is None else "Change"
    return Approval(f"{verb} {name}?", preview=Diff(path=path, old_text=old, new_text=new), primary=f"{verb} it")


def _resolved(roots: Roots, typed: str) -> str:
    path = str(roots.resolve(typed))
    if os.path.isdir(path) or typed.endswith(("/", os.sep)):
        raise Refusal(f"A directory: {quoted(typed)}")
    return path


def _first_change(old: str, new: str) -> int:
    """The number of the first line that changes, counted from 1."""
    lines = zip(old.split("\n"), new.split("\n"), strict=False)
    return next((number for number, (before, after) in enumerate(lines, 1) if before != after), 1)


# -- what is done


async def edit(path: str, old: str, new: str, call: ToolContext) -> str:
    """Replace a text that is in a file exactly once."""
    return await _carry_out(call)


async def write(path: str, content: str, call: ToolContext) -> str:
    """Make a file, or replace all of it."""
    return await _carry_out(call)


async def _carry_out(call: ToolContext) -> str:
    change: Change = call.data
    call.on_cancel = change.stop
    try:
        if call.editor is None:
            await to_thread.run_sync(replace_text, change.path, change.old, change.new, change.make)
        else:
            await _through(call.editor, change, call)
    except Changed:
        raise Refusal(f"{change.name} has changed meanwhile, so it was left as it is") from None
    except UnicodeEncodeError:
        raise Refusal(f"Not a text that a file can hold: {change.name} is as it was") from None
    except OSError as error:
        raise Refusal(f"{reason_of(error)}: {change.name} is as it was") from None
    return f"{change.name} is {'made' if change.old is None else 'changed'}."


async def _through(editor: Editor, change: Change, call: ToolContext) -> None:
    if await _read(change.path, change.name, call) != change.old:
        raise Changed
    if not change.asking():
        return
    try:
        await editor.write_to_file(change.path, change.new)
    except AcpError as error:
        if is_end(error, call):
            raise
        raise Refusal(f"The editor does not write {change.name}: {words_of(error)}") from None
    change.asked()


async def _read(path: str, name: str, call: ToolContext) -> str | None:
    if call.editor is None:
        return await to_thread.run_sync(read_text, path, name)
    try:
        return await call.editor.get_file_content(path)
    except AcpError as error:
        if is_end(error, call):
            raise
        raise Refusal(f"The editor does not read {name}: {words_of(error)}") from None


# -- on disk


Commit = Callable[[Callable[[], None]], None]
"""Calls the function that makes the change, unless it must not be made any more."""


class Changed(Exception):
    """The file is not what it was when the change was planned."""


def replace_text(path: str, old: str | None, new: str, commit: Commit) -> None:
    """Put `new` in the place of `old`, all at once, with the mode and the owner of the file; or make the file, with the
    directories that it is in, if `old` is None.

    Whatever happens meanwhile, nothing else is left behind. `commit` decides at the last moment.

    Raises:
        Changed: the file does not hold `old`.
        OSError: it cannot be written.
        UnicodeEncodeError: it cannot be written in UTF-8.
    """
    data = new.encode()
    directory = os.path.dirname(path)
    while old is None and not os.path.isdir(directory) and os.path.dirname(directory) != directory:
        directory = os.path.dirname(directory)
    before = None if old is None else os.stat(path)
    if before is not None and not os.access(path, os.W_OK):
        raise PermissionError(None, "Read-only")
    with _prepared(directory, data, before) as put:
        _check(path, old)
        commit(lambda: put(path))


def _check(path: str, old: str | None) -> None:
    if old is None:
        if os.path.lexists(path):
            raise Changed
        return
    try:
        if read_bytes(path) == old.encode():
            return
    except OSError:
        pass
    raise Changed


@contextmanager
def _prepared(directory: str, data: bytes, before: os.stat_result | None) -> Generator[Callable[[str], None]]:
    """A file with this content that is in no place yet, and what puts it in its place."""
    descriptor, temporary = _new_file(directory)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if before is not None:
                _take_after(descriptor, before)
            os.fsync(descriptor)
            if temporary is not None:
                file.close()  # a file that is open has to stay where it is, on Windows

            def put(path: str) -> None:
                nonlocal temporary
                if before is None:
                    _make(path, descriptor, temporary)
                    return
                if temporary is None:
                    name = _name_in(directory)
                    _link(descriptor, name)
                    temporary = name
                os.replace(temporary, path)
                temporary = None

            yield put
    finally:
        if temporary is not None:
            os.unlink(temporary)


def _new_file(directory: str) -> tuple[int, str | None]:
    """A new file in a directory, open for writing; without a name where that is possible: then it cannot outlive us."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        try:
            return os.open(directory, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666), None
        except OSError:
            pass  # not on every file system
    name = _name_in(directory)
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
    return os.open(name, flags, 0o666), name


def _name_in(directory: str) -> str:
    return os.path.join(directory, f".{secrets.token_hex(8)}.tmp")


def _take_after(descriptor: int, before: os.stat_result) -> None:
    if not hasattr(os, "fchmod"):
        return
    ours = os.fstat(descriptor)
    if (ours.st_uid, ours.st_gid) != (before.st_uid, before.st_gid):
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _make(path: str, descriptor: int, temporary: str | None) -> None:
    """Give a new file its name, unless something has that by now."""
    made: list[str] = []
    directory = os.path.dirname(path)
    while not os.path.isdir(directory):
        made.append(directory)
        directory = os.path.dirname(directory)
    done: list[str] = []
    try:
        for directory in reversed(made):
            os.mkdir(directory)
            done.append(directory)
        if temporary is None:
            _link(descriptor, path)
        else:
            os.link(temporary, path)
    except BaseException as error:
        for directory in reversed(done):
            with suppress(OSError):
                os.rmdir(directory)
        if isinstance(error, FileExistsError):
            raise Changed from None
        raise


def _link(descriptor: int, path: str) -> None:
    # With a directory's descriptor, which is of no use here, Python follows the link that this is.
    anywhere = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=anywhere)
    finally:
        os.close(anywhere)
