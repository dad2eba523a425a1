"""One execution of an `AssistantTool`, as the functions of that tool find it where they run."""

from __future__ import annotations

from contextvars import ContextVar

from acp_server.tools.context import OnCancel, ToolContext


class Trial:
    """Stands for the call where a function is only tried: nobody cancels it."""

    is_cancelled = False
    on_cancel: OnCancel | None = None


class Execution:
    """One execution, from the call of the function until it has returned; what it left behind may still know it."""

    def __init__(self, context: ToolContext | Trial) -> None:
        self.context = context
        self.ended = False
        self._on_cancel: OnCancel | None = None

    @property
    def on_cancel(self) -> OnCancel | None:
        """What was set, until it has ended."""
        return None if self.ended else self._on_cancel

    def set_on_cancel(self, function: OnCancel | None, running: ContextVar[Execution | None]) -> None:
        """Have `function` called when this is cancelled; there `running` is this execution, too."""
        self._on_cancel = function

        def ask() -> str | None:
            assert function is not None
            token = running.set(self)
            try:
                return function()
            finally:
                running.reset(token)

        self.context.on_cancel = None if function is None else ask
