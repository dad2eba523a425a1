"""`acp-server gateway` serves the Coze v3 chat API, and answers it with an agent."""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from acp_server.apps.cli import LEVELS, configure_log
from acp_server.apps.cli.commands import ARGUMENTS, ConfiguredCommand, config_option, limit_options, log_file_option
from acp_server.apps.cli.target import COMMAND
from acp_server.apps.gateway.limits import GatewayLimits, Size
from acp_server.errors import UsageError

if TYPE_CHECKING:
    from acp_server.apps.gateway.auth import Tokens
    from acp_server.apps.gateway.gateway import Gateway, GatewaySettings

logger: logging.Logger = logging.getLogger("acp_server.apps.gateway")

TOKEN_VARIABLE: Final = "ACP_GATEWAY_TOKEN"

_ORIGIN: Final = re.compile(r"\*|[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#\s]+")
_RELOADED: Final = ("bots", "agent", "token_file", "config", "check")


class _Store(click.Path):
    """A file, or the URL of a database."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See click.ParamType."""
        if isinstance(value, str) and value.startswith(("postgresql://", "postgres://")):
            return value
        if isinstance(value, str) and re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", value):
            self.fail(f"{value!r} is neither a file nor a database that is known: postgresql://...", param, ctx)
        return super().convert(value, param, ctx)


class _Size(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic from click 8.4 on
    """The least and the most processes, written as two numbers."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Size:
        """See click.ParamType."""
        found = re.fullmatch(r"(\d{1,6}):(\d{1,6})", str(value))
        if found is None or (size := Size(int(found[1]), int(found[2]))).most < max(1, size.least):
            self.fail(f"{value!r} is not MIN:MAX, as 0:4", param, ctx)
        return size


class _Users(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic from click 8.4 on
    """A range of user ids that includes the last one."""

    name = "users"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """See click.ParamType."""
        found = re.fullmatch(r"(\d{1,10})-(\d{1,10})", str(value))
        users = range(0) if found is None else range(int(found[1]), int(found[2]) + 1)
        if not users or users.start == 0:
            self.fail(f"{value!r} is not FIRST-LAST, as 20000-29999, without root", param, ctx)
        return users


@click.command(cls=ConfiguredCommand)
@config_option
@click.option("--agent", metavar="COMMAND", help="The agent of every bot. The default is the built-in one.")
@click.option(
    "--bot",
    "bots",
    metavar="ID=COMMAND",
    multiple=True,
    help="The agent of one bot; may be repeated. Without --agent there are no other bots then.",
)
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False),
    default=".",
    help="The folder in which the agents work; by default the current one.",
)
@click.option(
    "--agents",
    type=_Size(),
    metavar="MIN:MAX",
    default="0:1",
    show_default=True,
    help="The least and the most processes of each bot's agent; with --isolate for each token name.",
)
@click.option(
    "--isolate",
    is_flag=True,
    help="Separate agents for each token name, in a folder of that name below --cwd.",
)
@click.option(
    "--agent-users",
    type=_Users(),
    metavar="FIRST-LAST",
    help="With --isolate: a range of user ids for these agents, one for each name. The gateway has to be root.",
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
    type=_Store(dir_okay=False, path_type=Path),
    metavar="FILE|URL",
    help="The store of conversations: a file, or a database (postgresql://...); without it, memory.",
)
@click.option(
    "--node-url",
    metavar="URL",
    help=(
        "The URL at which other gateways with the same database reach this one; by default this machine's "
        "name and the port."
    ),
)
@click.option(
    "--shared-sessions",
    is_flag=True,
    help="The agents of all gateways with the same database keep their sessions in one place.",
)
@click.option(
    "--cancel",
    type=click.Choice(["stop", "drain"]),
    default="stop",
    show_default=True,
    help="The effect of a cancel of a chat: stop the agent, or only change the status while the reply goes on.",
)
@click.option(
    "--elicitation",
    type=click.Choice(["function", "reply_message"]),
    default="function",
    show_default=True,
    help="The type of tool call for the agent's questions to the user; permission is always a function.",
)
@click.option(
    "--allow-file-urls",
    is_flag=True,
    help="Pass on links to files by any URL, file: included, and not only by http: and https:.",
)
@click.option(
    "--allow-origin",
    "allow_origins",
    metavar="ORIGIN",
    multiple=True,
    help="An origin whose pages may call the API from a browser, as https://example.org; may be repeated; * for all.",
)
@click.option(
    "--protocol",
    type=click.Choice(["1", "2"]),
    default="2",
    show_default=True,
    help="The highest version of the protocol to request from agents.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Start every agent once, report the result, and end; exit status 1 if one of them cannot be used.",
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    default="info",
    show_default=True,
    help="The lowest level that is logged. Requests are logged at info.",
)
@log_file_option
@limit_options(GatewayLimits)
@click.pass_context
def gateway(ctx: click.Context, **given: Any) -> int:
    """Serve the Coze v3 chat API over an agent, for programs that were written for that API."""
    try:
        from acp_server.apps.gateway import server
        from acp_server.apps.gateway.gateway import Gateway
    except ModuleNotFoundError as error:
        raise UsageError(f"the gateway needs {error.name}: pip install 'acp-server[gateway]'") from None
    settings = _settings(given)
    # Removed from the environment: the agents inherit it, and show it to users who may run commands.
    tokens, token = _tokens(given["token_file"], os.environ.pop(TOKEN_VARIABLE, None))
    if given["check"]:
        return _check(settings)
    host: str = given["host"]
    with server.listen(host, given["port"]) as listening:
        url = given["node_url"] or _url(socket.gethostname() if _is_any(host) else host, listening)
        made = Gateway(replace(settings, url=url), tokens)
        configure_log(given["log_level"], given["log_file"])

        def started() -> None:
            click.echo(f"Listening on {_url(host, listening)}", err=True)
            if token is not None:
                click.echo(f"Token: {token}", err=True)

        try:
            server.serve(made, listening, started, partial(_reload, made, ctx))
        except KeyboardInterrupt:
            return 130
    return 0


def _url(host: str, listening: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


def _is_any(host: str) -> bool:
    return host in ("", "0.0.0.0", "::")


def _settings(given: Mapping[str, Any]) -> GatewaySettings:
    from acp_server.apps.gateway import server
    from acp_server.apps.gateway.bots import Isolation
    from acp_server.apps.gateway.gateway import GatewaySettings

    host: str = given["host"]
    if given["token_file"] is None and not server.is_loopback(host):
        raise UsageError(f"every program that can connect to {host} could drive the agent; add --token-file")
    for origin in given["allow_origins"]:
        if not _ORIGIN.fullmatch(origin):
            raise UsageError(
                f"--allow-origin {origin!r}: expected an origin without a path, such as https://example.org"
            )
    if given["agent_users"] is not None and not given["isolate"]:
        raise UsageError("--agent-users needs --isolate")
    if given["node_url"] is not None and not isinstance(given["store"], str):
        raise UsageError("--node-url needs a database that several gateways share; add --store postgresql://...")
    bots, agent = _bots(given["bots"]), given["agent"]
    cwd = os.path.abspath(given["cwd"])
    return GatewaySettings(
        bots=bots,
        agent=_command(agent) if agent is not None else None if bots else COMMAND,
        cwd=cwd,
        agents=given["agents"],
        isolation=Isolation(cwd, given["agent_users"]) if given["isolate"] else None,
        store=given["store"],
        shared_sessions=given["shared_sessions"],
        cancel="drain" if given["cancel"] == "drain" else "stop",
        elicitation="reply_message" if given["elicitation"] == "reply_message" else "function",
        file_urls=given["allow_file_urls"],
        limits=GatewayLimits(**{each.name: given[each.name] for each in fields(GatewayLimits)}),
        allow_origins=given["allow_origins"],
        protocol=1 if given["protocol"] == "1" else 2,
    )


def _reload(made: Gateway, ctx: click.Context) -> None:
    """Reload the tokens and the bots from the files and options of this command. Raises UsageError, without changing
    anything, if that is impossible."""
    from acp_server.apps.gateway.auth import read_tokens

    try:
        again = ctx.command.make_context(ctx.info_name, list(ctx.meta[ARGUMENTS])).params
    except click.ClickException as error:
        raise UsageError(error.format_message()) from None
    settings = _settings(again)
    file: Path | None = again["token_file"]
    made.reload(made.tokens if file is None else read_tokens(file), settings.bots, settings.agent)
    logger.info("the tokens and the agents of %d bots were reloaded", len(settings.bots) + (settings.agent is not None))
    late = [name for name in ctx.params if name not in _RELOADED and ctx.params[name] != again[name]]
    if late:
        logger.warning(
            "changes of these options take effect only after a restart: %s",
            ", ".join(name.replace("_", "-") for name in late),
        )


def _check(settings: GatewaySettings) -> int:
    import anyio

    from acp_server.agent.log import entry
    from acp_server.apps.gateway.program import check_agent

    other = {} if settings.agent is None else {"every bot" if not settings.bots else "every other bot": settings.agent}
    good = True
    for name, command in {**{f"bot {id}": command for id, command in settings.bots.items()}, **other}.items():
        finding = anyio.run(check_agent, command, settings.cwd, settings.limits.start_seconds, settings.protocol)
        good = good and finding.good
        # The message contains an agent's name and the end of its standard error.
        click.echo(entry(f"{name}: {finding.text if finding.good else 'cannot be used: ' + finding.text}"), nl=False)
    return 0 if good else 1


def _tokens(file: Path | None, given: str | None) -> tuple[Tokens, str | None]:
    """Return the tokens, and the token to print if it was generated."""
    from acp_server.apps.gateway.auth import new_token, one_token, read_tokens

    if file is not None:
        return read_tokens(file), None
    if given:
        return one_token(given), None
    token = new_token()
    return one_token(token), token


def _bots(texts: Sequence[str]) -> dict[str, Sequence[str]]:
    bots: dict[str, Sequence[str]] = {}
    for text in texts:
        id, equals, line = text.partition("=")
        if not equals or not id:
            raise UsageError(f"--bot {text!r}: expected ID=COMMAND")
        command = _command(line)
        if id in bots:
            raise UsageError(f"--bot {id!r} is given twice; a bot has only one agent")
        bots[id] = command
    return bots


def _command(text: str) -> Sequence[str]:
    try:
        words = shlex.split(text, posix=sys.platform != "win32")
    except ValueError as error:
        raise UsageError(f"{text!r} cannot be split into the words of a command: {error}") from None
    if not words:
        raise UsageError("the command of an agent is empty")
    program = shutil.which(words[0])
    if program is None:
        is_python = re.search(r"\.py(:\w+)?$|^[\w.]+:\w+$", words[0])
        hint = f": the command of an agent in Python is 'acp-server serve {words[0]}'" if is_python else ""
        raise UsageError(f"there is no program {words[0]!r}{hint}")
    # Resolved from this folder: the agents are started in another one.
    return [os.path.abspath(program) if os.path.dirname(words[0]) else words[0], *words[1:]]
