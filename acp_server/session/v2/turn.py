"""A turn whose states are told as they change (ACP v2, prompt lifecycle). Its end is told by the work that it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acp_server.session import turn as v1
from acp_server.session.state import TurnState

if TYPE_CHECKING:
    from acp_server.schema.content import PromptRequest
    from acp_server.session.hosts import TurnHost
    from acp_server.session.v2.session import Session


class Turn(v1.Turn):
    """One prompt on version 2. Its id is that of the user's message."""

    def __init__(self, session: Session, host: TurnHost, request: PromptRequest | None) -> None:
        super().__init__(session, host, request)
        self._updates = self.speech = session.updates.of(self.record)
        self._tell = session.updates.state
        self._asked: list[str | None] = []
        """The tool calls that wait for an answer of the user's; None stands for the handler itself."""
        self.speech.runs = lambda id: session.tools.is_running(self, id)
        self.speech.on_calls = self._look

    def move(self, state: TurnState) -> bool:
        """See `acp_server.session.turn.Turn`."""
        moved = super().move(state)
        if moved and state is TurnState.IN_PROGRESS:
            self._tell("running")
        elif moved and state is TurnState.REQUIRES_ACTION:
            self._tell("requires_action")
        return moved

    def insert(self, content: list[dict[str, Any]], id: str) -> bool:
        """See `acp_server.session.turn.Turn`."""
        inserted = super().insert(content, id)
        if inserted:
            self.speech.user_message(id, content)
        return inserted

    def question_asked(self, tool_call_id: str | None) -> None:
        """See `acp_server.session.turn.Turn`."""
        self._asked.append(tool_call_id)
        self._look()

    def question_over(self, tool_call_id: str | None) -> None:
        """See `acp_server.session.turn.Turn`."""
        self._asked.remove(tool_call_id)
        self._look()

    def _look(self) -> None:
        """The user is needed only while nothing goes on without an answer: no tool call but those that wait for one."""
        if self.node.cause is None and self.state is not TurnState.CREATED:
            is_blocked = bool(self._asked) and self.speech.offered <= {*self._asked}
            self.move(TurnState.REQUIRES_ACTION if is_blocked else TurnState.IN_PROGRESS)
