"""Clients in memory that write anything: a small correct one behind a mutation, each seed another one.

Its agent is no process: the client connects to the suite in its place, as `acp_conformance.client.judge` does.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import cast

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from acp_conformance.client import profile
from acp_conformance.client.cases import load
from acp_conformance.client.pace import Pace
from acp_conformance.client.run import run
from acp_conformance.client.stage import Setting
from acp_conformance.core.process import Process
from acp_conformance.core.result import Run

from .client import SmallClient
from .mutate import lines

PROFILE = profile.parse(
    {
        "situations": {
            "approve": {"stdin": ["{number}"]},
            "reject": {"stdin": ["{number}"]},
            "again": {"stdin": ["go on"]},
            "cancel": {"signal": "SIGINT"},
        }
    }
)
_HEADER = struct.Struct(">cI")


class InMemory:
    """One client with the face of a `acp_conformance.core.process.Process`."""

    pid = 2**22 + 1  # no process has it
    stderr = "\x1b[2J said on standard error \udce4"

    def __init__(self, client: SmallClient, rate: float, dice: random.Random) -> None:
        self._client = client
        self._rate = rate
        self._dice = dice
        self._stream: SocketStream | None = None
        self._sending = anyio.Lock()
        self._over = anyio.Event()
        self._interrupted = anyio.Event()
        self.returncode: int | None = None

    async def run(self, port: int, secret: str) -> None:
        """Be the client and its agent process until the end of either."""
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            try:
                await stream.send(_frame(b"H", secret.encode()))
                self._stream = stream
                await self._write(self._client.begin())
                async with anyio.create_task_group() as group:
                    group.start_soon(self._interrupt)
                    await self._read(BufferedByteReceiveStream(stream))
                    group.cancel_scope.cancel()
            except* (anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass
            finally:
                self.kill()

    async def _read(self, stream: BufferedByteReceiveStream) -> None:
        rest = b""
        while True:
            kind, length = _HEADER.unpack(await stream.receive_exactly(_HEADER.size))
            content = await stream.receive_exactly(length) if length else b""
            if kind in (b"X", b"C"):
                return
            if kind == b"W":
                await self._send(b"W")
            elif kind == b"O":
                *whole, rest = (rest + content).split(b"\n")
                for line in whole:
                    try:
                        message = json.loads(line)
                    except (ValueError, RecursionError):
                        continue
                    for each in message if isinstance(message, list) else [message]:
                        await self._write(self._client.take(each))

    async def _interrupt(self) -> None:
        while True:
            await self._interrupted.wait()
            self._interrupted = anyio.Event()
            await self._acting("")

    async def _write(self, messages: Iterable[object]) -> None:
        for message in messages:
            for each in lines(message, self._dice, self._rate):
                newline = b"\n" if self._dice.random() >= 0.1 * self._rate else b""
                await self._send(b"I", each + newline)
        if self._dice.random() < 0.01 * self._rate:
            self.kill()

    async def _send(self, kind: bytes, content: bytes = b"") -> None:
        if self._stream is not None and not self._over.is_set():
            async with self._sending:
                await self._stream.send(_frame(kind, content))

    async def send(self, data: bytes) -> None:
        if self._over.is_set():
            raise BrokenPipeError
        for line in data.decode().splitlines():
            await self._acting(line)

    async def _acting(self, line: str) -> None:
        try:
            await self._write(self._client.act(line))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.kill()

    async def receive(self) -> bytes:
        await self._over.wait()
        return b""

    async def drain_stderr(self) -> None:
        """There is no more than there is."""

    def end_input(self) -> None:
        """It leaves when its agent does."""

    def close_output(self) -> None:
        """It writes nothing."""

    async def wait(self) -> int:
        await self._over.wait()
        return 0

    def signal(self, number: int) -> None:
        """Its user stops the turn: the same as a line without text."""
        self._interrupted.set()

    def kill(self) -> None:
        self.returncode = 0
        self._over.set()

    async def end(self, grace: float) -> None:
        self.kill()


def _frame(kind: bytes, content: bytes) -> bytes:
    return _HEADER.pack(kind, len(content)) + content


async def judge(seed: int, conversations: int, *, jobs: int = 40) -> tuple[Run, int]:
    """Run every case for clients, again and again, until so many clients were talked to."""
    dice = random.Random(seed)
    started = 0

    @asynccontextmanager
    async def start(
        command: Sequence[str], *, env: Mapping[str, str], grace: float, cwd: str | None = None
    ) -> AsyncIterator[Process]:
        nonlocal started
        started += 1
        own = random.Random(dice.random())
        client = InMemory(SmallClient(cwd or "/"), own.choice((0.0, 0.02, 0.1, 0.3, 0.9)), own)
        *_, port, secret = command
        async with anyio.create_task_group() as group:
            group.start_soon(client.run, int(port), secret)
            try:
                yield cast("Process", client)
            finally:
                group.cancel_scope.cancel()

    cases = list(load())
    results: list[Run] = []
    while started < conversations:
        some = dice.sample(cases, min(len(cases), max(1, conversations - started)))
        setting = Setting(["{agent}"], PROFILE, Pace(0.1, least_start=1.0), start=start)
        results.append(await run(setting, some, jobs=jobs))
    merged = [case for each in results for case in each.cases]
    return Run("client", ["mutant"], None, "", 0.0, merged), started
