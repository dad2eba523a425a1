"""The parts of a recording: messages, spans (which have a beginning and an end), and the cancels that cut spans.

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
    empty if the line is not a message. text: the text on the wire, which for a message of a batch is only this message.
    title: a few words about the message. rest: its content, which may be long. owner: the number of its span.
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
        """Return the id as JSON, so that 1 and "1" differ; None without an id."""
        return json(self.value["id"]) if "id" in self.value else None

    @property
    def method(self) -> str:
        """Return the method, or an empty string."""
        return str(self.value.get("method", ""))

    def member(self, name: str) -> dict[str, Any]:
        """Return the member `name` if it is an object, and otherwise an empty object."""
        return object_in(self.value, name)


def messages(entries: Iterable[Entry]) -> Iterator[TracedMessage]:
    """Yield the messages of a recording. The messages of a batch come one by one."""
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
    """Return the member `name` if it is an object, and otherwise an empty object."""
    found = value.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def json(value: Any) -> str:
    """Return a value as JSON, on one line."""
    return codec.encode(value).decode().rstrip("\n")


Kind: TypeAlias = Literal["connection", "session", "turn", "tool", "request"]
State: TypeAlias = Literal["open", "done", "failed", "cancelled"]


@dataclass(slots=True, eq=False)
class Span:
    """A connection, a session, a turn, a tool call or a request, with the spans nested in it.

    Attributes: number: its position, from the top down, set by `numbered`. dir: the direction of a request; None for
    other spans. begin: seconds since the beginning of the recording. end: likewise, and None while the span is open.
    method: the method of the request or turn; empty for other spans.
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
        """Whether the span has not ended."""
        return self.end is None

    def move(self, parent: Span) -> None:
        """Nest the span in another span."""
        if self.parent is not None:
            del self.parent.children[self]
        self.parent = parent
        parent.children[self] = None

    def finish(self, t: float, state: State) -> None:
        """Record the end of the span."""
        self.end, self.state = t, state

    def below(self) -> Iterator[Span]:
        """Yield this span and all spans nested in it, from the top down."""
        left: list[Span] = [self]
        while left:
            span = left.pop()
            yield span
            left.extend(reversed(span.children))

    def above(self, kind: Kind) -> Span | None:
        """Return the innermost span of this kind that contains this span, or the span itself if it is of this kind;
        None if there is no such span."""
        span: Span | None = self
        while span is not None and span.kind != kind:
            span = span.parent
        return span


@dataclass(slots=True, eq=False)
class Cut:
    """A cancel that reached an open span.

    Attributes: t: seconds since the beginning. message: the number of the message, counted from 0. how: the method of
    the message. target: the turn or request that the message names. reached: the target and the open spans below it.
    because: the cut that caused this one. For example, the cancel of a turn causes the withdrawal of a request.
    """

    t: float
    message: int
    how: str
    target: Span
    reached: list[Span]
    because: Cut | None

    @property
    def seconds(self) -> float | None:
        """Return the seconds until the target was answered; None if it was not answered."""
        return None if self.target.end is None else self.target.end - self.t


def numbered(root: Span) -> list[Span]:
    """Return all spans from the top down, siblings in the order in which they began. Each gets its number."""
    for span in list(root.below()):
        span.children = dict.fromkeys(sorted(span.children, key=lambda child: child.begin))
    spans = list(root.below())
    for number, span in enumerate(spans):
        span.number = number
    return spans
