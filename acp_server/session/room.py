"""Room for the open sessions of one connection: how many there may be, and how much of what the client named for them
may be kept. Opening a session takes room, closing it leaves room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from acp_server.errors import InvalidRequest
from acp_server.peer.limits import Limits
from acp_server.schema.params import problem
from acp_server.wire import codec

_NAMED = ("cwd", "additionalDirectories", "mcpServers")


class Room:
    """See `Limits.sessions`, `setup` and `setups`."""

    def __init__(self) -> None:
        self._sessions = 0
        self._size = 0

    def take(self, params: dict[str, Any], limits: Limits) -> Callable[[], None]:
        """Room for a session with these parameters: what leaves it again. Raises InvalidRequest if there is none."""
        size = setup_size(params)
        if self._sessions >= limits.sessions:
            raise InvalidRequest("Too many sessions are open", data={"limit": limits.sessions})
        if self._size + size > limits.setups:
            raise InvalidRequest("The open sessions name too much", data={"limit": limits.setups})
        self._sessions += 1
        self._size += size

        def leave() -> None:
            self._sessions -= 1
            self._size -= size

        return leave


def setup_size(params: dict[str, Any]) -> int:
    """Bytes of what the client names for a session: its directories and MCP servers."""
    return len(codec.encode([params.get(name) for name in _NAMED]))


def check_setup(params: dict[str, Any], limits: Limits) -> None:
    """Raises InvalidParams if the client names too much for one session."""
    if setup_size(params) > limits.setup:
        raise problem("", f"the directories and MCP servers take more than {limits.setup} bytes")
