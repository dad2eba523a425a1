"""`acp-server package`: an agent's entry for the ACP registry, tried as the registry's check does it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from acp_server.cli.agent_command import AgentCommand, agent_command
from acp_server.cli.examination import Examination
from acp_server.cli.package.entry import Entry
from acp_server.cli.package.icon import DRAWN, icon_faults
from acp_server.cli.package.project import Project
from acp_server.cli.screen import Screen, use_standard_output
from acp_server.errors import UsageError


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--project",
    "folder",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    default=".",
    help="Where the pyproject.toml is, if not here.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    help="Where the entry's folder goes, if not here; for example into a clone of the registry.",
)
@click.option("--script", metavar="NAME", help="Which command of the project is the agent, if there are several.")
@click.option("--id", metavar="ID", help="The entry's id, if not the project's name.")
@click.option("--timeout", default=60.0, show_default=True, help="Seconds that the agent may take for an answer.")
@click.argument("agent", nargs=-1, type=click.UNPROCESSED)
def package(folder: Path, out: Path, script: str | None, id: str | None, timeout: float, agent: tuple[str, ...]) -> int:
    """Write ID/agent.json and ID/icon.svg, which the ACP registry asks for.

    They say what pyproject.toml and the agent itself say. For that the agent is started as by `acp-server doctor`: the
    project's command, or what AGENT says. If something is wrong, the exit status is 1 and nothing is written. An
    icon.svg that is there already is kept.
    """
    use_standard_output()
    screen = Screen()
    project = Project.read(folder, script)
    examination = Examination(agent_command(agent) if agent else _command_of(project, folder), timeout, screen)
    examination.run()
    entry = Entry(project, examination.agent_info, id)
    icon = out / entry.id / "icon.svg"
    drawn = _read(icon)
    faults = entry.faults() + icon_faults(DRAWN if drawn is None else drawn)
    for fault in faults:
        screen.line(f"FAULT {fault}", fg="red", bold=True)
    if faults or examination.faults:
        screen.line("nothing is written")
        return 1
    try:
        icon.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(entry.content(), indent=2, ensure_ascii=False) + "\n"
        icon.with_name("agent.json").write_text(text, "utf-8", newline="\n")
        if drawn is None:
            icon.write_text(DRAWN, "utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{icon.parent} cannot be written: {error.strerror}") from None
    screen.line(f"{icon.parent} has agent.json and icon.svg")
    screen.line(f"the registry starts {entry.uvx}: publish that version before you ask it to list the agent")
    return 0


def _command_of(project: Project, folder: Path) -> AgentCommand:
    """The project's command, which need not be installed: where projects have their modules, they are found."""
    module, _, attribute = project.target.partition(":")
    source = f"import sys; from {module} import {attribute.partition('.')[0]}; sys.exit({attribute}())"
    before = os.environ.get("PYTHONPATH")
    places = [str(folder.absolute()), str(folder.absolute() / "src"), *([before] if before else [])]
    return AgentCommand([sys.executable, "-c", source], project.script, {"PYTHONPATH": os.pathsep.join(places)})


def _read(icon: Path) -> str | None:
    try:
        return icon.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{icon} cannot be read: {error}") from None
