"""The tool that runs a command: in a terminal of the client's where it has some, else as a process of our own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from acp_server.errors import AcpError
from acp_server.tools.consent import Approval
from acp_server.tools.context import ToolContext
from acp_server.tools.markdown import block
from acp_server.workspace.refusal import Refusal, is_end
from acp_server.workspace.shown import Printed, quoted
from acp_server.workspace.walk import reason_of

if TYPE_CHECKING:
    from acp_server.session.terminal import Terminal

logger = logging.getLogger("acp_server.workspace")

OUTPUT_BYTES = 256 * 1024
"""How much output a client's terminal is asked to keep: the end of it."""


def run_title(command: str) -> str:
    """What the user sees."""
    first, *more = command.strip().split("\n", 1)
    return f"Run {quoted(first + (' …' if more else ''))}"


async def ask_run(command: str, call: ToolContext) -> Approval:
    """What would be run, all of it, and where."""
    return Approval(f"Run this in {quoted(call.session.cwd)}?\n\n{block(command)}", primary="Run it")


async def run(command: str, call: ToolContext) -> str:
    """Run a command of the shell in the session's directory."""
    call.on_cancel = lambda: "It was stopped. What it has printed until then is kept."
    call.raw_output = {"exitCode": None, "signal": None}
    if call.client.capabilities.terminal:
        code, signal = await _in_terminal(command, call)
    else:
        code, signal = await _here(command, call)
    call.raw_output = {**call.raw_output, "exitCode": code, "signal": signal}
    if code == 0:
        return "It ended with exit code 0."
    how = f"ended with exit code {code}" if code is not None else f"was ended by {signal or 'something else'}"
    raise Refusal(f"It {how}.")


async def _in_terminal(command: str, call: ToolContext) -> tuple[int | None, str | None]:
    from acp_server.schema.tool_call import Terminal as Shown
    from acp_server.workspace.shell import SHELL

    program, *options = SHELL
    try:
        terminal: Terminal = await call.client.create_terminal(
            program, [*options, command], cwd=call.session.cwd, output_byte_limit=OUTPUT_BYTES
        )
        async with terminal:
            call.progress(Shown(terminal_id=terminal.id))
            ended = await terminal.wait_for_exit()
            call.raw_output = {"exitCode": ended.exit_code, "signal": ended.signal}
            call.raw_output |= await _printed(terminal, call)
    except AcpError as error:
        if is_end(error, call):
            raise
        raise Refusal(f"The client's terminal failed: {error}") from None
    return ended.exit_code, ended.signal


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


async def _here(command: str, call: ToolContext) -> tuple[int | None, str | None]:
    from acp_server.workspace.shell import run_here

    printed = Printed()
    updates = call.session.updates
    call.verbatim()

    async def take(data: bytes) -> None:
        call.progress(printed.feed(data))
        if updates.crowded:
            await updates.room()

    try:
        code = await run_here(command, call.session.cwd, take)
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "not a possible command"
        raise Refusal(f"It cannot be started: {reason}") from None
    call.progress(printed.feed(b"", final=True))
    return (code, None) if code >= 0 else (None, _signal(-code))


def _signal(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has a number only
        return f"SIG{number}"
