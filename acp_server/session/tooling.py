"""What a session knows of tools: who carries out a call.

It runs nothing: `acp_server.tools` does, which the protocol's side does not import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from acp_server.session.turn import Turn
    from acp_server.store.records import ToolResult


class ToolHost(Protocol):
    """The tools of one session, which carries out the tool calls of its turns: `acp_server.tools.session_tools`."""

    def add(self, tool: Any, /, *, input_schema: dict[str, Any] | None = None, **options: Any) -> Any:
        """Offer one more tool in this session: a `Tool`, or a function and the options of a `Tool`.

        `input_schema`: what the tool takes, as a JSON Schema of one object. Then the function is a handler of one
        parameter, named `arguments`, that gets all of them in a dict, checked; and of the running call, if it takes
        that. `name` and `description` have to be said. Returns the `Tool`. Raises UsageError, also for a name that
        there is already.
        """
        ...

    def remove(self, name: str) -> None:
        """Take back a tool that was added to this session. Calls that run go on. Raises KeyError if there is none."""
        ...

    def describe(self) -> list[dict[str, Any]]:
        """What a model is told of those that can run in this session, the agent's own first; see `Tool.describe`."""
        ...

    async def run(self, turn: Turn, tool: Any, arguments: Mapping[str, Any], id: str | None) -> ToolResult:
        """See `Turn.run_tool`."""
        ...

    def cancel(self, turn: Turn, id: str) -> bool:
        """See `Turn.cancel_tool`."""
        ...

    def cancel_shown(self, turn: Turn, id: str) -> bool:
        """The same for the client, which knows a call by its `toolCallId` only."""
        ...
