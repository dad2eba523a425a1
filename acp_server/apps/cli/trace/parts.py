"""The parts of a recording: messages, spans, which have a beginning and an end, and the cancels that cut spans.

`acp_server.apps.cli.trace.conversation` relates them to each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from acp_server.agent.record import Direction, Entry
from acp_server.errors import REQUEST_CANCELLED
from acp_server.wire import codec

Mark: TypeAlias = Literal["request", "answer", "cancelled", "failed", "cancel", "update", "note", "garbage"]
"""The kind of a message. `answer`, `cancelled` and `failed` are the three ways in which a request is answered."""


@dataclass(slots=True)
class TracedMessage:
    """One message, or a line that is not a message.

    Attributes: t: seconds since the first message. It never falls, even if the clock was set back. value: the message;
    empty if the line is not one. text: the text on the wire; of a batch, this member. title: a few words about it.
    rest: its content, which may be long. owner: the number of its span.
    """

    t: float
    dir: Direction
    value: dict[str, Any]
    text: str
    mark: Mark
    title: str
    rest: str = ""
    owner: int = 0

    @property
    def id(self) -> str | None:
        """The id as JSON, so that 1 and "1" are two; None without one."""
        return json(self.value["id"]) if "id" in self.value else None

    @property
    def method(self) -> str:
        """The method, or an empty string."""
        return str(self.value.get("method", ""))

    def member(self, name: str) -> dict[str, Any]:
        """The member `name` if it is an object, and otherwise an empty object."""
        return object_in(self.value, name)


def messages(entries: Iterable[Entry]) -> Iterator[TracedMessage]:
    """The messages of a recording, the members of a batch one by one."""
    start: float | None = None
    t = 0.0
    for entry in entries:
        start = entry.t if start is None else start
        t = max(t, entry.t - start)
        if entry.raw is not None:
            yield TracedMessage(t, entry.dir, {}, entry.raw, "garbage", "not JSON", entry.raw)
        elif entry.skipped is not None:
            yield TracedMessage(t, entry.dir, {}, "", "garbage", f"a line of more than {entry.skipped} bytes")
        else:
            msg: Any = entry.msg
            for value in cast("list[Any]", msg) if isinstance(msg, list) else [msg]:
                yield _message(t, entry.dir, value)


def _message(t: float, direction: Direction, value: Any) -> TracedMessage:
    text = json(value)
    if not isinstance(value, dict):
        return TracedMessage(t, direction, {}, text, "garbage", "no message", text)
    found = cast("dict[str, Any]", value)
    message = TracedMessage(t, direction, found, text, "note", "")
    if "method" in found:
        params = found.get("params")
        message.title, message.rest = message.method, "" if params is None else json(params)
        if "id" in found:
            message.mark, message.title = "request", f"#{message.id} {message.method}"
        elif message.method in ("$/cancel_request", "session/cancel"):
            message.mark = "cancel"
        elif message.method == "session/update":
            message.mark = "update"
            _name_update(message)
    elif "result" in found or "error" in found:
        failed = "error" in found
        message.mark = "cancelled" if _is_cancelled(message) else "failed" if failed else "answer"
        message.title, message.rest = f"#{message.id}", json(found["error" if failed else "result"])
    else:
        message.mark, message.title, message.rest = "garbage", "no message", text
    return message


def _name_update(message: TracedMessage) -> None:
    params = message.member("params")
    if isinstance(params.get("update"), dict):
        rest = dict(object_in(params, "update"))
        message.title = f"session/update {rest.pop('sessionUpdate', 'of no kind')}"
        message.rest = json(rest)


def _is_cancelled(message: TracedMessage) -> bool:
    if "error" in message.value:
        return message.member("error").get("code") == REQUEST_CANCELLED
    result = message.member("result")
    return result.get("stopReason") == "cancelled" or object_in(result, "outcome").get("outcome") == "cancelled"


def object_in(value: dict[str, Any], name: str) -> dict[str, Any]:
    """The member `name` if it is an object, and otherwise an empty object."""
    found = value.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def json(value: Any) -> str:
    """A value as JSON, on one line."""
    return codec.encode(value).decode().rstrip("\n")


Kind: TypeAlias = Literal["connection", "session", "turn", "tool", "request"]
State: TypeAlias = Literal["open", "done", "failed", "cancelled"]


@dataclass(slots=True, eq=False)
class Span:
    """A connection, a session, a turn, a tool call or a request, with the spans nested in it.

    Attributes: number: its position, from the top down, set by `numbered`. dir: the direction of a request; None for
    other spans. begin, end: seconds since the beginning of the recording. `end` is None if the span has not ended.
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
        """Nest it in another span."""
        if self.parent is not None:
            del self.parent.children[self]
        self.parent = parent
        parent.children[self] = None

    def finish(self, t: float, state: State) -> None:
        """Record its end."""
        self.end, self.state = t, state

    def below(self) -> Iterator[Span]:
        """This span and all spans nested in it, from the top down."""
        left: list[Span] = [self]
        while left:
            span = left.pop()
            yield span
            left.extend(reversed(span.children))

    def above(self, kind: Kind) -> Span | None:
        """The innermost span of this kind that contains it, or the span itself."""
        span: Span | None = self
        while span is not None and span.kind != kind:
            span = span.parent
        return span


@dataclass(slots=True, eq=False)
class Cut:
    """A cancel that reached an open span.

    Attributes: t: seconds since the beginning. message: the number of the message, counted from 0. how: its method.
    target: the turn or request that it names. reached: the target and the open spans below it. because: the cut that
    caused this one, such as the cancel of the turn for a request that is withdrawn.
    """

    t: float
    message: int
    how: str
    target: Span
    reached: list[Span]
    because: Cut | None

    @property
    def seconds(self) -> float | None:
        """Seconds until the target was answered; None if it was not."""
        return None if self.target.end is None else self.target.end - self.t


def numbered(root: Span) -> list[Span]:
    """All spans from the top down, siblings in the order in which they began. Each gets its number."""
    for span in list(root.below()):
        span.children = dict.fromkeys(sorted(span.children, key=lambda child: child.begin))
    spans = list(root.below())
    for number, span in enumerate(spans):
        span.number = number
    return spans
