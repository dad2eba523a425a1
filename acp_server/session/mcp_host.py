"""What a session knows of its MCP servers. `acp_server.mcp` connects to them, which the protocol's side does not
import."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from acp_server.session.turn import Turn

NeedsApproval: TypeAlias = "bool | Callable[[str, Any], bool]"
"""Whether the user is asked before a tool of an MCP server runs; or a function of the server's name and the tool, an
`mcp.types.Tool`, that says so."""


class McpServerState(Protocol):
    """One MCP server of a session, as far as its author need know."""

    @property
    def name(self) -> str:
        """What the client calls it."""
        ...

    @property
    def state(self) -> Literal["connecting", "connected", "failed"]:
        """How far it is. A server that has failed stays so in this session."""
        ...

    @property
    def problem(self) -> str | None:
        """Why it has failed, in words for the user."""
        ...

    @property
    def instructions(self) -> str:
        """What it says that a model should know of it."""
        ...

    @property
    def tools(self) -> list[str]:
        """The names that its tools have in `Session.tools`."""
        ...


class McpHost(Protocol):
    """The MCP servers of one session (`Session.mcp_servers`). Iterating gives those that were connected to."""

    async def connect(self, *, approval: NeedsApproval | None = None, timeout: float = 30.0) -> None:
        """Connect to all of them, in the background, until the session ends. Their tools become tools of the session
        (`Session.tools`), named by their server and themselves; they come and go as the server lists them.

        `approval`: which of them ask the user before they run, else all that do not say that they only read. What the
        user decides for good is remembered for that tool of that server. `timeout`: seconds in which a server has to
        answer. Raises UsageError, if the extra `mcp` is not installed, or it was called before.
        """
        ...

    async def ready(self, turn: Turn | None = None, *, patience: float = 10.0) -> None:
        """Wait until each of them is connected or has failed, until `patience` seconds after `connect` at the latest.
        In a `turn` the user is shown there which have failed, if the client has no notices."""
        ...

    def __iter__(self) -> Iterator[McpServerState]:
        """See the class."""
        ...

    @property
    def instructions(self) -> str:
        """What a model should know of them: what they say of themselves, and which of them have failed. Empty if there
        is nothing to say."""
        ...
