"""`python -m conformance client`: judge the client that a command starts."""

from __future__ import annotations

import sys
from typing import Any

import anyio
import click

from conformance.cli import CONTEXT, choose, finish, options, show
from conformance.profile import ProfileError
from conformance.report.terminal import Terminal

from . import cases as _cases  # noqa: F401 - fills the registry
from . import profile as profiles
from .program import AGENT
from .registry import client_cases
from .run import run
from .stage import Setting


@click.command(context_settings={**CONTEXT, "allow_interspersed_args": False})
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

    `{agent}` in COMMAND is what the client has to start as its agent: alone it becomes several words, in a longer word
    one string, quoted for a shell. `{cwd}` is the empty folder in which the client is started.
    """
    main(**arguments)


def main(
    command: tuple[str, ...],
    patterns: tuple[str, ...],
    only_list: bool,
    *,
    profile_name: str | None = None,
    here: bool = False,
    **rest: Any,
) -> None:
    """Run the chosen cases, write the reports that were asked for, and exit with the run's code."""
    chosen = choose(client_cases, patterns)
    if only_list:
        show(chosen)
        return
    if not any(AGENT in word for word in command):
        raise click.UsageError(f"which client? Put its command after `--`, with {AGENT} where its agent goes")
    try:
        profile = profiles.load(profile_name) if profile_name else profiles.Profile()
    except ProfileError as error:
        raise click.UsageError(str(error)) from error
    setting = Setting(command, profile, patience=rest["timeout"] / 2, here=here)
    result = anyio.run(lambda: run(setting, chosen, Terminal(sys.stdout), jobs=rest["jobs"]))
    finish(result, **rest)
