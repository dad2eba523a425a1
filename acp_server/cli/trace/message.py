"""One message of a recording. What it belongs to is found out in `acp_server.cli.trace.conversation`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from acp_server.agent.record import Direction, Entry
from acp_server.errors import REQUEST_CANCELLED
from acp_server.wire import codec

Mark: TypeAlias = Literal["request", "answer", "cancelled", "failed", "cancel", "update", "note", "garbage"]
"""What a message is. `answer`, `cancelled` and `failed` are the three ways in which a request is answered."""


@dataclass(slots=True)
class Message:
    """One message, or a line that does not hold one.

    Attributes:
        t: seconds since the first one. It never falls, even if the clock was set back meanwhile.
        value: the message; empty if there is none.
        text: what was on the wire, a member of a batch by itself.
        title: what it is, in a few words.
        rest: what it says, which may be long.
        owner: the number of the span that it belongs to (see `acp_server.cli.trace.span`).
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
        """The method, or nothing."""
        return str(self.value.get("method", ""))

    def member(self, name: str) -> dict[str, Any]:
        """An object that the message has under this name; an empty one without it."""
        return object_in(self.value, name)


def messages(entries: Iterable[Entry]) -> Iterator[Message]:
    """The messages of a recording, the members of a batch one by one."""
    start: float | None = None
    t = 0.0
    for entry in entries:
        start = entry.t if start is None else start
        t = max(t, entry.t - start)
        if entry.raw is not None:
            yield Message(t, entry.dir, {}, entry.raw, "garbage", "not JSON", entry.raw)
        elif entry.skipped is not None:
            yield Message(t, entry.dir, {}, "", "garbage", f"a line of more than {entry.skipped} bytes")
        else:
            msg: Any = entry.msg
            for value in cast("list[Any]", msg) if isinstance(msg, list) else [msg]:
                yield _message(t, entry.dir, value)


def _message(t: float, direction: Direction, value: Any) -> Message:
    text = json(value)
    if not isinstance(value, dict):
        return Message(t, direction, {}, text, "garbage", "no message", text)
    found = cast("dict[str, Any]", value)
    message = Message(t, direction, found, text, "note", "")
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


def _name_update(message: Message) -> None:
    params = message.member("params")
    if isinstance(params.get("update"), dict):
        rest = dict(object_in(params, "update"))
        message.title = f"session/update {rest.pop('sessionUpdate', 'of no kind')}"
        message.rest = json(rest)


def _is_cancelled(message: Message) -> bool:
    if "error" in message.value:
        return message.member("error").get("code") == REQUEST_CANCELLED
    result = message.member("result")
    return result.get("stopReason") == "cancelled" or object_in(result, "outcome").get("outcome") == "cancelled"


def object_in(value: dict[str, Any], name: str) -> dict[str, Any]:
    """An object in an object; an empty one without it."""
    found = value.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def json(value: Any) -> str:
    """A value as JSON, on one line."""
    return codec.encode(value).decode().rstrip("\n")
