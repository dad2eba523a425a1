"""Ready-made handlers for the agent's requests. They answer `fs/*` with the files on disk below some folders, and
`terminal/*` with local processes without a terminal device.

They keep an agent that follows the protocol within the user's choice. They are not a sandbox: an agent that does not
follow the protocol has the user's permissions anyway. The file handlers do not see unsaved changes in an editor.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread

from acp_server.errors import InternalError, InvalidParams, ResourceNotFound, UsageError
from acp_server.paths import Place, Way, way_to
from acp_server.peer.call import NAME
from acp_server.processes.command import ENDING, Command, CommandOutput, open_command
from acp_server.schema import (
    CreateTerminalRequest,
    CreateTerminalResponse,
    KillTerminalRequest,
    KillTerminalResponse,
    ReadTextFileRequest,
    ReadTextFileResponse,
    ReleaseTerminalRequest,
    ReleaseTerminalResponse,
    TerminalExitStatus,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
    WriteTextFileRequest,
    WriteTextFileResponse,
)
from acp_server.schema.reading import absolute, problem
from acp_server.tasks.grace import grace
from acp_server.tasks.running import Spawner

logger: logging.Logger = logging.getLogger("acp_server.client")

MOST_BYTES: Final = 16 * 1024 * 1024
"""The default maximum of bytes of one read. An agent may refuse a message of twice that size."""

_LONGEST_PATH: Final = 32_768
"""The most characters of a path. The time to resolve a path grows with the square of its length, and a cancel does not
interrupt the thread that resolves it."""


class LocalReader:
    """Reads text files below `roots`, at most `most_bytes` of one file at once.

    Answers -32602 for a path that is relative, or that is outside of the roots after symbolic links are resolved. Also
    answers -32602 for anything but a regular file with UTF-8 text, and for too much text. Answers -32002 for a missing
    file. Raises UsageError if `roots` is a single path.
    """

    def __init__(self, roots: Iterable[str | os.PathLike[str]], *, most_bytes: int = MOST_BYTES) -> None:
        if isinstance(roots, (str, os.PathLike)):
            # Each character would become a folder, and the first one of an absolute path is the whole disk.
            raise UsageError(f"the folders must be a list, as in [{os.fspath(roots)!r}], not one path")
        self._roots = [Path(root).resolve() for root in roots]
        self._most_bytes = most_bytes

    async def read_text_file(self, request: ReadTextFileRequest, /) -> ReadTextFileResponse:
        """Return the whole text, or `limit` lines beginning with `line`, unchanged (ACP, File System, Reading
        Files)."""
        return await anyio.to_thread.run_sync(self._read, request)

    def _read(self, request: ReadTextFileRequest) -> ReadTextFileResponse:
        place = self._place(request.path)
        try:
            with way_to(place) as way:
                _check_regular(way)
                descriptor = way.open()
            with open(descriptor, "rb") as file:
                data = self._lines(file, max(request.line or 1, 1), request.limit)
        except OSError as error:
            raise _refusal("read", error) from None
        try:
            return ReadTextFileResponse(content=data.decode())
        except UnicodeDecodeError:
            raise problem("path", "is not a text file in UTF-8") from None

    def _lines(self, file: BinaryIO, first: int, limit: int | None) -> bytes | bytearray:
        if first == 1 and limit is None:
            # In one read, which takes a tenth of the time.
            whole = file.read(self._most_bytes + 1)
            self._check_size(whole)
            return whole
        text = bytearray()
        number = 1
        # A line may exceed the limit, so it is read in pieces.
        while (limit is None or number < first + limit) and (piece := file.readline(self._most_bytes + 1)):
            if number >= first:
                text += piece
                self._check_size(text)
            number += piece.endswith(b"\n")
        return text

    def _check_size(self, text: bytes | bytearray) -> None:
        if len(text) > self._most_bytes:
            raise problem("limit", f"more than {self._most_bytes} bytes; ask for fewer lines")

    def _place(self, path: str) -> Place:
        """Return the path's position below one of the roots. A folder of the path may be replaced by a link after this
        check. So the path is later walked without following links."""
        if len(path) > _LONGEST_PATH:
            raise problem("path", f"is longer than {_LONGEST_PATH} characters")
        if "\0" in path or not os.path.isabs(path):
            raise problem("path", "must be an absolute path")
        try:
            resolved = Path(path).resolve()
        except (OSError, RuntimeError):  # a cycle of links
            raise ResourceNotFound(data={"path": path}) from None
        for root in self._roots:
            if resolved == root:
                return Place(str(root.parent), root.name)
            if resolved.is_relative_to(root):
                return Place(str(root), str(resolved.relative_to(root)))
        raise problem("path", "is outside of the opened folders")


class LocalFiles(LocalReader):
    """Reads files like `LocalReader`, and writes files below the same roots."""

    async def write_text_file(self, request: WriteTextFileRequest, /) -> WriteTextFileResponse:
        """Create or replace a file, with missing parent folders (ACP, File System, Writing Files). The text is written
        as UTF-8, unchanged."""
        return await anyio.to_thread.run_sync(self._write, request)

    def _write(self, request: WriteTextFileRequest) -> WriteTextFileResponse:
        place = self._place(request.path)
        try:
            data = request.content.encode()
        except UnicodeEncodeError:
            raise problem("content", "has half of a surrogate pair, which UTF-8 cannot encode") from None
        try:
            with way_to(place) as way:
                _check_regular(way)
                with way.folders_made():
                    descriptor = way.open(os.O_WRONLY | os.O_CREAT)
            with open(descriptor, "wb") as file:
                _check_regular_file(os.fstat(descriptor))
                os.ftruncate(descriptor, 0)
                file.write(data)
        except OSError as error:
            raise _refusal("written", error) from None
        return WriteTextFileResponse()


def _check_regular(way: Way) -> None:
    # A missing file is created, or fails when it is opened.
    if (found := way.stat()) is not None:
        _check_regular_file(found)


def _check_regular_file(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise problem("path", "is not a regular file")


def _refusal(done: str, error: OSError) -> InvalidParams | ResourceNotFound | InternalError:
    if isinstance(error, FileNotFoundError):
        return ResourceNotFound(data={"path": error.filename})
    return InternalError(f"The file cannot be {done}: {error.strerror}")


OUTPUT_BYTES: Final = 1024 * 1024
"""The default maximum of bytes that are kept of a command's output."""
COMMANDS: Final = 100
"""The default maximum number of terminals at once."""

_OnText: TypeAlias = "Callable[[str], object] | None"


class LocalTerminals:
    """Runs the commands of one agent. They are ended when the connection to the agent ends.

    - `env`: variables that are added to this process's environment. The variables in the agent's request are added to
      both.
    - `output_bytes`: the most bytes that are kept of a command's output, or fewer if the agent requests fewer (ACP,
      Terminals, `outputByteLimit`).
    - `commands`: the most terminals at once. To create one more, the first terminal whose command has ended is
      released. If all commands still run, the request is refused.
    - `shell`: the shell for a command without arguments that is not a program, since some agents send a whole command
      line. With None such a command is refused.
    - `on_output`: is called with a terminal's id and each chunk of its output.
    """

    def __init__(
        self,
        *,
        env: Mapping[str, str] | None = None,
        output_bytes: int = OUTPUT_BYTES,
        commands: int = COMMANDS,
        shell: str | None = "sh",
        on_output: Callable[[str, str], object] | None = None,
    ) -> None:
        self._env = dict(env or {})
        self._output_bytes = output_bytes
        self._commands = commands
        self._starting = 0
        self._shell = shell
        self._on_output = on_output
        self._terminals: dict[str, _Terminal] = {}
        self._made = 0

    async def create(self, request: CreateTerminalRequest, /) -> CreateTerminalResponse:
        """Start the command. Answers -32602 if there is no such program or folder, and -32603 if too many commands
        run."""
        await self._make_place()
        env = {**os.environ, **self._env, **{variable.name: variable.value for variable in request.env}}
        cwd = None if request.cwd is None else absolute(request.cwd, "cwd")
        limit = self._output_bytes
        if request.output_byte_limit is not None:
            limit = min(limit, request.output_byte_limit)
        self._starting += 1
        self._made += 1
        id = f"term_{self._made}"
        on_text = None if self._on_output is None else partial(self._on_output, id)
        try:
            terminal = await self._start(self._words(request, env), cwd, env, limit, on_text)
        finally:
            self._starting -= 1
        try:
            await anyio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            await terminal.end()
            raise
        self._terminals[id] = terminal
        return CreateTerminalResponse(terminal_id=id)

    async def output(self, request: TerminalOutputRequest, /) -> TerminalOutputResponse:
        """Return the command's output so far, standard output and standard error in one text."""
        terminal = self._find(request.terminal_id)
        return TerminalOutputResponse(
            output=terminal.output.text,
            truncated=terminal.output.truncated,
            exit_status=terminal.status if terminal.ended.is_set() else None,
        )

    async def wait_for_exit(self, request: WaitForTerminalExitRequest, /) -> WaitForTerminalExitResponse:
        """Wait until the command has ended and its output is complete."""
        terminal = self._find(request.terminal_id)
        await terminal.ended.wait()
        return WaitForTerminalExitResponse(exit_code=terminal.status.exit_code, signal=terminal.status.signal)

    async def kill(self, request: KillTerminalRequest, /) -> KillTerminalResponse:
        """Kill the command and its children. Returns when they have ended."""
        await self._find(request.terminal_id).kill()
        return KillTerminalResponse()

    async def release(self, request: ReleaseTerminalRequest, /) -> ReleaseTerminalResponse:
        """Kill the command and release the terminal. Its id then becomes unknown."""
        terminal = self._find(request.terminal_id)
        del self._terminals[request.terminal_id]
        await terminal.end()
        return ReleaseTerminalResponse()

    async def aclose(self) -> None:
        """Release every terminal. A cancel does not interrupt it, not even a native one. Idempotent."""
        tasks = Spawner(_crashed)
        for terminal in self._terminals.values():
            tasks.spawn(terminal.end)
        self._terminals.clear()
        try:
            await tasks.wait_idle()
        finally:
            # After a native cancel; each terminal's end has its own deadline.
            with grace(ENDING):
                await tasks.wait_idle()

    async def _make_place(self) -> None:
        while len(self._terminals) + self._starting >= self._commands:
            over = next((id for id, terminal in self._terminals.items() if terminal.ended.is_set()), None)
            if over is None:
                raise InternalError("Too many commands are running", data={"limit": "commands"})
            await self._terminals.pop(over).end()

    def _find(self, id: str) -> _Terminal:
        terminal = self._terminals.get(id)
        if terminal is None:
            raise ResourceNotFound(data={"terminalId": id[:NAME]})
        return terminal

    async def _start(
        self, words: list[str], cwd: str | None, env: dict[str, str], limit: int, on_text: _OnText
    ) -> _Terminal:
        try:
            return _Terminal(await open_command(words, cwd, env), limit, on_text)
        except TimeoutError:
            raise
        except (OSError, ValueError) as error:
            what = error.strerror if isinstance(error, OSError) else "not a possible command"
            raise InvalidParams(f"The command cannot be started: {what}") from None

    def _words(self, request: CreateTerminalRequest, env: Mapping[str, str]) -> list[str]:
        is_program = shutil.which(request.command, path=env.get("PATH")) is not None
        if request.args or is_program or self._shell is None:
            return [request.command, *request.args]
        return [self._shell, "-c", request.command]


def _crashed(error: BaseException) -> None:
    if not isinstance(error, anyio.get_cancelled_exc_class()):
        logger.error("a command could not be killed", exc_info=error)


class _Terminal(Command):
    """One terminal with its command."""

    def __init__(self, process: anyio.abc.Process, limit: int, on_text: _OnText) -> None:
        self.output = CommandOutput(limit)
        self._on_text = on_text
        super().__init__(process)

    @property
    def status(self) -> TerminalExitStatus:
        code, signal = self.exit
        if code is not None:
            return TerminalExitStatus(exit_code=code)
        return TerminalExitStatus() if signal is None else TerminalExitStatus(signal=signal)

    async def take(self, data: bytes) -> None:
        """See `Command`."""
        text = self.output.feed(data, final=not data)
        if self._on_text is not None and text:
            try:
                self._on_text(text)
            except Exception:
                logger.exception("the callback for the output of a command failed")
