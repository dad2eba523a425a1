"""What prompt handlers do wrong: they say nonsense, raise, ignore their cancel, outstay their time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio

from acp_server import Agent, RpcError, Turn, TurnEnded, grace
from acp_server.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    ConnectionClosed,
    RequestCancelled,
    UsageError,
)
from tests.session.editor import CANCELLED, END_TURN, QUICK, editing

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("piece", [7, None, b"bytes", ["a"], {"sessionUpdate": "plan"}, object()])
async def test_a_piece_that_cannot_be_shown_fails_the_turn_and_says_why_in_the_log(
    piece: Any, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent("wrong")
    closed: list[bool] = []

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[Any]:
        try:
            yield piece
        finally:
            closed.append(True)

    async with editing(agent) as editor:
        session = await editor.open()
        assert await editor.ask(session) == {
            "code": INTERNAL_ERROR,
            "message": "Internal error: the agent's log says why",
        }
        assert closed == [True]
    assert f"a turn cannot show {type(piece).__name__}" in caplog.text


async def test_a_handler_may_go_on_after_a_piece_that_cannot_be_shown() -> None:
    agent = Agent("wrong")

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[Any]:
        try:
            yield 7
        except UsageError:
            yield "seven"

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        assert editor.said() == ["seven"]


async def test_a_function_that_returns_an_async_iterator_fails_the_turn(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent("wrong")

    async def pieces() -> AsyncIterator[str]:
        yield "never"

    @agent.prompt
    async def prompt(turn: Turn) -> Any:
        return pieces()

    async with editing(agent) as editor:
        assert await editor.code(await editor.prompt(await editor.open())) == INTERNAL_ERROR
        assert not editor.said()
    assert "a turn cannot show an async iterator" in caplog.text


@pytest.mark.behaviour("D5")
async def test_an_error_of_the_handler_is_logged_and_its_text_stays_here(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent("fails")

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[str]:
        yield "so far"
        if turn.text == "fail":
            raise ValueError("secret")
        if turn.text == "refuse":
            raise RpcError("no more", code=-31000, data={"quota": 0})

    async with editing(agent) as editor:
        session = await editor.open()
        assert await editor.ask(session, "fail") == {
            "code": INTERNAL_ERROR,
            "message": "Internal error: the agent's log says why",
        }
        assert await editor.ask(session, "refuse") == {"code": -31000, "message": "no more", "data": {"quota": 0}}
        assert await editor.ask(session) == END_TURN
        assert "secret" not in str(editor.client.received)
    assert "ValueError: secret" in caplog.text


@pytest.mark.behaviour("D4")
async def test_a_stray_cancellation_in_a_handler_ends_its_own_turn_only(anyio_backend_name: str) -> None:
    agent = Agent("strays")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        if turn.text == "stray":
            if anyio_backend_name == "asyncio":
                raise asyncio.CancelledError
            kept: list[BaseException] = []
            with trio.CancelScope() as scope:
                scope.cancel()
                try:
                    await anyio.lowlevel.checkpoint()
                except trio.Cancelled as error:
                    kept.append(error)
            raise kept[0]
        if turn.text == "other":
            await anyio.sleep_forever()

    async with editing(agent) as editor:
        session, second = await editor.open(), await editor.open()
        other = await editor.prompt(second, "other")
        assert await editor.code(await editor.prompt(session, "stray")) == REQUEST_CANCELLED
        assert await editor.ask(session) == END_TURN
        await editor.cancel(second)
        assert await editor.answer(other) == CANCELLED


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("error", [SystemExit(3), BaseExceptionGroup("of a task group", [SystemExit(3)])])
@pytest.mark.behaviour("D5")
async def test_a_system_exit_answers_the_prompt_and_then_ends_the_connection(
    cancelled: bool, error: BaseException
) -> None:
    agent = Agent("exits")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        try:
            if cancelled:
                await turn.say("here")
                await anyio.sleep_forever()
        finally:
            raise error

    async def drive() -> None:
        async with editing(agent) as editor:
            session = await editor.open()
            id = await editor.prompt(session)
            if cancelled:
                await editor.client.expect("session/update")
                await editor.cancel(session)
                assert await editor.answer(id) == CANCELLED
            else:
                assert await editor.code(id) == INTERNAL_ERROR
            await editor.client.wait_ended()

    with pytest.raises(SystemExit) as ended:
        await drive()
    assert ended.value.code == 3


async def raises_error() -> None:
    raise ValueError("cleanup")


async def raises_group() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(raises_error)


async def raises_rpc_error() -> None:
    raise RpcError("of the tool", code=-31000)


async def raises_stop() -> None:
    raise StopAsyncIteration


async def returns() -> None:
    return


@pytest.mark.parametrize("end", [raises_error, raises_group, raises_rpc_error, raises_stop, returns])
@pytest.mark.behaviour("F2", "B10", "B11")
async def test_whatever_a_cancelled_handler_does_the_stop_reason_is_cancelled(end: Any) -> None:
    agent = Agent("ends")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turn.stop_reason = "refusal"
        with contextlib.suppress(BaseException):
            await turn.say("here")
            await anyio.sleep_forever()
        await end()

    async with editing(agent) as editor:
        session = await editor.open()
        for by_session in (True, False):
            id = await editor.prompt(session)
            await editor.client.expect("session/update")
            await (editor.cancel(session) if by_session else editor.withdraw(id))
            assert await editor.answer(id) == CANCELLED


@pytest.mark.behaviour("G8")
@pytest.mark.parametrize("fate", [ConnectionClosed(), RequestCancelled(), ValueError("cleanup")])
async def test_only_what_a_cancelled_turn_itself_did_wrong_is_worth_a_warning(
    fate: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent("ends")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await turn.say("here")
        try:
            await anyio.sleep_forever()
        finally:
            raise fate

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect("session/update")
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
    own = isinstance(fate, ValueError)
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == (
        ["a turn failed while it was being cancelled (session)"] if own else []
    )


@pytest.mark.behaviour("F2", "D7")
async def test_a_time_out_cancels_a_block_of_the_handler_and_ends_the_prompt_only_where_it_is_let_out() -> None:
    agent = Agent("times out")

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[str]:
        with anyio.move_on_after(0):
            await anyio.sleep_forever()
        yield "on"
        with anyio.fail_after(0):
            await anyio.sleep_forever()

    async with editing(agent) as editor:
        assert await editor.code(await editor.prompt(await editor.open())) == REQUEST_CANCELLED
        # Some clients show an error in the line that they are in, behind a fence for example.
        assert editor.said() == ["on", "\n"]


@pytest.mark.parametrize(("said", "behind"), [("a line\n", []), ("", []), ("```", ["\n"])])
async def test_a_line_that_was_begun_ends_before_an_error(said: str, behind: list[str]) -> None:
    agent = Agent("fails")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await turn.say(said)
        raise ValueError

    async with editing(agent) as editor:
        assert await editor.code(await editor.prompt(await editor.open())) == INTERNAL_ERROR
        assert editor.said() == [*filter(None, [said]), *behind]


@pytest.mark.behaviour("F22", "F5", "E10", "B17")
async def test_a_turn_that_outstays_its_cleanup_is_answered_and_holds_its_session_until_it_is_through() -> None:
    agent = Agent("outstays")
    late: list[str] = []
    through = anyio.Event()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        if turn.text != "stay":
            return
        try:
            await turn.say("here")
            await anyio.sleep_forever()
        finally:
            # For longer than a cancelled turn has.
            with grace(60):
                await through.wait()
                try:
                    await turn.say("too late")
                except TurnEnded:
                    late.append("refused")

    async with editing(agent, QUICK) as editor:
        session = await editor.open()
        other = await editor.open()
        id = await editor.prompt(session, "stay")
        await editor.client.expect("session/update")
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        # The session is not free, and a prompt does not wait for ever; others are not concerned.
        assert await editor.ask(other) == END_TURN
        refused = await editor.ask(session)
        assert refused["code"] == INVALID_REQUEST
        assert refused["message"] == "The cancelled turn before this one is still cleaning up"
        through.set()
        assert await editor.ask(session) == END_TURN
        assert late == ["refused"]
        assert editor.said() == ["here"]


@pytest.mark.parametrize("by", ["session", "request"])
@pytest.mark.behaviour("F22", "F5")
async def test_nothing_is_said_between_the_answer_for_an_overdue_turn_and_its_end(by: str) -> None:
    agent = Agent("never quiet")
    done = anyio.Event()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        # It ignores its cancel and talks until it is told that nobody listens.
        try:
            await turn.say("here")
            await anyio.sleep_forever()
        finally:
            with grace(60), contextlib.suppress(TurnEnded):
                while True:
                    await turn.say("more")
                    await anyio.lowlevel.checkpoint()
            done.set()

    async with editing(agent, QUICK) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect("session/update")
        await (editor.cancel(session) if by == "session" else editor.withdraw(id))
        assert await editor.answer(id) == CANCELLED
        await done.wait()
        await editor.settled()
        assert [message.get("method") for message in editor.client.received[-2:]] == [None, None]


@pytest.mark.behaviour("K5", "D6")
async def test_a_handler_that_never_gives_in_is_left_behind_and_does_not_stop_the_others() -> None:
    agent = Agent("stubborn")
    released = anyio.Event()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        while turn.text == "stay" and not released.is_set():
            with contextlib.suppress(BaseException):
                await turn.say("x")
                await anyio.lowlevel.checkpoint()

    async with editing(agent, QUICK) as editor:
        session = await editor.open()
        id = await editor.prompt(session, "stay")
        await editor.client.expect("session/update")
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        assert await editor.ask(await editor.open()) == END_TURN
        released.set()
        assert await editor.ask(session) == END_TURN


async def test_a_handler_that_needs_what_the_client_cannot_do_says_so_to_the_user() -> None:
    agent = Agent("needs")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await turn.client.read_text_file("/a.txt")

    async with editing(agent, capabilities={}) as editor:
        refused = await editor.ask(await editor.open())
        assert refused["message"] == (
            "The client lacks a capability: fs/read_text_file needs the capability "
            "clientCapabilities.fs.readTextFile, which the peer did not announce"
        )
