"""Labels a client's messages with their kind, session and ids. These decide which stream carries a message.

The transport forwards messages unchanged and reads no other members of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

from acp_server.remote.routing import BEHIND
from acp_server.wire import codec
from acp_server.wire.state_machine import CANCEL_METHOD

Key: TypeAlias = tuple[type, Any]
"""A JSON-RPC id with its type: 1, 1.0 and "1" are three keys."""

Kind: TypeAlias = Literal["request", "notification", "answer", "other"]

SESSION_CANCEL: Final = "session/cancel"
TAKES_UP: Final = frozenset({"session/load", "session/resume"})
"""Methods that name a session which the server may not have opened yet."""
ENDS: Final = frozenset({"session/close", "session/delete"})
"""Methods whose response ends the stream of their session."""


@dataclass(slots=True, eq=False)
class Labelled:
    """One message. `ids`: the id of a request or a response, or the ids of the requests in a batch."""

    line: bytes
    kind: Kind = "other"
    method: str = ""
    session: str | None = None
    """The session that the parameters name. For an answer of the program, the session of the request that it
    answers."""
    ids: list[Any] = field(default_factory=list[Any])
    cancels: Key | None = None
    """For `$/cancel_request`, the request that it cancels."""
    opens: str | None = None
    """For an answer, the session that its result names."""
    behind: str | None = None
    """For an answer to `session/load` or `session/resume`, the cursor of the event on the session's stream that the
    answer follows."""
    is_wanted: bool = False
    """For an answer to the agent, whether the agent's request is still in flight."""
    failed: bool = False
    """For an answer, whether it is an error."""

    @property
    def key(self) -> Key | None:
        """Return the id of a request or an answer; None for other messages."""
        return key_of(self.ids[0]) if self.kind in ("request", "answer") else None

    @property
    def is_cancel(self) -> bool:
        """Whether the message is a cancel, which overtakes other messages."""
        return self.kind == "notification" and self.method in (CANCEL_METHOD, SESSION_CANCEL)


def key_of(id: Any) -> Key:
    """Return the key of an id. An id of another type, which JSON-RPC forbids, is replaced by its JSON text."""
    kind = cast("type[Any]", type(id))
    return kind, (id if isinstance(id, int | float | str) or id is None else codec.encode(id))


def labelled(line: bytes) -> Labelled:
    """Label `line`. A batch, or text that is not a JSON-RPC message, is "other"; the peer refuses it."""
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
    """Return a JSON text as one line. A line break in it is whitespace between values, because line breaks within a
    string are escaped."""
    return text.replace(b"\n", b" ").replace(b"\r", b" ")


def failure(id: Any, message: str, data: Any = None, code: int = -32603) -> bytes:
    """Return the error response to the request `id`, without a line end. By default it is an internal error
    (-32603)."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return codec.encode({"jsonrpc": "2.0", "id": id, "error": error}).rstrip(b"\n")


def is_resumable(answer: bytes) -> bool:
    """Whether the response to `initialize` announces streams that can be resumed after a cursor."""
    result = _member(codec.decode(answer), "result")
    version_1 = _member(result, "agentCapabilities")
    # The draft has it in `capabilities`. Version 1 has `agentCapabilities`, with `_meta` for extensions.
    said = [_member(result, "capabilities"), version_1, _member(version_1, "_meta")]
    return any(_member(_member(each, "transport"), "resumable") is not None for each in said)


def _member(value: Any, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
