"""The client under test as a process: its command line, its folder, its output, and its end."""

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
    """The words of `command` with their placeholders replaced.

    A word that is `{agent}` becomes the words of `agent`; inside a longer word it becomes one string, quoted for a
    shell. `{cwd}` becomes `folder`. Because the client is started in that folder, words that name a file by a relative
    path are made absolute.
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
    """A running client. Made by `run`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._output = b""
        self.exited = anyio.Event()

    @property
    def status(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._process.returncode

    @property
    def printed(self) -> str:
        """The end of its standard output and standard error, at most `TEXT_LIMIT` characters."""
        output = self._output.decode("utf-8", "replace")[-TEXT_LIMIT // 2 :]
        errors = self._process.stderr
        if not output:
            return errors
        errors = f"\n[standard error]\n{errors[-TEXT_LIMIT // 2 :]}" if errors else ""
        return f"[standard output]\n{output}{errors}"[-TEXT_LIMIT:]

    async def type(self, lines: Sequence[str]) -> None:
        """Write lines to its input. If the program reads no more, that is not an error."""
        try:
            await self._process.send("".join(f"{line}\n" for line in lines).encode())
        except (BrokenPipeError, anyio.ClosedResourceError):
            pass

    def end_input(self) -> None:
        """Close its input."""
        self._process.end_input()

    def signal(self, number: int) -> None:
        """Send a signal to its group, as a terminal does."""
        self._process.signal(number)

    async def watch(self) -> None:
        """Read its output, and note its end."""

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
    """Start the client in `folder`; at the end of the block, no process of it is left.

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
