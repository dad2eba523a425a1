"""What is kept of a turn, in the shapes that others take: messages for a model, and terminals for a replay.

For a model, messages are without tool calls, or with them in the shapes of MCP, which belong to no framework. A call is
a block `{"type": "tool_use", "id", "name", "input"}` of the agent's message. What came of it is a block `{"type":
"tool_result", "toolUseId", "content", "isError"}` of a user's message behind that, with `content` blocks.

A terminal does not outlive its turn: a client that replays a tool call with a terminal's id has no such terminal. To a
client of version 1, whose terminals are its own, the last output is text. In version 2 the agent tells what its
terminals show.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

from acp_server.store.transcript import RESULT, is_text
from acp_server.wire import codec

_UNKNOWN: Final = "This call has no result. What it has done is not known."


class Message(NamedTuple):
    """What one side said in a turn, for a model."""

    role: Literal["user", "assistant"]
    content: list[dict[str, Any]]
    """Content blocks in their wire form (ACP, Content)."""

    @property
    def text(self) -> str:
        """The text blocks, one below the other."""
        return "\n".join(block["text"] for block in self.content if block.get("type") == "text")


def messages_of(prompt: list[dict[str, Any]], events: list[dict[str, Any]], found: Sequence[str]) -> list[Message]:
    """The user's message, and the agent's if it said anything to the user; more of both, if the user said something in
    between. What the agent thought and what its tools did is not in it. `found`: what tools that were cancelled with
    the turn had found by then, which is a part of what the agent said."""
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
    """What was said in a turn with these `contents`, and its tool calls. Each call has a result, for models refuse a
    history with a call that has no result."""
    prompt, events, *_ = codec.decode(contents)
    noted = [event for event in events if event.get("sessionUpdate") == RESULT]
    results = {note.get("call", note["result"]["id"]): note["result"] for note in noted}
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
    """Whether a chunk is a piece of the same message as the event before it, and both are plain text."""
    return (
        before.get("sessionUpdate") == "agent_message_chunk"
        and before.get("messageId") == event.get("messageId")
        and is_text(before["content"])
    )


TERMINAL: Final = "_acp_server/terminal"
"""Among what is kept of a turn: a terminal as it was in the end. It is not an update; see `note`."""

ESCAPE: Final = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z\\\\^_])")
"""Colours, movements of the cursor, titles of windows."""


def note(id: str, about: dict[str, Any], output: str | None, exit_status: dict[str, Any] | None) -> dict[str, Any]:
    """What is kept of a terminal. `about`: its `command` and `cwd`. `output`: the last that the agent knows of."""
    kept = {"sessionUpdate": TERMINAL, "terminalId": id, **about}
    if output is not None:
        kept["output"] = output
    if exit_status is not None:
        kept["exitStatus"] = exit_status
    return kept


def shown(events: Iterable[dict[str, Any]], *, as_terminals: bool) -> Iterator[dict[str, Any]]:
    """The updates of a turn with its terminals in them. `as_terminals`: in the form of version 2; else as text in the
    tool calls that show them."""
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
    # Of a command whose end is not known, it is known that it has ended.
    update.setdefault("exitStatus", {})
    return update


def _as_text(content: list[dict[str, Any]], kept: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for piece in content:
        terminal = kept.get(piece.get("terminalId", "")) if piece.get("type") == "terminal" else None
        if terminal is None:
            yield piece
        elif output := ESCAPE.sub("", terminal.get("output", "")):
            yield {"type": "content", "content": {"type": "text", "text": _fenced(output)}}


def _fenced(text: str) -> str:
    """As a block of code: clients show text as Markdown."""
    fence = "~" * max(3, 1 + max(map(len, re.findall("~+", text)), default=0))
    return f"{fence}\n{text.rstrip()}\n{fence}"
