"""`Editor`: the files of a session's project, as its client has them, unsaved changes included.

It reads and writes through the client (ACP, File System), inside of the session's directories only. ACP has no way to
list files or to ask for diagnostics, so neither has it. Who gets an editor, and when, is decided where tools are run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anyio import to_thread

from acp_server.errors import InvalidParams, MethodNotFound, RequestCancelled, ResourceNotFound, RpcError, UsageError
from acp_server.tasks.threads import in_loop
from acp_server.tools.edits import EditRefused, FileOperation, ReplaceInstruction, insert, replace

if TYPE_CHECKING:
    from acp_server.schema.tool_call import Diff
    from acp_server.session.session import Session


@dataclass(frozen=True, slots=True)
class EditResult:
    """True if the file was written. If not, nothing of it has changed, and `reason` says why, fit for a model."""

    reason: str | None = None

    def __bool__(self) -> bool:
        return self.reason is None


_WRITTEN: Final = EditResult()


class Editor:
    """The files of one session. `may_write`: without it, files can be read and diffs shown, but nothing is changed.

    Paths are relative to the session's working directory; absolute ones are possible, too. All methods raise
    InvalidParams for a path that leads out of the session's directories, RpcError for the client's error answers and
    ConnectionClosed; those that write raise UsageError where nothing may be written. Two changes of one file at the
    same time can undo each other.
    """

    def __init__(self, session: Session, *, may_write: bool = True) -> None:
        self._client = session.client
        self._cwd = session.cwd
        self._roots = [os.path.realpath(root) for root in session.roots]
        self._may_write = may_write
        self._opened: dict[str, str] = {}

    @classmethod
    def of(cls, session: Session, *, may_write: bool = True) -> Editor | None:
        """An editor, if the client announced that it reads and writes text files."""
        fs = session.client.capabilities.fs
        return cls(session, may_write=may_write) if fs.read_text_file and fs.write_text_file else None

    @property
    def script_name(self) -> str:
        """The name of the project: of the working directory."""
        return os.path.basename(os.path.normpath(self._cwd))

    async def exists(self, path: str) -> bool:
        """Whether there is such a file, be it only in the editor."""
        return await self._exists(self.absolute(path))

    async def get_file_content(self, path: str) -> str | None:
        """The text of a file; None if it does not exist."""
        return await self._read(self.absolute(path))

    async def update_file_content(self, path: str, content: str) -> EditResult:
        """Put `content` in the place of all that is in a file that exists."""
        target = self._writable(path)
        if not await self._exists(target):
            return _missing(path)
        await self._client.write_text_file(target, content)
        return _WRITTEN

    async def write_to_file(self, path: str, content: str) -> EditResult:
        """The same, and make the file if it does not exist."""
        await self._client.write_text_file(self._writable(path), content)
        return _WRITTEN

    async def insert_content(self, path: str, operations: Sequence[FileOperation]) -> EditResult:
        """Put lines in before others. The numbers are those of the lines as they are now. All of it or nothing."""
        return await self._edit(path, lambda text: insert(text, operations))

    async def replace_in_file(self, path: str, instructions: Sequence[ReplaceInstruction]) -> EditResult:
        """Put blocks in the place of others that are found by what is in them. All of it or nothing."""
        return await self._edit(path, lambda text: replace(text, instructions))

    def open_diff_editor(self, path: str, content: str) -> None:
        """Show the user what a file would be. The file stays as it is.

        In an approval request it becomes the preview of the question. The last one for a file counts.
        """
        self._opened[self.absolute(path)] = content

    async def take_diffs(self) -> list[Diff]:
        """What `open_diff_editor` was called for since the last time, against what is in the files now."""
        from acp_server.schema.tool_call import Diff

        opened, self._opened = self._opened, {}
        return [Diff(path=path, old_text=await self._read(path), new_text=content) for path, content in opened.items()]

    def absolute(self, path: str) -> str:
        """The absolute path that `path` means. Raises InvalidParams if it leads out of the session's directories."""
        if not path or "\0" in path:
            raise InvalidParams(f"Not a path: {path!r}")
        target = os.path.normpath(os.path.join(self._cwd, path))
        # Links are followed for the decision only: the editor knows the file by the name that the user gave it.
        real = os.path.realpath(target)
        if not any(_is_inside(real, root) for root in self._roots):
            raise InvalidParams(f"Outside of the session's directories: {path!r}")
        return target

    def _writable(self, path: str) -> str:
        if not self._may_write:
            raise UsageError("an approval request changes nothing: write files when the tool is executed")
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
            await self._client.write_text_file(target, changed)
        return _WRITTEN

    async def _exists(self, target: str) -> bool:
        try:
            return await self._read(target, limit=1) is not None
        except (RequestCancelled, MethodNotFound):
            raise
        except RpcError:
            return True  # it is on the disk, but the client does not read it: no text, for example

    async def _read(self, target: str, limit: int | None = None) -> str | None:
        try:
            return await self._client.read_text_file(target, limit=limit)
        except ResourceNotFound:
            return None
        except (RequestCancelled, MethodNotFound):
            raise
        except RpcError:
            # Not every client says with the right code that a file does not exist.
            if await to_thread.run_sync(os.path.isfile, target):
                raise
            return None


class BlockingEditor:
    """The editor for plain functions, in the thread that they run in: each method waits for the same one of `Editor`.

    They raise RequestCancelled, too, once the function's call is cancelled.
    """

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


def _is_inside(path: str, root: str) -> bool:
    path, root = os.path.normcase(path), os.path.normcase(root)
    return path == root or path.startswith(root if root.endswith(os.sep) else root + os.sep)
