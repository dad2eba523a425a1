"""The overview of the commands, the commands `serve` and `schema`, and options that a TOML file may also give.

The overview knows the names of the other commands, and imports a command when it is called. It does not know their
options.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import Field, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

import acp_server
from acp_server.apps.cli import DEFAULT_LEVEL, LEVELS, configure_log, launch
from acp_server.apps.cli.output import written
from acp_server.errors import UsageError
from acp_server.safe_text import meant
from acp_server.schema.features import PUBLISHED

if TYPE_CHECKING:
    from acp_server.apps.cli.listen import Listening

_COMMANDS: Final = {
    "serve": "Serve an agent to an editor over standard input and output.",
    "connect": "Connect an editor that starts a program to the agent at an address.",
    "keep": "Keep an agent and its sessions when the editor ends.",
    "chat": "Talk to an agent at the terminal.",
    "new": "Create a folder with an agent, a test of it, and the settings for editors.",
    "doctor": "List what would fail with an agent in an editor or in the ACP registry.",
    "package": "Write an agent's entry for the ACP registry.",
    "demo": "Show a session with the built-in agent, with a cancel and a partial result.",
    "gateway": "Serve the Coze v3 chat API over an agent.",
    "record": "Start an agent, and record its messages and its editor's.",
    "trace": "Show a recorded conversation.",
    "schema": "Write the protocol's types as JSON Schema.",
}
_DEFAULT: Final = "serve"
_HELP: Final = ("--help", "-h")
"""The options that show the help. Each command has them, too."""

log_file_option: Final = click.option(
    "--log-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the log to this file; the default is standard error.",
)
"""Adds `--log-file`, which several commands have."""
record_option: Final = click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Record both directions in this file; `acp-server trace` shows it.",
)
"""Adds `--record`, which several commands have."""


class _Commands(click.Group):
    """The group of all commands. It knows their names, and imports a command when it is called. Without a name of a
    command it runs `serve`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.commands or cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        return getattr(import_module(f"acp_server.apps.cli.{cmd_name}"), cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            # click knows only the commands that are already imported.
            raise click.UsageError(f"There is no command {name!r}; {meant(name, _COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)  # a shell asks what may stand next
        if not args or (args[0].startswith("-") and args[0] not in (*_HELP, "--version")):
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        # This writes the overview. `invoke` writes the help of a command.
        with written():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with written():
            return super().invoke(ctx)


@click.group(cls=_Commands, context_settings={"max_content_width": 100, "help_option_names": _HELP})
@click.version_option(acp_server.__version__, message=f"%(prog)s %(version)s (ACP schema of {PUBLISHED.date})")
def commands() -> None:
    """An Agent Client Protocol runtime. Without a command it serves the built-in agent, for an editor."""


@commands.command()
@click.argument("directories", metavar="[DIRECTORY]...", nargs=-1, type=click.Path(file_okay=False))
@click.option("--check", is_flag=True, help="Write nothing; fail if a file is stale.")
@click.option("--stable", is_flag=True, help="Only the files without unstable features.")
def schema(directories: tuple[str, ...], check: bool, stable: bool) -> int:
    """Write the protocol's types as JSON Schema into each DIRECTORY (`protocol_schemas` without one)."""
    from acp_server.schema import export

    try:
        options = [*(["--check"] if check else []), *(["--stable"] if stable else [])]
        return export.main([*options, *(directories or ("protocol_schemas",))])
    except OSError as error:
        if error.filename is None:  # standard output
            raise
        raise UsageError(f"cannot {'read' if check else 'write'} {error.filename}: {error.strerror}") from None


@commands.command()
@click.argument("target", required=False)
@click.option(
    "--model",
    "models",
    metavar="PROVIDER:NAME",
    multiple=True,
    help=(
        "Let a model drive the built-in agent, for example openai:gpt-5. Its key is in the environment. If "
        "given several times, the user chooses in each session; the first is the default."
    ),
)
@click.option(
    "--base-url",
    metavar="URL",
    help="The model's server, if it is not its provider's: with openai:NAME any compatible server.",
)
@click.option(
    "--pass-env",
    metavar="NAME",
    multiple=True,
    help="Keep this variable in the environment of commands that the model runs. Variables of the model's "
    "provider, such as its key, are removed from it.",
)
@click.option(
    "--trust-mcp",
    metavar="NAME",
    multiple=True,
    help="Believe the MCP server with this name when a tool claims to only read: the user is not asked about it.",
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    default=DEFAULT_LEVEL,
    show_default=True,
    help="The lowest level that is logged.",
)
@log_file_option
@record_option
@click.option(
    "--store",
    metavar="memory|FILE",
    help=(
        "Keep sessions in memory, or in this file. By default the built-in agent has a file in your state "
        "directory, and others their own store."
    ),
)
@click.option(
    "--backend",
    type=click.Choice(["asyncio", "trio"]),
    help="The event loop: asyncio, unless the target itself asks for another.",
)
@click.option("--loop", type=click.Choice(["uvloop"]), help="Another event loop than asyncio's (extra: uvloop).")
@click.option(
    "--reload",
    is_flag=True,
    help="Restart the agent when its Python files change; sessions continue. For development.",
)
@click.option("--memory-file", type=click.Path(dir_okay=False, path_type=Path), hidden=True)
@click.option(
    "--listen",
    metavar="HOST:PORT|unix:PATH",
    help="Serve any number of clients there, over HTTP and WebSocket at /acp, instead of one over standard input and "
    "output (extra: remote).",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help=(
        "With --listen: the allowed clients, one a line: NAME TOKEN. Required beyond this machine, or --tls-client-ca."
    ),
)
@click.option("--tls-cert", type=click.Path(dir_okay=False, path_type=Path), help="With --listen: a certificate.")
@click.option("--tls-key", type=click.Path(dir_okay=False, path_type=Path), help="Its key, if it is in another file.")
@click.option(
    "--tls-client-ca",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The certificate authorities of clients. A client without their certificate is refused.",
)
@click.option(
    "--origin",
    "origins",
    metavar="ORIGIN",
    multiple=True,
    help="With --listen: the origin of an allowed web page, such as https://app.example.org.",
)
def serve(
    target: str | None,
    models: tuple[str, ...],
    base_url: str | None,
    pass_env: tuple[str, ...],
    trust_mcp: tuple[str, ...],
    log_level: str,
    log_file: Path | None,
    record: Path | None,
    store: str | None,
    backend: str | None,
    loop: str | None,
    reload: bool,
    memory_file: Path | None,
    listen: str | None,
    token_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    origins: tuple[str, ...],
) -> int:
    """Serve an agent to an editor over standard input and output.

    TARGET is a module and what it calls its agent, `package.module:attribute`, or a file, `path/to/file.py:attribute`.
    Without an attribute, the agent that the file itself runs is served, or else its `agent`. The attribute may also be
    a function that makes the agent. Without TARGET the built-in agent is served. With a model the agent does what the
    model decides. Without a model it executes your slash commands, offline.
    """
    listening = _listening(listen, token_file, tls_cert, tls_key, tls_client_ca, origins)
    if listening is not None and (reload or record is not None):
        raise UsageError(
            "--reload and --record cannot be used with --listen; they need an agent on standard input and output"
        )
    if reload:
        from acp_server.agent.serve import say_if_terminal
        from acp_server.apps.cli.reload import serve_reloading

        if models or base_url is not None or pass_env or trust_mcp:
            raise UsageError(
                "--reload cannot be used with --model: it reloads your own agent, and --model configures the "
                "built-in one"
            )
        configure_log(log_level, log_file)
        say_if_terminal(0)
        said = {"log-level": log_level, "log-file": log_file, "record": record, "store": store, "backend": backend}
        said["loop"] = loop
        return serve_reloading(target, [f"--{name}={value}" for name, value in said.items() if value is not None])
    return launch(
        target,
        models=models,
        model_options={"base_url": base_url, "pass_env": pass_env, "mcp_trusted": trust_mcp},
        log_level=log_level,
        log_file=log_file,
        record=record,
        backend=backend,
        loop=loop,
        store=store,
        memory_file=memory_file,
        listening=listening,
    )


def _listening(
    address: str | None, tokens: Path | None, cert: Path | None, key: Path | None, ca: Path | None, origins: Any
) -> Listening | None:
    if address is None:
        if tokens or cert or key or ca or origins:
            raise UsageError("--token-file, --origin and the TLS options need --listen")
        return None
    from acp_server.apps.cli.listen import Listening

    found = Listening(address=address, token_file=tokens, certificate=cert, key=key, clients=ca, origins=origins)
    found.check()
    return found


ARGUMENTS: Final = "acp_server.arguments"
"""The key in `ctx.meta` of the words of the command line after the command's name."""
_CONFIG: Final = "config"
_LIMIT: Final = "limits"

_F = TypeVar("_F", bound=Callable[..., Any])


class ConfiguredCommand(click.Command):
    """A command with `--config FILE`. The command line takes precedence over the file.

    The file has a key for each option, a table `limits` for the options of `limit_options`, and a table for each option
    that is NAME=VALUE.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See click.Command. Raises UsageError."""
        ctx.meta[ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See click.Command."""
        shown = [(param, record) for param in self.get_params(ctx) if (record := param.get_help_record(ctx))]
        for title, limits in (("Options", False), ("Limits", True)):
            with formatter.section(title):
                formatter.write_dl([record for param, record in shown if isinstance(param, _Limit) is limits])


class _Limit(click.Option):
    """An option that the file has in the table `limits`."""


class _Number(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic from click 8.4 on
    """A finite number, at least `least`."""

    def __init__(self, kind: type[int] | type[float], least: float) -> None:
        self.name = kind.__name__
        self._kind = kind
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float:
        """See click.ParamType."""
        try:
            number = self._kind(value)
        except ValueError:
            self.fail(f"{value!r} is not a {'whole number' if self._kind is int else 'number'}", param, ctx)
        if not math.isfinite(number) or number < self._least:
            self.fail(f"{value} is not at least {self._least:g}, or not finite", param, ctx)
        return number


def config_option(function: _F) -> _F:
    """Add `--config`."""
    return click.option(
        "--config",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        is_eager=True,
        callback=_read,
        help="A TOML file with a key for each of these options, and the tables bots and limits.",
    )(function)


def limit_options(table: type[Any]) -> Callable[[_F], _F]:
    """Add an option for each field of a dataclass of limits: numbers with `unit` and `help` in their metadata."""

    def add(function: _F) -> _F:
        for each in reversed(fields(table)):
            function = _limit_option(each)(function)
        return function

    return add


def _limit_option(each: Field[Any]) -> Callable[[_F], _F]:
    kind = int if isinstance(each.default, int) else float
    return click.option(
        f"--{each.name.replace('_', '-')}",
        each.name,
        cls=_Limit,
        type=_Number(kind, each.metadata["least"]),
        metavar=each.metadata["unit"],
        default=each.default,
        show_default=True,
        help=each.metadata["help"],
    )


def _read(ctx: click.Context, _param: click.Parameter, path: Path | None) -> Path | None:
    if path is None:
        return None
    import tomllib  # Not at the top: every start of an agent passes here, and none of them reads a file of options.

    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', error)}") from None
    tables: dict[str, Any] = {_LIMIT: document.pop(_LIMIT, {})}
    if not isinstance(tables[_LIMIT], dict):
        raise UsageError(f"{path}: limits must be a table")
    named = {_key(param): param for param in ctx.command.params if param.name not in (_CONFIG, "check")}
    values: dict[str, Any] = {}
    for key, value in [*document.items(), *((f"{_LIMIT}.{key}", value) for key, value in tables[_LIMIT].items())]:
        param = named.get(key)
        if param is None:
            raise UsageError(f"{path}: there is no option {key!r}")
        try:
            values[str(param.name)] = _value(ctx, param, value)
        except (click.BadParameter, TypeError) as error:
            raise UsageError(f"{path}: {key}: {error}") from None
    ctx.default_map = {**(ctx.default_map or {}), **values}
    return path


def _key(param: click.Parameter) -> str:
    name = str(param.name).replace("_", "-")
    return f"{_LIMIT}.{name}" if isinstance(param, _Limit) else name


def _value(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        if "=" not in str(param.metavar):
            raise TypeError("must not be a table")
        value = [f"{key}={_text(each, f'{key}: ')}" for key, each in table.items()]
    elif param.multiple:
        if not isinstance(value, list):
            raise TypeError("must be a list")
        value = [_text(each) for each in cast("list[Any]", value)]
    elif isinstance(param.type, (_Number, click.IntRange)):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError("must be a number")
    else:
        value = _text(value)
    param.type_cast_value(ctx, value)
    return value


def _text(value: Any, where: str = "") -> str:
    if not isinstance(value, str):
        raise TypeError(f"{where}must be a string")
    return value
