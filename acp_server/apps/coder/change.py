"""The tools that change a file. A change is planned and shown. After the user's approval it is made completely or not
at all.

A file is read and written through the client if the client offers both, so that unsaved text in the editor counts.
Otherwise the file on disk is replaced as a whole, so it never has a part of the new text.

The user approves the change of the file that was shown. So after the approval the path is followed again: it must lead
through the same directories to the same file, without a link. The file is written in the directory where the path
ends.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

from anyio import to_thread

from acp_server import AcpError, Always, Approval, ToolContext
from acp_server.apps.coder.read import read_bytes, read_text, reason_of, regular
from acp_server.apps.coder.roots import Refusal, Roots, is_end, quoted, words_of
from acp_server.paths import Folder, Place, Way, is_same, way_to
from acp_server.tools.editor import Editor, EditRefused, ReplaceInstruction, line_break, replace, with_line_breaks

_BYTE_ORDER_MARK = "\ufeff"
"""A byte order mark of the file is not the user's text. It is kept."""


@dataclass(slots=True)
class Change:
    """A change of one file, and its progress. A cancel before the change is made prevents it, and reports whether it
    was made.

    Attributes:
     path: absolute, and without symbolic links below the session's directories.
     place: where the file was found when the change was planned.
     name: the file's name in messages.
     old: the whole text of the file when the change was planned; None if there was no file.
     new: the whole new text.
    """

    path: str
    place: Place
    name: str
    old: str | None
    new: str
    _lock: Lock = field(default_factory=Lock)
    _stopped: bool = False
    _asked: bool = False
    _made: bool = False

    def make(self, change: Callable[[], None]) -> None:
        """Call `change`, which makes the change, unless the change was stopped."""
        with self._lock:
            if not self._stopped:
                change()
                self._made = True

    def asking(self) -> bool:
        """Record that the editor may make the change at any time from now on. Returns False if the change was
        stopped."""
        with self._lock:
            self._asked = not self._stopped
            return self._asked

    def asked(self) -> None:
        """Record that the editor has made the change."""
        self._made = True

    def stop(self) -> str:
        """Prevent the change if it was not made. Returns the sentence for the user."""
        with self._lock:
            self._stopped = True
        if self._made:
            return f"{self.name} was changed before that."
        if self._asked:
            return f"The editor was asked to change {self.name}, and may have done so."
        return f"{self.name} was not changed."


# -- what is asked


def edit_title(path: str, old: str, new: str) -> str:
    """Return the title of the call for the user."""
    return f"Edit {quoted(path)}"


def write_title(path: str, content: str) -> str:
    """Return the title of the call for the user."""
    return f"Write {quoted(path)}"


async def ask_edit(path: str, old: str, new: str, call: ToolContext) -> Approval:
    """Return the approval request, with the effect of the edit. Raises Refusal if the edit is impossible."""

    def edited(text: str | None, name: str) -> str:
        if text is None:
            raise Refusal(f"No such file: {name}")
        try:
            return replace(text, [ReplaceInstruction(old, new)])
        except EditRefused as refused:
            raise Refusal(f"{name}: {refused}") from None

    return await _planned(call, path, edited)


async def ask_write(path: str, content: str, call: ToolContext) -> Approval:
    """Return the approval request, with the effect of the write. Raises Refusal if the write is impossible."""

    def written(text: str | None, _name: str) -> str:
        text = text or ""
        mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
        return mark + with_line_breaks(content.removeprefix(mark), line_break(text))

    return await _planned(call, path, written)


async def _planned(call: ToolContext, typed: str, make: Callable[[str | None, str], str]) -> Approval:
    from acp_server.schema import Diff

    roots: Roots = call.session.data
    path, place = await to_thread.run_sync(_found, roots, typed)
    name = quoted(roots.display(path))
    old = await _read(path, place, name, call)
    new = make(old, name)
    if new == old:
        raise Refusal(f"The edit changes nothing in {name}")
    call.data = Change(path, place, name, old, new)
    call.locate(path, None if old is None else _first_change(old, new))
    verb = "Make" if old is None else "Change"
    diff = Diff(path=path, old_text=old, new_text=new)
    return Approval(f"{verb} {name}?", preview=diff, primary=f"{verb} it", explains=False)


CHANGE: Final = "change\0"
"""The prefix of the keys of all changes."""


def always_changed(path: str, call: ToolContext, **_: str) -> Always | None:
    """Return the approval key of the found file. It is None for files that make programs run, and for configuration and
    secrets of other programs: a change of these needs an approval each time."""
    place = call.data.place
    if is_delicate(place):
        return None
    return Always(f"{CHANGE}{os.path.join(place.root, place.rest.lstrip(os.sep))}", "this file")


_FOLDERS: Final = frozenset({"hooks", "githooks", "git-hooks"})
_SHORT: Final = re.compile(r"~[0-9]")
"""Windows gives each long name a short one as well: `GIT~1` for `.git`, `VSCODE~1` for `.vscode`."""
_INSTRUCTIONS: Final = frozenset(
    {
        *("agent", "agents", "agents.override", "claude", "claude.local", "conventions", "copilot-instructions"),
        *("crush", "gemini", "qwen", "skill", "warp"),
    }
)
"""The names of files with instructions that agents obey, without `.md`."""
_ENDINGS: Final = (".env", ".code-workspace", ".sublime-project", "vimrc")


def is_delicate(place: Place) -> bool:
    """Whether a change of the file can do more than its text shows. That holds for names that begin with a dot (`.git`,
    `.env`, settings of editors, shells and checks), for hooks, and for instructions of agents."""
    names = [_plain(name) for name in place.rest.split(os.sep) if name]
    stem, dot, ending = names[-1].rpartition(".")
    return (
        ".git" in map(_plain, place.root.split(os.sep))
        or any(name.startswith(".") or name in _FOLDERS or _SHORT.search(name) for name in names)
        or names[-1].endswith(_ENDINGS)
        or (dot + ending == ".md" and stem in _INSTRUCTIONS)
    )


def _plain(name: str) -> str:
    """Return the name as a file system sees it that ignores case, invisible characters, and dots and spaces at the
    end."""
    visible = "".join(letter for letter in name if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFC", visible).casefold().rstrip(". ")


def _found(roots: Roots, typed: str) -> tuple[str, Place]:
    path, place = roots.place(typed)
    if os.path.isdir(path) or typed.endswith(("/", os.sep)):
        raise Refusal(f"Not a file but a directory: {quoted(typed)}")
    try:
        with way_to(place) as way:
            return path, place._replace(seen=way.seen)
    except OSError as error:
        raise Refusal(f"{reason_of(error)}: {quoted(typed)}") from None


def _first_change(old: str, new: str) -> int:
    """Return the number of the first line that changes, counted from 1."""
    lines = zip(old.split("\n"), new.split("\n"), strict=False)
    return next((number for number, (before, after) in enumerate(lines, 1) if before != after), 1)


# -- what is done


async def edit(path: str, old: str, new: str, call: ToolContext) -> str:
    """Replace a text that is in a file exactly once."""
    return await _carry_out(call)


async def write(path: str, content: str, call: ToolContext) -> str:
    """Create a file, or replace its whole content."""
    return await _carry_out(call)


async def edit_and_say(path: str, old: str, new: str, call: ToolContext) -> Any:
    """Make the edit like `edit`. The message to the user contains the result, so the tool call does not repeat it."""
    return _said(await edit(path, old, new, call))


async def write_and_say(path: str, content: str, call: ToolContext) -> Any:
    """Write the file like `write`. The message to the user contains the result, so the tool call does not repeat it."""
    return _said(await write(path, content, call))


def _said(words: str) -> Any:
    # Not at the top, since it imports the models of the schema.
    from acp_server.tools.output import Output

    return Output(words, said=True)


async def _carry_out(call: ToolContext) -> str:
    change: Change = call.data
    call.on_cancel = change.stop
    try:
        if (editor := Editor.of(call.session)) is None:
            await to_thread.run_sync(replace_text, change.place, change.old, change.new, change.make)
        else:
            await _through(editor, change, call)
    except Changed:
        raise Refusal(f"{change.name} was changed in the meantime, so it was not overwritten") from None
    except UnicodeEncodeError:
        raise Refusal(f"The new content cannot be written in UTF-8; {change.name} was not changed") from None
    except OSError as error:
        raise Refusal(f"{reason_of(error)}; {change.name} was not changed") from None
    return f"{change.name} is {'made' if change.old is None else 'changed'}."


async def _through(editor: Editor, change: Change, call: ToolContext) -> None:
    await to_thread.run_sync(check_path, change.path, change.place)
    if await _read(change.path, change.place, change.name, call) != change.old:
        raise Changed
    # Checked again right before the write, since reading waits for the client.
    await to_thread.run_sync(check_path, change.path, change.place)
    if not change.asking():
        return
    try:
        await editor.write_to_file(change.path, change.new)
    except AcpError as error:
        if is_end(error, call):
            raise
        raise Refusal(f"The editor refused to write {change.name}: {words_of(error)}") from None
    change.asked()


async def _read(path: str, place: Place, name: str, call: ToolContext) -> str | None:
    if (editor := Editor.of(call.session)) is None:
        return await to_thread.run_sync(read_text, place, name)
    try:
        return await editor.get_file_content(path)
    except AcpError as error:
        if is_end(error, call):
            raise
        raise Refusal(f"The editor refused to read {name}: {words_of(error)}") from None


# -- on disk


Commit = Callable[[Callable[[], None]], None]
"""Calls the function that makes the change, unless the change was stopped."""


class Changed(Exception):
    """The file, or the path to it, is not the same as when the change was planned."""


@contextmanager
def _same(place: Place) -> Generator[Way]:
    """Follow the path to the file again. Raises Changed if it differs from the path that was seen."""
    try:
        way = Way(place)
    except OSError:
        raise Changed from None
    try:
        if not is_same(place.seen, way.seen):
            raise Changed
        yield way
    finally:
        way.close()


def check_path(path: str, place: Place) -> None:
    """Check the path before a change that the client makes by the path. Raises Changed if the path no longer leads to
    `place`, or leads there in another way."""
    with _same(place):
        if os.path.realpath(path) != os.path.join(place.root, place.rest.lstrip(os.sep)):
            raise Changed


def replace_text(place: Place, old: str | None, new: str, commit: Commit) -> None:
    """Replace `old` by `new` atomically, with the mode and the owner of the file. If `old` is None, create the file and
    its directories.

    Nothing else is left behind in any case. `commit` decides at the last moment.

    Raises:
     Changed: the file does not contain `old`, or the path to it has changed.
     OSError: the file cannot be written.
     UnicodeEncodeError: the text cannot be written in UTF-8.
    """
    data = new.encode()
    with _same(place) as way:
        before = way.stat()
        if before is not None and not os.access(way.folder.at(way.name), os.W_OK, **way.folder.relative):
            raise PermissionError(None, "Read-only")
        with _NewFile(way.folder, data, before) as file:
            _check(place, old)
            commit(lambda: _put(file, place, way, old, before))


def _check(place: Place, old: str | None) -> None:
    with _same(place) as way:
        if old is None:
            return
        try:
            if read_bytes(regular(way.open())) == old.encode():
                return
        except OSError:
            pass
    raise Changed


def _put(file: _NewFile, place: Place, way: Way, old: str | None, before: os.stat_result | None) -> None:
    with way.folders_made():
        if old is None or before is None:
            file.link(way.folder, way.name)
        else:
            file.replace(way.name)
        if _leads_to(place, way):
            return
        # The directory was moved at the last moment, perhaps out of the root: restore its old content.
        if old is None or before is None:
            os.unlink(way.folder.at(way.name), **way.folder.relative)
        else:
            with _NewFile(way.folder, old.encode(), before) as back:
                back.replace(way.name)
        raise Changed


def _leads_to(place: Place, way: Way) -> bool:
    try:
        with way_to(place) as now:
            return now.folders == way.folders
    except OSError:
        return False


class _NewFile:
    """A file with the new content in a directory, not visible yet. Where possible it has no name, so that it cannot
    outlive the process. It is as private as the file that it replaces."""

    def __init__(self, folder: Folder, data: bytes, before: os.stat_result | None) -> None:
        self._folder = folder
        self._name: str | None = None
        self._descriptor: int | None = self._open(0o666 if before is None else 0o600)
        try:
            with open(self._descriptor, "wb", closefd=False) as file:
                file.write(data)
            if before is not None:
                _take_after(self._descriptor, before)
            os.fsync(self._descriptor)
            if self._name is not None:
                self._close()  # Windows cannot move an open file
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> _NewFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        if self._name is not None:
            os.unlink(self._folder.at(self._name), **self._folder.relative)

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def link(self, folder: Folder, name: str) -> None:
        """Link the file to a free name. Raises Changed if the name is taken."""
        try:
            if self._name is None:
                # Python follows this link only with a directory's descriptor.
                source = f"/proc/self/fd/{self._descriptor}"
                os.link(source, folder.at(name), dst_dir_fd=folder.relative["dir_fd"])
            else:
                folder.link(self._folder, self._name, name)
        except FileExistsError:
            raise Changed from None

    def replace(self, name: str) -> None:
        """Give the file the name of a file in the same directory, which it replaces."""
        if self._name is None:
            temporary = _new_name()
            self.link(self._folder, temporary)
            self._name = temporary
        self._folder.replace(self._name, name)
        self._name = None

    def _open(self, mode: int) -> int:
        folder = self._folder
        if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
            with suppress(OSError):  # not on every file system
                return os.open(folder.at("."), os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, mode, **folder.relative)
        name = _new_name()
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
        descriptor = os.open(folder.at(name), flags | getattr(os, "O_CLOEXEC", 0), mode, **folder.relative)
        self._name = name
        return descriptor


def _new_name() -> str:
    return f".{secrets.token_hex(8)}.tmp"


def _take_after(descriptor: int, before: os.stat_result) -> None:
    if not hasattr(os, "fchmod"):
        return
    ours = os.fstat(descriptor)
    if (ours.st_uid, ours.st_gid) != (before.st_uid, before.st_gid):
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
