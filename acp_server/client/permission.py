"""The permission requests that wait for an answer, and what becomes of them when their turn is cancelled.

It does not decide what the user wants: the program's handler does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from acp_server.client.handlers import AskPermission, PermissionAnswer
from acp_server.peer.context import Call
from acp_server.schema import PermissionOption, RequestPermissionRequest
from acp_server.tasks.cause import Cause

_CANCELLED: Final[dict[str, Any]] = {"outcome": {"outcome": "cancelled"}}


class Permissions:
    """The open questions of one connection, by session. `is_cancelling` tells whether a session's turn is ending."""

    def __init__(self, ask: AskPermission, is_cancelling: Callable[[str], bool]) -> None:
        self._ask = ask
        self._is_cancelling = is_cancelling
        self._open: dict[str, dict[Call, None]] = {}

    async def answer(self, call: Call, request: RequestPermissionRequest) -> Any:
        """Ask the program. Once the turn is being cancelled the answer is `cancelled`, whatever the program says."""
        session_id = request.session_id
        if self._is_cancelling(session_id):
            return _CANCELLED
        self._open.setdefault(session_id, {})[call] = None
        try:
            answer = await self._ask(request)
        finally:
            calls = self._open[session_id]
            del calls[call]
            if not calls:
                del self._open[session_id]
        return _CANCELLED if call.cause is Cause.SESSION else _wire(answer)

    def cancel(self, session_id: str) -> None:
        """The turn of this session is cancelled: dismiss its open questions (ACP, Prompt Turn, Cancellation)."""
        for call in list(self._open.get(session_id, ())):
            call.partial(_CANCELLED)
            call.node.cut(Cause.SESSION)


def _wire(answer: PermissionAnswer) -> Any:
    if answer is None:
        return _CANCELLED
    if isinstance(answer, PermissionOption):
        return {"outcome": {"outcome": "selected", "optionId": answer.option_id}}
    return answer
