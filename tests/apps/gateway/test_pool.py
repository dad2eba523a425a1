"""Which process of an agent a chat gets, how many there are, and when each ends: scripted agents, then real ones."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from acp_server.apps.gateway.limits import GatewayLimits, Size
from acp_server.apps.gateway.pool import Lives, NoRoom, Pool
from acp_server.apps.gateway.process import OpenSession, Process
from acp_server.apps.gateway.questions import Question
from acp_server.apps.gateway.records import Ids, KnownSession
from tests.client.talking import EVERYTHING, Scripted, talking

from .inside import PATIENT, Api, begin, ended, pool_of, say
from .serving import BUSY, PATIENCE, TOKEN, gone, serving, until

pytestmark = pytest.mark.anyio


class Chat:
    """What a chat does with a session here: it works, until it is told to end."""

    has_questions = False

    def __init__(self, held: OpenSession) -> None:
        self.held = held
        held.process.begin_turn(held.session, self)

    async def ask(self, question: Question) -> Any:
        raise AssertionError(question)

    def end(self) -> KnownSession:
        self.held.process.end_turn(self.held.session, self)
        self.held.process.idle(self.held.key)
        return KnownSession("1", self.held.session.id, self.held.key)


class Agents:
    """A program whose processes are scripted agents in memory. Each counts its sessions from 1."""

    bot = "1"
    command = ("scripted",)

    def __init__(self, limits: GatewayLimits) -> None:
        self.limits = limits
        self.peers: list[Scripted] = []
        self.gone: list[anyio.Event] = []
        self.broken = False
        self.most = self.alive = 0

    async def run(self, process: Process) -> None:
        try:
            if self.broken:
                raise OSError("it cannot be started")
            self.alive += 1
            self.most = max(self.most, self.alive)
            try:
                async with talking(capabilities=EVERYTHING) as (agent, peer):
                    numbers = iter(range(1, 1_000_000))
                    peer.answer("session/new", lambda _request: {"sessionId": str(next(numbers))})
                    for method in ("close", "delete", "resume"):
                        peer.answer(f"session/{method}", {})
                    self.peers.append(peer)
                    process.spawned = agent
                    with process.scope:
                        process.begin(agent, "/project")
                        await agent.link.connection.wait_closed()
            finally:
                self.alive -= 1
        except OSError as error:
            process.error = error
        finally:
            process.leave()
            process.ready.set()


class Room:
    """A pool of scripted agents."""

    def __init__(self, agents: Agents, pool: Pool, lives: Lives) -> None:
        self.agents = agents
        self.pool = pool
        self.lives = lives

    async def chat(self, known: KnownSession | None = None) -> Chat:
        return Chat(await self.pool.open(known))

    async def until(self, running: int) -> None:
        """Until so many processes run."""
        with anyio.fail_after(PATIENCE):
            while self.pool.running != running:  # noqa: ASYNC110 - it has no event for that
                await anyio.sleep(0.001)

    def reasons(self) -> dict[str, int]:
        return {reason: number for (_, reason), number in self.lives.ends.items()}


@asynccontextmanager
async def room(size: str, **limits: Any) -> AsyncIterator[Room]:
    least, most = map(int, size.split(":"))
    agents, lives = Agents(GatewayLimits(**limits)), Lives()
    pool = Pool(cast("Any", agents), Ids(), Size(least, most), lives)
    with anyio.fail_after(3 * PATIENCE):
        async with anyio.create_task_group() as group:
            pool.use(group)
            yield Room(agents, pool, lives)
            group.cancel_scope.cancel()


async def test_a_chat_gets_a_process_without_a_chat_or_a_new_one_and_then_the_one_with_the_fewest() -> None:
    async with room("0:3") as mine:
        first, second, third, fourth = [await mine.chat() for _ in range(4)]
        assert len({chat.held.process for chat in (first, second, third)}) == 3
        assert fourth.held.process is first.held.process
        second.end()
        assert (await mine.chat()).held.process is second.held.process
        assert mine.pool.running == 3


async def test_one_process_after_the_other_is_used_before_another_is_started() -> None:
    async with room("0:3") as mine:
        for _ in range(5):
            (await mine.chat()).end()
        assert mine.pool.running == 1


async def test_a_session_is_found_in_the_process_that_has_it_although_others_call_theirs_the_same() -> None:
    async with room("0:2") as mine:
        ada, bob = await mine.chat(), await mine.chat()
        assert ada.held.session.id == bob.held.session.id == "1"
        known = [ada.end(), bob.end()]
        for chat, its in ((bob, known[1]), (ada, known[0])):
            again = await mine.chat(its)
            assert again.held.session is chat.held.session
            again.end()


async def test_what_two_processes_have_called_the_same_is_not_taken_up_when_they_are_gone() -> None:
    """What is kept under the id may be what either of them has written."""
    async with room("0:2", agent_idle_seconds=0.01) as mine:
        known = [chat.end() for chat in [await mine.chat(), await mine.chat()]]
        await mine.until(0)
        # First the one that had the id last, which would be taken up if there had been no other.
        for its in reversed(known):
            assert (await mine.chat(its)).held.is_new
        assert not [peer for peer in mine.agents.peers if peer.all("session/resume")]


async def test_what_only_one_process_has_called_so_is_taken_up_by_the_next_one() -> None:
    async with room("0:2", agent_idle_seconds=0.01) as mine:
        known = (await mine.chat()).end()
        await mine.until(0)
        again = await mine.chat(known)
        assert not again.held.is_new
        assert again.held.key == known.key


async def test_chats_wait_for_room_and_get_it_in_their_order() -> None:
    async with room("0:1", agent_sessions=1) as mine, anyio.create_task_group() as group:
        running = await mine.chat()
        order: list[int] = []

        async def wait(number: int) -> None:
            chat = await mine.chat()
            order.append(number)
            chat.end()

        for number in range(3):
            group.start_soon(wait, number)
            await anyio.wait_all_tasks_blocked()
        assert (mine.pool.waiting, order) == (3, [])
        running.end()
        await mine.until(1)
        while len(order) < 3:
            await anyio.lowlevel.checkpoint()
        assert order == [0, 1, 2]


async def test_a_chat_that_finds_no_room_in_its_time_fails_and_takes_none() -> None:
    async with room("0:1", agent_sessions=1, queue_seconds=0.01) as mine:
        running = await mine.chat()
        with pytest.raises(NoRoom):
            await mine.chat()
        assert mine.pool.waiting == 0
        running.end()
        await mine.chat()


async def test_a_session_whose_process_is_full_is_ended_and_another_process_opens_one() -> None:
    async with room("0:2", agent_sessions=1) as mine:
        known = (await mine.chat()).end()
        await mine.chat()
        other = await mine.chat(known)
        assert other.held.is_new
        assert mine.pool.running == 2
        await mine.agents.peers[0].expect_request("session/delete")


async def test_processes_that_are_not_needed_end_and_the_least_number_stays() -> None:
    async with room("1:3", agent_idle_seconds=0.01) as mine:
        await mine.until(1)
        for chat in [await mine.chat() for _ in range(3)]:
            chat.end()
        await mine.until(1)
        assert mine.reasons() == {"idle": 2}


async def test_an_old_process_gets_no_new_chats_and_ends_after_those_that_it_has() -> None:
    async with room("0:1", agent_age_seconds=0.05) as mine:
        old = await mine.chat()
        await anyio.sleep(0.06)
        new = await mine.chat()
        assert new.held.process is not old.held.process
        # There are never more than so many that end: this one is as old, and stays.
        await anyio.sleep(0.06)
        assert (await mine.chat()).held.process is new.held.process
        assert mine.pool.running == 2
        old.end()
        while not mine.reasons():
            await anyio.lowlevel.checkpoint()
        assert mine.reasons() == {"age": 1}


async def test_a_process_that_is_started_for_a_chat_of_a_retired_bot_ends_with_that_chat() -> None:
    async with room("0:1") as mine:
        known = (await mine.chat()).end()
        mine.pool.retire()
        await mine.until(0)
        (await mine.chat(known)).end()
        await mine.until(0)
        assert mine.reasons() == {"reload": 2}


async def test_a_process_that_dies_takes_no_chat_of_another_with_it() -> None:
    async with room("2:2") as mine:
        one, two = await mine.chat(), await mine.chat()
        mine.agents.peers[0].stream.send_eof()
        while not mine.reasons():
            await anyio.lowlevel.checkpoint()
        assert mine.reasons() == {"crashed": 1}
        lost, kept = (one, two) if one.held.process.is_lost else (two, one)
        assert not kept.held.process.is_lost
        assert (await mine.chat(kept.end())).held.session is kept.held.session
        assert (await mine.chat(lost.end())).held.process is not lost.held.process


async def test_an_agent_that_cannot_be_started_is_not_tried_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with room("2:2") as mine:
        await mine.until(2)
        mine.agents.broken = True
        for peer in mine.agents.peers:
            peer.stream.send_eof()
        await mine.until(0)
        with pytest.raises(OSError, match="cannot be started"):
            await mine.chat()
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        # The two that were there, and the one that the chat wanted.
        assert mine.lives.starts["1"] == 3
        assert mine.pool._next_start > anyio.current_time()


async def test_the_pause_before_the_next_start_of_an_agent_that_fails_doubles_up_to_a_minute() -> None:
    async with room("0:1") as mine:
        mine.agents.broken = True
        pauses: list[float] = []
        for number in range(7):
            with pytest.raises(OSError, match="cannot be started"):
                await mine.chat()
            while mine.lives.ends.total() == number:
                await anyio.lowlevel.checkpoint()
            pauses.append(mine.pool._pause)
        assert pauses == [2, 4, 8, 16, 32, 60, 60]


async def test_five_thousand_chats_at_once_start_no_more_processes_than_there_may_be() -> None:
    async with room("0:4", agent_sessions=100, queue_seconds=600) as mine:
        loads: list[int] = []
        go_on = anyio.Event()

        async def one() -> None:
            chat = await mine.chat()
            loads.append(chat.held.process.load)
            await go_on.wait()
            chat.end()

        async with anyio.create_task_group() as group:
            for _ in range(5000):
                group.start_soon(one)
            await anyio.wait_all_tasks_blocked()
            assert (len(loads), mine.pool.waiting) == (400, 4600)
            go_on.set()
        assert len(loads) == 5000
        assert max(loads) <= 100
        assert mine.agents.most == 4
        assert mine.pool.waiting == 0


# Real processes


async def test_a_chat_gets_no_agent_that_has_ended_though_its_run_has_not(tmp_path: Path) -> None:
    """A session that is known is handed out without asking the agent, so its prompt would be the first to notice."""
    bot = pool_of(BUSY, str(tmp_path), patience=PATIENT)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            bot.use(group)
            held = await bot.open(None)
            known = KnownSession(bot.name, held.session.id, held.key)
            assert (await bot.open(known)).process is held.process
            assert held.process.agent is not None
            # What the end of its output does at once; the rest of its end takes a while.
            held.process.agent.link.connection._pending.lose()
            assert (await bot.open(known)).process is not held.process
            group.cancel_scope.cancel()


async def test_the_kill_of_a_process_fails_its_chats_alone_and_leaves_nothing(api: Api) -> None:
    async with api(agent=BUSY, agents=Size(0, 2)) as http:
        doomed = (await begin(http, "slowly 500"))["data"]
        spared = (await begin(http, "slowly 100"))["data"]
        http.headers["Authorization"] = f"Bearer {TOKEN}"
        await say(http, "echo x")
        killed = (await begin(http, "die"))["data"]
        ends = [await ended(http, chat) for chat in (killed, doomed, spared)]
        # `die` shares its process with one of the two.
        assert sorted(chat["status"] for chat in ends) == ["completed", "failed", "failed"]
        assert (await say(http, "echo again"))[1] == "again"


def test_no_process_is_left_of_a_gateway_that_ends_while_some_start(tmp_path: Path) -> None:
    with serving(tmp_path, "--agents", "6:6") as server:
        until(server.agents)
        agents = server.agents()
        os.kill(server.process.pid, signal.SIGTERM)
        server.process.wait(PATIENCE)
        gone(agents)
