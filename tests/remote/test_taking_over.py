"""A client that comes back on a new connection, while the old one still has its session."""

import anyio
import pytest

from acp_server import Agent, Limits, MemoryStore, Turn
from tests.session.editor import CANCELLED

from .http_client import NEW, Client, app_of, client_of, session_of, turn_around
from .serving import reader

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("is_reading", [True, False], ids=["there", "gone"])
async def test_a_client_that_comes_back_takes_its_session_over(is_reading: bool) -> None:
    agent, turns, cut = reader()
    agent.store = MemoryStore()
    app = app_of(agent)
    async with client_of(app) as old:
        session, connection = await session_of(old)
        other = await old.new_session(connection, 8)
        events = old.open(session)
        await old.prompt(session, "hang")
        await events.next()
        if not is_reading:
            for each in (events, connection):
                each.leave()
                await each.ended()
        new = Client(app)
        await new.initialize()
        its, again = new.open(), new.open(session)
        load = {"id": 1, "method": "session/load", "params": {"sessionId": session, **NEW}}
        await new.post(load, session)
        said = await again.next()
        assert said["params"]["update"]["content"]["text"] == "hang"
        assert (await its.next())["id"] == 1
        # It was closed before, as a session is, and so the turn is part of what is shown.
        assert cut.is_set()
        assert "begun " in str(again.seen)
        if is_reading:
            assert (await events.next())["result"] == CANCELLED
            await events.ended()
        await new.prompt(session, "hang", 2)
        await turn_around(lambda: len(turns) == 2)
        # The old one has what it has besides, and nothing of what it has lost.
        await old.prompt(session, "hang", 3)
        error = (await old.open(session).next())["error"]
        assert error["message"].startswith("Session not open")
        await old.prompt(other, "hang", 4)
        assert "begun" in str(await old.open(other).next())
        assert turns[1].client.connection is not turns[0].client.connection


async def test_a_client_that_opens_its_own_session_again_keeps_it() -> None:
    agent, _, _ = reader()
    agent.store = MemoryStore()
    async with client_of(app_of(agent)) as client:
        session, connection = await session_of(client)
        events = client.open(session)
        for id in (3, 4):
            load = {"id": id, "method": "session/load", "params": {"sessionId": session, **NEW}}
            await client.post(load, session)
            assert (await connection.next())["id"] == id
        await client.prompt(session, "hang", 5)
        assert "begun" in str(await events.next())


async def test_cancels_do_not_wait_for_a_session_that_is_taken_over_except_those_of_requests_that_wait_for_it() -> None:
    agent = Agent("stubborn", store=MemoryStore())
    may_end = anyio.Event()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            if turn.text == "stubborn":
                with anyio.CancelScope(shield=True):
                    await may_end.wait()

    async with client_of(app_of(agent, Limits(grace=None))) as old:
        session, _ = await session_of(old)
        await old.prompt(session, "stubborn")
        new = Client(old.app)
        await new.initialize()
        other, connection = await session_of(new)
        events = new.open(other)
        await new.prompt(other, "soft", 5)
        load = {"id": 6, "method": "session/load", "params": {"sessionId": session, **NEW}}
        await new.post(load, session)
        await new.prompt(other, "later", 7)
        await new.post({"id": 8, "method": "session/list", "params": {}})
        await anyio.wait_all_tasks_blocked()
        for id in (5, 8):
            await new.post({"method": "$/cancel_request", "params": {"requestId": id}})
        assert (await events.next())["id"] == 5
        await anyio.wait_all_tasks_blocked()
        assert not connection.seen[1:]
        may_end.set()
        answers = {(answer := await connection.next())["id"]: answer for _ in range(2)}
        assert "result" in answers[6]
        assert answers[8]["error"]["code"] == -32800
        await new.post({"method": "session/cancel", "params": {"sessionId": other}}, other)
        assert (await events.next())["id"] == 7
        await new.aclose()
