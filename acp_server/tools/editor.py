"""`Editor`: the files of a session's project as the client has them, including unsaved changes.

The editor reads and writes through the client (ACP, File System), only inside the session's directories. ACP cannot
list files or report diagnostics, so the editor cannot either.

`insert` and `replace` change a text without files. They make all changes or none, and use the line breaks of the
text.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anyio import to_thread

from acp_server.errors import (
    AcpError,
    InvalidParams,
    MethodNotFound,
    RequestCancelled,
    ResourceNotFound,
    RpcError,
    UsageError,
)
from acp_server.paths import is_inside
from acp_server.tasks.threads import in_loop

if TYPE_CHECKING:
    from acp_server.schema.tool_call import Diff
    from acp_server.session.session import Session

logger: logging.Logger = logging.getLogger("acp_server.tools")

_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")

_MOST_COMPARED: Final = 10_000_000
"""The most characters of all matches of a block together. It is bounded because a block that overlaps with itself may
match everywhere."""
_MOST_SHOWN: Final = 10


class EditRefused(AcpError):
    """Raised for a change that does not fit the text. The message gives a model the reason, so that it can correct the
    change."""


@dataclass(frozen=True, slots=True)
class FileOperation:
    """Inserts lines before a line."""

    start_line: int
    """The number of the line in the current text, counted from 1. The number of lines plus one means the end of the
    text."""
    content: str
    """One or more whole lines; the last line break is optional."""


@dataclass(frozen=True, slots=True)
class ReplaceInstruction:
    """Replaces a block, which must match in exactly one position."""

    existing_block: str
    """The exact text of the block."""
    new_block: str
    """The text that replaces the block."""
    context_before: str | None = None
    """The text right before the block, to choose between several matches of the block."""
    context_after: str | None = None
    """The text right after the block."""
    start_line_hint: int | None = None
    """The number of a line near the beginning of the block, counted from 1. Of several matches, the nearest is
    replaced."""


def insert(text: str, operations: Sequence[FileOperation]) -> str:
    """Return `text` with the lines inserted. Lines for the same position are inserted in the given order. Raises
    EditRefused."""
    lines = _LINES.findall(text)
    newline = line_break(text)
    for operation in operations:
        if not 1 <= operation.start_line <= len(lines) + 1:
            raise EditRefused(f"there is no line {operation.start_line}, because the file has {len(lines)} lines")
    put_in: dict[int, list[str]] = {}
    for operation in operations:
        content = with_line_breaks(operation.content, newline)
        put_in.setdefault(operation.start_line - 1, []).append(
            content if content.endswith(newline) else content + newline
        )
    if lines and len(lines) in put_in and not lines[-1].endswith("\n"):
        lines[-1] += newline
    parts: list[str] = []
    for index in range(len(lines) + 1):
        parts += put_in.get(index, ())
        parts += lines[index : index + 1]
    return "".join(parts)


def replace(text: str, instructions: Sequence[ReplaceInstruction]) -> str:
    """Return `text` with the blocks replaced. Every block is searched in the original text. Raises EditRefused if a
    block has no match or several matches, or if blocks overlap."""
    newline = line_break(text)
    changes: list[tuple[int, int, str]] = []
    for instruction in instructions:
        start = _find(text, instruction, newline)
        length = len(with_line_breaks(instruction.existing_block, newline))
        changes.append((start, start + length, with_line_breaks(instruction.new_block, newline)))
    changes.sort()
    parts: list[str] = []
    done = 0
    for start, end, new in changes:
        if start < done:
            raise EditRefused(f"two blocks to replace overlap in line {_line(text, start)}")
        parts += text[done:start], new
        done = end
    return "".join(parts) + text[done:]


def _find(text: str, instruction: ReplaceInstruction, newline: str) -> int:
    block = with_line_breaks(instruction.existing_block, newline)
    if not block:
        raise EditRefused("the block to replace is empty")
    before = None if instruction.context_before is None else with_line_breaks(instruction.context_before, newline)
    after = None if instruction.context_after is None else with_line_breaks(instruction.context_after, newline)
    there = _found(text, block)
    if not there:
        raise EditRefused("the block to replace is not in the file")
    found = [
        start
        for start in there
        if (before is None or text.endswith((before, before + newline), 0, start))
        and (after is None or text.startswith((after, newline + after), start + len(block)))
    ]
    if not found:
        raise EditRefused(f"the block to replace is in {_places(text, there)}, but not with the given context")
    if len(found) > 1 and (hint := instruction.start_line_hint) is not None:
        breaks = [match.start() for match in re.finditer("\n", text)]
        distances = {start: abs(bisect_left(breaks, start) + 1 - hint) for start in found}
        nearest = min(distances.values())
        found = [start for start in found if distances[start] == nearest]
    if len(found) > 1:
        raise EditRefused(
            f"the block to replace is in {_places(text, found)}; choose a place by its context or a line hint"
        )
    return found[0]


def _found(text: str, block: str) -> list[int]:
    """Return the positions of all matches of a block, including matches that overlap."""
    starts: list[int] = []
    start = text.find(block)
    while start >= 0:
        starts.append(start)
        if len(starts) * len(block) > _MOST_COMPARED:
            raise EditRefused("the block to replace occurs too often")
        start = text.find(block, start + 1)
    return starts


def _places(text: str, starts: Sequence[int]) -> str:
    numbers = [str(_line(text, start)) for start in starts[:_MOST_SHOWN]]
    more = ", ..." if len(starts) > _MOST_SHOWN else ""
    return f"line {numbers[0]}" if len(starts) == 1 else f"the lines {', '.join(numbers)}{more}"


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def line_break(text: str) -> str:
    """Return the line break of the first line of `text`, CR LF or LF; LF if there is no line break."""
    end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def with_line_breaks(text: str, newline: str) -> str:
    """Return `text` with `newline` as its line break."""
    return text if newline == "\n" else text.replace("\r\n", "\n").replace("\n", newline)


@dataclass(frozen=True)
class EditResult:
    """The result of a change. In a condition, it is true if the file was written. Otherwise the file is unchanged, and
    `reason` is the reason, for a model. If the caller never reads the result of a refused change, the refusal is
    logged."""

    reason: str | None = None

    def __bool__(self) -> bool:
        return self.reason is None

    def __getattribute__(self, name: str) -> Any:
        # Every read of the result passes here: a condition, a comparison, the message for a model.
        if name == "reason":
            object.__setattr__(self, "_seen", True)
        return object.__getattribute__(self, name)

    def __del__(self) -> None:
        attributes = object.__getattribute__(self, "__dict__")
        if attributes.get("reason") is not None and "_seen" not in attributes:
            logger.warning(
                "an edit was refused and wrote nothing, and the tool did not read the reason: %s", attributes["reason"]
            )


_WRITTEN: Final = EditResult()


class Editor:
    """The files of one session. `may_write`: if False, files can be read and diffs shown, but nothing can be changed.

    Paths are relative to the session's working directory, or absolute. All methods raise InvalidParams for a path
    outside of the session's directories, RpcError for the client's error responses, and ConnectionClosed. With
    `may_write=False`, methods that write raise UsageError. Two concurrent changes of one file can undo each other.
    """

    def __init__(self, session: Session, *, may_write: bool = True) -> None:
        self._client = session.client
        self._cwd = session.cwd
        self._roots = [os.path.realpath(root) for root in session.roots]
        self._may_write = may_write
        self._opened: dict[str, str] = {}

    @classmethod
    def of(cls, session: Session, *, may_write: bool = True) -> Editor | None:
        """Return an editor; None if the client did not announce that it reads and writes text files."""
        fs = session.client.capabilities.fs
        return cls(session, may_write=may_write) if fs.read_text_file and fs.write_text_file else None

    @property
    def script_name(self) -> str:
        """The name of the project, which is the name of the working directory."""
        return os.path.basename(os.path.normpath(self._cwd))

    async def exists(self, path: str) -> bool:
        """Whether the file exists, on disk or only in the editor."""
        return await self._exists(self.absolute(path))

    async def get_file_content(self, path: str) -> str | None:
        """Return the text of a file; None if the file does not exist."""
        return await self._read(self.absolute(path))

    async def update_file_content(self, path: str, content: str) -> EditResult:
        """Replace the whole content of an existing file."""
        target = self._writable(path)
        if not await self._exists(target):
            return _missing(path)
        await self._write(path, content)
        return _WRITTEN

    async def write_to_file(self, path: str, content: str) -> EditResult:
        """Replace the whole content of a file. The file is created if it does not exist."""
        await self._write(path, content)
        return _WRITTEN

    async def insert_content(self, path: str, operations: Sequence[FileOperation]) -> EditResult:
        """Insert lines. Their positions are line numbers of the current text. Either all operations apply, or none."""
        return await self._edit(path, lambda text: insert(text, operations))

    async def replace_in_file(self, path: str, instructions: Sequence[ReplaceInstruction]) -> EditResult:
        """Replace blocks by new texts. Either all instructions apply, or none."""
        return await self._edit(path, lambda text: replace(text, instructions))

    def open_diff_editor(self, path: str, content: str) -> None:
        """Show the user the proposed content of a file, as a diff. The file is unchanged.

        In an approval request, the diff becomes the preview of the question. If it is called several times for one
        file, the last call counts.
        """
        self._opened[self.absolute(path)] = content

    async def take_diffs(self) -> list[Diff]:
        """Return the diffs of all `open_diff_editor` calls since the last `take_diffs`, against the current files."""
        from acp_server.schema.tool_call import Diff

        opened, self._opened = self._opened, {}
        return [Diff(path=path, old_text=await self._read(path), new_text=content) for path, content in opened.items()]

    def absolute(self, path: str) -> str:
        """Return the absolute path for `path`. Raises InvalidParams if it is outside of the session's directories."""
        if not path or "\0" in path:
            raise InvalidParams(f"Not a path: {path!r}")
        target = os.path.normpath(os.path.join(self._cwd, path))
        # Links are followed for the decision only: the editor knows the file by the name that the user gave it.
        real = os.path.realpath(target)
        if not any(is_inside(real, root) for root in self._roots):
            raise InvalidParams(f"Outside the session's directories: {path!r}")
        return target

    def _writable(self, path: str) -> str:
        if not self._may_write:
            raise UsageError("an approval request must not write files; write them in the function of the tool")
        return self.absolute(path)

    async def _edit(self, path: str, change: Callable[[str], str]) -> EditResult:
        target = self._writable(path)
        text = await self._read(target)
        if text is None:
            return _missing(path)
        try:
            changed = change(text)
        except EditRefused as refused:
            return EditResult(f"{path}: {refused}")
        if changed != text:
            await self._write(path, changed)
        return _WRITTEN

    async def _write(self, path: str, content: str) -> None:
        # Checked again right before the write: meanwhile a folder may have become a link that leads out.
        await self._client.write_text_file(self._writable(path), content)

    async def _exists(self, target: str) -> bool:
        try:
            return await self._read(target, limit=1) is not None
        except (RequestCancelled, MethodNotFound):
            raise
        except RpcError:
            return True  # it is on the disk, but the client refuses to read it, for example because it is not text

    async def _read(self, target: str, limit: int | None = None) -> str | None:
        try:
            text = await self._client.read_text_file(target, limit=limit)
        except ResourceNotFound:
            return None
        except (RequestCancelled, MethodNotFound):
            raise
        except RpcError:
            # Not every client reports a missing file with the right code.
            if await to_thread.run_sync(os.path.isfile, target):
                raise
            return None
        lacks = limit is None and text and not text.endswith("\n")
        return await to_thread.run_sync(as_on_disk, target, text) if lacks else text


def as_on_disk(path: str, text: str) -> str:
    """Return `text` with the final newline of the file on disk, if the two differ only by it. Some clients omit that
    newline while the file is open."""
    newline = line_break(text)
    whole = (text + newline).encode(errors="surrogatepass")
    try:
        # O_NONBLOCK: opening a pipe without a writer would wait.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError):
        return text
    with open(descriptor, "rb") as file:
        try:
            status = os.fstat(descriptor)
            same = stat.S_ISREG(status.st_mode) and status.st_size == len(whole) and file.read(len(whole)) == whole
        except OSError:
            return text
    return text + newline if same else text


class BlockingEditor:
    """The editor for plain functions, for use in their worker thread. Each method calls the same method of `Editor` and
    waits for it. The methods also raise RequestCancelled once the call is cancelled."""

    def __init__(self, editor: Editor) -> None:
        self._editor = editor

    @property
    def script_name(self) -> str:
        """See `Editor.script_name`."""
        return self._editor.script_name

    def exists(self, path: str) -> bool:
        """See `Editor.exists`."""
        return in_loop(self._editor.exists, path)

    def get_file_content(self, path: str) -> str | None:
        """See `Editor.get_file_content`."""
        return in_loop(self._editor.get_file_content, path)

    def update_file_content(self, path: str, content: str) -> EditResult:
        """See `Editor.update_file_content`."""
        return in_loop(self._editor.update_file_content, path, content)

    def write_to_file(self, path: str, content: str) -> EditResult:
        """See `Editor.write_to_file`."""
        return in_loop(self._editor.write_to_file, path, content)

    def insert_content(self, path: str, operations: Sequence[FileOperation]) -> EditResult:
        """See `Editor.insert_content`."""
        return in_loop(self._editor.insert_content, path, operations)

    def replace_in_file(self, path: str, instructions: Sequence[ReplaceInstruction]) -> EditResult:
        """See `Editor.replace_in_file`."""
        return in_loop(self._editor.replace_in_file, path, instructions)

    def open_diff_editor(self, path: str, content: str) -> None:
        """See `Editor.open_diff_editor`."""
        self._editor.open_diff_editor(path, content)


def _missing(path: str) -> EditResult:
    return EditResult(f"{path} does not exist")


__all__ = [
    "BlockingEditor",
    "EditRefused",
    "EditResult",
    "Editor",
    "FileOperation",
    "ReplaceInstruction",
    "line_break",
    "replace",
    "with_line_breaks",
]
