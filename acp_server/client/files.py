"""Ready-made handlers for `fs/*`: the files below some folders, as they are on disk.

They keep an agent that follows the protocol inside of what the user chose. They are not a sandbox: an agent that does
not follow it runs with the user's rights anyway. Unsaved changes of an editor are unknown to them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import anyio.to_thread

from acp_server.errors import InternalError, InvalidParams, ResourceNotFound
from acp_server.schema import (
    ReadTextFileRequest,
    ReadTextFileResponse,
    WriteTextFileRequest,
    WriteTextFileResponse,
)
from acp_server.schema.params import problem

MOST_BYTES: Final = 16 * 1024 * 1024
"""The most that is read at once by default: an agent may refuse a message of twice that."""


class LocalReader:
    """Reads the text files below `roots`, at most `most_bytes` of one at once.

    Answers -32602 for a path that is relative or outside of the roots (symbolic links are followed first), for what is
    not a regular file of UTF-8 text, and for too much text. Answers -32002 for what does not exist.
    """

    def __init__(self, roots: Iterable[str | os.PathLike[str]], *, most_bytes: int = MOST_BYTES) -> None:
        self._roots = [Path(root).resolve() for root in roots]
        self._most_bytes = most_bytes

    async def read_text_file(self, request: ReadTextFileRequest, /) -> ReadTextFileResponse:
        """The whole text, or `limit` lines from `line` on, as they are (ACP, File System, Reading Files)."""
        return await anyio.to_thread.run_sync(self._read, request)

    def _read(self, request: ReadTextFileRequest) -> ReadTextFileResponse:
        path = self._resolve(request.path)
        try:
            _check_regular(path)
            data = self._lines(path, max(request.line or 1, 1), request.limit)
        except OSError as error:
            raise _refusal("read", error) from None
        try:
            return ReadTextFileResponse(content=data.decode())
        except UnicodeDecodeError:
            raise problem("path", "is not a text file in UTF-8") from None

    def _lines(self, path: Path, first: int, limit: int | None) -> bytes | bytearray:
        with path.open("rb") as file:
            if first == 1 and limit is None:
                # In one go: it takes a tenth of the time.
                whole = file.read(self._most_bytes + 1)
                self._check_size(whole)
                return whole
            text = bytearray()
            number = 1
            # A line may be longer than what may be read, so it is looked at in pieces.
            while (limit is None or number < first + limit) and (piece := file.readline(self._most_bytes + 1)):
                if number >= first:
                    text += piece
                    self._check_size(text)
                number += piece.endswith(b"\n")
        return text

    def _check_size(self, text: bytes | bytearray) -> None:
        if len(text) > self._most_bytes:
            raise problem("limit", f"more than {self._most_bytes} bytes; ask for fewer lines")

    def _resolve(self, path: str) -> Path:
        if "\0" in path or not os.path.isabs(path):
            raise problem("path", "must be an absolute path")
        try:
            resolved = Path(path).resolve()
        except (OSError, RuntimeError):  # Links in a circle.
            raise ResourceNotFound(data={"path": path}) from None
        if not any(resolved.is_relative_to(root) for root in self._roots):
            raise problem("path", "is outside of the folders that were opened")
        return resolved


class LocalFiles(LocalReader):
    """Reads like `LocalReader`, and writes below the same roots."""

    async def write_text_file(self, request: WriteTextFileRequest, /) -> WriteTextFileResponse:
        """Make or replace a file, with the folders it is in (ACP, File System, Writing Files); UTF-8, nothing added."""
        return await anyio.to_thread.run_sync(self._write, request)

    def _write(self, request: WriteTextFileRequest) -> WriteTextFileResponse:
        path = self._resolve(request.path)
        try:
            data = request.content.encode()
        except UnicodeEncodeError:
            raise problem("content", "has half of a surrogate pair, which no file in UTF-8 can hold") from None
        try:
            if path.exists():
                _check_regular(path)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise _refusal("written", error) from None
        return WriteTextFileResponse()


def _check_regular(path: Path) -> None:
    # Opening a named pipe would wait for the program at its other end.
    if not stat.S_ISREG(path.stat().st_mode):
        raise problem("path", "is not a regular file")


def _refusal(done: str, error: OSError) -> InvalidParams | ResourceNotFound | InternalError:
    if isinstance(error, FileNotFoundError):
        return ResourceNotFound(data={"path": error.filename})
    return InternalError(f"The file cannot be {done}: {error.strerror}")
