"""Starts an agent in a separate folder, and ends the agent with all its child processes."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

from acp_conformance.core.process import MARK, Start, spawn

from .exchange import NoAnswer
from .profile import Profile
from .subject import FENCE, Agent


def _furnish(folder: str, profile: Profile) -> Path:
    cwd = Path(folder).resolve()
    for name, text in profile.cwd_files.items():
        path = cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return cwd


@asynccontextmanager
async def open_agent(
    command: Sequence[str],
    profile: Profile,
    *,
    patience: float,
    start_patience: float,
    token: str = "",
    fence_method: str = FENCE,
    grace: float = 1.0,
    start: Start = spawn,
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[Agent]:
    """Start the agent. At the end of the block its whole process group is ended.

    Args:
        start: Starts the process.
        patience: The time-out of a wait, in seconds.
        start_patience: The time-out for the first message, which the agent sends after its start.
        token: Marks the processes of the run, so that left-over processes are found.
        grace: Seconds that the agent has to end after the end of its input.
        env: Added to the environment of the suite. The variables of the profile have precedence.

    Raises:
        CannotStart: The command cannot be executed.
    """
    mark = f"{token}/{uuid.uuid4().hex}"
    with tempfile.TemporaryDirectory(prefix="acp-conformance-", ignore_cleanup_errors=True) as folder:
        cwd = _furnish(folder, profile)
        async with start(command, env={**(env or {}), **profile.env, MARK: mark}, grace=grace) as process:
            agent = Agent(
                process, profile, cwd, patience=patience, start_patience=start_patience, fence_method=fence_method
            )
            agent.mark = mark
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(process.drain_stderr)
                tasks.start_soon(agent.read)
                tasks.start_soon(agent.write)
                try:
                    yield agent
                finally:
                    # The readers go on while it ends, so that its last output is kept and no full pipe blocks it.
                    with anyio.CancelScope(shield=True):
                        await process.end(grace)
                        with anyio.move_on_after(0.2), suppress(NoAnswer):  # a child may hold the pipe open
                            await agent.eof()
                    tasks.cancel_scope.cancel()
