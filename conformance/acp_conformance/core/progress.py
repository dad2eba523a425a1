"""Who is told of a run while it goes on."""

from __future__ import annotations

from typing import Protocol

from .result import CaseResult, Run


class Progress(Protocol):
    """Is told what happens while it happens."""

    def begin(self, total: int) -> None:
        """The run begins."""

    def expect(self, seconds: float) -> None:
        """The cases will take about so long, as far as the start of the subject tells."""

    def started(self, id: str) -> None:
        """A case begins."""

    def finished(self, result: CaseResult) -> None:
        """A case has ended."""

    def end(self, run: Run) -> None:
        """The run has ended."""
