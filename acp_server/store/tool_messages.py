"""What was said in a turn with the tool calls in it, for a model. It has the shapes of MCP, which belong to no
framework.

A call is a block `{"type": "tool_use", "id", "name", "input"}` of the agent's message. What came of it is a block
`{"type": "tool_result", "toolUseId", "content", "isError"}` of a user's message behind that, with `content` blocks.
"""

from __future__ import annotations

from typing import Any, Final

from acp_server.store.records import RESULT, Message, ToolResult, TurnRecord
from acp_server.store.transcript import is_text
from acp_server.wire import codec

_UNKNOWN: Final = "This call has no result. What it has done is not known."


def messages_with_tools(turn: TurnRecord) -> list[Message]:
    """Those of a turn. Each call has a result, for models refuse a history with one that has none."""
    prompt, events, *_ = codec.decode(turn.contents)
    noted = [event for event in events if event.get("sessionUpdate") == RESULT]
    results = {note.get("call", note["result"]["id"]): ToolResult(**note["result"]) for note in noted}
    messages = [Message("user", prompt)]
    said: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []

    def through() -> None:
        """What was said and called by now is one message, and its answers are the next."""
        if said:
            messages.append(Message("assistant", [*said]))
        if answers:
            messages.append(Message("user", [*answers]))
        said.clear()
        answers.clear()

    for event in events:
        kind = event.get("sessionUpdate")
        if kind == "agent_message_chunk":
            if answers:
                through()
            block = event["content"]
            if said and is_text(block) and is_text(said[-1]):
                block = {"type": "text", "text": said.pop()["text"] + block["text"]}
            said.append(block)
        elif kind == "user_message_chunk":
            through()
            if messages[-1].role != "user":
                messages.append(Message("user", []))
            messages[-1].content.append(event["content"])
        elif kind == "tool_call" and event.get("name"):
            # Those without a name were shown by the agent's author, and no model has asked for them.
            id = event["toolCallId"]
            arguments = event.get("rawInput")
            said.append(
                {
                    "type": "tool_use",
                    "id": id,
                    "name": event["name"],
                    "input": arguments if isinstance(arguments, dict) else {},
                }
            )
            answers.append(_answer(event, results.get(id)))
    through()
    return messages


def _answer(event: dict[str, Any], result: ToolResult | None) -> dict[str, Any]:
    if result is not None:
        text, failed = result.message, not result.ok
        text = text if text is not None else "" if result.ok else f"The call was {result.status}."
    else:
        failed = event.get("status") != "completed"
        shown: list[dict[str, Any]] = [part.get("content") or {} for part in event.get("content") or ()]
        text = "\n".join(block["text"] for block in shown if is_text(block)) or (_UNKNOWN if failed else "")
    content = [{"type": "text", "text": text}]
    return {"type": "tool_result", "toolUseId": event["toolCallId"], "content": content, "isError": failed}
