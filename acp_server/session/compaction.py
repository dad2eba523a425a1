"""What the user sees while an agent shortens its context (ACP, compaction). The shortening is the agent's matter."""

from __future__ import annotations

import os
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal

from acp_server.errors import SessionClosed, TurnEnded

if TYPE_CHECKING:
    from acp_server.session.turn import Turn


class Compaction:
    """One of a turn's. It is `in_progress` in its `async with` block, and is told to have ended when that is left:
    `completed`; `cancelled` with the turn; `failed` if the block raises."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.id: Final = f"compaction_{os.urandom(12).hex()}"
        """New for each."""

    async def summarize(self, text: str) -> None:
        """Show a piece of the summary, which stays of what is shortened. Raises TurnEnded and ConnectionClosed."""
        from acp_server.schema.content import TextContent
        from acp_server.schema.updates import CompactionSummaryChunk

        await self._turn.update(CompactionSummaryChunk(compaction_id=self.id, content=TextContent(text=text)))

    async def __aenter__(self) -> Compaction:
        self._tell("in_progress")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A turn that has ended without it tells nothing any more.
        with suppress(TurnEnded, SessionClosed):
            self._tell("completed" if error is None else "cancelled" if self._turn.is_cancelled else "failed")

    def _tell(self, status: Literal["in_progress", "completed", "cancelled", "failed"]) -> None:
        from acp_server.schema.updates import CompactionUpdate

        self._turn.put(CompactionUpdate(compaction_id=self.id, status=status))
