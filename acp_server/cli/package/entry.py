"""An entry of the ACP registry, and what the registry would refuse about it (FORMAT.md of the registry)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from acp_server.cli.package.project import Project

_ID: Final = re.compile(r"[a-z][a-z0-9-]*")
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+")


class Entry:
    """One agent's entry: started by uvx, in the version that it says it is."""

    def __init__(self, project: Project, info: Mapping[str, Any], id: str | None = None) -> None:
        """`info`: what the agent says of itself (`agentInfo` of `initialize`). `id`: if not the project's name."""
        self.id: Final = id or re.sub(r"[-_.]+", "-", project.name).lower()
        self._project = project
        self._info = {key: value for key in ("name", "title", "version") if isinstance(value := info.get(key), str)}
        self._version = project.version or self._info.get("version", "")

    @property
    def uvx(self) -> str:
        """How the registry starts it."""
        pinned = f"{self._project.name}=={self._version}"
        if self._project.script == self._project.name:
            return f"uvx {pinned}"
        return f"uvx --from {pinned} {self._project.script}"

    def content(self) -> dict[str, Any]:
        """What agent.json has."""
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
        """What the registry would refuse, in words."""
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
