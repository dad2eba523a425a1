"""The command line: `python -m conformance agent|client|compare`. Decides nothing; the exit code is the run's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from .options import options

CONTEXT = {"help_option_names": ["-h", "--help"]}


@click.group(context_settings=CONTEXT)
def main() -> None:
    """Judge any agent or client of the Agent Client Protocol, as a black box.

    Exit code: 0 if no MUST failed, 1 if one did, 2 if something could not be run.
    """


@main.command(context_settings={**CONTEXT, "allow_interspersed_args": False})
@click.option(
    "--profile",
    "profile_name",
    metavar="FILE|NAME",
    help="Which prompt brings the agent into which situation: a TOML file, or an included one.",
)
@options
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def agent(**arguments: Any) -> None:
    """Judge the agent that COMMAND starts. Put `--` before it."""
    from .agent.command import main

    main(**arguments)


@main.command(context_settings={**CONTEXT, "allow_interspersed_args": False})
@click.option(
    "--profile",
    "profile_name",
    metavar="FILE|NAME",
    help="How the client's user is played: a TOML file, or an included one.",
)
@click.option("--here", is_flag=True, help="Start the client in this folder, not in an empty one.")
@options
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def client(**arguments: Any) -> None:
    """Judge the client that COMMAND starts. Put `--` before it.

    `{agent}` in it is what the client has to start as its agent: alone it becomes several words, in a longer word one
    string, quoted for a shell. `{cwd}` is the empty folder in which the client is started.
    """
    from .client.command import main

    main(**arguments)


@main.command(context_settings=CONTEXT)
@click.argument("before", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("after", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def compare(before: Path, after: Path) -> None:
    """What changed between two runs that `--json` wrote: exit code 1 if something became worse."""
    from .report import compare as comparing
    from .report import jsonfile

    try:
        comparison = comparing.compare(jsonfile.read(before), jsonfile.read(after))
    except (OSError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    comparing.show(comparison, sys.stdout)
    sys.exit(comparison.exit_code)
