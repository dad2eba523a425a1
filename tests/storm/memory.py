"""One storm in memory: an agent, the raw client in front of it, and the end that their connection takes."""

from collections.abc import Callable
from random import Random
from typing import Any

import anyio
import anyio.lowlevel

from acp_server import Connection, Limits
from acp_server.testing import FaultyStream, memory_pair
from tests.cancel.stepper import tasks
from tests.storm.client import RawClient
from tests.storm.handlers import Stage, storm_agent
from tests.storm.journal import Journal
from tests.storm.plans import Planner
from tests.storm.prompts_v2 import unended
from tests.storm.scenario import Scenario
from tests.storm.story import GOOD, Story, initialize
from tests.storm.tap import Tap, noting
from tests.storm.world import World

LIMITS = Limits(grace=1.0, drain=0.5, flush=0.5)
LONG = 200.0
"""Seconds of the storm's time after which what was waited for does not come."""
SECOND_PROMPTS = ("hold", "refuse", "steer")
"""What becomes on version 2 of a prompt for a session in which a turn runs."""
ENDS = {"calm": 8, "end of input": 3, "torn line": 1, "broken": 1, "close": 1, "scope": 1, "bad input": 1}


class Storm:
    """One storm, all of which follows from `seed`. `version`: of the protocol."""

    def __init__(self, backend: str, seed: int, version: int = 1) -> None:
        self._seed = seed
        self._random = Random(seed)
        self._world = World(backend, seed)
        self._backend = backend
        # On version 1 the storm's own prompts are refused while a turn runs, as they are by default.
        second = SECOND_PROMPTS[seed % 3]
        self._second = None if version == 1 and second == "hold" else second
        self._journal = Journal(self._world.now)
        self._client = RawClient(self._journal, lambda asked: self._asked(asked))
        planner = Planner(self._random, LIMITS.end_grace)
        self._scenario = Scenario(self._random, planner, self._client, version)
        self._asked: Callable[[Any], None] = self._scenario.asked
        self.story = Story(self._journal, self._client, LIMITS, version)
        self.stderr = ""

    def run(self) -> Story:
        """Let it rage, and tell what happened."""
        with noting(self._journal.note):
            self._world.run(self._rage)
        return self.story

    async def _rage(self) -> None:
        before = tasks(self._backend)
        ours, self._stream = memory_pair()
        self._faults = FaultyStream(ours)
        self._stage = Stage(self._journal.note, self._world.crew)
        agent = storm_agent(self._stage, second_prompts=self._second)
        self._connection = agent.connect(Tap(self._faults, self._journal.note), LIMITS)
        self._around = anyio.CancelScope()
        self._closed = anyio.Event()
        self._sending = anyio.Lock()
        async with anyio.create_task_group() as group:
            group.start_soon(self._serve, self._connection)
            group.start_soon(self._read)
            await self._begin()
            for _ in range(self._random.randint(5, 40)):
                self._scenario.step()
                await self._pause()
            await self._end()
        self.story.terminals = self._scenario.terminals
        self._look_for_leavings(before)

    async def _serve(self, connection: Connection) -> None:
        try:
            with self._around:
                await connection.run()
        except OSError as error:
            self.story.raised = str(error)
        self.story.closed = self._journal.note("closed")
        self._closed.set()

    async def _read(self) -> None:
        while data := await self._stream.receive():
            self._client.feed(data)
            await self._send()

    # -- its course

    async def _begin(self) -> None:
        self._client.request("hello", "initialize", initialize(self.story.version, self._seed))
        if self.story.version == 2:
            # Nothing may be asked before that is answered.
            await self._send()
            await self._world.idle()
        for number in range(self._random.randint(1, 3)):
            self._client.request(f"new-{number}", "session/new", {"cwd": "/", "mcpServers": []})
            await self._send()
            await self._world.idle()
            self._scenario.sessions.append(self._result(f"new-{number}")["sessionId"])

    def _result(self, id: Any) -> Any:
        return self._client.answers[id][0].message["result"]

    async def _pause(self) -> None:
        random = self._random
        fate = random.random()
        if fate < 0.3:
            return
        await self._send()
        if fate < 0.6:
            for _ in range(random.randint(1, 12)):
                await anyio.lowlevel.checkpoint()
        elif fate < 0.85:
            await self._idle()
        elif fate < 0.93:
            await anyio.sleep(LIMITS.end_grace * random.choice((0.05, 0.3, 0.8, 1.2)))
        else:
            self._stall() if random.random() < 0.6 else self._go_on()

    async def _idle(self) -> None:
        await self._world.idle()
        self._journal.note("idle")

    def _stall(self) -> None:
        if not self.story.stalls or self.story.stalls[-1][1] is not None:
            self._faults.stall_sending(self._random.randint(0, 300))
            self.story.stalls.append((self._journal.note("stall"), None))

    def _go_on(self) -> None:
        if self.story.stalls and self.story.stalls[-1][1] is None:
            self._faults.release()
            self.story.stalls[-1] = (self.story.stalls[-1][0], self._journal.note("goes on"))

    async def _send(self) -> None:
        """What is in the outbox, in one chunk or torn anywhere."""
        async with self._sending:
            data = self._client.flush()
            cuts: list[int] = []
            if data and self._random.random() < 0.3:
                cuts = sorted(self._random.randrange(len(data)) for _ in range(self._random.randint(1, 4)))
            for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
                if self.story.ended is None:
                    self._stream.send_nowait(data[start:end])
                if end < len(data) and self._random.random() < 0.5:
                    await anyio.lowlevel.checkpoint()

    # -- its end

    async def _end(self) -> None:
        story = self.story
        story.end = self._random.choices(list(ENDS), list(ENDS.values()))[0]
        if story.end == "calm":
            await self._calm()
            story.ended = self._journal.note("ended")
            self._stream.send_eof()
        else:
            await self._send()
            if self._random.random() < 0.5:
                self._go_on()
            story.ended = self._journal.note("ended")
            self._abruptly(story.end)
        await self._until(self._closed.is_set)
        self._tell_over()
        self._go_on()
        await self._until(lambda: not (self._connection.work.running or self._world.crew.left or self._stage.loose))
        await self._idle()

    def _abruptly(self, how: str) -> None:
        match how:
            case "torn line":
                self._stream.send_nowait(b'{"jsonrpc": "2.0", "method": "session/canc')
                self._stream.send_eof()
            case "broken":
                self._go_on()
                self._faults.break_sending(self._random.randint(0, 200))
                self._stream.send_eof()
            case "close":
                self._connection.close()
            case "scope":
                self._around.cancel()
            case "bad input":
                self._faults.fail_reading(OSError("planned"))
            case _:
                self._stream.send_eof()

    async def _calm(self) -> None:
        """Cancel what runs, see it answered; let what hangs end, and answer what is asked; then ask for something."""
        self._go_on()
        self._scenario.cancel_all()
        await self._send()
        await self._until(lambda: not unended(self._client))
        self._asked = lambda asked: self._scenario.answer(asked, "right")
        self._client.notify("_storm/over", {})
        for asked in self._client.asked.values():
            if not asked.answers:
                self._scenario.answer(asked, "right")
        await self._send()
        self.story.over = self._journal.note("over")
        await self._until(lambda: not (self._nodes() or self._connection.work.running or self._stage.loose))
        await self._idle()
        self._client.request("new", "session/new", {"cwd": "/", "mcpServers": []})
        await self._send()
        await self._until(lambda: "new" in self._client.answers)
        sessions = [session for session in self._scenario.sessions if session not in self._scenario.touched]
        for session in [*sessions, self._result("new")["sessionId"]]:
            self.story.good.append(self._scenario.prompt_with(session, GOOD))
            await self._send()
            await self._until(lambda: self.story.good[-1] not in unended(self._client))

    def _nodes(self) -> int:
        """How many nodes there are but those of open sessions, which stay for as long as the session on version 2."""
        children = self._connection.tree.children or ()
        return self._connection.tree.size - sum(child.label.startswith("session sess_") for child in children)

    def _tell_over(self) -> None:
        self._stage.over.set()
        self._world.crew.open_gates(for_good=True)

    async def _until(self, true: Callable[[], object]) -> None:
        """Let time pass until it is true, or for so long that it never will be. The oracle sees what is missing."""
        with anyio.move_on_after(LONG):
            while not true():
                await self._idle()
                if true():
                    return
                await anyio.sleep(LIMITS.end_grace / 4)

    def _look_for_leavings(self, before: set[object]) -> None:
        connection = self._connection
        ledger = connection.endpoint.ledger
        inbound = connection._inbound
        found = {
            "answers owed": len(connection.endpoint.incoming),
            "answers waited for": ledger.outgoing,
            "withdrawn requests": ledger.withdrawn,
            "nodes": connection.tree.size,
            "queued requests": len(inbound._queue),
            "running requests": inbound._running,
            "watched": len(connection.watchdog._entries) if self.story.end == "calm" else 0,
            "threads": self._world.crew.left,
            "work": connection.work.running,
            "tasks": [repr(task) for task in tasks(self._backend) - before],
        }
        self.story.left = [f"{what}: {count}" for what, count in found.items() if count]
