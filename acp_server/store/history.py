"""Converts a stored turn to the forms that others read: messages for a model, and terminals for a replay.

Messages for a model come without tool calls, or with tool calls in the form of MCP, which belongs to no framework. A
call is a block `{"type": "tool_use", "id", "name", "input"}` in a message of the role assistant. The next message, of
the role user, has its result: a block `{"type": "tool_result", "toolUseId", "content", "isError"}`, where `content` is
a list of blocks.

A terminal does not outlive its turn, so a client that replays a tool call does not know the terminal's id. A client of
version 1, which runs the terminals itself, gets the last output as text. In version 2 the agent sends the output of its
terminals as updates.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

from acp_server.safe_text import SEQUENCE
from acp_server.store.transcript import RESULT, is_text
from acp_server.wire import codec

_UNKNOWN: Final = "This call has no result. Its effects are unknown."


class Message(NamedTuple):
    """One message of a turn, from the user or the assistant, for a model."""

    role: Literal["user", "assistant"]
    content: list[dict[str, Any]]
    """Content blocks in their wire form (ACP, Content)."""

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return "\n".join(block["text"] for block in self.content if block.get("type") == "text")


def messages_of(prompt: list[dict[str, Any]], events: list[dict[str, Any]], found: Sequence[str]) -> list[Message]:
    """Return the messages of a turn without thoughts and tool calls: the user's message, and the agent's if it sent any
    text. There are more messages if the user sent some during the turn. `found`: partial results of tools that were
    cancelled with the turn. They are appended to the last message."""
    messages = [Message("user", prompt)]
    said: list[dict[str, Any]] = []
    before: dict[str, Any] = {}
    for event in events:
        if event.get("sessionUpdate") == "agent_message_chunk":
            block = event["content"]
            if is_text(block) and _goes_on(before, event):
                block = {"type": "text", "text": said.pop()["text"] + block["text"]}
            said.append(block)
        elif event.get("sessionUpdate") == "user_message_chunk":
            if said:
                messages += (Message("assistant", said), Message("user", []))
                said = []
            messages[-1].content.append(event["content"])
        before = event
    said += [{"type": "text", "text": text} for text in found]
    return [*messages, *([Message("assistant", said)] if said else [])]


def messages_with_tools(contents: bytes) -> list[Message]:
    """Return the messages of a turn with these `contents`, including tool calls. Each call has a result, because models
    refuse a history with a call without a result."""
    prompt, events, *_ = codec.decode(contents)
    noted = [event for event in events if event.get("sessionUpdate") == RESULT]
    results = {note.get("call", note["result"]["id"]): note["result"] for note in noted}
    messages = [Message("user", prompt)]
    said: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []

    def through() -> None:
        """Append the collected text and calls as one message, and the results as the next message."""
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
            # A call without a name was shown by the agent's author; no model has requested it.
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


def _answer(event: dict[str, Any], result: dict[str, Any] | None) -> dict[str, Any]:
    if result is not None:
        text, failed = result["message"], result["status"] != "completed"
        text = text if text is not None else f"The call was {result['status']}." if failed else ""
    else:
        failed = event.get("status") != "completed"
        shown: list[dict[str, Any]] = [part.get("content") or {} for part in event.get("content") or ()]
        text = "\n".join(block["text"] for block in shown if is_text(block)) or (_UNKNOWN if failed else "")
    content = [{"type": "text", "text": text}]
    return {"type": "tool_result", "toolUseId": event["toolCallId"], "content": content, "isError": failed}


def _goes_on(before: dict[str, Any], event: dict[str, Any]) -> bool:
    """Whether both events are plain text of the same message."""
    return (
        before.get("sessionUpdate") == "agent_message_chunk"
        and before.get("messageId") == event.get("messageId")
        and is_text(before["content"])
    )


TERMINAL: Final = "_acp_server/terminal"
"""The `sessionUpdate` of a stored terminal in its last state. It is not an update of the protocol; see `note`."""


def note(id: str, about: dict[str, Any], output: str | None, exit_status: dict[str, Any] | None) -> dict[str, Any]:
    """Return the stored form of a terminal. `about`: its `command` and `cwd`. `output`: the last output that the agent
    has read."""
    kept = {"sessionUpdate": TERMINAL, "terminalId": id, **about}
    if output is not None:
        kept["output"] = output
    if exit_status is not None:
        kept["exitStatus"] = exit_status
    return kept


def shown(events: Iterable[dict[str, Any]], *, as_terminals: bool) -> Iterator[dict[str, Any]]:
    """Yield the updates of a turn with its terminals. With `as_terminals` the terminals are terminal updates of version
    2. Otherwise they are text in the tool calls that show the terminals."""
    events = list(events)
    kept = {event["terminalId"]: event for event in events if event.get("sessionUpdate") == TERMINAL}
    for event in events:
        if event.get("sessionUpdate") == TERMINAL:
            if as_terminals:
                yield _update(event)
        elif kept and not as_terminals and "toolCallId" in event and (content := event.get("content")):
            yield {**event, "content": list(_as_text(content, kept))}
        else:
            yield event


def _update(kept: dict[str, Any]) -> dict[str, Any]:
    update = {**kept, "sessionUpdate": "terminal_update"}
    if "output" in kept:
        update["output"] = {"data": b64encode(kept["output"].encode()).decode()}
    # A terminal does not outlive its turn, so its command has ended, also if its exit status is unknown.
    update.setdefault("exitStatus", {})
    return update


def _as_text(content: list[dict[str, Any]], kept: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for piece in content:
        terminal = kept.get(piece.get("terminalId", "")) if piece.get("type") == "terminal" else None
        if terminal is None:
            yield piece
        elif output := SEQUENCE.sub("", terminal.get("output", "")):
            yield {"type": "content", "content": {"type": "text", "text": _fenced(output)}}


def _fenced(text: str) -> str:
    """Return the text as a code block, because clients show text as Markdown."""
    fence = "~" * max(3, 1 + max(map(len, re.findall("~+", text)), default=0))
    return f"{fence}\n{text.rstrip()}\n{fence}"
