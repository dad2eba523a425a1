"""Child sessions as they are stored in the turn of their parent: key, conversation and end.

A store has no entry for a child. The child's key is unique only within its parent. A copy of the parent has another id,
so its children have other ids too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from acp_server.store.transcript import is_text
from acp_server.wire import codec

if TYPE_CHECKING:
    from acp_server.store.records import TurnRecord

CHILD: Final = "_acp_server/subagent"
"""The `sessionUpdate` of a stored child session. It is not an update of the protocol; see `note`."""

_SHOWN: Final = ("tool_call", "tool_call_update", "_acp_server/terminal")
"""The events of a child that are shown to a client without child sessions, in addition to the child's text."""


def note(child: TurnRecord, about: dict[str, Any]) -> list[bytes]:
    """Return the stored form of a child, as chunks of JSON. `about`: its `key`, its title and the other members of its
    announcement."""
    error = child.last_error
    how = {"id": child.id, "status": child.status, "stopReason": child.stop_reason}
    told = {} if error is None else {"error": {"code": error.code, "message": error.message}}
    head = codec.encode({"sessionUpdate": CHILD, **about, **how, **told})
    contents = child.pieces
    return [head[:-2], b',"contents":', *([contents] if isinstance(contents, bytes) else contents), b"}"]


def state_of(child: TurnRecord) -> dict[str, Any] | None:
    """Return the state of a child that has ended (ACP, Subagents); None if it has not ended."""
    if child.status == "failed":
        error = child.last_error
        told = {} if error is None else {"error": {"code": error.code, "message": error.message}}
        return {"state": "idle", "stopReason": "error", **told}
    return {"state": "idle", "stopReason": child.stop_reason} if child.status in ("completed", "canceled") else None


def message(id: str, sender: str, recipient: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the event of a child's conversation that holds the task from its parent."""
    between = {"senderSessionId": sender, "recipientSessionId": recipient}
    return {"sessionUpdate": "session_message", "messageId": id, **between, "content": content}


def folded(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the events of a turn with each child as a tool call, followed by the child's own tool calls."""
    for event in events:
        if event.get("sessionUpdate") == CHILD:
            yield _call(event)
            for its in folded(event["contents"][1]):
                if its.get("sessionUpdate") in _SHOWN:
                    yield its
        else:
            yield event


def _call(child: dict[str, Any]) -> dict[str, Any]:
    said = [event["content"] for event in child["contents"][1] if event.get("sessionUpdate") == "agent_message_chunk"]
    text = "".join(block["text"] for block in said if is_text(block))
    if "error" in child:
        text += ("\n" if text and not text.endswith("\n") else "") + f"[failed: {child['error']['message']}]"
    call = {
        "sessionUpdate": "tool_call",
        "toolCallId": child["key"],
        "title": child["title"],
        "kind": "other",
        "name": "subagent",
        "status": "completed" if child["status"] == "completed" else "failed",
    }
    task = "\n".join(block["text"] for block in child["contents"][0] if is_text(block))
    if task:
        call["rawInput"] = {"task": task}
    if child["status"] == "canceled":
        call["_meta"] = {"outcome": "cancelled"}
    shown = [block for block in said if not is_text(block)] + ([{"type": "text", "text": text}] if text else [])
    if shown:
        call["content"] = [{"type": "content", "content": block} for block in shown]
    return call
