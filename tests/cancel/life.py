"""What is seen of one connection while something happens to it, and how a test waits for the end of that."""

import json
import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.peer.connection import Connection
from acp_server.testing.streams import MemoryStream, memory_pair
from tests.cancel.stepper import Steps


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


@dataclass(kw_only=True)
class Life:
    """One connection from its beginning to its end, and what was seen of it."""

    events: list[tuple[str, Any]] = field(default_factory=list)
    """Frames in the order in which our side saw ("in") and queued ("put") them."""
    sent: list[Any] = field(default_factory=list)
    """Frames in the order in which they were written."""
    did: list[str] = field(default_factory=list)
    """The steps of the handlers."""
    logged: list[logging.LogRecord] = field(default_factory=list)
    ended: bool = False
    """Whether the peer has ended its output."""
    connection: Connection = field(init=False)
    stream: MemoryStream = field(init=False)
    """The peer's end."""
    around: anyio.CancelScope = field(init=False)
    """The scope that the connection runs in."""
    raised: BaseException | None = None
    """What running the connection raised."""

    def say(self, data: bytes) -> None:
        """The peer writes this, if it still can."""
        try:
            self.stream.send_nowait(data)
        except anyio.BrokenResourceError:
            assert self.ended or self.connection._closed.is_set()

    def send_eof(self) -> None:
        """The peer ends its output."""
        self.ended = True
        self.stream.send_eof()

    async def run(self) -> None:
        """Run the connection."""
        try:
            with anyio.CancelScope() as self.around:
                await self.connection.run()
        except BaseException as error:
            self.raised = error

    def meet(self) -> "Recorder":
        """A stream between both sides: ours."""
        ours, self.stream = memory_pair()
        recorder = Recorder(ours._incoming, ours._outgoing)
        recorder.story = self
        return recorder

    @contextmanager
    def noting_log(self) -> Generator[None]:
        """In this block, what the package logs is noted. Thousands of lives are not to be kept by pytest."""
        logger = logging.getLogger("acp_server")
        log = Log(self.logged)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(logger, "propagate", False)
            logger.addHandler(log)
            try:
                yield
            finally:
                logger.removeHandler(log)


class Log(logging.Handler):
    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__()
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)


class Recorder(MemoryStream):
    """The connection's end of the stream, that notes when what arrived was seen."""

    story: Life

    async def receive(self) -> bytes:
        data = await super().receive()
        self.story.events += [("in", json.loads(text)) for text in data.splitlines()]
        return data

    async def send(self, data: bytes) -> None:
        assert data.endswith(b"\n"), "a torn frame"
        await super().send(data)
        # Not before it is over: what is cut off is not sent.
        self.story.sent += [json.loads(text) for text in data.splitlines()]


async def late(steps: Steps) -> None:
    """A few steps in which nothing is left to be done."""
    for _ in range(3):
        steps.step()
        await anyio.lowlevel.checkpoint()


async def some_steps() -> None:
    """Enough for each task that does not wait for another; the other way to wait for that takes a tenth of a second."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()
