"""`acp-server serve --reload`: a new process of the agent whenever its code changes, with one connection to the client.

conversation    the state of a conversation that a new process needs
relay           forwards messages between the client and the current process

Here: which files are watched, and how the processes are started.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import anyio

from acp_server.agent.process import StandardIO
from acp_server.apps.cli.reload.relay import Relay
from acp_server.apps.cli.target import COMMAND, place_of
from acp_server.errors import UsageError


def serve_reloading(target: str | None, options: Sequence[str]) -> int:
    """Serve `target` with these options of `acp-server serve`, by a new process after each change of its code; returns
    the exit code. Sessions that would be kept in memory go into a temporary file that is removed when this returns.
    Raises UsageError."""
    if target is None:
        raise UsageError("--reload needs the file or module of your own agent")
    folder = _watched(target)
    try:
        import watchfiles
    except ImportError:
        raise UsageError("--reload needs watchfiles: pip install 'acp-server[reload]'") from None

    async def watch(relay: Relay, stop: anyio.Event) -> None:
        only = watchfiles.PythonFilter()
        async for each in watchfiles.awatch(folder, watch_filter=only, stop_event=stop, ignore_permission_denied=True):
            relay.change(sorted(file for _, file in each))

    async def serve() -> int:
        with tempfile.TemporaryDirectory(prefix="acp-server-") as private:
            command = [*COMMAND, target, *options, "--memory-file", str(Path(private, "sessions.db"))]
            relay, stop = Relay(standard_io.stream(), command), anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch, relay, stop)
                # The watch begins with the first step of its task, so that no change after the start of a process is
                # missed.
                await anyio.lowlevel.checkpoint()
                await relay.run()
                stop.set()
            return relay.code

    standard_io = StandardIO()
    try:
        return anyio.run(serve)
    finally:
        standard_io.close()


def _watched(target: str) -> Path:
    """Return the folder with the agent's file. For a module it is the current folder."""
    place = place_of(target)
    folder = Path.cwd() if place is None else place.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    return folder
