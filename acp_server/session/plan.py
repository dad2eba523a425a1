"""The blocks of a turn: steps of its plan (ACP, Agent Plan), and compactions of its context. Each step and each
compaction begins and ends with the `async with` block that does the work.

The protocol has no status for a step that was refused, cancelled or failed. Such a step is not done, so its status
becomes `pending` again. The outcome is appended to its text, and is the member `outcome` of the entry's `_meta`. On
version 2 the status is `cancelled`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, cast

from acp_server.errors import SessionClosed, ToolCancelled, ToolRejected, TurnEnded, UsageError
from acp_server.tasks.blocks import Block

if TYPE_CHECKING:
    from types import TracebackType

    from acp_server.schema.updates import PlanEntry, SessionUpdate

Priority = Literal["high", "medium", "low"]
Outcome = Literal["refused", "cancelled", "failed"]

_MOST: Final = 50
"""The most steps of a plan that grows during a turn, because each update sends all of them."""


class _Says(Protocol):
    """A turn that can send updates."""

    @property
    def is_cancelled(self) -> bool:
        """See `Turn.is_cancelled`."""
        ...

    async def update(self, update: SessionUpdate) -> None:
        """See `Turn.update`."""
        ...

    def put(self, update: SessionUpdate) -> None:
        """See `Turn.put`."""
        ...


class Steps:
    """The entries of a turn's last plan."""

    def __init__(self, turn: _Says) -> None:
        self._turn = turn
        self._entries: list[PlanEntry] = []

    async def show(self, entries: Sequence[PlanEntry | str]) -> None:
        """Show the whole plan. A string is a step that has not begun."""
        self._entries = _listed(entries)
        await self._turn.update(self._plan())

    async def begin(self, content: str, priority: Priority | None) -> PlanEntry:
        """Begin the pending step with this text, or a new step at the end."""
        entry = next((each for each in self._entries if each.content == content and each.status == "pending"), None)
        if entry is None:
            entry = _entry(content)
            self._entries.append(entry)
            self._forget()
        if priority is not None:
            entry.priority = priority
        entry.status = "in_progress"
        await self._turn.update(self._plan())
        return entry

    async def done(self, entry: PlanEntry) -> None:
        """Complete a step."""
        entry.status = "completed"
        await self._turn.update(self._plan())

    def stopped(self, entry: PlanEntry, outcome: Outcome) -> None:
        """End a step that was not completed. The method does not wait, because a cancel may have ended the step."""
        entry.status = "pending"
        entry.content = f"{entry.content} ({outcome})"
        entry.meta = {**(entry.meta or {}), "outcome": outcome}
        try:
            self._turn.put(self._plan())
        except TurnEnded:
            pass  # the turn was answered while the handler cleaned up

    def _plan(self) -> SessionUpdate:
        from acp_server.schema.updates import Plan

        return Plan(entries=list(self._entries))

    def _forget(self) -> None:
        """Remove the oldest ended steps of a long plan."""
        for entry in self._entries[: max(0, len(self._entries) - _MOST)]:
            if entry.status != "in_progress":
                self._entries.remove(entry)


class Step(Block):
    """Marks one step as in progress during an `async with` block, and ends the step with the block."""

    def __init__(self, steps: Steps, content: str, priority: Priority | None) -> None:
        self._steps = steps
        self._content = content
        self._priority: Priority | None = priority
        self._entry: PlanEntry | None = None

    def _written(self) -> str:
        """See `Block`."""
        return "async with turn.step(...)"

    async def __aenter__(self) -> Self:
        if self._entry is not None:
            raise UsageError("a step can be used only once: call turn.step(...) again")
        self._entered = True
        self._entry = await self._steps.begin(self._content, self._priority)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._entry is not None
        if error is None:
            await self._steps.done(self._entry)
        else:
            self._steps.stopped(self._entry, _outcome(error))


class Compaction(Block):
    """One compaction of the context in a turn. Its status is `in_progress` during the `async with` block, and
    `completed` at the end of the block. If the block raises, the status is `cancelled` if the turn is being cancelled,
    else `failed`."""

    def __init__(self, turn: _Says) -> None:
        self._turn = turn
        self.id: Final = f"compaction_{os.urandom(12).hex()}"
        """The id of the compaction. Each has a new one."""

    async def summarize(self, text: str) -> None:
        """Send a chunk of the summary that replaces the shortened context. Raises TurnEnded and ConnectionClosed."""
        from acp_server.schema.content import TextContent
        from acp_server.schema.updates import CompactionSummaryChunk

        await self._turn.update(CompactionSummaryChunk(compaction_id=self.id, content=TextContent(text=text)))

    def _written(self) -> str:
        """See `Block`."""
        return "async with turn.compaction() as compaction"

    async def __aenter__(self) -> Compaction:
        self._entered = True
        self._tell("in_progress")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A turn that ended before the block sends no more updates.
        with suppress(TurnEnded, SessionClosed):
            self._tell("completed" if error is None else "cancelled" if self._turn.is_cancelled else "failed")

    def _tell(self, status: Literal["in_progress", "completed", "cancelled", "failed"]) -> None:
        from acp_server.schema.updates import CompactionUpdate

        self._turn.put(CompactionUpdate(compaction_id=self.id, status=status))


def _outcome(error: BaseException) -> Outcome:
    if isinstance(error, ToolRejected):
        return "refused"
    # A cancel, or the end of the generator that the block is in.
    return "cancelled" if isinstance(error, ToolCancelled) or not isinstance(error, Exception) else "failed"


def _listed(entries: Any) -> list[PlanEntry]:
    from acp_server.schema.updates import PlanEntry

    # A model is iterable too, and yields its fields.
    if isinstance(entries, (str, Mapping, PlanEntry)) or not isinstance(entries, Iterable):
        kind = type(cast("object", entries)).__name__
        raise UsageError(f"a plan must be a list of str or PlanEntry, not {kind}")
    return [_entry(each) for each in cast("Iterable[Any]", entries)]


def _entry(step: Any) -> PlanEntry:
    from acp_server.schema.updates import PlanEntry

    if isinstance(step, str):
        return PlanEntry(content=step)
    if isinstance(step, Mapping):
        return PlanEntry(**cast("Mapping[str, Any]", step))
    if not isinstance(step, PlanEntry):
        raise UsageError(f"a plan must be a list of str or PlanEntry, not of {type(step).__name__}")
    return step.model_copy()
