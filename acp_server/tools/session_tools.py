"""The tools of one session, which come from its agent or were added to the session, and the tool calls of its turns
(`Calls`).

`SessionTools` lists the tools for a model, and finds a tool by its name. `acp_server.tools.runner` runs a call.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import anyio.lowlevel

from acp_server.errors import UsageError
from acp_server.safe_text import one_line
from acp_server.session.turn import Turn, live_of
from acp_server.store.records import ToolResult
from acp_server.tasks.cause import Cause
from acp_server.tasks.threads import Threads
from acp_server.tools.parameters import name_of
from acp_server.tools.tool import Tool, made_tool

if TYPE_CHECKING:
    from acp_server.session.definition import CallView
    from acp_server.session.session import Session
    from acp_server.session.updates import LiveTurn
    from acp_server.tools.runner import Execution
    from acp_server.tools.tool import Toolbox

_LONGEST_NAME: Final = 200
"""The most characters that are shown of an unknown tool's name."""

_MOST_IDS: Final = 10_000
"""The most ids of tool calls that a session remembers, so that two calls do not share an id."""


class Calls(dict[str, "Execution"]):
    """The running tool calls of a turn, in the order of their start. A call has two keys, which may be equal: its
    `toolCallId` and the id that its caller gave. No two running calls share a key."""

    def add(self, execution: Execution) -> None:
        """Add a call that begins."""
        self[execution.call.id] = self[execution.call.given] = execution

    def remove(self, execution: Execution) -> None:
        """Remove a call that has ended."""
        self.pop(execution.call.id, None)
        self.pop(execution.call.given, None)

    def by_tool_call_id(self, id: str) -> Execution | None:
        """Return the call with this `toolCallId`, or None."""
        execution = self.get(id)
        return execution if execution is not None and execution.call.id == id else None

    def each(self) -> list[Execution]:
        """Return the running calls, each once."""
        return list({id(each): each for each in self.values()}.values())

    def finish(self) -> None:
        """Send a final status for every running call, before the response to the prompt."""
        for execution in self.each():
            execution.finish()


class SessionTools:
    """The tools of one session, see `acp_server.session.definition.ToolHost`. Iterating yields the tools that can run
    in it."""

    def __init__(self, agents: Toolbox, session: Session) -> None:
        self._agents = agents
        self._session = session
        self._threads = Threads.current()
        self._own: dict[str, Tool[Any]] = {}
        self._used: OrderedDict[str, None] = OrderedDict()
        """The ids of earlier calls, the most recently used at the end."""

    def add(self, tool: Any, /, *, input_schema: dict[str, Any] | None = None, **options: Any) -> Tool[Any]:
        """See `ToolHost.add`."""
        if input_schema is not None:
            from acp_server.tools.json_schema import SchemaParameters

            options["parameters"] = SchemaParameters(tool, input_schema)
        if isinstance(tool, Tool):
            if options:
                raise UsageError(f"{tool.name} is already a tool, so it cannot get other options")
            made = cast("Tool[Any]", tool)
        else:
            made = made_tool(tool, options)
        if made.name in self:
            raise UsageError(f"there are two tools named {made.name}")
        self._own[made.name] = made
        if made.approval and made.auto_approve and self._session.settings.offer_auto_approve():
            self._tell_options()
        return made

    def _tell_options(self) -> None:
        session = self._session
        # While the session is opened, the response has the options. A plain function may add a tool from its thread.
        if session.call is None:
            self._threads.soon(lambda: session.client.connection.background(self._send_options))

    async def _send_options(self) -> None:
        from acp_server.schema.updates import ConfigOptionUpdate

        await self._session.update(ConfigOptionUpdate(config_options=self._session.settings.shown()))

    def remove(self, name: str) -> None:
        """See `ToolHost.remove`."""
        del self._own[name]

    def __contains__(self, name: object) -> bool:
        """See `ToolHost.__contains__`."""
        return name in self._own or name in self._agents

    def __iter__(self) -> Iterator[Tool[Any]]:
        """Yield the tools that can run in the session, the agent's tools first."""
        return (tool for tool in (*self._agents, *self._own.values()) if tool.runs_in(self._session))

    def describe(self) -> list[dict[str, Any]]:
        """See `ToolHost.describe`."""
        return [tool.describe() for tool in self]

    # -- the calls of its turns

    async def run(self, turn: Turn, tool: Any, arguments: Mapping[str, Any], id: str | None) -> ToolResult:
        """See `Turn.run_tool`."""
        # Not at the top: they import the types of the protocol, which would delay the start of a session.
        from acp_server.tools.permission import SessionApprovals
        from acp_server.tools.runner import Execution

        if not isinstance(tool, (Tool, str)):
            if callable(tool):
                raise UsageError(f"{name_of(tool)} is not a tool of this agent; register it with @agent.tool")
            raise UsageError(f"call a tool by its name or its function, not by a {type(tool).__name__}")
        if id is not None and not isinstance(id, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"the id of a tool call must be a string, not {type(id).__name__}")
        live = live_of(turn)
        if live.record.ended_at is not None:
            await live.refuse()
        # The updates of a call's begin and end are sent without waiting, so the wait for the client is here.
        if self._session.updates.flooded:
            await live.room()
        if live.tool_calls is None:
            live.tool_calls = Calls()
        if id is not None and id in live.tool_calls:
            raise UsageError(f"a tool call with the id {id!r} is already running")
        if live.node.cause is not None:
            # No call begins in a cancelled turn.
            result = ToolResult(_new_id() if id is None else id, _name(tool), "cancelled", None)
            live.tool_ended(result)
            await anyio.lowlevel.checkpoint()
            return result
        tool_call_id = _new_id() if id is None else self.tool_call_id(id)
        given = tool_call_id if id is None else id
        found: Tool[Any] | None = (
            cast("Tool[Any]", tool) if isinstance(tool, Tool) else self._own.get(tool) or self._agents.get(tool)
        )
        if found is None:
            return self._unknown(live, _name(tool), arguments, tool_call_id, given)
        return await Execution(
            live, found, arguments, tool_call_id, given, self._agents.approvals or SessionApprovals()
        ).run()

    def cancel(self, turn: Turn, id: str) -> bool:
        """See `Turn.cancel_tool`."""
        calls: Calls | None = live_of(turn).tool_calls
        execution = None if calls is None else calls.get(id)
        return execution is not None and execution.cancel(Cause.USER)

    def is_running(self, turn: Turn, id: str) -> bool:
        """See `ToolHost.is_running`."""
        calls: Calls | None = live_of(turn).tool_calls
        return calls is not None and calls.by_tool_call_id(id) is not None

    def cancel_from_client(self, turn: Turn, id: str) -> bool:
        """See `ToolHost.cancel_from_client`."""
        calls: Calls | None = live_of(turn).tool_calls
        execution = None if calls is None else calls.by_tool_call_id(id)
        return execution is not None and (execution.cancel(Cause.USER) or execution.node.cause is not None)

    def tool_call_id(self, id: str | None) -> str:
        """Return the `toolCallId` of a new call: the caller's `id`, or a new id if `id` is None or an earlier call had
        it. Models number the calls of each turn from 0, but for the client the earlier call with that id has already
        ended."""
        if id is None:
            return _new_id()
        if id in self._used:
            self._used.move_to_end(id)
            return _new_id()
        self._used[id] = None
        if len(self._used) > _MOST_IDS:
            self._used.popitem(last=False)
        return id

    def view(self, turn: Any, id: str) -> CallView:
        """See `ToolHost.view`."""
        from acp_server.tools.view import View

        return View(live_of(turn) if isinstance(turn, Turn) else turn, id)

    def _unknown(self, turn: LiveTurn, name: str, arguments: Mapping[str, Any], id: str, given: str) -> ToolResult:
        from acp_server.tools.output import snapshot

        known = ", ".join(tool.name for tool in self) or "none"
        # The name comes from the model, and may have any length and characters.
        name = one_line(name, _LONGEST_NAME, exact=True)
        words = f"There is no tool named {name!r}. There are: {known}."
        view = self.view(turn.face, id)
        view.begin(name, "other", name, snapshot(arguments))
        view.end("failed", last=words)
        result = ToolResult(given, name, "failed", words)
        turn.tool_ended(result)
        return result


def _new_id() -> str:
    return f"call_{os.urandom(8).hex()}"


def _name(tool: Any) -> str:
    return cast("Tool[Any]", tool).name if isinstance(tool, Tool) else str(tool)
