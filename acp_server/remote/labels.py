"""What a message says about its way: whether it is a request, of which session, and whether it is a cancel.

The transport passes messages on as they are. It reads of them what decides about their stream, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

from acp_server.remote.routing import BEHIND
from acp_server.wire import codec
from acp_server.wire.state_machine import CANCEL_METHOD

Key: TypeAlias = tuple[type, Any]
"""An id of JSON-RPC with its type: 1, 1.0 and "1" are three."""

Kind: TypeAlias = Literal["request", "notification", "answer", "other"]

SESSION_CANCEL: Final = "session/cancel"
TAKES_UP: Final = frozenset({"session/load", "session/resume"})
"""What names a session that the server may not have opened yet."""
ENDS: Final = frozenset({"session/close", "session/delete"})
"""What the stream of a session ends with."""


@dataclass(slots=True, eq=False)
class Labelled:
    """One message. `ids`: of the request that it is, or of those in a batch."""

    line: bytes
    kind: Kind = "other"
    method: str = ""
    session: str | None = None
    """The session that its parameters name."""
    ids: list[Any] = field(default_factory=list[Any])
    cancels: Key | None = None
    """The request that it cancels."""
    opens: str | None = None
    """The session that is named in the result, for an answer."""
    behind: str | None = None
    """The cursor of the session's own stream that it comes behind, for an answer to `session/load`."""
    is_wanted: bool = False
    """Whether the agent waits for it, for an answer of ours."""
    failed: bool = False
    """Whether it is an answer with an error."""

    @property
    def key(self) -> Key | None:
        """Its id, if it has one of its own."""
        return key_of(self.ids[0]) if self.kind in ("request", "answer") else None

    @property
    def is_cancel(self) -> bool:
        """Whether it is a cancel, which never waits."""
        return self.kind == "notification" and self.method in (CANCEL_METHOD, SESSION_CANCEL)


def key_of(id: Any) -> Key:
    """The id as a key; any other value is told by its text."""
    kind = cast("type[Any]", type(id))
    return kind, (id if isinstance(id, int | float | str) or id is None else codec.encode(id))


def labelled(line: bytes) -> Labelled:
    """What `line` says. What is not a message of JSON-RPC is "other": the other side is to refuse it."""
    try:
        value: Any = codec.decode(line)
    except codec.DecodeError:
        return Labelled(line)
    if type(value) is list:
        members = [cast("dict[str, Any]", each) for each in cast("list[Any]", value) if type(each) is dict]
        return Labelled(line, ids=[each["id"] for each in members if "id" in each and "method" in each])
    if type(value) is not dict:
        return Labelled(line)
    message = cast("dict[str, Any]", value)
    if "method" not in message:
        return _answer(line, message)
    params = message.get("params")
    named: dict[str, Any] = cast("dict[str, Any]", params) if type(params) is dict else {}
    session = named.get("sessionId")
    said = Labelled(line, "notification", str(message["method"]), session if type(session) is str else None)
    if "id" in message:
        said.kind = "request"
        said.ids = [message["id"]]
    elif said.method == CANCEL_METHOD and "requestId" in named:
        said.cancels = key_of(named["requestId"])
    return said


def _answer(line: bytes, message: dict[str, Any]) -> Labelled:
    if "id" not in message:
        return Labelled(line)
    result = message.get("result")
    said = Labelled(line, "answer", ids=[message["id"]], failed=message.get("error") is not None)
    if type(result) is dict:
        opened = cast("dict[str, Any]", result)
        said.opens = _text(opened.get("sessionId"))
        meta = opened.get("_meta")
        said.behind = _text(cast("dict[str, Any]", meta).get(BEHIND)) if type(meta) is dict else None
    return said


def _text(value: Any) -> str | None:
    return value if type(value) is str else None


def as_line(text: bytes) -> bytes:
    """A JSON text as one line: whitespace between its values may be line breaks, and those in its strings are
    escaped."""
    return text.replace(b"\n", b" ").replace(b"\r", b" ")


def failure(id: Any, message: str, data: Any = None, code: int = -32603) -> bytes:
    """The answer to a request that could not be delivered, without the end of its line."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return codec.encode({"jsonrpc": "2.0", "id": id, "error": error}).rstrip(b"\n")


def is_resumable(answer: bytes) -> bool:
    """Whether the answer to `initialize` announces streams that go on behind a cursor."""
    result = _member(codec.decode(answer), "result")
    version_1 = _member(result, "agentCapabilities")
    # As the draft has it, and where version 1 has room for it.
    said = [_member(result, "capabilities"), version_1, _member(version_1, "_meta")]
    return any(_member(_member(each, "transport"), "resumable") is not None for each in said)


def _member(value: Any, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
