"""What becomes of `run` in a program that is only loaded: it is captured, and the loading program serves the agent."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from acp_server.agent.serve import Servable


@dataclass(slots=True)
class CapturedRun:
    """What a program would have had served, and how."""

    agent: Servable | None = None
    """The first agent that it called `run` for, if it did."""
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """`backend`, `limits` and `record`, as far as it named them."""

    def stop(self, agent: Servable, **options: Any) -> NoReturn:
        """Note it, and end the program here: where it serves, nothing that stands behind `run` is executed either."""
        if self.agent is None:
            self.agent = agent
            self.options = {name: value for name, value in options.items() if value is not None}
        raise _Stop(0)

    def is_stop(self, error: BaseException) -> bool:
        """Whether the program was ended by `stop`, whatever it made of that."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, _Stop):
            cause = cause.__context__
        return cause is not None and isinstance(error, SystemExit)


class _Stop(SystemExit):
    pass


_current: ContextVar[CapturedRun | None] = ContextVar("acp_server captured run", default=None)


@contextmanager
def capture_run() -> Generator[CapturedRun]:
    """A block that loads a program."""
    token = _current.set(noted := CapturedRun())
    try:
        yield noted
    finally:
        _current.reset(token)


def current() -> CapturedRun | None:
    """The block that this is executed in."""
    return _current.get()
