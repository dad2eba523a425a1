"""The tools of one agent, by their names, and the tool calls of its turns.

What a model is offered comes from here, and what it calls is looked up here. How one call goes is the matter of
`acp_server.tools.runner`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import anyio.lowlevel

from acp_server.errors import UsageError
from acp_server.tasks.cause import Cause
from acp_server.tools.calls import Calls
from acp_server.tools.tool import Tool

if TYPE_CHECKING:
    from acp_server.session.session import Session
    from acp_server.session.tooling import ToolResult
    from acp_server.session.turn import Turn
    from acp_server.tools.approval import Approvals


class Toolbox:
    """The tools of one agent. Iterating gives them in the order in which they were added."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool[Any]] = {}
        self._used: WeakKeyDictionary[Session, set[str]] = WeakKeyDictionary()
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

    def describe(self, session: Session | None = None) -> list[dict[str, Any]]:
        """What a model is told of them; see `Tool.describe`. With a `session`: of those that can run there."""
        return [tool.describe() for tool in self if session is None or tool.runs_in(session)]

    # -- the calls of a turn (see `acp_server.session.tooling.ToolHost`)

    async def run(self, turn: Turn, tool: Any, arguments: Mapping[str, Any], id: str | None) -> ToolResult:
        """See `Turn.run_tool`."""
        # Not at the top: it brings in the types of the protocol, which an agent's start does not wait for.
        from acp_server.session.tooling import ToolResult
        from acp_server.tools.approval import SessionApprovals
        from acp_server.tools.runner import Execution

        if not isinstance(tool, (Tool, str)):
            raise UsageError(f"a tool is called by its name, not by a {type(tool).__name__}")
        if id is not None and not isinstance(id, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"the id of a tool call is text, not {type(id).__name__}")
        if id is not None and Calls.of(turn).find(id) is not None:
            raise UsageError(f"a tool call with the id {id!r} is running")
        if turn.is_cancelled:
            # Nothing begins in a turn that is over.
            result = ToolResult(_new_id() if id is None else id, _name(tool), "cancelled", None)
            turn.tool_ended(result)
            await anyio.lowlevel.checkpoint()
            return result
        shown_id = self._shown_id(turn.session, id)
        given = shown_id if id is None else id
        found = self._tool(tool)
        if found is None:
            return self._unknown(turn, _name(tool), arguments, shown_id, given)
        return await Execution(turn, found, arguments, shown_id, given, self.approvals or SessionApprovals()).run()

    def cancel(self, turn: Turn, id: str) -> bool:
        """See `Turn.cancel_tool`."""
        execution = Calls.of(turn).find(id)
        return execution is not None and execution.cancel(Cause.USER)

    def cancel_shown(self, turn: Turn, id: str) -> bool:
        """The same for the client, which knows a call by its `toolCallId` only. True, too, if it still ends of a cancel
        before that."""
        execution = Calls.of(turn).shown(id)
        return execution is not None and (execution.cancel(Cause.USER) or execution.is_cancelled)

    def _shown_id(self, session: Session, id: str | None) -> str:
        """The `toolCallId`: the caller's `id`, unless an earlier call had it. Models count their calls from 0 again,
        and what the client was shown of the earlier one has its final status."""
        used = self._used.setdefault(session, set())
        if id is None or id in used:
            return _new_id()
        used.add(id)
        return id

    def _tool(self, tool: Any) -> Tool[Any] | None:
        if isinstance(tool, Tool):
            return cast("Tool[Any]", tool)
        return self._tools.get(tool)

    def _unknown(self, turn: Turn, name: str, arguments: Mapping[str, Any], id: str, given: str) -> ToolResult:
        from acp_server.session.tooling import ToolResult
        from acp_server.tools.output import shown
        from acp_server.tools.view import PACE, View

        known = ", ".join(tool.name for tool in self if tool.runs_in(turn.session)) or "none"
        words = f"There is no tool named {name!r}. There are: {known}."
        view = View(turn, id, turn.client.connection.ticker(PACE))
        view.begin(name, "other", name, shown(arguments))
        view.end("failed", last=words)
        result = ToolResult(given, name, "failed", words)
        turn.tool_ended(result)
        return result


def _new_id() -> str:
    return f"call_{os.urandom(8).hex()}"


def _name(tool: Any) -> str:
    return cast("Tool[Any]", tool).name if isinstance(tool, Tool) else str(tool)
