"""`session_tools`: the tools of a session, as a graph of LangGraph offers them to its model and runs them."""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import Any, Final

from acp_server.integrations.langgraph_view import View
from acp_server.integrations.messages import cut

running: Final[ContextVar[View | None]] = ContextVar("running", default=None)
"""What is seen of the run that this code belongs to."""


def session_tools() -> list[Any]:
    """The tools of the session (`Session.tools`), those of its MCP servers included, as tools of LangChain.

    They are those of the session whose turn runs, as they are now: call it in a node, once for `bind_tools` and once
    for the `ToolNode`. They run as `Turn.run_tool` runs them, and so ask for approval and end with the turn; they are
    asynchronous. Outside of a turn there are none.
    """
    view = running.get()
    if view is None:
        return []
    described = view.turn.session.tools.describe()
    view.offered.update(tool["name"] for tool in described)
    return [
        _kind()(name=tool["name"], description=tool["description"], args_schema=tool["input_schema"], coroutine=_unused)
        for tool in described
    ]


async def _unused(**_: Any) -> None:
    """What LangChain wants a tool to have; `_invoked` stands in front of it."""


@cache
def _kind() -> Any:
    return type("SessionTool", (import_module("langchain_core.tools").StructuredTool,), {"ainvoke": _invoked})


async def _invoked(self: Any, given: Any, _config: Any = None, **_: Any) -> Any:
    """Run it for a call of a model, which has an id, or for arguments alone."""
    view = running.get()
    if view is None:
        raise RuntimeError(f"{self.name} is a tool of a session, and runs in its turns alone")
    call: dict[str, Any] = given if given.get("type") == "tool_call" else {"args": given, "id": None}
    id: str | None = call["id"]
    result = await view.turn.run_tool(self.name, call["args"], id=id)
    text = cut(result.message or f"It is {result.status}.")
    if id is None:
        return text
    return import_module("langchain_core.messages").ToolMessage(
        text, tool_call_id=id, name=self.name, status="success" if result.ok else "error"
    )
