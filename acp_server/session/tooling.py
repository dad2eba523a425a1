"""What a session knows of tools: what comes of a call, and who carries it out.

It runs nothing: `acp_server.tools` does, which the protocol's side does not import.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from acp_server.session.turn import Turn


@dataclass(frozen=True, slots=True, eq=False)
class ToolResult:
    """What came of one tool call."""

    id: str
    """What its caller calls it, the model's id; the `toolCallId`, if it was given none."""
    name: str
    """The tool's name, as it was asked for."""
    status: Literal["completed", "failed", "rejected", "cancelled"]
    """`rejected`: it needed the user's approval and did not get it, so it was not run. `cancelled`: it, or what it was
    part of, was cancelled before it was through."""
    message: str | None
    """What to tell the model: the value as text, what went wrong, or what the tool has to say about its cancel; None if
    there is nothing to tell."""
    value: Any = None
    """What the function returned, of a completed one."""
    error: BaseException | None = None
    """What the function raised, of a failed one. Its text may be fit for a model; clients do not get to see it."""

    @property
    def ok(self) -> bool:
        """Whether it ran to its end."""
        return self.status == "completed"


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
