"""Code that the commands `agent` and `client` share: their options, the choice of cases, and the reports at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from .core.case import Case, Registry
from .core.result import Level, Run
from .report import accepted

JOBS = 3
"""The default number of concurrent cases."""

TIMEOUT = 10.0
"""The default time-out of a whole case, in seconds."""


class ReportPath(click.Path):
    """The path of a report. It is refused before the run if its folder does not exist."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See click.Path."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not path.parent.is_dir():
            self.fail(f"cannot write {path}: there is no folder {path.parent}", param, ctx)
        return path


def options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that `agent` and `client` share: the cases, the time-outs, and the paths of the reports."""
    path = ReportPath()
    for option in (
        click.option(
            "--protocol",
            type=click.Choice(["1", "2", "both"]),
            default="1",
            show_default=True,
            help="The version to judge. Version 2 is a draft that may change, and is judged only on request.",
        ),
        click.option("--html", "html_file", type=path, help="Write a page with every case and its wire transcript."),
        click.option("--junit", "junit_file", type=path, help="Write JUnit XML, for continuous integration."),
        click.option("--json", "json_file", type=path, help="Write the whole run, for `compare` and for programs."),
        click.option("--markdown", "markdown_file", type=path, help="Write a summary for the page of a pull request."),
        click.option(
            "--require",
            type=click.Choice([Level.MUST.value, Level.SHOULD.value]),
            default=Level.MUST.value,
            show_default=True,
            help="Which rules have to be kept for the exit code 0.",
        ),
        click.option(
            "--baseline",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Failures of an earlier run (--json) or a list (--accept) do not count for the exit code.",
        ),
        click.option(
            "--accept",
            "accepted_file",
            type=path,
            help="Write the failed cases as a list for --baseline, to be edited.",
        ),
        click.option("--jobs", type=click.IntRange(1, 64), default=JOBS, show_default=True, help="Cases at a time."),
        click.option(
            "--timeout",
            type=click.FloatRange(0.1, 3600),
            default=TIMEOUT,
            show_default=True,
            help="Seconds that a start may take, at least; an answer half of it. A slow subject has more.",
        ),
        click.option("--strict", is_flag=True, help="Judge batches as JSON-RPC has them, not only recommend it."),
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


def choose(registries: Sequence[Registry], patterns: tuple[str, ...], *, strict: bool = False) -> list[Case]:
    """Return the cases that fit the patterns, with the levels of `--strict` if it is set.

    Raises:
        click.UsageError: A pattern that fits no case.
    """
    for pattern in patterns:
        if not any(registry.matching([pattern]) for registry in registries):
            raise click.UsageError(f"no case fits {pattern!r}; see --list")
    chosen = [case for registry in registries for case in registry.matching(patterns)]
    return [case.stricter() for case in chosen] if strict else chosen


def show(cases: list[Case]) -> None:
    """List cases: id, level, rule, and the situations that they need."""
    width = max(len(case.id) for case in cases)
    for case in cases:
        needs = f"  [{', '.join(case.needs)}]" if case.needs else ""
        click.echo(f"{case.id:{width}}  {case.level:6}  {case.title}{needs}")


def finish(
    run: Run,
    *,
    json_file: Path | None,
    junit_file: Path | None,
    html_file: Path | None,
    markdown_file: Path | None,
    require: str,
    baseline: Path | None,
    accepted_file: Path | None,
    **_: Any,
) -> None:
    """Write the requested reports, and exit with the exit code of the run."""
    before = accepted.Baseline()
    if baseline is not None:
        try:
            before = accepted.read(baseline)
        except (OSError, ValueError) as error:
            raise click.UsageError(f"--baseline {baseline}: {error}") from error
    reports = {"jsonfile": json_file, "junit": junit_file, "html": html_file, "markdown": markdown_file}
    reports["accepted"] = accepted_file
    for name, path in reports.items():
        if path is not None:
            try:
                import_module(f"acp_conformance.report.{name}").write(run, path)
            except OSError as error:
                raise click.UsageError(f"cannot write {path}: {error}") from error
    if baseline is not None:
        new = run.broken(Level(require), before.known, before.passed)
        click.echo(f"New since {baseline}: {', '.join(new) or 'nothing that counts as a failure'}")
    sys.exit(run.exit_code(Level(require), before.known, before.passed))
