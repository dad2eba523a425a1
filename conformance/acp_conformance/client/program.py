"""Runs the client under test as a process: its command line, its folder, its output, and its end."""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio

from acp_conformance.core.process import MARK, Process, Start, end_strays, spawn
from acp_conformance.core.result import TEXT_LIMIT

AGENT = "{agent}"
FOLDER = "{cwd}"

_GRACE = 0.5


def expand(command: Sequence[str], agent: Sequence[str], folder: str) -> list[str]:
    """Return the words of `command` with the placeholders replaced.

    A word `{agent}` becomes the words of `agent`. Inside a longer word, `{agent}` becomes one string, quoted for a
    shell. `{cwd}` becomes `folder`. Relative paths of existing files are made absolute, because the client is started
    in `folder`.
    """
    words: list[str] = []
    for word in command:
        if word == AGENT:
            words += agent
        elif AGENT in word or FOLDER in word:
            words.append(word.replace(AGENT, shlex.join(agent)).replace(FOLDER, folder))
        elif (os.sep in word and os.path.exists(word)) or ("." in word and os.path.isfile(word)):
            words.append(os.path.abspath(word))
        else:
            words.append(word)
    return words


class Program:
    """A running client. `run` creates the object."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._output = b""
        self.exited = anyio.Event()

    @property
    def status(self) -> int | None:
        """Return the exit status, negative for a signal; None while the client runs."""
        return self._process.returncode

    @property
    def printed(self) -> str:
        """Return the end of the standard output and standard error, at most `TEXT_LIMIT` characters."""
        output = self._output.decode("utf-8", "replace")[-TEXT_LIMIT // 2 :]
        errors = self._process.stderr
        if not output:
            return errors
        errors = f"\n[standard error]\n{errors[-TEXT_LIMIT // 2 :]}" if errors else ""
        return f"[standard output]\n{output}{errors}"[-TEXT_LIMIT:]

    async def type(self, lines: Sequence[str]) -> None:
        """Write lines to the client's input. Raises nothing if the client no longer reads."""
        try:
            await self._process.send("".join(f"{line}\n" for line in lines).encode())
        except (BrokenPipeError, anyio.ClosedResourceError):
            pass

    def end_input(self) -> None:
        """Close the client's input."""
        self._process.end_input()

    def signal(self, number: int) -> None:
        """Send a signal to the client's process group, as a terminal does."""
        self._process.signal(number)

    async def watch(self) -> None:
        """Read the client's output, and record its end."""

        async def output() -> None:
            while data := await self._process.receive():
                self._output = (self._output + data)[-4 * TEXT_LIMIT :]

        async with anyio.create_task_group() as group:
            group.start_soon(output)
            group.start_soon(self._process.drain_stderr)
            await self._process.wait()
            self.exited.set()


@asynccontextmanager
async def run(
    command: Sequence[str], *, folder: str, env: Mapping[str, str], start: Start = spawn
) -> AsyncIterator[Program]:
    """Start the client in `folder`. At the end of the block all its processes are ended.

    Raises:
        CannotStart: The command cannot be executed.
    """
    token = secrets.token_hex(16)
    async with start(command, env={**env, "PWD": folder, MARK: token}, grace=_GRACE, cwd=folder) as process:
        program = Program(process)
        async with anyio.create_task_group() as group:
            group.start_soon(program.watch)
            try:
                yield program
            finally:
                with anyio.CancelScope(shield=True):
                    await process.end(_GRACE)
                    # A client may have given a command of a terminal a separate group.
                    await end_strays(token)
                group.cancel_scope.cancel()
