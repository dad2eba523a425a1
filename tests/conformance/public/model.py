"""A model behind HTTP, in the words of four APIs, which says what the prompt tells it to.

A prompt has a line `model: [...]`, the list of what the model says, piece by piece: a text, a call of a tool as
`{"its name": {its arguments}}`, "HANG" (nothing more comes), or "FAIL" (the request is refused). When a tool has
answered, it says "Done.". To what has no such line, such as a request for a title, it says "Well.".
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import AsyncIterator
from typing import Any, Protocol

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.integrations.anthropic_words import Anthropic
from tests.integrations.model_server import tool_call

Json = Any

_SCRIPT = re.compile(r"^model: (\[.*\])$", re.MULTILINE)


def reply(messages: list[Json]) -> list[Json]:
    """The pieces of what the model says to a conversation, which begins with the oldest message."""
    answered = False
    for message in reversed(messages):
        parts = message.get("content") or message.get("parts") or []
        for part in reversed([{"text": parts}] if isinstance(parts, str) else parts):
            answered |= part.get("type") == "tool_result" or "functionResponse" in part
            found = _SCRIPT.findall(part.get("text") or "") if message.get("role") == "user" else []
            if found:
                return ["Done."] if answered else json.loads(found[-1])
        answered |= message.get("role") == "tool" or message.get("type") == "function_call_output"
    return ["Well."]


class Words(Protocol):
    """One answer in the events of an API. None is its end; a tool call is a delta as OpenAI's API has it."""

    def piece(self, piece: Json) -> bytes: ...


class OpenAI:
    """The events of chat completions."""

    def __init__(self) -> None:
        self._reason = "stop"

    def piece(self, piece: Json) -> bytes:
        delta = {"role": "assistant", "content": piece} if isinstance(piece, str) else piece or {}
        if isinstance(piece, dict):
            self._reason = "tool_calls"
        choice = {"index": 0, "delta": delta, "finish_reason": None if piece is not None else self._reason}
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        event = {"id": "m", "object": "chat.completion.chunk", "created": 0, "model": "test", "choices": [choice]}
        if piece is not None:
            return _event(event)
        return _event({**event, "usage": usage}) + b"data: [DONE]\n\n"


class Gemini:
    """The events of `streamGenerateContent`."""

    def piece(self, piece: Json) -> bytes:
        part: Json = {"text": piece or ""}
        if isinstance(piece, dict):
            function = piece["tool_calls"][0]["function"]
            part = {"functionCall": {"name": function["name"], "args": json.loads(function["arguments"])}}
        candidate: Json = {"index": 0, "content": {"role": "model", "parts": [part]}}
        if piece is None:
            candidate["finishReason"] = "STOP"
        usage = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
        return _event({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "test"})


class Responses:
    """The events of OpenAI's Responses API."""

    def __init__(self) -> None:
        self._id = f"resp_{uuid.uuid4().hex}"
        self._items = 0
        self._text: str | None = None
        self._began = False

    def piece(self, piece: Json) -> bytes:
        events: list[Json] = []
        if not self._began:
            self._began = True
            events.append({"type": "response.created", "response": {"id": self._id}})
        if isinstance(piece, str):
            if self._text is None:
                self._text = ""
                events.append({"type": "response.output_item.added", "item": self._message([])})
            self._text += piece
            events.append({"type": "response.output_text.delta", "item_id": self._item, "delta": piece})
            return b"".join(map(_event, events))
        if self._text is not None:
            content = [{"type": "output_text", "text": self._text}]
            events.append({"type": "response.output_item.done", "item": self._message(content)})
            self._text = None
            self._items += 1
        if piece is None:
            usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
            events.append({"type": "response.completed", "response": {"id": self._id, "usage": usage}})
        else:
            [call] = piece["tool_calls"]
            item = {"type": "function_call", "id": self._item, "call_id": call["id"], **call["function"]}
            events.append({"type": "response.output_item.done", "item": item})
            self._items += 1
        return b"".join(map(_event, events))

    @property
    def _item(self) -> str:
        return f"{self._id}_{self._items}"

    def _message(self, content: list[Json]) -> Json:
        return {"type": "message", "id": self._item, "role": "assistant", "content": content}


def _event(event: Json) -> bytes:
    return f"data: {json.dumps(event)}\n\n".encode()


async def _said(pieces: list[Json], words: Words) -> AsyncIterator[bytes]:
    for piece in pieces:
        if piece == "HANG":
            await anyio.sleep_forever()
        if isinstance(piece, dict):
            [(name, arguments)] = piece.items()
            piece = tool_call(name, arguments, f"call_{uuid.uuid4().hex}")
        yield words.piece(piece)
    yield words.piece(None)


async def answer(request: Request) -> Response:
    """Answer a request in the words of its API."""
    asked = await request.json() if request.method == "POST" else {}
    path = request.url.path
    words: Words
    if path.endswith("/chat/completions"):
        words = OpenAI()
    elif path.endswith("/responses"):
        words = Responses()
    elif path.endswith("/messages"):
        words = Anthropic(uuid.uuid4().hex)
    elif path.endswith(":streamGenerateContent"):
        words = Gemini()
    else:
        return JSONResponse({"error": {"message": "there is no such thing"}}, 404)
    pieces = reply(asked.get("messages") or asked.get("contents") or asked.get("input") or [])
    if "FAIL" in pieces:
        return JSONResponse({"error": {"type": "invalid_request_error", "message": "not that"}}, 400)
    return StreamingResponse(_said(pieces, words), media_type="text/event-stream")


app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST", "HEAD"])])
