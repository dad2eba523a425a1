"""`acp-server keep -- AGENT...` runs an agent that outlives its editor, at a Unix socket of the user.

This module has the options, the start and the end of the process. `acp_server.remote.keeper` serves the clients.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import click

from acp_server.apps.cli import DEFAULT_LEVEL, LEVELS, configure_log
from acp_server.apps.cli.commands import log_file_option
from acp_server.apps.cli.target import AgentCommand, agent_command, not_started
from acp_server.errors import UsageError
from acp_server.peer.limits import Limits
from acp_server.processes.child import ChildProcess
from acp_server.remote.app import RemoteApp
from acp_server.remote.keeper import KeptAgent, until_idle

logger: logging.Logger = logging.getLogger("acp_server.apps.cli")

_PLACES: Final = 64
_NAME: Final = "agent"


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--socket",
    "path",
    metavar="PATH",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The socket to which clients connect. Default: NAME.sock in a folder of the user, written to standard error.",
)
@click.option("--name", default=_NAME, show_default=True, help="The NAME in `acp-server connect keep:NAME`.")
@click.option(
    "--idle",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=3600.0,
    show_default=True,
    help="How long it stays without a client and without a turn.",
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    default=DEFAULT_LEVEL,
    show_default=True,
    help="The lowest level that is logged.",
)
@log_file_option
@click.argument("agent", nargs=-1, required=True, type=click.UNPROCESSED)
def keep(
    path: Path | None, name: str, idle: float, log_level: str, log_file: Path | None, agent: tuple[str, ...]
) -> int:
    """Keep AGENT and its sessions when the editor ends.

    AGENT: as for `acp-server chat`. Editors connect by `acp-server connect keep:NAME`, one at a time. A new editor
    replaces the previous one, and opens its session by session/load. The command ends when it is idle, when AGENT ends,
    and by a signal.
    """
    configure_log(log_level, log_file)
    command = agent_command(agent)
    address = f"unix:{path or socket_of(name, make=True)}"
    return anyio.run(_keep, command, address, idle)


def socket_of(name: str, *, make: bool = False) -> Path:
    """Return the path of the socket of the agent with this name. `make`: create the folder as well. Raises
    UsageError."""
    from platformdirs import user_state_path

    if not name.replace("-", "").replace("_", "").isalnum():
        raise UsageError(f"{name!r} is not a valid name: use letters, digits, - and _")
    folder = user_state_path("acp-server", appauthor=False) / "kept"
    if make:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot make the folder {folder}: {error.strerror}") from None
    return folder / f"{name}.sock"


async def _keep(command: AgentCommand, address: str, idle: float) -> int:
    from acp_server.apps.cli.listen import At, bound_to
    from acp_server.http.listener import Places
    from acp_server.http.server import Server
    from acp_server.http.websocket import WebSocketLimits

    limits = Limits()
    with bound_to(address) as bound:
        try:
            try:
                process = await ChildProcess.start(command.words, env={**os.environ, **command.env}, on_stderr=_pass_on)
            except OSError as error:
                raise not_started(command.name, error.strerror) from None
            kept = KeptAgent(process.stream, limits.line)
            app = RemoteApp(kept, hosts="*")
            server = Server(At(app), Places(_PLACES), websocket=WebSocketLimits())
            code: list[int] = []
            try:
                async with anyio.create_task_group() as tasks:

                    async def end() -> None:
                        await app.aclose()
                        server.end()

                    async def obey() -> None:
                        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as received:
                            async for number in received:
                                code.append(128 + number)
                                tasks.start_soon(end)

                    tasks.start_soon(obey)
                    tasks.start_soon(kept.run)
                    tasks.start_soon(until_idle, kept, idle, lambda: tasks.start_soon(end))
                    await server.run([bound], lambda: click.echo(f"Listening on {address}", err=True))
                    tasks.cancel_scope.cancel()
            finally:
                await process.aclose()
        finally:
            with suppress(OSError):
                os.unlink(address.removeprefix("unix:"))
    return code[0] if code else 0


def _pass_on(line: str) -> None:
    sys.stderr.write(line + "\n")
