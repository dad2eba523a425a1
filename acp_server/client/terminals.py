"""Ready-made handlers for `terminal/*`: commands as processes of this machine, without a terminal device."""

from __future__ import annotations

import codecs
import logging
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

import anyio
import anyio.abc
import anyio.lowlevel

from acp_server.errors import InternalError, InvalidParams, ResourceNotFound
from acp_server.processes.group import ProcessGroup, own_group
from acp_server.schema import (
    CreateTerminalRequest,
    CreateTerminalResponse,
    KillTerminalRequest,
    KillTerminalResponse,
    ReleaseTerminalRequest,
    ReleaseTerminalResponse,
    TerminalExitStatus,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
)
from acp_server.schema.params import absolute
from acp_server.tasks.grace import grace
from acp_server.tasks.spawn import Spawner


class Output:
    """Bytes in, text out: at most `limit` bytes of it in UTF-8. What is not UTF-8 is replaced."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.truncated = False
        """Whether older output has been dropped."""

    def feed(self, data: bytes, final: bool = False) -> str:
        """Add what the command has written, and return it as text; `final`: no more will come, so half a character
        stays half."""
        text = self._decoder.decode(data, final)
        self._kept += text.encode()
        excess = len(self._kept) - self._limit
        if excess <= 0:
            return text
        self.truncated = True
        # The bytes of a character after its first are 10xxxxxx.
        while excess < len(self._kept) and self._kept[excess] & 0xC0 == 0x80:
            excess += 1
        del self._kept[:excess]
        return text

    @property
    def text(self) -> str:
        """What is kept."""
        return self._kept.decode()


logger = logging.getLogger("acp_server.client")

OUTPUT_BYTES: Final = 1024 * 1024
"""How much output is kept of a command, by default."""
COMMANDS: Final = 100
"""How many terminals there are at once, by default."""
_STARTING: Final = 30.0
_LINGER: Final = 0.5
"""Seconds that a command's output may stay open after its end before it counts as complete: something that it left
running may hold it open for ever."""
_TERMINATED: Final = 1.0
_KILLED: Final = 2.0


_OnText: TypeAlias = "Callable[[str], object] | None"


class LocalTerminals:
    """The commands of one agent. All of them are ended when the connection to it is.

    `env` is added to our own environment, and what the agent asks for to that. `output_bytes` of a command's output are
    kept, or fewer if the agent asks for fewer (ACP, Terminals, `outputByteLimit`). There are `commands` terminals at
    once: for one more, the first whose command has ended is released; if all of them run, the command is refused.
    `shell` reads a command that comes without arguments and is not a program, since some agents send a whole command
    line; None: such a command is refused. `on_output` is called with the id of a terminal and a piece of what its
    command writes, as it comes.
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
        """Start the command. Answers -32602 if there is no such program or folder, and -32603 if too many run."""
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
        """What the command has written so far, both of its outputs in one."""
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
        """End the command and what it started; answered when they have ended."""
        await self._find(request.terminal_id).kill()
        return KillTerminalResponse()

    async def release(self, request: ReleaseTerminalRequest, /) -> ReleaseTerminalResponse:
        """End the command and forget the terminal: its id is unknown from now on."""
        terminal = self._find(request.terminal_id)
        del self._terminals[request.terminal_id]
        await terminal.end()
        return ReleaseTerminalResponse()

    async def aclose(self) -> None:
        """Release every terminal. Idempotent."""
        terminals = list(self._terminals.values())
        self._terminals.clear()
        async with anyio.create_task_group() as group:
            for terminal in terminals:
                group.start_soon(terminal.end)

    async def _make_place(self) -> None:
        while len(self._terminals) + self._starting >= self._commands:
            over = next((id for id, terminal in self._terminals.items() if terminal.ended.is_set()), None)
            if over is None:
                raise InternalError("Too many commands run at once", data={"limit": "commands"})
            await self._terminals.pop(over).end()

    def _find(self, id: str) -> _Terminal:
        terminal = self._terminals.get(id)
        if terminal is None:
            raise ResourceNotFound(data={"terminalId": id})
        return terminal

    async def _start(
        self, words: list[str], cwd: str | None, env: dict[str, str], limit: int, on_text: _OnText
    ) -> _Terminal:
        try:
            # A cancel in the middle would leave a process without an owner.
            with grace(_STARTING):
                return await _Terminal.start(words, cwd, env, limit, on_text)
        except (OSError, ValueError) as error:
            what = error.strerror if isinstance(error, OSError) else "not a possible command"
            raise InvalidParams(f"The command cannot be started: {what}") from None
        raise TimeoutError("the command could not be started in time")

    def _words(self, request: CreateTerminalRequest, env: Mapping[str, str]) -> list[str]:
        is_program = shutil.which(request.command, path=env.get("PATH")) is not None
        if request.args or is_program or self._shell is None:
            return [request.command, *request.args]
        return [self._shell, "-c", request.command]


class _Terminal:
    """One command."""

    def __init__(self, process: anyio.abc.Process, limit: int, on_text: _OnText) -> None:
        self.output = Output(limit)
        self._on_text = on_text
        self.ended = anyio.Event()
        """Set when the command has ended and its output is complete."""
        self._process = process
        self._exited = anyio.Event()
        self._read_out = anyio.Event()
        self._group = ProcessGroup(process, self._exited)
        self._tasks = Spawner(_crashed)
        self._tasks.spawn(self._read)
        self._tasks.spawn(self._wait)

    @classmethod
    async def start(
        cls, words: list[str], cwd: str | None, env: dict[str, str], limit: int, on_text: _OnText
    ) -> _Terminal:
        process = await anyio.open_process(
            words, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, cwd=cwd, env=env, **own_group()
        )
        return cls(process, limit, on_text)

    @property
    def status(self) -> TerminalExitStatus:
        code = self._process.returncode
        if code is None:
            return TerminalExitStatus()
        if code >= 0:
            return TerminalExitStatus(exit_code=code)
        try:
            return TerminalExitStatus(signal=signal.Signals(-code).name)
        except ValueError:  # A real-time signal has a number only.
            return TerminalExitStatus(signal=f"SIG{-code}")

    async def kill(self) -> None:
        """End the command and what it started, by force if need be. A cancel does not interrupt it."""
        try:
            with grace(_TERMINATED + 1):
                self._group.terminate()
                await self._group.gone(_TERMINATED)
        finally:
            if self._group.is_there:
                self._group.kill()
            with grace(_KILLED):
                await self._exited.wait()
                await self.ended.wait()

    async def end(self) -> None:
        """Kill it and let go of it."""
        try:
            await self.kill()
        finally:
            with grace(_KILLED):
                if self._exited.is_set():
                    await self._process.aclose()
                    await self._tasks.wait_idle()
                else:
                    logger.error("the command %d does not end although it was killed", self._process.pid)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            async for data in self._process.stdout:
                self._heard(self.output.feed(data))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass
        self._heard(self.output.feed(b"", final=True))
        self._read_out.set()

    def _heard(self, text: str) -> None:
        if self._on_text is not None and text:
            try:
                self._on_text(text)
            except Exception:
                logger.exception("the callback for the output of a command failed")

    async def _wait(self) -> None:
        await self._process.wait()
        self._exited.set()
        with anyio.move_on_after(_LINGER):
            await self._read_out.wait()
        self.ended.set()


def _crashed(error: BaseException) -> None:
    if not isinstance(error, anyio.get_cancelled_exc_class()):
        logger.error("watching over a command failed", exc_info=error)
