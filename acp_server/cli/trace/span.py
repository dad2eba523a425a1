"""What has a beginning and an end in a conversation, and the cancels that cut it. It finds nothing out by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from acp_server.agent.record import Direction

Kind: TypeAlias = Literal["connection", "session", "turn", "tool", "request"]
State: TypeAlias = Literal["open", "done", "failed", "cancelled"]


@dataclass(slots=True, eq=False)
class Span:
    """A connection, a session, a turn, a tool call or a request, nested as they were.

    Attributes:
        number: its place, from the top down, once `numbered`.
        dir: which way a request goes; None for what is not a request.
        begin, end: seconds since the beginning of the recording. `end` is None as long as nothing has ended it.
        method: of a request or turn.
    """

    kind: Kind
    title: str
    begin: float
    parent: Span | None = None
    dir: Direction | None = None
    method: str = ""
    end: float | None = None
    state: State = "open"
    number: int = 0
    children: dict[Span, None] = field(default_factory=dict["Span", None])
    cuts: list[Cut] = field(default_factory=list["Cut"])

    def __post_init__(self) -> None:
        if self.parent is not None:
            self.parent.children[self] = None

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.end is None

    def move(self, parent: Span) -> None:
        """Hang it below another one."""
        if self.parent is not None:
            del self.parent.children[self]
        self.parent = parent
        parent.children[self] = None

    def finish(self, t: float, state: State) -> None:
        """It has ended."""
        self.end, self.state = t, state

    def below(self) -> Iterator[Span]:
        """Itself and all that is nested in it, from the top down."""
        left: list[Span] = [self]
        while left:
            span = left.pop()
            yield span
            left.extend(reversed(span.children))

    def above(self, kind: Kind) -> Span | None:
        """The one of this kind that it is nested in, or is."""
        span: Span | None = self
        while span is not None and span.kind != kind:
            span = span.parent
        return span


@dataclass(slots=True, eq=False)
class Cut:
    """A cancel that met something.

    Attributes:
        t: when it was sent, in seconds since the beginning.
        message: which message it is, counted from 0.
        how: its method.
        target: the turn or request that it names.
        reached: the target and what was open below it.
        because: the cut that this one follows from, such as the cancel of the turn for a request that is withdrawn.
    """

    t: float
    message: int
    how: str
    target: Span
    reached: list[Span]
    because: Cut | None

    @property
    def seconds(self) -> float | None:
        """How long it took until the target was answered; None if it never was."""
        return None if self.target.end is None else self.target.end - self.t


def numbered(root: Span) -> list[Span]:
    """All spans from the top down, siblings in the order in which they began; each gets its number."""
    for span in list(root.below()):
        span.children = dict.fromkeys(sorted(span.children, key=lambda child: child.begin))
    spans = list(root.below())
    for number, span in enumerate(spans):
        span.number = number
    return spans
