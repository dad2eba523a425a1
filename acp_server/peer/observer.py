"""Observers of a connection: `Observer`, the interface for metrics and tracing, and the calls of all observers.

The runtime creates an `Observers` only if there is an observer. Without one, a request, a turn and a tool call cost a
comparison with None each.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from acp_server.tasks.cause import Cause

logger: logging.Logger = logging.getLogger("acp_server.peer")

SpanKind: TypeAlias = Literal["request", "turn", "tool"]
Outcome: TypeAlias = Literal["completed", "failed", "rejected", "cancelled"]

_SLOW: Final = 0.1
"""Seconds that a method of an observer may block the event loop before that is logged."""

T = TypeVar("T")


class Span:
    """One request of the peer, one turn, or one call of a tool.

    Before the end, `outcome`, `cause` and `error` are None, and `seconds` is 0.
    """

    __slots__ = (
        *("began", "cause", "error", "id", "kind", "meta", "name", "outcome", "parent", "seconds"),
        "session_id",
    )

    def __init__(
        self,
        kind: SpanKind,
        name: str,
        id: str | int | float | None,
        *,
        session_id: str | None = None,
        parent: Span | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        self.kind: SpanKind = kind
        self.name: str = name
        """The method of a request, the name of a tool; `prompt` for a turn, `subagent` for that of a child session."""
        self.id: str | int | float | None = id
        """The id of a request as the peer sent it, the id of a turn, the `toolCallId` of a tool call."""
        self.session_id: str | None = session_id
        """The session of a turn or tool call; None for a request."""
        self.parent: Span | None = parent
        """The request of a turn, the turn of a tool call or of a subagent; None for a request. On version 2 the request
        of a turn has ended before the turn begins."""
        self.meta: Mapping[str, Any] = meta or {}
        """The `_meta` of a request (ACP, Extensibility); empty for other kinds."""
        self.began: float = perf_counter()
        """`time.perf_counter()` when a request arrived, or when a turn or the function of a tool began."""
        self.seconds: float = 0.0
        """The time from `began` to the end: to the response of a request, or to the last update of a tool call."""
        self.outcome: Outcome | None = None
        """`cancelled` if there is a `cause`, or the user cancelled the question before a tool call. `rejected` if the
        user did not approve the tool call. `failed` if the handler raised. Else `completed`."""
        self.cause: Cause | None = None
        """The cause of the cancel; None without a cancel."""
        self.error: BaseException | None = None
        """The exception of the handler, or the error of the response; None without one. The span forgets it after
        `Observer.end`, since it keeps the objects of its frames alive."""

    def __repr__(self) -> str:
        return f"<Span {self.kind} {self.name} {self.outcome or 'open'}>"


class Observer:
    """Sees the work of an agent's connections, for metrics, tracing and logs: `Agent(observers=[...])`. Override the
    methods that you need.

    The methods are called in the thread of the event loop and must be quick, since they block it. Neither an exception
    nor a call of more than 0.1 s affects the work. Of each method, the first exception and the first slow call are
    logged.
    """

    __slots__ = ()

    def begin(self, span: Span) -> None:
        """A request, turn or tool call begins.

        It is called in the task and context of the handler, so the handler sees the context variables that are set
        here. Work that ends before its handler begins, such as a rejected tool call, is reported by `begin` and `end`
        one right after the other. Requests that are refused without a handler are not reported: those of unknown
        methods, and those above `Limits.requests`.
        """

    def end(self, span: Span) -> None:
        """The work has ended, and the response to a request is in the buffer. Called once for each `begin`, with the
        same span. After a cancel it may be called in another task, while the handler still cleans up."""

    def received(self, size: int) -> None:
        """`size` bytes were read from the peer."""

    def sent(self, size: int) -> None:
        """`size` bytes were written to the peer."""


class Observers:
    """Calls several observers in order, and their `end` in reverse order. They cannot break the work that they
    observe."""

    __slots__ = ("_all", "_logged", "_open")

    def __init__(self, observers: Iterable[Observer], logged: set[str] | None = None) -> None:
        self._all = tuple(observers)
        self._logged: set[str] = set() if logged is None else logged
        """The methods whose failure or slowness was logged."""
        self._open: set[Span] = set()

    def joined_by(self, observer: Observer) -> Observers:
        """These observers and another one. Both log the failure of a method only once."""
        return Observers((*self._all, observer), self._logged)

    def begin(self, span: Span) -> Span:
        """Report the begin, unless the work has ended meanwhile."""
        if span.outcome is None:
            self._open.add(span)
            if span.kind != "request":
                span.began = perf_counter()
            for observer in self._all:
                self._call(observer.begin, span)
        return span

    def end(self, span: Span, cause: Cause | None, error: BaseException | None, outcome: Outcome | None = None) -> None:
        """Report the end. The first call counts. `outcome`: by default it follows from `cause` and `error`."""
        if span.outcome is not None:
            return
        if span not in self._open:
            self.begin(span)
        self._open.remove(span)
        span.seconds = perf_counter() - span.began
        span.cause, span.error = cause, error
        span.outcome = outcome or ("cancelled" if cause is not None else "completed" if error is None else "failed")
        for observer in reversed(self._all):
            self._call(observer.end, span)
        span.error = None

    def received(self, size: int) -> None:
        """See `Observer`."""
        for observer in self._all:
            self._call(observer.received, size)

    def sent(self, size: int) -> None:
        """See `Observer`."""
        for observer in self._all:
            self._call(observer.sent, size)

    def _call(self, method: Callable[[T], object], argument: T) -> None:
        began = perf_counter()
        try:
            method(argument)
        except Exception:
            if self._is_first(name := f"{_name(method)}"):
                logger.exception("the observer's %s failed; its further failures are not logged", name)
        if (took := perf_counter() - began) > _SLOW and self._is_first(f"slow {_name(method)}"):
            logger.warning(
                "the observer's %s blocked the event loop for %.1f s; further delays are not logged",
                _name(method),
                took,
            )

    def _is_first(self, what: str) -> bool:
        is_first = what not in self._logged
        self._logged.add(what)
        return is_first


def _name(method: Callable[..., object]) -> str:
    return getattr(method, "__qualname__", repr(method))
