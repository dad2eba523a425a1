"""`Session.enter`: what is opened in the middle of a session and closed with it."""

import anyio
import pytest

from acp_server import Agent, ConnectionClosed, Session, SessionClosed, Turn
from tests.session.editor import CANCELLED, editing
from tests.session.servers import Server

pytestmark = pytest.mark.anyio


async def test_a_turn_enters_what_outlives_it_and_the_session_leaves_it() -> None:
    server = Server()
    agent = Agent("late")

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        if turn.session.data is None:
            turn.session.data = await turn.session.enter(server.serve())
        return f"{turn.session.data} is {server.log[-1]}"

    async with editing(agent) as editor:
        session = await editor.open()
        await editor.ask(session)
        await editor.ask(session)
        assert editor.said() == ["the server is open"] * 2
        await editor.client.result("session/close", {"sessionId": session})
        assert server.log == ["opening", "open", "closed"]
        assert server.tasks[0] == server.tasks[1]


async def test_a_turn_that_is_cancelled_while_it_enters_something_closes_it_first() -> None:
    server = Server()
    server.may_open = anyio.Event()
    agent = Agent("late")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await turn.session.enter(server.serve())

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await server.opening.wait()
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        assert server.log == ["opening", "closed"]


async def test_nothing_can_be_entered_once_the_session_is_closed() -> None:
    server = Server()
    agent = Agent("late")
    kept: list[Session] = []
    agent.session(kept.append)

    @agent.prompt
    async def prompt(_turn: Turn) -> None: ...

    async with editing(agent) as editor:
        session = await editor.open()
        await editor.client.result("session/close", {"sessionId": session})
        with pytest.raises(SessionClosed):
            await kept[0].enter(server.serve())
        await editor.open()
        editor.connection.close()
        await editor.connection.wait_closed()
        with pytest.raises((SessionClosed, ConnectionClosed)):
            await kept[1].enter(server.serve())
    assert server.log == []


async def test_what_is_opened_while_the_session_is_closed_is_closed_again() -> None:
    server = Server()
    server.may_open = anyio.Event()
    agent = Agent("late")
    kept: list[Session] = []
    agent.session(kept.append)

    @agent.prompt
    async def prompt(_turn: Turn) -> None: ...

    async with editing(agent) as editor:
        session = await editor.open()
        refused: list[type[Exception]] = []

        async def enter() -> None:
            try:
                await kept[0].enter(server.serve())
            except SessionClosed as error:
                refused.append(type(error))

        async with anyio.create_task_group() as group:
            group.start_soon(enter)
            await server.opening.wait()
            await editor.client.result("session/close", {"sessionId": session})
            server.may_open.set()
        assert refused == [SessionClosed]
        assert server.log == ["opening", "open", "closed"]
