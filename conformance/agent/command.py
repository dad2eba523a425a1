"""`python -m conformance agent`: what it does with its options, which are declared in `conformance.cli`."""

from __future__ import annotations

import sys
from typing import Any

import anyio
import click

from conformance.core.interrupt import interruptible
from conformance.core.tables import ProfileError
from conformance.options import choose, finish, show
from conformance.report.terminal import Terminal

from . import cases
from . import profile as profiles
from .run import AgentRun


def main(
    command: tuple[str, ...],
    patterns: tuple[str, ...],
    only_list: bool,
    *,
    strict: bool = False,
    profile_name: str | None = None,
    **rest: Any,
) -> None:
    """Run the chosen cases, write the reports that were asked for, and exit with the run's code.

    Raises:
        click.UsageError: A pattern that fits no case, no command, or a file that is not a profile.
    """
    chosen = choose(cases.load(), patterns, strict=strict)
    if only_list:
        show(chosen)
        return
    if not command:
        raise click.UsageError("which agent? Put its command after `--`")
    try:
        profile = profiles.load(profile_name) if profile_name else profiles.Profile()
    except ProfileError as error:
        raise click.UsageError(str(error)) from error
    run = AgentRun(command, profile, timeout=rest["timeout"], jobs=rest["jobs"])
    judged = anyio.run(interruptible, lambda: run.run(chosen, Terminal(sys.stdout)), run.stop)
    finish(judged, **rest)
