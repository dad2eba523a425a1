"""`python -m acp_conformance client`: the effect of its options, which are declared in `acp_conformance.cli`."""

from __future__ import annotations

import sys
from typing import Any

import anyio
import click

from acp_conformance.core.interrupt import interruptible
from acp_conformance.core.tables import ProfileError
from acp_conformance.options import choose, finish, show
from acp_conformance.report.terminal import Terminal

from . import cases
from . import profile as profiles
from .pace import Pace
from .program import AGENT
from .run import Stop, run
from .stage import Setting
from .v2 import cases as v2


def main(
    command: tuple[str, ...],
    patterns: tuple[str, ...],
    only_list: bool,
    *,
    strict: bool = False,
    profile_name: str | None = None,
    protocol: str = "1",
    here: bool = False,
    **rest: Any,
) -> None:
    """Run the chosen cases, write the requested reports, and exit with the exit code of the run.

    Raises:
        click.UsageError: A pattern that fits no case, no `{agent}` in the command, or a file that is not a profile.
    """
    registries = {"1": [cases.load()], "2": [v2.load()], "both": [cases.load(), v2.load()]}
    chosen = choose(registries[protocol], patterns, strict=strict)
    if only_list:
        show(chosen)
        return
    if not any(AGENT in word for word in command):
        raise click.UsageError(f"which client? Put its command after `--`, with {AGENT} where its agent goes")
    try:
        profile = profiles.load(profile_name) if profile_name else profiles.Profile()
    except ProfileError as error:
        raise click.UsageError(str(error)) from error
    setting = Setting(command, profile, Pace(rest["timeout"] / 2), here=here)
    stop = Stop()
    progress = Terminal(sys.stdout)
    result = anyio.run(interruptible, lambda: run(setting, chosen, progress, jobs=rest["jobs"], stop=stop), stop.pull)
    finish(result, **rest)
