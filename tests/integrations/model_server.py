"""A model behind real HTTP, as OpenAI's API has it: it streams what it is told, and notes when its peer goes."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.integrations.anthropic_words import Anthropic


def tool_call(name: str, arguments: dict[str, Any], id: str = "call_1") -> dict[str, Any]:
    """What a model says to have a tool run."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": id, "type": "function", "function": function}]}


HANG = object()
"""In a reply: nothing more comes until the peer is gone."""

BREAK = object()
"""In a reply: the connection ends there."""


@dataclass
class Refusal:
    """In the place of a reply: an error of the server."""

    status: int
    error: dict[str, Any]


@dataclass
class Stop:
    """In a reply: why it ends there."""

    reason: str


class ModelServer:
    """`replies`: for each request what is said, piece by piece: text, a delta, a Stop, HANG or BREAK; or a Refusal."""

    def __init__(self, *replies: list[Any] | Refusal) -> None:
        self.replies: list[list[Any] | Refusal] = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.hanging = asyncio.Event()
        """Set while a reply hangs."""
        self.left = asyncio.Event()
        """The peer has gone while a reply was not through."""
        self.url = ""
        self.model = "test"
        """The name of the model that answers."""
        self.usage: dict[str, Any] = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        self._speak: Anthropic | None = None
        """The words of another API, once it was asked in those."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            lines = (await reader.readuntil(b"\r\n\r\n")).lower().splitlines()
            length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length"))
            self.requests.append(json.loads(await reader.readexactly(length)))
            if b"/messages http" in lines[0]:
                self._speak = Anthropic()
            reply = self.replies.pop(0)
            if isinstance(reply, Refusal):
                self._refuse(reply, writer)
                await writer.drain()
            else:
                await self._reply(reply, reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _reply(self, pieces: list[Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun = False
        reason = "stop"
        for piece in [*pieces, None]:
            if piece is HANG:
                self.hanging.set()
                if not await reader.read(1):
                    self.left.set()
                raise ConnectionError
            if piece is BREAK:
                raise ConnectionError
            if not begun:
                begun = True
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                    b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
                )
            if isinstance(piece, Stop):
                reason = piece.reason
                continue
            if isinstance(piece, dict):
                reason = "tool_calls"
            if self._speak is not None:
                self._write(writer, self._speak.piece(piece))
                await writer.drain()
                continue
            delta = {"role": "assistant", "content": piece} if isinstance(piece, str) else piece or {}
            self._send(writer, delta, reason if piece is None else None)
            await writer.drain()
        if self._speak is None:
            self._write(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def _refuse(self, refusal: Refusal, writer: asyncio.StreamWriter) -> None:
        body = json.dumps({"error": refusal.error}).encode()
        writer.write(
            f"HTTP/1.1 {refusal.status} -\r\ncontent-type: application/json\r\nretry-after-ms: 1\r\n"
            f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            + body
        )

    def _send(self, writer: asyncio.StreamWriter, delta: dict[str, Any], reason: str | None) -> None:
        chunk: dict[str, Any] = {
            "id": f"chatcmpl-{len(self.requests)}",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }
        if reason is not None:
            chunk["usage"] = self.usage
        self._write(writer, b"data: " + json.dumps(chunk).encode() + b"\n\n")

    def _write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def said_to(self, request: int) -> list[tuple[str, Any]]:
        """The messages of a request: the role and the content of each."""
        return [(message["role"], message.get("content")) for message in self.requests[request]["messages"]]


@asynccontextmanager
async def model_server(*replies: list[Any] | Refusal) -> AsyncGenerator[ModelServer]:
    """A server for the length of the block."""
    server = ModelServer(*replies)
    listening = await asyncio.start_server(server.answer, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listening.close()
        await listening.wait_closed()
