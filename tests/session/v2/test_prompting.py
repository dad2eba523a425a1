"""The life of a prompt on version 2, and what ends it."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from acp_server import Agent, RpcError, Turn, grace
from acp_server.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    RESOURCE_NOT_FOUND,
)
from acp_server.schema import PermissionOption, ToolCallUpdate
from acp_server.session.live_session import LiveSession
from acp_server.session.turn import live_of
from acp_server.tasks.cause import Cause
from tests.session.editor import QUICK
from tests.session.v2.editor import editing
from tests.store.stores import TestStore

pytestmark = pytest.mark.anyio

OPTIONS = [PermissionOption(option_id="yes", name="Yes", kind="allow_once")]


def worker(store: Any = None) -> tuple[Agent, list[Turn]]:
    """An agent that does what it is told, and its turns."""
    agent = Agent("worker", versions=(1, 2), store=store)
    turns: list[Turn] = []

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[str]:
        turns.append(turn)
        yield f"re: {turn.text}"
        match turn.text:
            case "hang":
                await anyio.sleep_forever()
            case "fail":
                raise ValueError("secret")
            case "refuse":
                raise RpcError("not now", code=-31000, data={"why": "because"})
            case "time":
                raise TimeoutError
            case "raise at the end":
                try:
                    await anyio.sleep_forever()
                finally:
                    raise ValueError("secret")
            case "outstay":
                try:
                    await anyio.sleep_forever()
                finally:
                    with grace(60):
                        await turn.session.data.wait()
            case "ask":
                call = ToolCallUpdate(tool_call_id="c", title="Do it")
                answer = await turn.client.request_permission(call, OPTIONS)
                yield f"allowed: {answer.allowed}"
            case _:
                pass

    return agent, turns


@pytest.mark.behaviour("M1", "M10")
async def test_a_prompt_is_answered_when_its_message_is_inserted_and_its_work_goes_on() -> None:
    agent, turns = worker()
    async with editing(agent) as editor:
        session = await editor.open()
        answer = await editor.answer(await editor.prompt(session, "hang"))
        (turn,) = turns
        assert answer == {"messageId": turn.id}
        await editor.until(session, "agent_message_chunk")
        parent = live_of(turn).node.parent
        assert parent is not None
        assert parent.label == f"session {session}"
        await editor.cancel(session)
        await editor.idle(session)
        record = editor.record(session)
        assert list(record.things) == [("user_message", turn.id), ("agent_message", f"{turn.id}.1")]
        assert editor.reasons(session) == ["running", "cancelled"]


@pytest.mark.behaviour("M10")
async def test_each_run_of_work_has_one_idle_with_its_reason() -> None:
    agent, _ = worker()
    async with editing(agent) as editor:
        session = await editor.open()
        assert await editor.ask(session) == {"stopReason": "end_turn"}
        assert await editor.ask(session) == {"stopReason": "end_turn"}
        assert editor.reasons(session) == ["running", "end_turn"] * 2
        assert editor.client.updates(session)[-1]["sessionUpdate"] == "state_update"


@pytest.mark.parametrize("text", ["hang", "raise at the end"])
@pytest.mark.behaviour("M2", "M10")
async def test_a_cancel_of_the_session_is_confirmed_by_idle(text: str) -> None:
    agent, turns = worker()
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.answer(await editor.prompt(session, text))
        await editor.until(session, "agent_message_chunk")
        await editor.cancel(session)
        await editor.cancel(session)
        assert await editor.idle(session) == {"stopReason": "cancelled"}
        assert turns[0].cause is Cause.SESSION
        assert await editor.ask(session) == {"stopReason": "end_turn"}
        assert editor.reasons(session) == ["running", "cancelled", "running", "end_turn"]


@pytest.mark.behaviour("M2", "B3")
async def test_a_cancel_in_the_same_chunk_as_its_prompt_takes_effect() -> None:
    agent, turns = worker()
    async with editing(agent) as editor:
        session = await editor.open()
        prompt = editor.prompting(session, "hang")
        await editor.client.send(prompt, editor.cancelling(session))
        assert await editor.code(prompt["id"]) == REQUEST_CANCELLED
        assert not turns
        assert editor.client.updates(session) == []


@pytest.mark.parametrize("end", ["cancel", "session/close", "session/delete", "session/resume"])
@pytest.mark.behaviour("M3", "M10")
async def test_what_ends_the_work_of_a_session_ends_the_prompts_that_it_holds(end: str) -> None:
    agent, turns = worker()
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.answer(await editor.prompt(session, "hang"))
        held = [await editor.prompt(session, f"held {number}") for number in range(3)]
        await editor.settled()
        if end == "cancel":
            await editor.cancel(session)
        else:
            await editor.client.result(end, {"sessionId": session, "cwd": "/project"})
        assert [await editor.code(id) for id in held] == [REQUEST_CANCELLED] * 3
        assert await editor.idle(session) == {"stopReason": "cancelled"}
        assert [turn.text for turn in turns] == ["hang"]
        messages = [key for key in editor.record(session).things if key[0] == "user_message"]
        assert len(messages) == 1


@pytest.mark.behaviour("M4")
async def test_a_prompt_that_is_held_can_be_withdrawn() -> None:
    agent, turns = worker()
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.answer(await editor.prompt(session, "hang"))
        first, second = await editor.prompt(session, "first"), await editor.prompt(session, "second")
        await editor.withdraw(first)
        assert await editor.code(first) == REQUEST_CANCELLED
        await editor.cancel(session)
        assert await editor.code(second) == REQUEST_CANCELLED
        assert [turn.text for turn in turns] == ["hang"]


@pytest.mark.behaviour("M4")
async def test_to_withdraw_a_prompt_that_was_inserted_changes_nothing() -> None:
    agent, turns = worker()
    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session, "hang")
        assert "messageId" in await editor.answer(id)
        await editor.withdraw(id)
        await editor.settled()
        assert turns[0].cause is None
        assert editor.reasons(session) == ["running"]
        await editor.cancel(session)
        await editor.idle(session)


@pytest.mark.behaviour("M1", "M10")
async def test_held_prompts_are_inserted_one_after_the_other_when_the_work_before_them_is_done() -> None:
    agent, turns = worker()
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.prompt(session, "ask")
        question = await editor.client.expect_request("session/request_permission")
        held = [await editor.prompt(session, text) for text in ("one", "two")]
        await editor.settled()
        assert len(turns) == 1
        await editor.client.respond(question, {"outcome": {"outcome": "selected", "optionId": "yes"}})
        assert [set(await editor.answer(id)) for id in held] == [{"messageId"}] * 2
        await editor.idle(session, 7)
        assert editor.reasons(session) == [
            "running",
            "requires_action",
            "running",
            "end_turn",
            *["running", "end_turn"] * 2,
        ]
        assert [turn.text for turn in turns] == ["ask", "one", "two"]


async def test_a_prompt_behind_a_cancel_waits_for_what_was_cancelled() -> None:
    agent, _ = worker()
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.answer(await editor.prompt(session, "hang"))
        await editor.until(session, "agent_message_chunk")
        next_one = editor.prompting(session, "next")
        await editor.client.send(editor.cancelling(session), next_one)
        assert "messageId" in await editor.answer(next_one["id"])
        await editor.idle(session, 3)
        assert editor.reasons(session) == ["running", "cancelled", "running", "end_turn"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("fail", {"code": INTERNAL_ERROR, "message": "Internal error: the agent's log says why"}),
        ("refuse", {"code": -31000, "message": "not now", "data": {"why": "because"}}),
        ("time", {"code": REQUEST_CANCELLED, "message": "Request cancelled"}),
    ],
)
@pytest.mark.behaviour("M5", "M11")
async def test_what_fails_behind_the_insertion_is_the_reason_error(text: str, error: Any) -> None:
    agent, turns = worker()
    async with editing(agent) as editor:
        session = await editor.open()
        assert await editor.ask(session, text) == {"stopReason": "error", "error": error}
        assert turns[0].record.status == "failed"
        assert await editor.ask(session) == {"stopReason": "end_turn"}


@pytest.mark.behaviour("M5")
async def test_the_end_of_the_agent_is_an_error_and_not_a_cancel() -> None:
    agent, _ = worker()
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.answer(await editor.prompt(session, "hang"))
        held = await editor.prompt(session, "held")
        await editor.settled()
        editor.connection.close()
        assert await editor.code(held) == REQUEST_CANCELLED
        ended = await editor.idle(session)
        assert ended["stopReason"] == "error"
        assert ended["error"]["code"] == REQUEST_CANCELLED
        await editor.client.wait_ended()


async def test_an_interrupt_at_a_terminal_is_the_users_cancel() -> None:
    agent, _ = worker()
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.answer(await editor.prompt(session, "hang"))
        await editor.until(session, "agent_message_chunk")
        assert agent.interrupt(editor.connection)
        assert await editor.idle(session) == {"stopReason": "cancelled"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"prompt": []}, INVALID_PARAMS),
        ({"prompt": "text"}, INVALID_PARAMS),
        ({"prompt": [{"type": "text"}]}, INVALID_PARAMS),
        ({"prompt": [{"type": "image", "data": "", "mimeType": "image/png"}]}, INVALID_PARAMS),
        ({"sessionId": "unknown"}, RESOURCE_NOT_FOUND),
        ({"sessionId": 7}, INVALID_PARAMS),
    ],
)
@pytest.mark.behaviour("M11")
async def test_what_cannot_be_inserted_is_answered_with_an_error(change: Any, code: int) -> None:
    agent, turns = worker()
    async with editing(agent) as editor:
        session = await editor.open()
        params = {"sessionId": session, "prompt": [{"type": "text", "text": "x"}], **change}
        refused = await editor.refusal("session/prompt", params)
        assert refused["code"] == code
        if code == RESOURCE_NOT_FOUND:
            assert refused["data"] == {"sessionId": "unknown"}
        assert not turns
        assert editor.client.updates() == []


async def test_content_of_a_kind_that_nobody_knows_is_refused() -> None:
    agent, turns = worker()
    async with editing(agent) as editor:
        session = await editor.open()
        block = {"type": "_hologram", "beam": 7}
        refused = await editor.refusal("session/prompt", {"sessionId": session, "prompt": [block]})
        assert refused["code"] == INVALID_PARAMS
        assert not turns


@pytest.mark.behaviour("M9")
async def test_a_close_is_answered_behind_the_end_of_the_work_and_nothing_follows() -> None:
    agent, _ = worker()
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.answer(await editor.prompt(session, "hang"))
        await editor.until(session, "agent_message_chunk")
        id = await editor.client.request("session/close", {"sessionId": session})
        assert await editor.answer(id) == {}
        kinds = [message.get("id", "update") for message in editor.client.received]
        assert kinds.index(id) == len(kinds) - 1
        assert editor.reasons(session) == ["running", "cancelled"]
        assert await editor.client.result("session/close", {"sessionId": "unknown"}) == {}


@pytest.mark.behaviour("M2", "M9", "M10")
async def test_work_that_does_not_end_is_told_to_have_ended_and_holds_up_no_close() -> None:
    agent, turns = worker()

    @agent.session
    def prepare(session: Any) -> None:
        session.data = anyio.Event()

    async with editing(agent, QUICK) as editor:
        session = await editor.open()
        await editor.answer(await editor.prompt(session, "outstay"))
        await editor.until(session, "agent_message_chunk")
        await editor.cancel(session)
        assert await editor.idle(session) == {"stopReason": "cancelled"}
        # It is not free for the next one.
        assert await editor.code(await editor.prompt(session, "next")) == INVALID_REQUEST
        assert await editor.client.result("session/close", {"sessionId": session}) == {}
        turns[0].session.data.set()
        await editor.settled()
        assert editor.reasons(session) == ["running", "cancelled"]
        over = turns[0].session
        assert isinstance(over, LiveSession)
        await over.wait_first(None)


@pytest.mark.behaviour("M8")
async def test_a_question_is_withdrawn_with_its_work_and_a_late_answer_changes_nothing() -> None:
    agent, _ = worker()
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.prompt(session, "ask")
        question = await editor.client.expect_request("session/request_permission")
        assert editor.reasons(session) == ["running", "requires_action"]
        await editor.cancel(session)
        assert await editor.idle(session) == {"stopReason": "cancelled"}
        assert editor.withdrawn() == [question["id"]]
        await editor.client.respond(question, {"outcome": {"outcome": "selected", "optionId": "yes"}})
        await editor.settled()
        assert editor.said(session) == ["re: ask"]
        assert editor.reasons(session) == ["running", "requires_action", "cancelled"]


@pytest.mark.parametrize(
    "outcome",
    [{"outcome": "selected", "optionId": "never offered"}, {"outcome": "_later"}, {"outcome": "cancelled"}, {}],
)
async def test_only_an_offered_option_that_allows_is_an_approval(outcome: Any) -> None:
    agent, _ = worker()
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.prompt(session, "ask")
        question = await editor.client.expect_request("session/request_permission")
        assert question["params"] == {
            "sessionId": session,
            "title": "Do it",
            "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c", "title": "Do it"}},
            "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}],
        }
        await editor.client.respond(question, {"outcome": outcome})
        await editor.idle(session)
        assert editor.said(session) == ["re: ask", "allowed: False"]


async def test_the_work_is_stored_before_it_is_told_to_be_done() -> None:
    store = TestStore()
    agent, _ = worker(store)
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.ask(session, "hello")
        (turn,) = store._records[session].turns
        assert (turn.status, turn.stop_reason) == ("completed", "end_turn")
