"""The source of an agent: a stream to it, or a process that is started for it.

A source starts and ends the process. It does not interpret messages.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import Protocol

from acp_server.errors import AgentExited, ConnectionClosed
from acp_server.peer.stream import Stream
from acp_server.processes.child import ChildProcess, Command, Patience

logger: logging.Logger = logging.getLogger("acp_server.client.stderr")


class Source(Protocol):
    """Connects to an agent."""

    can_start_anew: bool
    """Whether `start` may be called again."""

    @property
    def process(self) -> ChildProcess | None:
        """The agent's process; None if it was not started here."""
        ...

    async def start(self) -> Stream:
        """Return the stream to the agent. Ends the process of an earlier start."""
        ...

    async def explain(self, error: ConnectionClosed) -> ConnectionClosed:
        """Convert the loss of the connection to an error with more details."""
        ...

    async def aclose(self) -> None:
        """End the agent's process. Idempotent."""
        ...


class Reached:
    """An agent at the other end of an existing stream. The connection closes the stream."""

    can_start_anew = False

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    @property
    def process(self) -> None:
        """See `Source`."""

    async def start(self) -> Stream:
        """See `Source`."""
        return self._stream

    async def explain(self, error: ConnectionClosed) -> ConnectionClosed:
        """See `Source`."""
        return error

    async def aclose(self) -> None:
        """See `Source`."""


class Program:
    """An agent in a new process. See `spawn_agent`."""

    can_start_anew = True

    def __init__(
        self,
        command: Command,
        *,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None,
        user: int | None,
        on_stderr: Callable[[str], object] | None,
        patience: Patience | None,
        wrap: Callable[[Stream], Stream] | None,
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._env = None if env is None else {**os.environ, **env}
        self._user = user
        self._on_stderr = on_stderr
        self._patience = patience
        self._wrap = wrap
        self._process: ChildProcess | None = None
        self._has_spoken = False
        """Whether `explain` has already waited for the last lines on standard error."""

    @property
    def process(self) -> ChildProcess | None:
        """See `Source`."""
        return self._process

    async def start(self) -> Stream:
        """See `Source`. Raises OSError."""
        await self.aclose()
        self._process = await ChildProcess.start(
            self._command,
            cwd=self._cwd,
            env=self._env,
            user=self._user,
            on_stderr=self._on_stderr,
            stderr_log=logger,
        )
        self._has_spoken = False
        return self._process.stream if self._wrap is None else self._wrap(self._process.stream)

    async def explain(self, error: ConnectionClosed) -> ConnectionClosed:
        """See `Source`."""
        process = self._process
        assert process is not None
        if not self._has_spoken:
            await process.last_words()
            self._has_spoken = True
        return AgentExited(error.method, process.exit_code, process.stderr)

    async def aclose(self) -> None:
        """See `Source`."""
        if self._process is not None:
            await self._process.aclose(self._patience)
