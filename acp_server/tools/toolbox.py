"""The tools of one agent, by their names. What is added to single sessions is in `acp_server.tools.session_tools`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from acp_server.errors import UsageError
from acp_server.tools.tool import Tool

if TYPE_CHECKING:
    from acp_server.session.hooks import ToolHost
    from acp_server.session.session import Session
    from acp_server.tools.permission import Approvals


class Toolbox:
    """The tools of one agent. Iterating gives them in the order in which they were added."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool[Any]] = {}
        self.approvals: Approvals | None = None
        """Where decisions for all further calls are kept, if not with the session."""

    def add(self, tool: Tool[Any]) -> None:
        """Add a tool. Raises UsageError if there is one of that name."""
        if tool.name in self._tools:
            raise UsageError(f"there are two tools named {tool.name}")
        self._tools[tool.name] = tool

    def __iter__(self) -> Iterator[Tool[Any]]:
        """All of them."""
        return iter(self._tools.values())

    def __len__(self) -> int:
        """How many there are."""
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        """Whether there is a tool of that name."""
        return name in self._tools

    def __getitem__(self, name: str) -> Tool[Any]:
        """The tool of that name. Raises KeyError."""
        return self._tools[name]

    def get(self, name: str) -> Tool[Any] | None:
        """The tool of that name, if there is one."""
        return self._tools.get(name)

    def describe(self, session: Session | None = None) -> list[dict[str, Any]]:
        """What a model is told of them; see `Tool.describe`. With a `session`: of those that can run there, with those
        that were added to it."""
        return [tool.describe() for tool in self] if session is None else session.tools.describe()

    def of(self, session: Session) -> ToolHost:
        """Those of a session of the agent."""
        # Not at the top: it brings in what an agent's start does not wait for.
        from acp_server.tools.session_tools import SessionTools

        return SessionTools(self, session)
