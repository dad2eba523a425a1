"""A session whose stream is not read, beside sessions of the same connection whose streams are."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from acp_server import Agent, Turn
from acp_server.peer.writer import HIGH_WATER
from acp_server.remote import RemoteApp
from acp_server.schema import AgentMessageChunk, TextContent
from tests.session.editor import CANCELLED, END_TURN

from .http_client import NEW, Client, Events, app_of, client_of, session_of

pytestmark = pytest.mark.anyio

ROOM = 100_000
LEAST = ROOM // 1100
"""Messages of 1,000 characters that fit at least."""


class Flooder:
    """An agent whose prompts say how much it says: `COUNT TASKS`. Without a task it waits for nothing."""

    def __init__(self) -> None:
        self.agent = Agent("flooder")
        self.said: dict[str, int] = {}
        self.ended = anyio.Event()

        @self.agent.prompt
        async def prompt(turn: Turn) -> None:
            count, tasks = map(int, turn.text.split())
            id = turn.session.id
            self.said[id] = 0
            try:
                async with anyio.create_task_group() as group:
                    for _ in range(tasks):
                        group.start_soon(self._say, turn, count)
                    if not tasks:
                        for number in range(count):
                            turn.put(AgentMessageChunk(content=TextContent(text=f"{number}".ljust(1000))))
                            await anyio.lowlevel.checkpoint()
                            self.said[id] += 1
            finally:
                self.ended.set()

    async def _say(self, turn: Turn, count: int) -> None:
        for _ in range(count):
            await turn.say(f"{self.said[turn.session.id]}".ljust(1000))
            self.said[turn.session.id] += 1


@asynccontextmanager
async def full_beside(
    flooder: Flooder, prompt: str = "1000000 1", **remote: Any
) -> AsyncGenerator[tuple[Client, tuple[str, Events], tuple[str, Events], Events]]:
    """A client, a session that is prompted and not read, one that is read, and the stream of their connection."""
    app: RemoteApp = app_of(flooder.agent, unread=ROOM, **remote)
    async with client_of(app) as client:
        full, connection = await session_of(client)
        other = await client.new_session(connection, 3)
        events, others = client.open(full), client.open(other)
        assert (await events.began(), await others.began()) == (200, 200)
        events.blocked = anyio.Event()
        await client.prompt(full, prompt, 10)
        await anyio.wait_all_tasks_blocked()
        try:
            yield client, (full, events), (other, others), connection
        finally:
            read_on(events)


async def answer_in(events: Events) -> Any:
    while "method" in (message := await events.next()):
        pass
    return message


def read_on(events: Events) -> None:
    if events.blocked is not None:
        events.blocked.set()
        events.blocked = None


async def test_a_full_stream_does_not_delay_the_other_sessions_of_its_connection() -> None:
    flooder = Flooder()
    async with full_beside(flooder) as (client, (full, _), (other, others), connection):
        said = flooder.said[full]
        await client.prompt(other, "1000 1", 11)
        assert (await answer_in(others))["result"] == END_TURN
        assert len(others.seen) == 1001
        assert await client.new_session(connection, 12) not in (full, other)
        # All that while the full one said nothing more, and no more than it may.
        assert LEAST < said == flooder.said[full] < (ROOM + 3 * HIGH_WATER) / 1000


async def test_all_senders_of_a_full_stream_go_on_once_it_is_read() -> None:
    flooder = Flooder()
    async with full_beside(flooder, "500 10") as (_, (full, events), _, _):
        assert LEAST < flooder.said[full] < 1000
        read_on(events)
        assert (await answer_in(events))["result"] == END_TURN
        assert len(events.seen) == 5001


async def test_a_cancel_reaches_the_senders_of_a_full_stream() -> None:
    flooder = Flooder()
    async with full_beside(flooder) as (client, (full, events), (other, others), _):
        await client.post({"method": "session/cancel", "params": {"sessionId": full}}, full)
        with anyio.fail_after(20):
            await flooder.ended.wait()
        await client.prompt(other, "10 1", 11)
        assert (await answer_in(others))["result"] == END_TURN
        read_on(events)
        assert (await answer_in(events))["result"] == CANCELLED


async def test_a_full_stream_is_given_up_while_the_others_go_on() -> None:
    flooder = Flooder()
    async with full_beside(flooder, "2000 1", stall=0.05) as (client, (full, events), (other, others), connection):
        await client.prompt(other, "10 1", 11)
        assert (await answer_in(others))["result"] == END_TURN
        await events.ended()
        with anyio.fail_after(20):
            await flooder.ended.wait()
        assert await client.open(full, events.last_id).began() == 409
        await client.post({"id": 12, "method": "session/load", "params": {"sessionId": full, **NEW}}, full)
        assert (await connection.next())["id"] == 12


async def test_a_session_that_another_connection_takes_over_does_not_wait_for_its_old_stream() -> None:
    flooder = Flooder()
    async with full_beside(flooder) as (client, (full, _), _, _):
        taker = Client(client.app)
        await taker.initialize()
        connection = taker.open()
        await taker.post({"id": 1, "method": "session/resume", "params": {"sessionId": full, **NEW}})
        assert (await connection.next())["id"] == 1
        assert flooder.ended.is_set()


async def test_messages_that_wait_for_nothing_fill_a_stream_twice_and_then_the_connection_waits() -> None:
    flooder = Flooder()
    async with full_beside(flooder, "5000 0") as (client, (_, events), (other, others), _):
        with anyio.fail_after(20):
            await flooder.ended.wait()
        await client.prompt(other, "10 1", 11)
        await anyio.wait_all_tasks_blocked()
        assert not others.seen
        connections = client.app._open()
        assert 2 * ROOM < connections.holdings.size < 3 * ROOM
        read_on(events)
        assert (await answer_in(events))["result"] == END_TURN
        assert (await answer_in(others))["result"] == END_TURN
        assert [len(events.seen), len(others.seen)] == [5001, 11]
