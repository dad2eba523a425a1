"""`acp-server gateway`: the Coze v3 chat API over an agent."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from acp_server.cli import logs
from acp_server.cli.builtin import COMMAND
from acp_server.errors import UsageError

if TYPE_CHECKING:
    from acp_server.gateway.auth import Tokens

TOKEN_VARIABLE = "ACP_GATEWAY_TOKEN"


@click.command()
@click.option("--agent", metavar="COMMAND", help="The agent that every bot is. The built-in one by default.")
@click.option(
    "--bot",
    "bots",
    metavar="ID=COMMAND",
    multiple=True,
    help="The agent that one bot is; may be repeated. Without --agent there are no other bots then.",
)
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False),
    default=".",
    help="The folder that the agents work in; here by default.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 for any that is free.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"The tokens, one a line: NAME TOKEN [PERMISSION...]. Without it the one in {TOKEN_VARIABLE}, or a new one.",
)
@click.option(
    "--store",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file that conversations are kept in; without it, in memory.",
)
@click.option(
    "--cancel",
    type=click.Choice(["stop", "drain"]),
    default="stop",
    show_default=True,
    help="What cancelling a chat does: stop the agent, or only change the status while the reply goes on.",
)
@click.option(
    "--log-level",
    type=click.Choice(logs.LEVELS, case_sensitive=False),
    default="info",
    show_default=True,
    help="What is worth a line in the log; every request is, at info.",
)
@click.option(
    "--log-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the log goes; without it, to standard error.",
)
def gateway(
    agent: str | None,
    bots: tuple[str, ...],
    cwd: str,
    host: str,
    port: int,
    token_file: Path | None,
    store: Path | None,
    cancel: str,
    log_level: str,
    log_file: Path | None,
) -> int:
    """Serve the Coze v3 chat API over an agent, for programs that were written for that API."""
    try:
        from acp_server.gateway import server
        from acp_server.gateway.gateway import Gateway, Settings
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is missing; install acp-server[gateway]") from None
    if token_file is None and not server.is_loopback(host):
        raise UsageError(f"whoever reaches {host} could drive the agent: give a --token-file")
    settings = Settings(
        bots=_bots(bots),
        agent=_command(agent) if agent is not None else None if bots else COMMAND,
        cwd=os.path.abspath(cwd),
        store=store,
        cancel="drain" if cancel == "drain" else "stop",
    )
    # Taken out, for the agents have the same environment, and show it to whoever may run commands.
    tokens, token = _tokens(token_file, os.environ.pop(TOKEN_VARIABLE, None))
    with server.listen(host, port) as listening:
        made = Gateway(settings, tokens)
        logs.configure(log_level, log_file)

        def started() -> None:
            shown = f"[{host}]" if ":" in host else host
            click.echo(f"Listening on http://{shown}:{listening.getsockname()[1]}", err=True)
            if token is not None:
                click.echo(f"Token: {token}", err=True)

        try:
            server.serve(made, listening, started)
        except KeyboardInterrupt:
            return 130
    return 0


def _tokens(file: Path | None, given: str | None) -> tuple[Tokens, str | None]:
    """The tokens, and the one to tell, if it is new."""
    from acp_server.gateway.auth import new_token, one_token, read_tokens

    if file is not None:
        return read_tokens(file), None
    if given:
        return one_token(given), None
    token = new_token()
    return one_token(token), token


def _bots(texts: Sequence[str]) -> dict[str, Sequence[str]]:
    bots: dict[str, Sequence[str]] = {}
    for id, command in map(_bot, texts):
        if id in bots:
            raise UsageError(f"--bot {id!r} is there twice: a bot is one agent")
        bots[id] = command
    return bots


def _bot(text: str) -> tuple[str, Sequence[str]]:
    id, equals, command = text.partition("=")
    if not equals or not id:
        raise UsageError(f"--bot {text!r}: expected ID=COMMAND")
    return id, _command(command)


def _command(text: str) -> Sequence[str]:
    try:
        words = shlex.split(text, posix=sys.platform != "win32")
    except ValueError as error:
        raise UsageError(f"{text!r} is no command: {error}") from None
    if not words:
        raise UsageError("the command of an agent is empty")
    program = shutil.which(words[0])
    if program is None:
        raise UsageError(f"there is no program {words[0]!r}")
    # As it is found from here, for the agents work elsewhere.
    return [os.path.abspath(program) if os.path.dirname(words[0]) else words[0], *words[1:]]
