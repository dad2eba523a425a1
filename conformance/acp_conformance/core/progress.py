"""The interface by which a run reports its progress."""

from __future__ import annotations

from typing import Protocol

from .result import CaseResult, Run


class Progress(Protocol):
    """Gets the events of a run as they happen."""

    def begin(self, total: int) -> None:
        """Report that the run begins. `total`: the number of its cases."""

    def expect(self, seconds: float) -> None:
        """Report the estimated seconds that the cases take from the start of the subject."""

    def started(self, id: str) -> None:
        """Report that a case begins."""

    def finished(self, result: CaseResult) -> None:
        """Report that a case has ended."""

    def end(self, run: Run) -> None:
        """Report that the run has ended."""
