"""What a project's pyproject.toml says of the agent in it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from acp_server.errors import UsageError

_TARGET: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_REPOSITORY: Final = ("repository", "source", "source code", "github", "code")
_WEBSITE: Final = ("homepage", "website", "documentation")


@dataclass(frozen=True, slots=True)
class Project:
    """The parts of the table `project` that the registry wants to know."""

    name: str
    script: str
    """The command that is the agent."""
    target: str
    """What that command calls: `module:attribute`."""
    version: str | None
    """Unless the build finds it out."""
    description: str | None
    repository: str | None
    website: str | None
    authors: list[str]
    license: str | None

    @classmethod
    def read(cls, folder: Path, script: str | None) -> Project:
        """The project in `folder`. `script`: which of its commands is the agent; without it the command that has the
        project's name, or else the only one. Raises UsageError."""
        file = folder / "pyproject.toml"
        try:
            document = tomllib.loads(file.read_text("utf-8"))
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
        raise UsageError(f"{file}: which of {', '.join(scripts)} is the agent? Say --script NAME")
    raise UsageError(f"{file}: project.scripts has no command, so nothing can be started by uvx")


def _table(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _first(urls: dict[str, str | None], names: tuple[str, ...]) -> str | None:
    return next((url for name in names if (url := urls.get(name))), None)
