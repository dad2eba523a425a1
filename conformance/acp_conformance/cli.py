"""The command line: `acp-conformance agent|client|init|compare`. The exit code is that of the run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from .core.output import outlived
from .options import ReportPath, options

CONTEXT = {"help_option_names": ["-h", "--help"]}


def _tell_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked or context.resilient_parsing:
        return
    from . import __version__
    from .core.result import SUITE

    click.echo(f"acp-conformance {__version__}, rules {SUITE}")
    context.exit()


class _Suite(click.Group):
    def main(self, *args: Any, **extra: Any) -> Any:
        with outlived():
            return super().main(*args, **extra)


_keep_home = click.option(
    "--keep-home",
    is_flag=True,
    help="Leave the agent HOME and the XDG folders, for example for its login; else they are empty.",
)


@click.group(cls=_Suite, context_settings=CONTEXT)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_tell_version, help="Show it.")
def main() -> None:
    """Judge any agent or client of the Agent Client Protocol, as a black box.

    Exit code: 0 if no MUST failed, 1 if one did, 2 if something could not be run or written, 3 if the suite itself
    failed, 130 after Ctrl-C.
    """


@main.command(context_settings={**CONTEXT, "allow_interspersed_args": False})
@click.option(
    "--profile",
    "profile_name",
    metavar="FILE|NAME",
    help="Which prompt brings the agent into which situation: a TOML file, or an included one.",
)
@click.option(
    "--no-prompts",
    "prompts",
    flag_value=False,
    default=True,
    help="Without a profile, send no prompts; else a few prompts find the agent's features.",
)
@_keep_home
@click.option("--quick", is_flag=True, help="Only cases that share one process: for every change, not for a release.")
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

    In COMMAND, `{agent}` is replaced by the command of the client's agent. A word `{agent}` becomes several words.
    Within a longer word the command is one string, quoted for a shell. `{cwd}` is the empty folder in which the client
    is started.
    """
    from .client.command import main

    main(**arguments)


@main.command(
    context_settings={**CONTEXT, "allow_interspersed_args": False},
    short_help="Write a profile for the agent that COMMAND starts.",
)
@click.option(
    "--output",
    type=ReportPath(),
    help="Where to write the profile; without it, on standard output.",
)
@click.option("--prompt", "prompts", multiple=True, metavar="TEXT", help="A further prompt to try. Repeatable.")
@_keep_home
@click.option("--authenticate", metavar="METHOD", help="The way to log in, which the profile will name.")
@click.option("--timeout", type=click.FloatRange(0.1, 3600), default=20.0, show_default=True, help="Seconds of a turn.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def init(**arguments: Any) -> None:
    """Write a profile for the agent that COMMAND starts, by one conversation with it. Put `--` before it.

    The conversation tries a greeting, the agent's commands and each --prompt. The agent's reactions show the
    situations.
    """
    from .agent.command import init

    init(**arguments)


@main.command(context_settings=CONTEXT, short_help="Show the changes between runs, or all in a table.")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--table",
    "form",
    type=click.Choice(["text", "markdown", "html"]),
    help="All runs beside each other instead: a row for each rule that one breaks. As text with three files or more.",
)
def compare(files: tuple[Path, ...], form: str | None) -> None:
    """Show the changes from one run to a later run, or several runs in a table. The option `--json` of a run writes its
    file.

    Exit code 1 if something became worse from the first of two runs to the second.
    """
    from .report import compare as comparing
    from .report import jsonfile, table

    if len(files) == 1:
        raise click.UsageError("one run can be compared with nothing: name two files or more")
    try:
        runs = [jsonfile.read(file) for file in files]
        if form is None and len(runs) == 2:
            comparison = comparing.compare(*runs)
            comparing.show(comparison, sys.stdout)
            sys.exit(comparison.exit_code)
        shown = table.table(runs)
    except (OSError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    render = {"markdown": table.as_markdown, "html": table.as_html}.get(form or "text", table.as_text)
    click.echo(render(shown), nl=False)
