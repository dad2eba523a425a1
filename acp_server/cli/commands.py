"""The overview of the commands: it knows their names, and imports one of them when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

import acp_server

_COMMANDS: Final = {
    "serve": "Serve an agent to an editor over standard input and output.",
    "chat": "Talk to an agent at the terminal.",
    "new": "Make a folder with an agent, a test of it, and the settings for editors.",
    "doctor": "Say what would go wrong with an agent in an editor or in the ACP registry.",
    "package": "Write an agent's entry for the ACP registry.",
    "demo": "Show a session with the built-in agent, cancel and partial result included.",
    "gateway": "Serve the Coze v3 chat API over an agent.",
    "record": "Start an agent, and record what it and its editor say to each other.",
    "trace": "Show a recorded conversation.",
    "schema": "Write the protocol's types as JSON Schema.",
}
_DEFAULT: Final = "serve"


class _Commands(click.Group):
    """Knows the names and imports the rest; without the name of a command it is `serve`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        return getattr(import_module(f"acp_server.cli.{cmd_name}"), cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("--help", "--version")):
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Commands, context_settings={"max_content_width": 100})
@click.version_option(acp_server.__version__, message="%(prog)s %(version)s")
def commands() -> None:
    """An Agent Client Protocol runtime. Without a command it serves the built-in agent, for an editor."""
