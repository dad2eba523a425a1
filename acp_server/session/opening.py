"""What opening a first session does with the time that the user takes to write. The answer to `session/new` needs none
of the types of the schema in the usual case, and what the first prompt needs is loaded behind it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import anyio.lowlevel

if TYPE_CHECKING:
    from acp_server.schema.mcp import McpServer

_FOR_PROMPTS: Final = (
    "pydantic",
    "pydantic.main",
    "acp_server.schema.base",
    "acp_server.schema.prompt",
    "acp_server.session.prompting",
    "acp_server.schema.initialization",
)
"""In the order in which they need each other, so that each is a small step: 30 ms at most."""


class PlainSetup(NamedTuple):
    """What a client names for a session that needs no MCP servers."""

    cwd: str
    additional_directories: list[str]
    mcp_servers: list[McpServer]


def plain_setup(params: dict[str, Any]) -> PlainSetup | None:
    """The parameters of `session/new`, if they need no further check of their types; None if they do."""
    cwd, servers, extra = params.get("cwd"), params.get("mcpServers"), params.get("additionalDirectories", [])
    if type(cwd) is not str or type(servers) is not list or servers or type(extra) is not list:
        return None
    extra = cast("list[Any]", extra)
    return PlainSetup(cwd, extra, []) if all(type(path) is str for path in extra) else None


def is_ready() -> bool:
    """Whether all that prompts need is loaded."""
    return all(name in sys.modules for name in _FOR_PROMPTS)


async def load_for_prompts() -> None:
    """Load what prompts need, in steps, between which the rest of the program runs."""
    for name in _FOR_PROMPTS:
        import_module(name)
        await anyio.lowlevel.checkpoint()
