"""The tools of a session, as a model that pydantic-ai drives is offered them (extra `pydantic-ai`).

They run as `Turn.run_tool` runs them, and so show themselves, ask for approval and end with the turn.
"""

from __future__ import annotations

import base64
from importlib import import_module
from typing import Any, Final, cast

from acp_server.integrations.messages import cut
from acp_server.session.turn import Turn
from acp_server.store.records import ToolResult


class SessionToolset:
    """Those that can run in the session of a turn."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._library = import_module("pydantic_ai")
        self._toolsets = import_module("pydantic_ai.toolsets")
        self.names: set[str] = set()
        """Of all that were offered."""
        self.toolset: Final = self._toolsets.DynamicToolset(self._now)
        """What pydantic-ai takes. It is found anew for each request to the model."""

    def _now(self, _context: Any) -> Any:
        described = self._turn.session.tools.describe()
        self.names.update(tool["name"] for tool in described)
        return self._toolsets.FunctionToolset([self._tool(**tool) for tool in described])

    def _tool(self, name: str, description: str, input_schema: dict[str, Any]) -> Any:
        async def run(context: Any, /, **arguments: Any) -> Any:
            result = await self._turn.run_tool(name, arguments, id=context.tool_call_id)
            if result.status == "failed":
                raise self._library.ToolFailed(cut(result.message or "It failed."))
            return _told(result, self._library)

        return self._library.Tool.from_schema(run, name, description, input_schema, takes_ctx=True)


def _told(result: ToolResult, library: Any) -> Any:
    if result.message is not None:
        return cut(result.message)
    if result.status != "completed":
        return "It was cancelled."
    value: Any = result.value
    shown = cast("list[Any]", value if isinstance(value, (list, tuple)) else [value])
    pieces = [_piece(piece, library) for piece in shown]
    return pieces if any(pieces) else "It is done."


def _piece(piece: Any, library: Any) -> Any:
    """Content that a tool has shown, as models take it; "" for what they do not."""
    if isinstance(piece, str):
        return cut(piece)
    kind = getattr(piece, "type", "")
    if kind in ("image", "audio"):
        return library.BinaryContent(data=base64.b64decode(piece.data), media_type=piece.mime_type)
    return cut(piece.text) if kind == "text" else ""
