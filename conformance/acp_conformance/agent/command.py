"""`python -m acp_conformance agent`: the effect of its options, which are declared in `acp_conformance.cli`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import click

from acp_conformance.core.home import home
from acp_conformance.core.interrupt import interruptible
from acp_conformance.core.private import write_private
from acp_conformance.core.process import CannotStart
from acp_conformance.core.tables import ProfileError
from acp_conformance.options import choose, finish, show
from acp_conformance.report.terminal import Terminal

from . import cases
from . import profile as profiles
from .launch import open_agent
from .run import AgentRun
from .v2 import cases as v2
from .watch import FOUND, UNKNOWN, Watched, as_toml, watch


def main(
    command: tuple[str, ...],
    patterns: tuple[str, ...],
    only_list: bool,
    *,
    strict: bool = False,
    profile_name: str | None = None,
    prompts: bool = True,
    protocol: str = "1",
    keep_home: bool = False,
    quick: bool = False,
    **rest: Any,
) -> None:
    """Run the chosen cases, write the requested reports, and exit with the exit code of the run.

    Raises:
        click.UsageError: A pattern that fits no case, no command, or a file that is not a profile.
    """
    registries = {"1": [cases.load()], "2": [v2.load()], "both": [cases.load(), v2.load()]}
    chosen = choose(registries[protocol], patterns, strict=strict)
    if quick:
        chosen = [case for case in chosen if case.quick]
    if only_list:
        show(chosen)
        return
    if not command:
        raise click.UsageError("which agent? Put its command after `--`")
    try:
        profile = profiles.load(profile_name) if profile_name else UNKNOWN
    except ProfileError as error:
        raise click.UsageError(str(error)) from error
    watching = prompts and not profile_name
    with home(own=not keep_home) as env:
        run = AgentRun(command, profile, rest["timeout"], rest["jobs"], watching=watching, quick=quick, env=env)
        judged = anyio.run(interruptible, lambda: run.run(chosen, Terminal(sys.stdout)), run.stop)
    if found := run.profile.situations if watching else {}:
        click.echo(f"Without a profile, one conversation led to {', '.join(found)}. `init` writes it down.", err=True)
    finish(judged, **rest)


def init(
    command: tuple[str, ...],
    output: Path | None,
    prompts: tuple[str, ...],
    authenticate: str | None,
    timeout: float,
    keep_home: bool = False,
) -> None:
    """Write a profile, and report the missing situations on standard error.

    Raises:
        click.UsageError: No command, or an agent that does not respond.
    """
    if not command:
        raise click.UsageError("which agent? Put its command after `--`")
    known = replace(UNKNOWN, authenticate=authenticate)

    async def converse() -> Watched:
        with home(own=not keep_home) as env:
            async with open_agent(command, known, patience=timeout, start_patience=3 * timeout, env=env) as agent:
                return await watch(agent, prompts)

    try:
        watched = anyio.run(converse)
    except CannotStart as error:
        raise click.UsageError(f"the command cannot be started: {error}") from error
    if watched.missing:
        raise click.UsageError(f"there is no session to prompt in: {watched.missing}")
    text = as_toml(watched, {"authenticate": authenticate} if authenticate else {})
    if output is None:
        click.echo(text, nl=False)
    else:
        try:
            write_private(output, text.encode())
        except OSError as error:
            raise click.UsageError(f"cannot write {output}: {error.strerror}") from error
    if missing := [name for name in profiles.SITUATIONS if name in FOUND and name not in watched.situations]:
        width = max(map(len, missing))
        lines = [f"  {name:{width}}  a turn that {profiles.SITUATIONS[name]}" for name in missing]
        click.echo("\n".join(["No prompt was seen for these; try some with --prompt:", *lines]), err=True)
    if unseen := [name for name in profiles.SITUATIONS if name not in FOUND]:
        click.echo(f"One conversation cannot show these; add them by hand: {', '.join(unseen)}.", err=True)
