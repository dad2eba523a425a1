"""Child sessions as the turn of their parent keeps them: what a child is called, what was said in it, how it ended.

A child has no place of its own in a store. Its name is unique in its parent, so a copy of the parent, which has another
id, has children with ids of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from acp_server.store.transcript import is_text
from acp_server.wire import codec

if TYPE_CHECKING:
    from acp_server.store.records import TurnRecord

CHILD: Final = "_acp_server/subagent"
"""Among what is kept of a turn: a child session. It is not an update; see `note`."""

_SHOWN: Final = ("tool_call", "tool_call_update", "_acp_server/terminal")
"""What is shown of a child by a client that has no child sessions, besides its text."""


def note(child: TurnRecord, about: dict[str, Any]) -> list[bytes]:
    """What is kept of a child, as JSON in pieces. `about`: its `key`, its title and what else it was announced with."""
    error = child.last_error
    how = {"id": child.id, "status": child.status, "stopReason": child.stop_reason}
    told = {} if error is None else {"error": {"code": error.code, "message": error.message}}
    head = codec.encode({"sessionUpdate": CHILD, **about, **how, **told})
    contents = child.pieces
    return [head[:-2], b',"contents":', *([contents] if isinstance(contents, bytes) else contents), b"}"]


def state_of(child: TurnRecord) -> dict[str, Any] | None:
    """The state of a child that has ended (ACP, Subagents); None for any other."""
    if child.status == "failed":
        error = child.last_error
        told = {} if error is None else {"error": {"code": error.code, "message": error.message}}
        return {"state": "idle", "stopReason": "error", **told}
    return {"state": "idle", "stopReason": child.stop_reason} if child.status in ("completed", "canceled") else None


def message(id: str, sender: str, recipient: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    """What a parent gives a child to do, as it stands in the conversation of the child."""
    between = {"senderSessionId": sender, "recipientSessionId": recipient}
    return {"sessionUpdate": "session_message", "messageId": id, **between, "content": content}


def folded(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The events of a turn, each child of it as a tool call, with its own tool calls behind it."""
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
