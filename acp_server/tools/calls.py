"""The tool calls of one turn that have not ended, by the ids that they go by. What becomes of them is in `runner`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acp_server.session.turn import Turn
    from acp_server.tools.runner import Execution


class Calls:
    """Each call has a `toolCallId`, and the id that its caller gave it, which may be the same."""

    def __init__(self) -> None:
        self._shown: dict[str, Execution] = {}
        self._given: dict[str, Execution] = {}

    @classmethod
    def of(cls, turn: Turn) -> Calls:
        """Those of a turn, which has its own from the first one on."""
        if turn.tool_calls is None:
            turn.tool_calls = cls()
        return turn.tool_calls

    def add(self, execution: Execution) -> None:
        """It has begun."""
        self._shown[execution.id] = self._given[execution.given] = execution

    def remove(self, execution: Execution) -> None:
        """It has ended."""
        self._shown.pop(execution.id, None)
        self._given.pop(execution.given, None)

    def shown(self, id: str) -> Execution | None:
        """The call with this `toolCallId`."""
        return self._shown.get(id)

    def find(self, id: str) -> Execution | None:
        """The call with this `toolCallId`, or that its caller calls so."""
        return self._shown.get(id) or self._given.get(id)

    def finish(self) -> None:
        """The turn is about to be answered: tell the client of an end for every call that has none."""
        for execution in self:
            execution.finish()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._shown)

    def __iter__(self) -> Iterator[Execution]:
        """Those of this moment, in the order in which they began."""
        return iter(list(self._shown.values()))
