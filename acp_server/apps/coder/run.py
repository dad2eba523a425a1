"""The tool that runs a command, in a terminal of the client if the client has terminals, and otherwise as a local
process."""

from __future__ import annotations

import codecs
import io
import logging
import os
import sys
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio

from acp_server import AcpError, Always, Approval, ConnectionClosed, ToolContext, Turn
from acp_server.apps.coder.display import Display
from acp_server.apps.coder.read import reason_of
from acp_server.apps.coder.report import at_last, say_block
from acp_server.apps.coder.roots import Refusal, exactly, is_end, quoted, words_of
from acp_server.processes.command import Command, CommandOutput, open_command
from acp_server.safe_text import SEQUENCE, escape, masked
from acp_server.tools.approval import block, code, for_users

if TYPE_CHECKING:
    import anyio.abc

    from acp_server import Terminal, ToolResult

logger: logging.Logger = logging.getLogger("acp_server.apps.coder")

SHELL: Final = ("cmd", "/d", "/s", "/c") if sys.platform == "win32" else ("sh", "-c")
OUTPUT_BYTES = 256 * 1024
"""The most bytes of output that are kept, by a client's terminal or locally. The end of the output is kept."""


_LONGEST_COMMAND: Final = 128 * 1024
"""The most characters of a command. Linux accepts no longer argument of a program."""


def run_title(command: str) -> str:
    """Return the title of the call for the user."""
    first, *more = command.strip().split("\n", 1)
    return f"Run {quoted(first + (' …' if more else ''))}"


async def ask_run(command: str, call: ToolContext) -> Approval:
    """Return the approval request, with the whole command and its directory. Raises Refusal for a command that no
    system would run."""
    if len(command) > _LONGEST_COMMAND:
        raise Refusal(f"The command is longer than {_LONGEST_COMMAND:,} characters")
    question = f"Run this in {quoted(call.session.cwd)}?"
    shown = block(escape(command, exact=True))
    if run_title(command) == f"Run {code(exactly(command))}":
        return Approval(f"{question}\n\n{shown}", primary="Run it", explains=False)
    # The title does not have the whole command.
    return Approval(question, preview=shown, primary="Run it", explains=False)


def always_run(command: str, call: ToolContext) -> Always:
    """Return the approval key of exactly this command, in the shown directory."""
    return Always(f"run\0{call.session.cwd}\0{command}", "exactly this command, in this directory")


class Ended(NamedTuple):
    """How a command ended: with an exit code, or by a signal. `output`: the end of its output."""

    code: int | None
    signal: str | None
    output: str

    def __str__(self) -> str:
        """Return how the command ended, in words for users."""
        if self.code is not None:
            return f"It ended with exit code {self.code}."
        return f"It was ended by {self.signal or 'something else'}."


MOST_SAID: Final = 16 * 1024
"""The most characters of the output in the message. The end of the output is shown."""

MOST_TOLD: Final = 30_000
"""The most characters of the output for a model. A model is paid for each of them, and again in each later request."""

_LISTEN: Final = 0.25
"""Seconds in which a client may send the output of a stopped command. After that the call ends without the output."""


def end_of(text: str, most: int) -> str:
    """Return the text, or the end of a text that is longer than `most`."""
    return text if len(text) <= most else f"[beginning omitted]\n{text[-most:]}"


class _Printing:
    """The output of a command, while it runs and after it was stopped."""

    def __init__(self, call: ToolContext) -> None:
        self._call = call
        self.now: Callable[[], str] = str
        self.over = threading.Event()
        """Set when no more output will come."""

    def stop(self) -> str:
        """Stop, see `ToolContext.on_cancel`. Waits a moment for a client that shows the terminal, so that it can send
        the output."""
        if self._call.client.capabilities.terminal:
            self.over.wait(_LISTEN)
        self._call.partial = end_of(self.now().rstrip("\n"), MOST_TOLD)
        return "It was stopped. Its output so far is kept."


_message: ContextVar[_Message | None] = ContextVar("the message that a command is part of", default=None)


class _Message:
    """The text for the user about the command."""

    def __init__(self) -> None:
        self.printed: _Printing | None = None
        """The output of the command. Set when the command has begun."""

    async def say(self, turn: Turn, words: str | None) -> None:
        """Say the output, unless the client has the terminal, and how the command ended. Some clients show only one
        line of a call."""
        printed = "" if self.printed is None or turn.client.capabilities.terminal else self.printed.now()
        said = f"{words}\n" if words else ""
        if printed:
            # In one piece: after a cancel nothing can be said once the first piece has waited.
            await say_block(turn, block(end_of(printed, MOST_SAID)) + said)
        elif said:
            await turn.say(said)


async def show_run(turn: Turn, tool: Any, command: str) -> None:
    """Run the command, and say its output and how it ended, also if it is stopped."""
    message = _Message()
    _message.set(message)
    words: str | None = None
    try:
        result: ToolResult = await turn.run_tool(tool, {"command": command})
        words = "It was stopped." if result.status == "cancelled" else result.message
    finally:
        if turn.is_cancelled and message.printed:
            words = "It was stopped."
        await at_last(message.say(turn, words and for_users(words)))


async def run(command: str, call: ToolContext) -> str:
    """Run a command of the shell in the session's directory."""
    ended = await execute(command, call)
    if ended.code == 0:
        return str(ended)
    raise Refusal(str(ended))


async def execute(command: str, call: ToolContext, without: Collection[str] = ()) -> Ended:
    """Run the command to its end in any case, and show its output. `without`: the variables of this process's
    environment that the command does not get. Raises Refusal if the command cannot be run."""
    printing = _Printing(call)
    call.on_cancel = printing.stop
    call.raw_output = {"exitCode": None, "signal": None}
    if (message := _message.get()) is not None:
        message.printed = printing
    try:
        run_it = _in_terminal if call.client.capabilities.terminal else _here
        ended = await run_it(command, call, without, printing)
    finally:
        printing.over.set()
    call.raw_output = {**call.raw_output, "exitCode": ended.code, "signal": ended.signal}
    return ended


async def _in_terminal(command: str, call: ToolContext, without: Collection[str], printing: _Printing) -> Ended:
    from acp_server.schema import Terminal as Shown

    program, *options = SHELL
    try:
        terminal: Terminal = await call.client.create_terminal(
            program,
            [*options, command],
            cwd=call.session.cwd,
            # The protocol cannot remove a variable.
            env={name: "" for name in without if name in os.environ} or None,
            output_byte_limit=OUTPUT_BYTES,
        )
        printing.now = lambda: "" if terminal.seen is None else terminal.seen.output
        async with terminal:
            call.progress(Shown(terminal_id=terminal.id))
            ended = await terminal.wait_for_exit()
            call.raw_output = {"exitCode": ended.exit_code, "signal": ended.signal}
            printed = await _printed(terminal, call)
            call.raw_output |= printed
    except AcpError as error:
        if is_end(error, call):
            raise
        raise Refusal(f"The client's terminal failed: {words_of(error)}") from None
    return Ended(ended.exit_code, ended.signal, str(printed.get("output", "")))


async def _printed(terminal: Terminal, call: ToolContext) -> dict[str, object]:
    """Return the output of the command as data. Users see the terminal."""
    try:
        printed = await terminal.output()
    except AcpError as error:
        if is_end(error, call):
            raise
        logger.warning("cannot get the output of a command from the client: %s", error)
        return {}
    return {"output": printed.output, "truncated": printed.truncated}


async def _here(command: str, call: ToolContext, without: Collection[str], printing: _Printing) -> Ended:
    call.verbatim()
    display = Display.of(call)
    try:
        env = {name: value for name, value in os.environ.items() if name not in without}
        running = _Running(await open_command([*SHELL, command], call.session.cwd, env), call, display)
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "not a possible command"
        raise Refusal(f"The command cannot be started: {reason}") from None
    printing.now = lambda: running.output.text
    try:
        await running.ended.wait()
    finally:
        # A client that does not read must not delay the end.
        running.reading.cancel()
        await running.end()
        if display is not None:
            call.raw_output = {"output": running.output.text}
            display.end(running.output.text, *running.exit)
    return Ended(*running.exit, running.output.text)


_LONGEST_ESCAPE = 256


class Printed:
    """Turns a program's output, as its parts arrive, into lines of text without terminal control."""

    def __init__(self) -> None:
        self._decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
        self._held = ""

    def feed(self, data: bytes, final: bool = False) -> str:
        """Return the text that can be shown now. `final`: no more output will come."""
        text = SEQUENCE.sub("", self._held + self._decoder.decode(data, final))
        begun = -1 if final else text.rfind("\x1b", -_LONGEST_ESCAPE)
        self._held = "" if begun < 0 else text[begun:]
        return masked(text if begun < 0 else text[:begun])


class _Running(Command):
    """A command whose output is shown as it comes, as fast as the client reads."""

    def __init__(self, process: anyio.abc.Process, call: ToolContext, display: Display | None) -> None:
        if display is not None:
            display.begin()
        self._show = call.progress if display is None else display.feed
        self.output = CommandOutput(OUTPUT_BYTES)
        self.reading = anyio.CancelScope()
        self._printed = Printed()
        self._call = call
        super().__init__(process)

    async def take(self, data: bytes) -> None:
        """See `Command`."""
        text = self._printed.feed(data, final=not data)
        self.output.feed(text.encode())
        self._show(text)
        if self._call.session.updates.crowded:
            with suppress(ConnectionClosed):
                await self._call.session.updates.room()

    async def _read(self) -> None:
        with self.reading:
            await super()._read()
        self._read_out.set()
