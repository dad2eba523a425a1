"""What an agent notes besides its handlers: what it reads, and when it says what the oracle wants to know exactly."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from acp_server.peer.stream import Stream
from acp_server.peer.writer import Writer
from tests.storm.prompts_v2 import key_of_message
from tests.storm.threads import Note


class Tap:
    """The agent's end of the stream; notes what it has read."""

    def __init__(self, stream: Stream, note: Note) -> None:
        self._stream = stream
        self._note = note
        self._read = 0

    async def receive(self) -> bytes:
        data = await self._stream.receive()
        self._read += len(data)
        self._note("heard", more=self._read)
        return data

    async def send(self, data: bytes) -> None:
        await self._stream.send(data)

    async def aclose(self) -> None:
        await self._stream.aclose()


@contextmanager
def noting(note: Note) -> Iterator[None]:
    """Meanwhile each withdrawal, and each insertion of a prompt's message, is noted when it is made, which may be long
    before the client can read it."""
    put = Writer.put

    def noting_put(writer: Writer, frame: bytes) -> int:
        if b'"$/cancel_request"' in frame:
            note("withdraws", more=json.loads(frame)["params"]["requestId"])
        elif b'"user_message"' in frame:
            note("inserts", key_of_message(json.loads(frame)["params"]["update"]))
        return put(writer, frame)

    with patch.object(Writer, "put", noting_put):
        yield
