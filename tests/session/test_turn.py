"""What a prompt handler can do and say, and all that it can do wrong."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
import trio

from acp_server import Agent, RpcError, Turn, TurnEnded, grace, schema
from acp_server.errors import INTERNAL_ERROR, INVALID_REQUEST, REQUEST_CANCELLED
from tests.session.editor import CANCELLED, END_TURN, QUICK, editing

pytestmark = pytest.mark.anyio


# What it can say


async def test_everything_that_can_be_yielded_is_shown_in_order() -> None:
    agent = Agent("speaker")

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[Any]:
        yield "text"
        yield ""
        yield schema.TextContent(text="content")
        yield schema.ImageContent(data="aGk=", mime_type="image/png")
        yield schema.TextContent(text="marked", annotations=schema.Annotations(priority=1))
        yield schema.AgentThoughtChunk(content=schema.TextContent(text="hm"))
        await turn.think("thought")
        await turn.plan([schema.PlanEntry(content="do it", priority="high", status="pending")])
        await turn.update(schema.ToolCall(tool_call_id="c1", title="look"))
        await turn.say("ein 😀 und \u2028 und \ud800")

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        assert [(u["sessionUpdate"], u.get("content", {})) for u in editor.client.updates() if "content" in u] == [
            ("agent_message_chunk", {"type": "text", "text": "text"}),
            ("agent_message_chunk", {"type": "text", "text": "content"}),
            ("agent_message_chunk", {"type": "image", "data": "aGk=", "mimeType": "image/png"}),
            ("agent_message_chunk", {"type": "text", "text": "marked", "annotations": {"priority": 1.0}}),
            ("agent_thought_chunk", {"type": "text", "text": "hm"}),
            ("agent_thought_chunk", {"type": "text", "text": "thought"}),
            ("agent_message_chunk", {"type": "text", "text": "ein 😀 und \u2028 und \ud800"}),
        ]
        assert [u["sessionUpdate"] for u in editor.client.updates() if "content" not in u] == ["plan", "tool_call"]


@pytest.mark.parametrize("result", [None, "said", schema.TextContent(text="said")])
async def test_what_an_async_function_returns_is_shown_too(result: Any) -> None:
    agent = Agent("speaker")

    @agent.prompt
    async def prompt(turn: Turn) -> Any:
        return result

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        assert editor.said() == ([] if result is None else ["said"])


async def test_a_turn_knows_the_message_its_meta_and_its_session() -> None:
    agent = Agent("reader")
    turns: list[Turn] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turns.append(turn)

    async with editing(agent) as editor:
        session = await editor.open("/here", additionalDirectories=["/there"])
        link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
        blocks = [{"type": "text", "text": "one"}, link, {"type": "text", "text": "two", "_meta": {"x": 1}}]
        assert await editor.ask(session, prompt=blocks, _meta={"session_id": "OTHER"}) == END_TURN
        assert await editor.ask(session, "plain", _meta=7) == END_TURN
        first, second = turns
        assert first.text == "one\ntwo"
        assert [block.to_wire() for block in first.prompt] == blocks
        assert first.meta == {"session_id": "OTHER"}
        assert first.session.id == session
        assert first.session.roots == ["/here", "/there"]
        assert first.id != second.id == second.id
        assert (second.text, second.meta) == ("plain", {})
        assert first.ended_at is not None
        assert first.created_at <= first.ended_at <= second.created_at


@pytest.mark.parametrize("reason", ["max_tokens", "max_turn_requests", "refusal"])
async def test_the_handler_sets_the_stop_reason(reason: Any) -> None:
    agent = Agent("stops")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turn.stop_reason = reason

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == {"stopReason": reason}


@pytest.mark.parametrize("capabilities", [{}, {"session": {"notices": {}, "compaction": {}}}])
async def test_updates_that_only_some_clients_understand_are_sent_to_those_only(capabilities: dict[str, Any]) -> None:
    agent = Agent("notices")

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[Any]:
        yield schema.Notice(severity="info", title="by the way")
        yield schema.CompactionUpdate(compaction_id="k", status="in_progress")
        yield "and"

    async with editing(agent, capabilities=capabilities) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        kinds = [update["sessionUpdate"] for update in editor.client.updates()]
        assert kinds == (["notice", "compaction_update"] if capabilities else []) + ["agent_message_chunk"]


# What it can do wrong


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
        assert await editor.ask(session) == {"code": INTERNAL_ERROR, "message": "Internal error"}
        assert closed == [True]
    assert f"yielded {type(piece).__name__}" in caplog.text


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
    assert "not an async iterator" in caplog.text


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
        assert await editor.ask(session, "fail") == {"code": INTERNAL_ERROR, "message": "Internal error"}
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
            with trio.CancelScope() as scope:
                scope.cancel()
                try:
                    await anyio.lowlevel.checkpoint()
                except trio.Cancelled as error:
                    kept = error
            raise kept
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


@pytest.mark.behaviour("F2", "D7")
async def test_a_time_out_inside_a_handler_is_no_cancel() -> None:
    agent = Agent("times out")

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[str]:
        with anyio.move_on_after(0):
            await anyio.sleep_forever()
        yield "on"
        with anyio.fail_after(0):
            await anyio.sleep_forever()

    async with editing(agent) as editor:
        assert await editor.code(await editor.prompt(await editor.open())) == INTERNAL_ERROR
        assert editor.said() == ["on"]


@pytest.mark.behaviour("B16", "F5")
async def test_what_a_cancelled_handler_says_while_it_unwinds_comes_before_the_answer() -> None:
    agent = Agent("last words")

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[str]:
        yield "working"
        try:
            await anyio.sleep_forever()
        finally:
            await turn.say("stopped")

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect("session/update")
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        assert editor.said() == ["working", "stopped"]
        assert "stopReason" in editor.client.received[-1]["result"]


@pytest.mark.parametrize("how", ["end", "cancel", "fail"])
@pytest.mark.behaviour("F4", "F5")
async def test_a_turn_that_is_kept_says_nothing_after_its_answer(how: str) -> None:
    agent = Agent("keeps")
    kept: list[Turn] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        kept.append(turn)
        if turn.text == "cancel":
            await anyio.sleep_forever()
        if turn.text == "fail":
            raise ValueError

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session, how)
        await editor.settled()
        await editor.cancel(session)
        await editor.answer(id)
        before = len(editor.client.received)
        for late in (kept[0].say("late"), kept[0].think("late"), kept[0].plan([]), kept[0].say("")):
            with pytest.raises(TurnEnded):
                await late
        await editor.settled()
        assert len(editor.client.received) == before + 1


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


@pytest.mark.behaviour("C11", "B17")
async def test_what_a_turn_started_is_stopped_before_its_answer() -> None:
    agent = Agent("many tasks")
    stopped: list[str] = []

    async def talk(turn: Turn, name: str) -> None:
        try:
            await turn.say(name)
            await anyio.sleep_forever()
        finally:
            stopped.append(name)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async with anyio.create_task_group() as outer:
            outer.start_soon(talk, turn, "a")
            async with anyio.create_task_group() as inner:
                inner.start_soon(talk, turn, "b")
                inner.start_soon(turn.client.read_text_file, "/a")

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        asked = await editor.client.expect("fs/read_text_file")
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        assert sorted(editor.said()) == sorted(stopped) == ["a", "b"]
        assert editor.withdrawn() == [asked["id"]]


# Talking without end


@pytest.mark.parametrize("piece", ["x" * 20, ""])
@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.behaviour("K7", "B6")
async def test_a_generator_that_never_waits_is_cancelled_soon_and_lets_others_work(piece: str, reads: bool) -> None:
    agent = Agent("floods")
    count = 0

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[str]:
        nonlocal count
        if turn.text == "short":
            return
        for _ in range(10_000_000):
            count += 1
            yield piece

    async with editing(agent) as editor:
        session, other = await editor.open(), await editor.open()
        if not reads:
            editor.stream.stall_sending()
        id = await editor.prompt(session)
        short = await editor.prompt(other, "short")
        await editor.cancel(session)
        if not reads:
            await editor.stream.stalled.wait()
            editor.stream.release()
        assert await editor.answer(short) == END_TURN
        assert await editor.answer(id) == CANCELLED
        assert count < 10_000


@pytest.mark.behaviour("K7")
async def test_a_client_that_does_not_read_bounds_the_memory_of_a_flood() -> None:
    agent = Agent("floods")
    count = 0

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[str]:
        nonlocal count
        while True:
            count += 1
            yield "x" * 100

    async with editing(agent) as editor:
        session = await editor.open()
        editor.stream.stall_sending()
        id = await editor.prompt(session)
        await anyio.wait_all_tasks_blocked()
        assert editor.connection.writer.size < 200_000
        assert 100 < count < 2000
        editor.stream.release()
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED


async def test_a_text_of_many_pieces_is_one_message_in_the_history() -> None:
    agent = Agent("long")

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[str]:
        for number in range(20_000):
            yield f"{number:4}"

    async with editing(agent) as editor:
        session = await editor.open()
        records = cast("Any", agent)._hooks.store._records
        assert await editor.ask(session) == END_TURN
        assert len(editor.said()) == 20_000
        turn = records[session].turns[0]
        assert turn.events == [
            {
                "sessionUpdate": "agent_message_chunk",
                "content": {"type": "text", "text": "".join(f"{number:4}" for number in range(20_000))},
            }
        ]
