"""Agents in memory that answer anything: a small correct one behind a mutation, each seed another one."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import cast

import anyio
import anyio.lowlevel

from acp_conformance.agent.cases import load
from acp_conformance.agent.profile import Profile, Situation
from acp_conformance.agent.run import AgentRun
from acp_conformance.core.process import Process
from acp_conformance.core.result import Run

from .agent import SITUATIONS, Over, SmallAgent
from .mutate import lines

PROFILE = Profile(situations={name: Situation(f"situation-{name}", says="Done.") for name in SITUATIONS})
NOT_IN_MEMORY = "closing"
"""The cases that are about a process."""


class InMemory:
    """One conversation with an agent, with the face of a `acp_conformance.core.process.Process`."""

    pid = 2**22 + 1  # no process has it
    stderr = "\x1b[2J said on standard error \udce4"
    signalled = False

    def __init__(self, agent: SmallAgent, rate: float = 0.0, dice: random.Random | None = None) -> None:
        self._agent = agent
        self._rate = rate
        self._dice = dice or random.Random(0)
        self._input = b""
        self._output = b""
        self._ended = False
        self._changed = anyio.Event()
        self.returncode: int | None = None

    async def send(self, data: bytes) -> None:
        if self._ended:
            raise BrokenPipeError
        *whole, self._input = (self._input + data).split(b"\n")
        for line in whole:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            try:
                for answer in self._agent.take(message):
                    for each in lines(answer, self._dice, self._rate):
                        self._output += each + (b"\n" if self._dice.random() >= 0.1 * self._rate else b"")
                if self._dice.random() < 0.03 * self._rate:
                    raise Over
            except Over:
                self._end()
        self._wake()

    async def receive(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        while not self._output and not self._ended:
            await self._changed.wait()
        data, self._output = self._output, b""
        return data

    async def drain_stderr(self) -> None:
        """There is no more than there is."""

    def end_input(self) -> None:
        self._end()

    def close_output(self) -> None:
        self._end()

    async def wait(self) -> int:
        while not self._ended:
            await self._changed.wait()
        return 0

    def signal(self, number: int) -> None:
        self._end()

    def company(self) -> list[int]:
        return []

    def kill(self) -> None:
        self._end()

    async def end(self, grace: float) -> None:
        self._end()

    def _end(self) -> None:
        self._ended, self.returncode = True, 0
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


async def judge(seed: int, conversations: int, *, jobs: int = 40) -> tuple[Run, int]:
    """Run every case that can be run in memory, again and again, until so many agents were talked to."""
    dice = random.Random(seed)
    started = 0

    @asynccontextmanager
    async def start(
        command: Sequence[str], *, env: Mapping[str, str], grace: float, cwd: str | None = None
    ) -> AsyncIterator[Process]:
        nonlocal started
        started += 1
        own = random.Random(dice.random())
        yield cast("Process", InMemory(SmallAgent(), own.choice((0.0, 0.02, 0.1, 0.3, 0.9)), own))

    everything = load()
    chosen = [case for case in everything if case.group != NOT_IN_MEMORY]
    results: list[Run] = []
    while started < conversations:
        some = dice.sample(chosen, min(len(chosen), max(1, conversations - started)))
        run = AgentRun(["mutant"], PROFILE, timeout=0.2, jobs=jobs, start=start)
        results.append(await run.run(some))
    merged = [case for run in results for case in run.cases]
    return Run("agent", ["mutant"], None, "", 0.0, merged), started
