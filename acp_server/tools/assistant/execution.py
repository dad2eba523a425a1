"""One execution of an `AssistantTool`, as the functions of that tool find it where they run."""

from __future__ import annotations

from contextvars import ContextVar
from threading import get_ident
from types import TracebackType

from acp_server.tools.context import OnCancel, ToolContext


class Trial:
    """Stands for the call (`ToolContext`) where a function is only tried: it is never cancelled and does nothing."""

    is_cancelled = False
    on_cancel: OnCancel | None = None


class Execution:
    """One execution, from the call of the function until it has returned; what it left behind may still know it.

    As a context manager it is among `running` as long as the function itself runs, which in a thread may be longer.
    """

    def __init__(self, context: ToolContext | Trial, running: set[Execution]) -> None:
        self.context = context
        self._running = running
        self.ended = False
        self.loop_thread = get_ident()
        """The thread of the event loop that it runs in."""
        self._on_cancel: OnCancel | None = None

    def __enter__(self) -> None:
        self._running.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.discard(self)

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
