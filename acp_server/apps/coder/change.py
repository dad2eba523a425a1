"""The tools that change a file: what is to change is found out and shown, and after a yes it is done, or nothing is.

A file is read and written through the client where that offers both, so that the editor's unsaved text counts. Else it
is on disk, and is replaced as a whole: there is the old text or the new one, and never a part of it.

The user agrees to the file that was shown. So the way to it is walked again after the yes: the same directories, the
same file, and no link in it. What is written is written in the directory at the end of that way.
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

from acp_server.apps.coder.read import read_bytes, read_text, reason_of, regular
from acp_server.apps.coder.roots import Refusal, Roots, is_end, quoted, words_of
from acp_server.errors import AcpError
from acp_server.paths import Folder, Place, Way, is_same, way_to
from acp_server.tools.approval import Always, Approval
from acp_server.tools.context import ToolContext
from acp_server.tools.editor import Editor, EditRefused, ReplaceInstruction, line_break, replace, with_line_breaks

_BYTE_ORDER_MARK = "\ufeff"
"""Where a file has one, it is not text that the user typed, and stays."""


@dataclass(slots=True)
class Change:
    """A change of one file, and how far it is: a cancel before it is made prevents it, and tells the user which it was.

    Attributes:
        path: absolute, and without symbolic links below the session's directories.
        place: where it was found when the change was planned.
        name: for messages.
        old: all that was in the file when the change was planned; None if there was no file.
        new: all that is to be in it.
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
    path, place = await to_thread.run_sync(_found, roots, typed)
    name = quoted(roots.display(path))
    old = await _read(path, place, name, call)
    new = make(old, name)
    if new == old:
        raise Refusal(f"Nothing would change in {name}")
    call.data = Change(path, place, name, old, new)
    call.locate(path, None if old is None else _first_change(old, new))
    verb = "Make" if old is None else "Change"
    diff = Diff(path=path, old_text=old, new_text=new)
    return Approval(f"{verb} {name}?", preview=diff, primary=f"{verb} it", explains=False)


CHANGE: Final = "change\0"
"""What the keys of all changes begin with."""


def always_changed(path: str, call: ToolContext, **_: str) -> Always | None:
    """The file that was found. Files that have programs run, or that programs of the user's obey or keep secrets in,
    are asked about each time."""
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
"""What agents obey, without the `.md`."""
_ENDINGS: Final = (".env", ".code-workspace", ".sublime-project", "vimrc")


def is_delicate(place: Place) -> bool:
    """Whether a change of the file can do more than its text says. So it is with what begins with a dot (`.git`,
    `.env`, settings of editors, shells and checks), with hooks, and with the instructions of agents."""
    names = [_plain(name) for name in place.rest.split(os.sep) if name]
    stem, dot, ending = names[-1].rpartition(".")
    return (
        ".git" in map(_plain, place.root.split(os.sep))
        or any(name.startswith(".") or name in _FOLDERS or _SHORT.search(name) for name in names)
        or names[-1].endswith(_ENDINGS)
        or (dot + ending == ".md" and stem in _INSTRUCTIONS)
    )


def _plain(name: str) -> str:
    """As file systems may have it that know neither case, nor dots and spaces at the end, nor invisible characters."""
    visible = "".join(letter for letter in name if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFC", visible).casefold().rstrip(". ")


def _found(roots: Roots, typed: str) -> tuple[str, Place]:
    path, place = roots.place(typed)
    if os.path.isdir(path) or typed.endswith(("/", os.sep)):
        raise Refusal(f"A directory: {quoted(typed)}")
    try:
        with way_to(place) as way:
            return path, place._replace(seen=way.seen)
    except OSError as error:
        raise Refusal(f"{reason_of(error)}: {quoted(typed)}") from None


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


async def edit_and_say(path: str, old: str, new: str, call: ToolContext) -> Any:
    """`edit`, where the message says what came of it, so that the call need not."""
    return _said(await edit(path, old, new, call))


async def write_and_say(path: str, content: str, call: ToolContext) -> Any:
    """`write`, where the message says what came of it, so that the call need not."""
    return _said(await write(path, content, call))


def _said(words: str) -> Any:
    # Not at the top: with it come the models of the schema.
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
        raise Refusal(f"{change.name} has changed meanwhile, so it was left as it is") from None
    except UnicodeEncodeError:
        raise Refusal(f"Not a text that a file can hold: {change.name} is as it was") from None
    except OSError as error:
        raise Refusal(f"{reason_of(error)}: {change.name} is as it was") from None
    return f"{change.name} is {'made' if change.old is None else 'changed'}."


async def _through(editor: Editor, change: Change, call: ToolContext) -> None:
    await to_thread.run_sync(check_path, change.path, change.place)
    if await _read(change.path, change.place, change.name, call) != change.old:
        raise Changed
    # Once more, right before it is written: reading waits for the client.
    await to_thread.run_sync(check_path, change.path, change.place)
    if not change.asking():
        return
    try:
        await editor.write_to_file(change.path, change.new)
    except AcpError as error:
        if is_end(error, call):
            raise
        raise Refusal(f"The editor does not write {change.name}: {words_of(error)}") from None
    change.asked()


async def _read(path: str, place: Place, name: str, call: ToolContext) -> str | None:
    if (editor := Editor.of(call.session)) is None:
        return await to_thread.run_sync(read_text, place, name)
    try:
        return await editor.get_file_content(path)
    except AcpError as error:
        if is_end(error, call):
            raise
        raise Refusal(f"The editor does not read {name}: {words_of(error)}") from None


# -- on disk


Commit = Callable[[Callable[[], None]], None]
"""Calls the function that makes the change, unless it must not be made any more."""


class Changed(Exception):
    """The file is not what it was when the change was planned, or not where it was."""


@contextmanager
def _same(place: Place) -> Generator[Way]:
    """The way to the file, walked anew. Raises Changed, if it is not what was seen."""
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
    """For changes that the client makes, by the path: raise Changed if that does not lead to the place any more, or the
    way there is not what was seen."""
    with _same(place):
        if os.path.realpath(path) != os.path.join(place.root, place.rest.lstrip(os.sep)):
            raise Changed


def replace_text(place: Place, old: str | None, new: str, commit: Commit) -> None:
    """Put `new` in the place of `old`, all at once, with the mode and the owner of the file; or make the file, with the
    directories that it is in, if `old` is None.

    Whatever happens meanwhile, nothing else is left behind. `commit` decides at the last moment.

    Raises:
        Changed: the file does not hold `old`, or the way to it is not what was seen.
        OSError: it cannot be written.
        UnicodeEncodeError: it cannot be written in UTF-8.
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
        # The directory was moved in the last moment, maybe to the outside: it gets back what was there.
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
    """A file with this content in a directory, which is in no place yet: without a name where that is possible, for
    then it cannot outlive us. It is as private as the file whose place it takes."""

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
                self._close()  # a file that is open has to stay where it is, on Windows
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
        """Give it a place where nothing is. Raises Changed if something is there."""
        try:
            if self._name is None:
                # Python follows the link that this is only with a directory's descriptor.
                source = f"/proc/self/fd/{self._descriptor}"
                os.link(source, folder.at(name), dst_dir_fd=folder.relative["dir_fd"])
            else:
                folder.link(self._folder, self._name, name)
        except FileExistsError:
            raise Changed from None

    def replace(self, name: str) -> None:
        """Put it in the place of a file of the same directory."""
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
