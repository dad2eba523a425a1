"""What the official Python client heard, in short."""

from typing import Any

import pytest

from .serving import ask, cozepy

Event = cozepy.ChatEventType
Status = cozepy.ChatStatus


def said(events: list[Any]) -> str:
    return "".join(event.message.content for event in events if event.event == Event.CONVERSATION_MESSAGE_DELTA)


def types(events: list[Any]) -> list[str]:
    return [event.message.type.value for event in events if event.event == Event.CONVERSATION_MESSAGE_COMPLETED]


def last(events: list[Any]) -> cozepy.Chat:
    chat = events[-1].chat
    assert chat is not None
    return chat


def listed(coze: Any, conversation_id: str) -> list[str]:
    return [m.content for m in coze.conversations.messages.list(conversation_id=conversation_id, order="asc")]


def waiting(coze: Any, text: str) -> cozepy.Chat:
    """A chat in `requires_action`."""
    chat = last(list(coze.chat.stream(**ask(text))))
    assert chat.status == Status.REQUIRES_ACTION
    return chat


def calls(chat: Any) -> list[Any]:
    assert chat.required_action is not None
    return chat.required_action.submit_tool_outputs.tool_calls


def output(chat: cozepy.Chat, *outputs: str) -> list[cozepy.ToolOutput]:
    return [cozepy.ToolOutput(tool_call_id=c.id, output=o) for c, o in zip(calls(chat), outputs, strict=True)]


def code(error: pytest.ExceptionInfo[cozepy.CozeAPIError]) -> int | None:
    return error.value.code
