"""The observers of a run while it goes on."""

from __future__ import annotations

from typing import Protocol

from .result import CaseResult, Run


class Progress(Protocol):
    """Gets the events of a run as they happen."""

    def begin(self, total: int) -> None:
        """The run begins."""

    def expect(self, seconds: float) -> None:
        """The estimated seconds of the cases, from the start of the subject."""

    def started(self, id: str) -> None:
        """A case begins."""

    def finished(self, result: CaseResult) -> None:
        """A case has ended."""

    def end(self, run: Run) -> None:
        """The run has ended."""
