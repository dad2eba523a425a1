"""The tool that runs a command: in a terminal of the client's where it has some, else as a process of our own."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
import anyio.abc
import anyio.lowlevel

from acp_server.errors import AcpError
from acp_server.processes.group import ProcessGroup, own_group
from acp_server.tasks.grace import grace
from acp_server.tools.approval import Approval
from acp_server.tools.context import ToolContext
from acp_server.tools.markdown import block
from acp_server.workspace.disk import reason_of
from acp_server.workspace.printable import Printed, Refusal, is_end, quoted

if TYPE_CHECKING:
    from acp_server.session.terminal import Terminal

logger = logging.getLogger("acp_server.workspace")

SHELL: Final = ("cmd", "/d", "/s", "/c") if sys.platform == "win32" else ("sh", "-c")
TERMINATED: Final = 1.0
"""Seconds that a command gets to end by itself when it is stopped."""
KILLED: Final = 2.0
_STARTING: Final = 30.0
_LINGER: Final = 0.5
"""Seconds that the output may stay open after the end of the command: something that it left running may hold it."""

Taker = Callable[[bytes], Awaitable[None]]


async def run_here(command: str, cwd: str, take: Taker) -> int:
    """Run it, and hand on what it prints, both outputs in one: its exit status, negative for a signal.

    Raises OSError and ValueError, if it cannot be started.
    """
    # A cancel in the middle of that would leave a process without an owner.
    with grace(_STARTING):
        process = await anyio.open_process(
            [*SHELL, command], stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, cwd=cwd, **own_group()
        )
    exited = anyio.Event()
    group = ProcessGroup(process, exited)
    try:
        await anyio.lowlevel.checkpoint_if_cancelled()
        read_out = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, process, take, read_out)
            await process.wait()
            exited.set()
            with anyio.move_on_after(_LINGER):
                await read_out.wait()
            tasks.cancel_scope.cancel()
    finally:
        await _end(process, group, exited)
    assert process.returncode is not None
    return process.returncode


async def _read(process: anyio.abc.Process, take: Taker, read_out: anyio.Event) -> None:
    assert process.stdout is not None
    async for data in process.stdout:
        await take(data)
    read_out.set()


async def _end(process: anyio.abc.Process, group: ProcessGroup, exited: anyio.Event) -> None:
    """Nothing of it is left behind: asked to end, then by force."""
    with grace(TERMINATED + KILLED):
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                await process.wait()
                exited.set()

            tasks.start_soon(wait)
            try:
                group.terminate()
                await group.gone(TERMINATED)
            finally:
                if group.is_there:
                    group.kill()
        await process.aclose()
    if not exited.is_set():
        logger.error("the command %d does not end although it was killed", process.pid)


OUTPUT_BYTES = 256 * 1024
"""How much output is kept, by a client's terminal or here: the end of it."""


def run_title(command: str) -> str:
    """What the user sees."""
    first, *more = command.strip().split("\n", 1)
    return f"Run {quoted(first + (' …' if more else ''))}"


async def ask_run(command: str, call: ToolContext) -> Approval:
    """What would be run, all of it, and where."""
    return Approval(f"Run this in {quoted(call.session.cwd)}?\n\n{block(command)}", primary="Run it")


class Ended(NamedTuple):
    """How a command ended: with a code, or by a signal. `output`: the end of what it has printed."""

    code: int | None
    signal: str | None
    output: str

    def __str__(self) -> str:
        """How the command ended, in words for users."""
        if self.code is not None:
            return f"It ended with exit code {self.code}."
        return f"It was ended by {self.signal or 'something else'}."


async def run(command: str, call: ToolContext) -> str:
    """Run a command of the shell in the session's directory."""
    ended = await execute(command, call)
    if ended.code == 0:
        return str(ended)
    raise Refusal(str(ended))


async def execute(command: str, call: ToolContext) -> Ended:
    """Run it to its end, whatever that is, and show what it prints. Raises Refusal, if it cannot be run."""
    call.on_cancel = lambda: "It was stopped. What it has printed until then is kept."
    call.raw_output = {"exitCode": None, "signal": None}
    ended = await (_in_terminal if call.client.capabilities.terminal else _here)(command, call)
    call.raw_output = {**call.raw_output, "exitCode": ended.code, "signal": ended.signal}
    return ended


async def _in_terminal(command: str, call: ToolContext) -> Ended:
    from acp_server.schema.tool_call import Terminal as Shown

    program, *options = SHELL
    try:
        terminal: Terminal = await call.client.create_terminal(
            program, [*options, command], cwd=call.session.cwd, output_byte_limit=OUTPUT_BYTES
        )
        async with terminal:
            call.progress(Shown(terminal_id=terminal.id))
            ended = await terminal.wait_for_exit()
            call.raw_output = {"exitCode": ended.exit_code, "signal": ended.signal}
            printed = await _printed(terminal, call)
            call.raw_output |= printed
    except AcpError as error:
        if is_end(error, call):
            raise
        raise Refusal(f"The client's terminal failed: {error}") from None
    return Ended(ended.exit_code, ended.signal, str(printed.get("output", "")))


async def _printed(terminal: Terminal, call: ToolContext) -> dict[str, object]:
    """What the command has printed, for programs: users have the terminal before their eyes."""
    try:
        printed = await terminal.output()
    except AcpError as error:
        if is_end(error, call):
            raise
        logger.warning("the client does not say what a command has printed: %s", error)
        return {}
    return {"output": printed.output, "truncated": printed.truncated}


async def _here(command: str, call: ToolContext) -> Ended:
    printed = Printed()
    output = _End()
    updates = call.session.updates
    call.verbatim()

    async def take(data: bytes) -> None:
        call.progress(output.add(printed.feed(data)))
        if updates.crowded:
            await updates.room()

    try:
        code = await run_here(command, call.session.cwd, take)
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "not a possible command"
        raise Refusal(f"It cannot be started: {reason}") from None
    call.progress(output.add(printed.feed(b"", final=True)))
    return Ended(code, None, str(output)) if code >= 0 else Ended(None, _signal(-code), str(output))


class _End:
    """The end of a text that comes in pieces."""

    def __init__(self) -> None:
        self._pieces: deque[str] = deque()
        self._size = 0

    def add(self, piece: str) -> str:
        """The piece."""
        self._pieces.append(piece)
        self._size += len(piece)
        while self._size - len(self._pieces[0]) >= OUTPUT_BYTES:
            self._size -= len(self._pieces.popleft())
        return piece

    def __str__(self) -> str:
        return "".join(self._pieces)


def _signal(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has a number only
        return f"SIG{number}"
