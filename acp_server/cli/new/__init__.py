"""`acp-server new`: a folder with an agent that works, a test that passes, and the settings for editors."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import click

from acp_server.cli.new.editors import editor_settings
from acp_server.cli.new.names import Names
from acp_server.cli.new.template import files
from acp_server.cli.screen import clean, use_standard_output
from acp_server.errors import UsageError


@click.command()
@click.argument("name")
def new(name: str) -> int:
    """Make the folder NAME with an agent, a test of it, and a pyproject.toml.

    NAME may be a path, whose last part names the agent. What is there already is never overwritten. The settings that
    make the agent appear in editors are printed.
    """
    use_standard_output()
    folder = Path(name)
    names = Names.of(Path(os.path.abspath(folder)).name)
    _write(folder, names)
    click.echo(clean(_said(folder, names)))
    return 0


def _write(folder: Path, names: Names) -> None:
    """Into a folder that is new, or has hidden files only, as after `git init`. Raises UsageError."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        if not folder.is_dir() or any(not entry.name.startswith(".") for entry in folder.iterdir()):
            raise UsageError(f"{folder} is there already, and nothing is overwritten") from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}") from None
    for file, text in files(names).items():
        try:
            with (folder / file).open("x", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
        except OSError as error:
            raise UsageError(f"{folder / file} cannot be written: {error.strerror}") from None


def _said(folder: Path, names: Names) -> str:
    agent = folder.absolute() / f"{names.module}.py"
    return f"""\
{folder} has an agent now: {", ".join(files(names))}.

Talk to it, and run its test (this needs pytest):

    cd {shlex.quote(str(folder))}
    acp-server chat {agent.name}
    python -m pytest

`acp-server doctor {agent.name}` says what would go wrong in an editor. These settings bring it there:

{editor_settings(names.title, [*_command(), "serve", str(agent)])}"""


def _command() -> list[str]:
    """What starts this program again, from any folder."""
    script = shutil.which("acp-server", path=os.path.dirname(sys.executable))
    return [script] if script else [sys.executable, "-m", "acp_server"]
