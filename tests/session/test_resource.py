"""What a session handler holds open: opened before the client may use the session, closed whatever ends it."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server import Agent, Session, Turn, grace
from acp_server.errors import INTERNAL_ERROR, REQUEST_CANCELLED
from tests.session.agents import setup
from tests.session.editor import END_TURN, QUICK, Editor, editing
from tests.session.servers import Server, served

pytestmark = pytest.mark.anyio


async def test_what_stands_before_the_yield_is_there_for_the_turns_and_what_it_yields_is_the_data() -> None:
    server = Server()
    async with editing(served(server)) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        assert editor.said() == ["the server is open"]


async def _close(editor: Editor, session: str) -> None:
    await editor.client.result("session/close", {"sessionId": session})


async def _delete(editor: Editor, session: str) -> None:
    await editor.client.result("session/delete", {"sessionId": session})


async def _reload(editor: Editor, session: str) -> None:
    await editor.client.result("session/load", setup(session))


async def _shut_down(editor: Editor, _session: str) -> None:
    editor.connection.close()
    await editor.connection.wait_closed()


async def _end_of_input(_editor: Editor, _session: str) -> None:
    pass


@pytest.mark.parametrize("end", [_close, _delete, _reload, _shut_down, _end_of_input])
async def test_whatever_ends_the_session_closes_it_in_the_task_that_opened_it(
    end: Callable[[Editor, str], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    async with editing(served(server)) as editor:
        session = await editor.open()
        assert server.log == ["opening", "open"]
        await end(editor, session)
        if end is not _end_of_input:
            # A load opens the new one when the old one is closed.
            assert server.log == ["opening", "open", "closed", *(["opening", "open"] if end is _reload else [])]
    assert server.log[-1] == "closed"
    assert server.tasks[0] == server.tasks[1]
    assert not editor.connection.leaked
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_turn_that_the_end_of_the_program_cancels_has_it_until_it_is_through() -> None:
    server = Server()
    agent = Agent("served")
    seen: list[str] = []

    @agent.session
    async def prepare(session: Session) -> AsyncIterator[None]:
        async with server.serve() as session.data:
            yield

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        try:
            await turn.say("begun")
            await anyio.sleep_forever()
        finally:
            with grace(1):
                await anyio.lowlevel.checkpoint()
                seen.append(f"{turn.session.data} is {server.log[-1]}")

    async with editing(agent) as editor:
        await editor.prompt(await editor.open())
        await editor.client.expect("session/update")
        await _shut_down(editor, "")
    assert seen == ["the server is open"]
    assert server.log[-1] == "closed"


async def test_one_that_cannot_be_opened_leaves_no_session_and_those_before_it_are_closed() -> None:
    server = Server()
    agent = served(server)

    @agent.session
    async def fail(_session: Session) -> AsyncIterator[None]:
        if server.log:
            raise ValueError("secret")
        yield

    async with editing(agent) as editor:
        refused = await editor.refusal("session/new", setup())
        assert refused["code"] == INTERNAL_ERROR
        assert "secret" not in str(refused)
        assert server.log == ["opening", "open", "closed"]
        assert not editor.connection.lasting.running


@pytest.mark.parametrize("method", ["session/new", "session/load"])
async def test_a_cancelled_request_for_a_session_closes_what_is_being_opened(method: str) -> None:
    server = Server()
    async with editing(served(server)) as editor:
        session = await editor.open()
        await _close(editor, session)
        server.may_open = anyio.Event()
        server.opening = anyio.Event()
        id = await editor.client.request(method, setup(session if method == "session/load" else None))
        await server.opening.wait()
        await editor.withdraw(id)
        assert await editor.code(id) == REQUEST_CANCELLED
        assert server.log[3:] == ["opening", "closed"]
        assert server.tasks[2] == server.tasks[3]
        assert not editor.connection.lasting.running


async def test_the_end_of_the_program_closes_what_is_being_opened() -> None:
    server = Server()
    server.may_open = anyio.Event()
    async with editing(served(server)) as editor:
        await editor.client.request("session/new", setup())
        await server.opening.wait()
        await _shut_down(editor, "")
        assert server.log == ["opening", "closed"]
        assert not editor.connection.leaked


class Both:
    """What can be awaited as well as entered, as the connections of some libraries."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __await__(self) -> Any:
        self.log.append("awaited")
        yield from ()

    async def __aenter__(self) -> None:
        self.log.append("entered")

    async def __aexit__(self, *_: object) -> None:
        self.log.append("left")


async def test_a_session_handler_may_return_an_async_context_manager() -> None:
    server, log = Server(), list[str]()
    agent = Agent("served")

    @agent.session
    def plainly(_session: Session) -> AbstractAsyncContextManager[str]:
        return server.serve()

    @agent.session
    async def from_async(session: Session) -> Both:
        # None that is yielded is no data.
        assert session.data == "the server"
        return Both(log)

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        return turn.session.data

    async with editing(agent) as editor:
        session = await editor.open()
        await editor.ask(session)
        assert editor.said() == ["the server"]
        await _close(editor, session)
        assert server.log[-1] == "closed"
    assert log == ["entered", "left"]


@pytest.mark.parametrize(("cleanup", "leaked"), [("waits", 0), ("refuses", 1)])
async def test_one_that_does_not_close_holds_up_nothing(
    cleanup: str, leaked: int, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent("stuck")
    through = anyio.Event()
    log: list[str] = []

    @agent.session
    async def prepare(_session: Session) -> AsyncIterator[None]:
        yield
        try:
            if cleanup == "refuses":
                with anyio.CancelScope(shield=True):
                    await through.wait()
            else:
                await anyio.sleep_forever()
        finally:
            log.append("cut")

    @agent.prompt
    async def prompt(_turn: Turn) -> None: ...

    async with editing(agent, QUICK, leaks=2 * leaked) as editor:
        session = await editor.open()
        await _close(editor, session)
        assert "was cut short" in caplog.text
        assert await editor.ask(await editor.open()) == END_TURN
        second = editor.connection
    # Each session has one.
    assert len(log) == 2 * (1 - leaked)
    # They end all the same if they are let.
    through.set()
    await second.lasting.wait_idle()


async def test_one_that_needs_the_client_when_it_is_gone_is_not_told_to_have_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked: list[str] = []
    agent = Agent("asks")

    @agent.session
    async def prepare(session: Session) -> AsyncIterator[None]:
        async def ask(which: str) -> None:
            asked.append(which)
            await session.client.request("_vault/lock")

        session.on_close(partial(ask, "on_close"))
        yield
        await ask("generator")

    @agent.prompt
    async def prompt(_turn: Turn) -> None: ...

    async with editing(agent) as editor:
        await editor.open()
    assert asked == ["generator", "on_close"]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_one_that_breaks_in_the_middle_is_logged_and_its_session_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server()
    async with editing(served(server)) as editor:
        session = await editor.open()
        server.broken.set()
        await editor.connection.lasting.wait_idle()
        assert "the server broke" in caplog.text
        assert await editor.ask(session) == END_TURN
        assert editor.said() == ["the server is closed"]
        await _close(editor, session)


@pytest.mark.parametrize(("yields", "told"), [(0, "yield"), (2, "stop")])
async def test_a_generator_that_does_not_yield_once_is_told_so(
    yields: int, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent("odd")

    @agent.session
    async def prepare(_session: Session) -> AsyncIterator[None]:
        for _ in range(yields):
            yield

    @agent.prompt
    async def prompt(_turn: Turn) -> None: ...

    async with editing(agent) as editor:
        if yields:
            await _close(editor, await editor.open())
        else:
            assert (await editor.refusal("session/new", setup()))["code"] == INTERNAL_ERROR
    assert f"generator didn't {told}" in caplog.text


async def test_a_handler_of_the_end_of_the_program_ends_it_also_from_there() -> None:
    agent = Agent("ends")

    @agent.session
    async def prepare(_session: Session) -> AsyncIterator[None]:
        yield
        raise SystemExit(3)

    @agent.prompt
    async def prompt(_turn: Turn) -> None: ...

    with pytest.raises(SystemExit) as ended:
        async with editing(agent) as editor:
            await _close(editor, await editor.open())
    assert ended.value.code == 3
