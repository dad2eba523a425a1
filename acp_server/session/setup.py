"""The setup that a client sends for a session: its limits and its validation. Also the imports that a first prompt
needs.

The response to `session/new` usually needs no types of the schema. The imports for the first prompt run after that
response, while the user writes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import anyio.lowlevel

from acp_server.errors import InvalidRequest
from acp_server.peer.limits import Limits
from acp_server.peer.shares import Share
from acp_server.schema.reading import absolute, problem
from acp_server.wire import codec

if TYPE_CHECKING:
    from acp_server.schema.config_options import InitialSessionConfigOption
    from acp_server.schema.session import McpServer, SystemPrompt

_SESSION: Final = 16 * 1024
"""Bytes that an open session takes besides its setup."""
_NAMED = ("cwd", "additionalDirectories", "mcpServers", "systemPrompt", "configOptions")


class Room:
    """Counts the sessions and the sizes of their setups (see `Limits.sessions`, `setup` and `setups`)."""

    def __init__(self) -> None:
        self._sessions = 0
        self._size = 0

    def take(self, params: dict[str, Any], limits: Limits, share: Share | None = None) -> Callable[[], None]:
        """Count a session with these parameters, also in the bound that connections share. Returns a function that
        removes it from the count. Raises InvalidRequest above a limit."""
        size = setup_size(params)
        if self._sessions >= limits.sessions:
            raise InvalidRequest("Too many sessions are open", data={"limit": limits.sessions})
        if self._size + size > limits.setups:
            raise InvalidRequest(
                "The settings of the open sessions exceed their size limit", data={"limit": limits.setups}
            )
        if share is not None and not share.take(size + _SESSION):
            raise InvalidRequest("All connections together have too many sessions open")
        self._sessions += 1
        self._size += size

        def give_back() -> None:
            self._sessions -= 1
            self._size -= size
            if share is not None:
                share.count(-size - _SESSION)

        return give_back


def setup_size(params: dict[str, Any]) -> int:
    """Return the size of a setup in bytes: its directories, MCP servers, instructions and config options."""
    return len(codec.encode([params.get(name) for name in _NAMED]))


def check_size(params: dict[str, Any], limits: Limits) -> None:
    """Raise InvalidParams for a setup that is larger than `Limits.setup`. This is called before the parameters are
    read, because reading a million servers takes seconds."""
    if setup_size(params) > limits.setup:
        raise problem("", f"the directories, MCP servers and system prompt take more than {limits.setup} bytes")


def check_directories(cwd: str, additional: Sequence[str], limits: Limits) -> tuple[str, list[str]]:
    """Return the directories of a setup: `cwd`, and the `additional` ones. Raises InvalidParams for a relative path."""
    cwd = absolute(cwd, "cwd", limits.path)
    return cwd, [
        absolute(path, f"additionalDirectories[{index}]", limits.path) for index, path in enumerate(additional)
    ]


def check_system_prompt(prompt: SystemPrompt | None, takes: str | None) -> None:
    """Raise InvalidParams for client instructions that an agent cannot apply, as the protocol requires (ACP, Client
    System Prompt). `takes`: see `AgentDefinition.system_prompt`."""
    if prompt is None:
        return
    if takes is None:
        raise problem("systemPrompt", "this agent takes no system prompt")
    if prompt.mode not in ("append", "override") or (prompt.mode == "override" and takes != "override"):
        raise problem("systemPrompt.mode", "is not a mode that this agent supports")
    if not prompt.content or any(block.type != "text" for block in prompt.content):
        raise problem("systemPrompt.content", "is not one or more text blocks")


_FOR_PROMPTS: Final = (
    "pydantic",
    "pydantic.main",
    "acp_server.schema.base",
    "acp_server.schema.content",
    "acp_server.session.prompting",
    "acp_server.schema.initialization",
)
"""Modules in the order of their dependencies, so that each import is a small step of at most 30 ms."""


class PlainSetup(NamedTuple):
    """A setup of a session without types of a request. It comes from a plain request, from version 2, or from an
    author."""

    cwd: str
    additional_directories: list[str]
    mcp_servers: list[McpServer]
    system_prompt: SystemPrompt | None = None
    config_options: Sequence[InitialSessionConfigOption] = ()

    def named(self) -> dict[str, Any]:
        """Return the setup as parameters of `session/new`."""
        servers = [server.to_wire() for server in self.mcp_servers]
        named = {"cwd": self.cwd, "additionalDirectories": self.additional_directories, "mcpServers": servers}
        return named if self.system_prompt is None else {**named, "systemPrompt": self.system_prompt.to_wire()}


def plain_setup(params: dict[str, Any]) -> PlainSetup | None:
    """Return the setup from the parameters of `session/new`, if no member needs the schema; None otherwise."""
    cwd, servers, extra = params.get("cwd"), params.get("mcpServers"), params.get("additionalDirectories", [])
    if type(cwd) is not str or type(servers) is not list or servers or type(extra) is not list:
        return None
    if params.get("systemPrompt") is not None or params.get("configOptions") is not None:
        return None
    extra = cast("list[Any]", extra)
    return PlainSetup(cwd, extra, []) if all(type(path) is str for path in extra) else None


def is_ready() -> bool:
    """Whether the modules for prompts are imported."""
    return all(name in sys.modules for name in _FOR_PROMPTS)


async def load_for_prompts() -> None:
    """Import the modules for prompts one by one, and let other tasks run in between."""
    for name in _FOR_PROMPTS:
        import_module(name)
        await anyio.lowlevel.checkpoint()
