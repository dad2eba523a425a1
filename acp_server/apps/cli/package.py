"""`acp-server package` makes an agent's entry for the ACP registry, and tries it as the registry's check does.

The parts of this module after the command: the agent's data in pyproject.toml (`Project`), the entry and its faults in
the eyes of the registry (`Entry`; FORMAT.md of the registry), and the icon.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from xml.etree import ElementTree as ET

import click

from acp_server.apps.cli.doctor import Examination, timeout_option
from acp_server.apps.cli.screen import Screen, use_standard_output
from acp_server.apps.cli.target import AgentCommand, agent_command, python_path
from acp_server.errors import UsageError


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--project",
    "folder",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    default=".",
    help="The folder of the pyproject.toml, if not the current one.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    help="The parent of the entry's folder, if not the current one; for example a clone of the registry.",
)
@click.option("--script", metavar="NAME", help="The project's command that is the agent, if there are several.")
@click.option("--id", metavar="ID", help="The entry's id, if not the project's name.")
@timeout_option
@click.argument("agent", nargs=-1, type=click.UNPROCESSED)
def package(folder: Path, out: Path, script: str | None, id: str | None, timeout: float, agent: tuple[str, ...]) -> int:
    """Write ID/agent.json and ID/icon.svg, which the ACP registry asks for.

    The generated files take their values from pyproject.toml and from the agent itself. So the agent is started as by
    `acp-server doctor --registry`, by the project's command or by AGENT. If something is wrong, the exit status is 1
    and nothing is written. An icon.svg that is there already is kept.
    """
    use_standard_output()
    screen = Screen()
    project = Project.read(folder, script)
    command = agent_command(agent) if agent else _command_of(project, folder)
    examination = Examination(command, timeout, screen, registry=True)
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
    """Return the project's command. It need not be installed, because its modules are found in `folder` and in
    `src`."""
    module, _, attribute = project.target.partition(":")
    source = f"import sys; from {module} import {attribute.partition('.')[0]}; sys.exit({attribute}())"
    env = python_path(str(folder.absolute()), str(folder.absolute() / "src"))
    return AgentCommand([sys.executable, "-c", source], project.script, env)


def _read(icon: Path) -> str | None:
    try:
        return icon.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{icon} cannot be read: {error}") from None


_TARGET: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_REPOSITORY: Final = ("repository", "source", "source code", "github", "code")
_WEBSITE: Final = ("homepage", "website", "documentation")


@dataclass(frozen=True, slots=True)
class Project:
    """The parts of the table `project` that the registry needs."""

    name: str
    script: str
    """The command that is the agent."""
    target: str
    """The object that the command calls: `module:attribute`."""
    version: str | None
    """None if the build determines the version."""
    description: str | None
    repository: str | None
    website: str | None
    authors: list[str]
    license: str | None

    @classmethod
    def read(cls, folder: Path, script: str | None) -> Project:
        """Return the project in `folder`. `script`: which of its commands is the agent. Without `script`, the command
        with the project's name is chosen, or else the only command. Raises UsageError."""
        file = folder / "pyproject.toml"
        try:
            document = tomllib.loads(file.read_text("utf-8"))
        except FileNotFoundError:
            raise UsageError(f"there is no file {file}; name its folder with --project") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise UsageError(f"{file} cannot be read: {getattr(error, 'strerror', error)}") from None
        table = _table(document.get("project"))
        name = _text(table.get("name"))
        if name is None:
            raise UsageError(f"{file}: the project has no name")
        scripts = _table(table.get("scripts"))
        script = script or _choose(name, scripts, file)
        target = scripts.get(script)
        if not isinstance(target, str) or not _TARGET.fullmatch(target):
            raise UsageError(f"{file}: there is no command {script!r} in project.scripts")
        urls = {key.lower(): _text(url) for key, url in _table(table.get("urls")).items()}
        authors = cast("list[Any]", table.get("authors")) if isinstance(table.get("authors"), list) else []
        return cls(
            name=name,
            script=script,
            target=target,
            version=_text(table.get("version")),
            description=_text(table.get("description")),
            repository=_first(urls, _REPOSITORY),
            website=_first(urls, _WEBSITE),
            authors=[author for each in authors if (author := _text(_table(each).get("name")))],
            license=_text(table.get("license")) or _text(_table(table.get("license")).get("text")),
        )


def _choose(name: str, scripts: dict[str, Any], file: Path) -> str:
    if name in scripts:
        return name
    if len(scripts) == 1:
        return next(iter(scripts))
    if scripts:
        raise UsageError(
            f"{file}: several commands ({', '.join(scripts)}) could be the agent; choose one with --script NAME"
        )
    raise UsageError(f"{file}: project.scripts has no command that uvx could start")


def _table(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _first(urls: dict[str, str | None], names: tuple[str, ...]) -> str | None:
    return next((url for name in names if (url := urls.get(name))), None)


_ID: Final = re.compile(r"[a-z][a-z0-9-]*")
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+")


class Entry:
    """The entry of one agent. The registry starts the agent by uvx, in the version that the agent reports."""

    def __init__(self, project: Project, info: Mapping[str, Any], id: str | None = None) -> None:
        """`info`: `agentInfo` in the answer to `initialize`. `id`: replaces the name of the project."""
        self.id: Final = id or re.sub(r"[-_.]+", "-", project.name).lower()
        self._project = project
        self._info = {key: value for key in ("name", "title", "version") if isinstance(value := info.get(key), str)}
        self._version = project.version or self._info.get("version", "")

    @property
    def uvx(self) -> str:
        """Return the command by which the registry starts the agent."""
        pinned = f"{self._project.name}=={self._version}"
        if self._project.script == self._project.name:
            return f"uvx {pinned}"
        return f"uvx --from {pinned} {self._project.script}"

    def content(self) -> dict[str, Any]:
        """Return the content of agent.json."""
        project = self._project
        uvx = {"package": f"{project.name}=={self._version}"}
        if project.script != project.name:
            uvx["cmd"] = project.script
        everything: dict[str, Any] = {
            "id": self.id,
            "name": self._info.get("title") or self._info.get("name") or project.name,
            "version": self._version,
            "description": project.description,
            "repository": project.repository,
            "website": project.website,
            "authors": project.authors,
            "license": project.license,
            "distribution": {"uvx": uvx},
        }
        return {key: value for key, value in everything.items() if value}

    def faults(self) -> list[str]:
        """Return the reasons why the registry would refuse the entry, in words."""
        faults: list[str] = []
        if not _ID.fullmatch(self.id):
            faults.append(f"the id {self.id} is not a letter and then lowercase letters, digits and hyphens: --id ID")
        if not self._version:
            faults.append("neither pyproject.toml nor the agent has a version")
        elif not _VERSION.fullmatch(self._version):
            faults.append(f"the version {self._version} is not three numbers, as in 1.2.0")
        elif self._info.get("version", self._version) != self._version:
            faults.append(f"pyproject.toml has version {self._version}, the agent says {self._info['version']}")
        if not self._project.description:
            faults.append("pyproject.toml has no description")
        return faults


_SIZE: Final = 16
_COLOURS: Final = ("currentcolor", "none", "inherit")
_PAINT: Final = ("fill", "stroke")
_STYLE: Final = re.compile(r"\b(fill|stroke)\s*:\s*([^;}\s]+)")

DRAWN: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 16 16" fill="none" stroke="currentColor" \
stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round">
  <path d="M2.75 2.75h10.5v8.5H7l-2.75 2.5v-2.5h-1.5z"/>
  <path d="M5 5.25 6.75 7 5 8.75M8.5 8.75H11"/>
</svg>
"""
"""The icon of agents without an icon: a prompt in a speech bubble."""


def icon_faults(svg: str) -> list[str]:
    """Return the reasons why the registry would refuse an icon, in words."""
    try:
        root = ET.fromstring(svg)
    except ET.ParseError as error:
        return [f"the icon is not SVG: {error}"]
    faults: list[str] = []
    box = root.get("viewBox", "").split()
    size = [root.get("width"), root.get("height")]
    size = size if all(size) else box[2:]
    if [str(side).removesuffix("px").removesuffix(".0") for side in size] != [str(_SIZE)] * 2:
        faults.append(f"the icon is not {_SIZE}x{_SIZE}: {'x'.join(map(str, size)) or 'it has no size'}")
    used = [value for element in root.iter() for value in _paints(element)]
    faults += [
        f"the icon has the colour {value}: only currentColor and none follow the editor's theme"
        for value in dict.fromkeys(used)
        if value.lower() not in _COLOURS
    ]
    if "currentcolor" not in [value.lower() for value in used]:
        faults.append("the icon does not use currentColor, so it is black in every theme")
    return faults


def _paints(element: ET.Element) -> list[str]:
    found = [value.strip() for name in _PAINT if (value := element.get(name))]
    style = element.get("style", "") + (element.text or "" if element.tag.endswith("style") else "")
    return found + [value for _, value in _STYLE.findall(style)]
