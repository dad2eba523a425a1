"""The command line: `python -m conformance agent|client|compare`. Decides nothing; the exit code is the run's."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import click

from . import profile as profiles
from .case import Case, Registry
from .result import Run
from .run import JOBS, TIMEOUT, AgentRun

CONTEXT = {"help_option_names": ["-h", "--help"]}


@click.group(context_settings=CONTEXT)
def main() -> None:
    """Judge any agent or client of the Agent Client Protocol, as a black box.

    Exit code: 0 if no MUST failed, 1 if one did, 2 if something could not be run.
    """


def options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that `agent` and `client` share: which cases, how long, and where the reports go."""
    path = click.Path(dir_okay=False, path_type=Path)
    for option in (
        click.option("--html", "html_file", type=path, help="Write a page with every case and its wire transcript."),
        click.option("--junit", "junit_file", type=path, help="Write JUnit XML, for continuous integration."),
        click.option("--json", "json_file", type=path, help="Write the whole run, for `compare` and for programs."),
        click.option("--jobs", type=click.IntRange(1, 64), default=JOBS, show_default=True, help="Cases at a time."),
        click.option(
            "--timeout",
            type=click.FloatRange(0.1, 3600),
            default=TIMEOUT,
            show_default=True,
            help="Seconds for a whole case; one wait lasts half of it at most.",
        ),
        click.option("--list", "only_list", is_flag=True, help="List the cases and run nothing."),
        click.option(
            "--case",
            "patterns",
            multiple=True,
            metavar="PATTERN",
            help="Only cases whose id or group fits, such as 'ids/*' or 'batch'. Repeatable.",
        ),
    ):
        command = option(command)
    return command


@main.command(context_settings={**CONTEXT, "allow_interspersed_args": False})
@click.option(
    "--profile",
    "profile_name",
    metavar="FILE|NAME",
    help="Which prompt brings the agent into which situation: a TOML file, or an included one.",
)
@options
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def agent(
    command: tuple[str, ...], profile_name: str | None, patterns: tuple[str, ...], only_list: bool, **rest: Any
) -> None:
    """Judge the agent that COMMAND starts. Put `--` before it."""
    from . import agent as cases

    chosen = choose(cases.load(), patterns)
    if only_list:
        show(chosen)
        return
    if not command:
        raise click.UsageError("which agent? Put its command after `--`")
    try:
        profile = profiles.load(profile_name) if profile_name else profiles.Profile()
    except profiles.ProfileError as error:
        raise click.UsageError(str(error)) from error
    run = AgentRun(command, profile, timeout=rest["timeout"], jobs=rest["jobs"])
    progress = import_module("conformance.report.terminal").Terminal(sys.stdout)
    # Told to end, it ends as at Ctrl-C: not without its agents.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        judged = anyio.run(run.run, chosen, progress)
    finally:
        signal.signal(signal.SIGTERM, before)
    finish(judged, **rest)


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
    import_module("conformance.client.cli").main(**arguments)


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


def choose(registry: Registry, patterns: tuple[str, ...]) -> list[Case]:
    """The cases that fit.

    Raises:
        click.UsageError: A pattern that fits none.
    """
    for pattern in patterns:
        if not registry.matching([pattern]):
            raise click.UsageError(f"no case fits {pattern!r}; see --list")
    return registry.matching(patterns)


def show(cases: list[Case]) -> None:
    """List cases: id, level, rule, and what they need of a profile."""
    width = max(len(case.id) for case in cases)
    for case in cases:
        needs = f"  [{', '.join(case.needs)}]" if case.needs else ""
        click.echo(f"{case.id:{width}}  {case.level:6}  {case.title}{needs}")


def finish(run: Run, *, json_file: Path | None, junit_file: Path | None, html_file: Path | None, **_: Any) -> None:
    """Write the reports that were asked for, and exit with the run's code."""
    for name, path in (("jsonfile", json_file), ("junit", junit_file), ("html", html_file)):
        if path is not None:
            try:
                import_module(f"conformance.report.{name}").write(run, path)
            except OSError as error:
                raise click.UsageError(f"cannot write {path}: {error}") from error
    sys.exit(run.exit_code())
