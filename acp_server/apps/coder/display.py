"""Shows a local command as a terminal that the client only draws (`Display`), by a convention of editors in `_meta`.

`terminal_output` has the whole output, and `terminal_output_delta` the new part. A client announces which of them it
supports.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from acp_server import ConnectionClosed, SessionClosed, TurnEnded

if TYPE_CHECKING:
    from acp_server import ToolContext

_WHOLE: Final = "terminal_output"
_DELTA: Final = "terminal_output_delta"


class Display:
    """The display of one call. Its id is the call's id."""

    def __init__(self, call: ToolContext, *, is_live: bool) -> None:
        self._call = call
        self._is_live = is_live

    @classmethod
    def of(cls, call: ToolContext) -> Display | None:
        """Return the display of a call; None for a client that does not support the convention."""
        takes = call.client.capabilities.meta or {}
        is_live = takes.get(_DELTA) is True
        return cls(call, is_live=is_live) if is_live or takes.get(_WHOLE) is True else None

    def begin(self) -> None:
        """Report that the command runs."""
        from acp_server.schema import Terminal

        shown = Terminal(terminal_id=self._call.id)
        self._call.progress(shown)
        self._tell({"terminal_info": self._terminal()}, content=[shown], status="in_progress")

    def feed(self, text: str) -> None:
        """Report new output of the command."""
        if text and self._is_live and not self._call.is_cancelled:
            self._tell({_DELTA: self._terminal(data=text)})

    def end(self, text: str, code: int | None, signal: str | None) -> None:
        """Report that the command has ended. `text`: its output, as far as it is kept."""
        ended = self._terminal(exit_code=code, signal=signal)
        self._tell({_WHOLE: self._terminal(data=text), "terminal_exit": ended})

    def _terminal(self, **members: Any) -> dict[str, Any]:
        return {"terminal_id": self._call.id, **members}

    def _tell(self, meta: dict[str, Any], **changes: Any) -> None:
        from acp_server.schema import ToolCallProgress

        update = ToolCallProgress(tool_call_id=self._call.id, meta=meta, **changes)
        with suppress(TurnEnded, SessionClosed, ConnectionClosed):
            self._call.turn.put(update)
