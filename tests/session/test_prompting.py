"""Which prompts are taken, in which order turns run, and what a cancel of either kind does to them."""

from typing import Any

import anyio
import pytest

from acp_server import Agent, Cause, Limits, RequestCancelled, Turn, grace
from acp_server.errors import INVALID_REQUEST, REQUEST_CANCELLED
from acp_server.session.live_session import LiveSession
from acp_server.session.turn import live_of
from acp_server.session.updates import LiveTurn
from tests.session.agents import listener
from tests.session.editor import CANCELLED, END_TURN, editing

pytestmark = pytest.mark.anyio

BOTH_CANCELS = pytest.mark.parametrize("by", ["session", "request"])


async def test_what_a_prompt_handler_yields_comes_before_its_answer() -> None:
    agent, _, _ = listener()
    async with editing(agent) as editor:
        session = await editor.open()
        assert await editor.ask(session, "hello") == END_TURN
        assert editor.client.received[-2]["params"] == {
            "sessionId": session,
            "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hello begun"}},
        }


@BOTH_CANCELS
@pytest.mark.behaviour("F1", "F7", "F17", "E7", "D11")
async def test_a_cancel_of_either_kind_ends_the_turn_as_cancelled_and_the_session_goes_on(by: str) -> None:
    agent, _, turns = listener()
    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session, "hang")
        await editor.client.expect("session/update")
        await (editor.cancel(session) if by == "session" else editor.withdraw(id))
        assert await editor.answer(id) == CANCELLED
        assert turns[0].cause is (Cause.SESSION if by == "session" else Cause.PEER)
        assert turns[0].state.value == "canceled"
        assert await editor.ask(session, "next") == END_TURN


@pytest.mark.parametrize("first", ["session", "request"])
@pytest.mark.behaviour("E7", "D11", "B8")
async def test_both_cancels_of_one_prompt_give_one_answer_and_the_first_cause_stands(first: str) -> None:
    agent, _, turns = listener()
    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session, "hang")
        await editor.client.expect("session/update")
        cancels = [
            editor.cancelling(session),
            {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}},
        ]
        await editor.client.send(*(cancels if first == "session" else reversed(cancels)))
        assert await editor.answer(id) == CANCELLED
        await editor.settled()
        assert turns[0].cause is (Cause.SESSION if first == "session" else Cause.PEER)


@pytest.mark.behaviour("E8", "F1")
async def test_a_session_cancel_in_the_same_chunk_as_the_prompt_stops_it_before_its_handler_is_called() -> None:
    agent, seen, _ = listener()
    async with editing(agent) as editor:
        session = await editor.open()
        prompt = editor.prompting(session, "hang")
        await editor.client.send(prompt, editor.cancelling(session))
        assert await editor.answer(prompt["id"]) == CANCELLED
        await editor.settled()
        assert not seen
        assert not editor.said()


@pytest.mark.behaviour("E8")
async def test_a_cancelled_prompt_that_waits_for_a_free_place_is_answered_at_once_and_never_runs() -> None:
    agent, seen, _ = listener()
    async with editing(agent, Limits(running=1, drain=0.05)) as editor:
        first, second = await editor.open(), await editor.open()
        await editor.prompt(first, "hang")
        await editor.client.expect("session/update")
        waiting = await editor.prompt(second, "hang too")
        await editor.cancel(second)
        assert await editor.answer(waiting) == CANCELLED
        await editor.cancel(first)
        assert await editor.ask(second, "third") == END_TURN
        assert seen == ["hang", "third"]


@pytest.mark.behaviour("E9", "I10")
async def test_a_session_cancel_without_a_turn_does_not_hit_the_next_prompt() -> None:
    agent, _, _ = listener()
    async with editing(agent) as editor:
        session = await editor.open()
        prompt = editor.prompting(session)
        await editor.client.send(editor.cancelling(session), prompt)
        assert await editor.answer(prompt["id"]) == END_TURN
        await editor.cancel(session)
        assert await editor.ask(session) == END_TURN


@pytest.mark.behaviour("E10", "E9", "I10")
async def test_a_prompt_right_behind_a_cancel_runs_untouched_once_the_cancelled_turn_is_through() -> None:
    agent = Agent("cleans up")
    order: list[str] = []
    cleaning, clean = anyio.Event(), anyio.Event()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        order.append(f"{turn.text} begins")
        if turn.text == "first":
            try:
                await turn.say("here")
                await anyio.sleep_forever()
            finally:
                with grace():
                    cleaning.set()
                    await clean.wait()
                    order.append("first is clean")

    async with editing(agent) as editor:
        session = await editor.open()
        first = await editor.prompt(session, "first")
        await editor.client.expect("session/update")
        second = editor.prompting(session, "second")
        await editor.client.send(editor.cancelling(session), second)
        await cleaning.wait()
        await editor.settled()
        assert order == ["first begins"]
        clean.set()
        assert await editor.answer(first) == CANCELLED
        assert await editor.answer(second["id"]) == END_TURN
        assert order == ["first begins", "first is clean", "second begins"]


@BOTH_CANCELS
@pytest.mark.behaviour("E10")
async def test_a_prompt_that_waits_behind_a_cancelled_one_can_be_cancelled_too(by: str) -> None:
    agent = Agent("cleans up")
    clean = anyio.Event()
    seen: list[str] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        seen.append(turn.text)
        try:
            await turn.say("here")
            await anyio.sleep_forever()
        finally:
            with grace():
                await clean.wait()

    async with editing(agent) as editor:
        session = await editor.open()
        first = await editor.prompt(session, "first")
        await editor.client.expect("session/update")
        await editor.cancel(session)
        second = await editor.prompt(session, "second")
        await editor.settled()
        # It waits its turn, so there is no place behind it.
        assert await editor.code(await editor.prompt(session, "third")) == INVALID_REQUEST
        await (editor.cancel(session) if by == "session" else editor.withdraw(second))
        assert await editor.answer(second) == CANCELLED
        fourth = await editor.prompt(session, "fourth")
        clean.set()
        assert await editor.answer(first) == CANCELLED
        await editor.client.expect("session/update")
        await editor.cancel(session)
        assert await editor.answer(fourth) == CANCELLED
        assert seen == ["first", "fourth"]


async def test_a_second_prompt_while_one_runs_is_refused_and_the_first_goes_on() -> None:
    agent, seen, _ = listener()
    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session, "hang")
        refused = await editor.answer(await editor.prompt(session, "second"))
        assert refused["code"] == INVALID_REQUEST
        assert refused["data"] == {"sessionId": session}
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        assert seen == ["hang"]


@pytest.mark.behaviour("F3", "E1")
async def test_a_cancel_behind_the_end_of_a_turn_leaves_its_stop_reason() -> None:
    agent = Agent("done")
    go = anyio.Event()
    session = ""

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await go.wait()
        turn.stop_reason = "refusal"
        # The last thing before the end: nothing waits from here to the answer, so the cancel is read behind it.
        await editor.client.send(editor.cancelling(session))

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        go.set()
        assert await editor.answer(id) == {"stopReason": "refusal"}


@pytest.mark.behaviour("F6")
async def test_cancelling_one_session_leaves_the_turn_of_another_alone() -> None:
    agent, _, turns = listener()
    async with editing(agent) as editor:
        first, second = await editor.open(), await editor.open()
        ids = [await editor.prompt(first, "hang"), await editor.prompt(second, "hang")]
        await editor.client.expect("session/update")
        await editor.client.expect("session/update")
        await editor.cancel(first)
        assert await editor.answer(ids[0]) == CANCELLED
        await editor.settled()
        assert not next(turn for turn in turns if turn.session.id == second).is_cancelled
        await editor.cancel(second)
        assert await editor.answer(ids[1]) == CANCELLED


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        [],
        ["sess"],
        {"sessionId": None},
        {"sessionId": 7},
        {"sessionId": {}},
        {"sessionId": "unknown"},
        {"session_id": "it"},
        {"SESSION": "it"},
    ],
)
@pytest.mark.behaviour("F15")
async def test_a_session_cancel_for_nothing_known_is_silent(params: Any) -> None:
    agent, _, _ = listener()
    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session, "hang")
        await editor.client.expect("session/update")
        before = len(editor.client.received)
        await editor.client.notify("session/cancel", params)
        await editor.settled()
        assert len(editor.client.received) == before + 1  # the barrier's own
        await editor.client.notify("session/cancel", {"sessionId": session, "reason": "more", "_meta": {"a": 1}})
        assert await editor.answer(id) == CANCELLED


@pytest.mark.behaviour("F16")
async def test_a_session_cancel_stops_the_turn_and_no_other_request_of_the_session() -> None:
    agent, _, _ = listener()
    held, release = anyio.Event(), anyio.Event()

    @agent.method("_slow")
    async def slow(call: Any, sessionId: str) -> str:  # noqa: N803
        held.set()
        await release.wait()
        return sessionId

    async with editing(agent) as editor:
        session = await editor.open()
        other = await editor.client.request("_slow", {"sessionId": session})
        await held.wait()
        id = await editor.prompt(session, "hang")
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        release.set()
        assert await editor.answer(other) == session


@pytest.mark.behaviour("F4", "F5")
async def test_nothing_of_a_cancelled_turn_reaches_the_next_one() -> None:
    agent, _, _ = listener()
    async with editing(agent) as editor:
        session = await editor.open()
        answers = []
        for number in range(20):
            prompt = editor.prompting(session, f"hang {number}")
            await editor.client.send(prompt)
            await editor.client.expect("session/update")
            following = editor.prompting(session, f"number {number}")
            await editor.client.send(editor.cancelling(session), following)
            await editor.client.expect("session/update")
            answers += [await editor.answer(prompt["id"]), await editor.answer(following["id"])]
        assert answers == [CANCELLED, END_TURN] * 20
        kinds = [message.get("method", "answer") for message in editor.client.received[-80:]]
        assert kinds == ["session/update", "answer"] * 40


@pytest.mark.parametrize("cause", [Cause.TIMEOUT, Cause.SHUTDOWN, Cause.CLOSED])
@pytest.mark.behaviour("D1", "D2")
async def test_a_turn_that_we_end_ourselves_is_an_error_and_not_cancelled(cause: Cause) -> None:
    agent, _, turns = listener()
    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session, "hang")
        await editor.client.expect("session/update")
        live_of(turns[0]).node.cancel(cause)
        assert await editor.answer(id) == {"code": REQUEST_CANCELLED, "message": "Request cancelled"}
        assert turns[0].state.value == "failed"
        assert await editor.ask(session, "next") == END_TURN


@pytest.mark.behaviour("B8", "D1")
async def test_a_cancel_of_the_request_behind_a_time_limit_of_ours_changes_nothing() -> None:
    agent, _, turns = listener()
    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session, "hang")
        await editor.client.expect("session/update")
        live_of(turns[0]).node.cancel(Cause.TIMEOUT)
        editor.connection._inbound.cancel({"requestId": id})
        assert await editor.answer(id) == {"code": REQUEST_CANCELLED, "message": "Request cancelled"}
        assert turns[0].state.value == "failed"


@pytest.mark.behaviour("B5")
async def test_a_turn_that_is_cancelled_in_the_moment_in_which_it_could_begin_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent, _, turns = listener()

    def leave(session: LiveSession, turn: LiveTurn) -> None:
        left(session, turn)
        session.cancel()

    left = LiveSession.leave
    async with editing(agent) as editor:
        session = await editor.open()
        first = await editor.prompt(session, "hang")
        await editor.client.expect("session/update")
        monkeypatch.setattr(LiveSession, "leave", leave)
        waiting = editor.client.new_request(
            "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "next"}]}
        )
        await editor.client.send(editor.cancelling(session), waiting)
        assert await editor.answer(first) == CANCELLED
        assert await editor.answer(waiting["id"]) == CANCELLED
    assert len(turns) == 1


@pytest.mark.behaviour("D2")
async def test_a_prompt_in_flight_when_the_agent_shuts_down_is_an_error_and_not_cancelled() -> None:
    agent, _, _ = listener()
    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session, "hang")
        await editor.client.expect("session/update")
        editor.connection.close()
        assert await editor.code(id) == REQUEST_CANCELLED


async def test_an_interrupt_cancels_all_turns_and_says_whether_there_were_any() -> None:
    agent, _, turns = listener()
    async with editing(agent) as editor:
        assert not agent.interrupt(editor.connection)
        ids = [await editor.prompt(await editor.open(), "hang") for _ in range(2)]
        await editor.client.expect("session/update")
        await editor.client.expect("session/update")
        assert agent.interrupt(editor.connection)
        assert [await editor.answer(id) for id in ids] == [CANCELLED, CANCELLED]
        assert turns[0].cause is Cause.INTERRUPT
        assert not agent.interrupt(editor.connection)


async def test_a_handler_can_give_up_its_request_itself() -> None:
    agent = Agent("gives up")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        raise RequestCancelled

    async with editing(agent) as editor:
        assert await editor.code(await editor.prompt(await editor.open())) == REQUEST_CANCELLED


@pytest.mark.behaviour("K4", "K5")
async def test_cancelled_turns_leave_no_watch_behind() -> None:
    agent, _, _ = listener()
    async with editing(agent) as editor:
        session = await editor.open()
        for _ in range(3):
            id = await editor.prompt(session, "hang")
            await editor.client.expect("session/update")
            await editor.cancel(session)
            await editor.answer(id)
        await editor.settled()
        assert not editor.connection.watchdog._entries
        assert editor.connection.tree.size == 0
