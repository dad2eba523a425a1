"""Prompts that are sent again with the same idempotency key (ACP v2, prompt lifecycle)."""

from typing import Any

import anyio
import pytest

from acp_server import Agent, InvalidParams, MemoryStore, Message, SqliteStore, Turn
from acp_server.errors import INVALID_PARAMS, INVALID_REQUEST, REQUEST_CANCELLED
from tests.session.v2.editor import Editor, editing

pytestmark = pytest.mark.anyio


def counting(store: Any = None, **options: Any) -> tuple[Agent, list[str]]:
    """An agent and the texts of its turns. A turn `hang` waits to be cancelled."""
    agent = Agent("counting", store=store or MemoryStore(), **options)
    texts: list[str] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        texts.append(turn.text)
        if turn.text == "hang":
            await anyio.sleep_forever()

    return agent, texts


async def insert(editor: Editor, session: str, text: str, key: str) -> Any:
    return await editor.answer(await editor.prompt(session, text, idempotencyKey=key))


async def test_another_attempt_has_the_id_of_the_first_and_inserts_nothing() -> None:
    agent, texts = counting()
    async with editing(agent) as editor:
        session, other = await editor.open(), await editor.open()
        first = await insert(editor, session, "go", "k")
        await editor.idle(session)
        assert await insert(editor, session, "go", "k") == first
        assert await insert(editor, session, "go", "K") != first
        assert await insert(editor, other, "go", "k") != first
        await editor.idle(other)
        await editor.settled()
        assert texts == ["go"] * 3
        updates = editor.client.updates(session)
        assert [each["messageId"] for each in updates if each["sessionUpdate"] == "user_message"].count(
            first["messageId"]
        ) == 1


@pytest.mark.parametrize("history", [True, False])
async def test_attempts_while_the_first_runs_or_is_held_share_its_message(history: bool) -> None:
    agent, texts = counting(history=history)
    async with editing(agent) as editor:
        session = await editor.open()
        await insert(editor, session, "hang", "a")
        held = [await editor.prompt(session, "next", idempotencyKey="b") for _ in range(3)]
        await editor.settled()
        assert await insert(editor, session, "hang", "a") == await insert(editor, session, "hang", "a")
        await editor.client.result("session/list", {})
        assert texts == ["hang"]
        await editor.cancel(session)
        answers = [await editor.answer(id) for id in held]
        # session/cancel withdraws what is held: no attempt has inserted the message.
        assert {answer["code"] for answer in answers} <= {REQUEST_CANCELLED, INVALID_REQUEST}
        again = await insert(editor, session, "next", "b")
        assert await insert(editor, session, "next", "b") == again
        await editor.settled()
        assert texts == ["hang", "next"]


async def test_an_attempt_after_a_restart_finds_the_message_in_the_stored_session(tmp_path: Any) -> None:
    agent, texts = counting(SqliteStore(tmp_path / "s.db"))
    async with editing(agent) as editor:
        session = await editor.open()
        first = await insert(editor, session, "go", "k")
        await editor.idle(session)
    agent, texts = counting(SqliteStore(tmp_path / "s.db"))
    async with editing(agent) as editor:
        await editor.client.result("session/resume", {"sessionId": session, "cwd": "/project"})
        assert await insert(editor, session, "go", "k") == first
        await editor.settled()
        assert texts == []


async def test_an_attempt_after_one_that_was_refused_inserts_the_message() -> None:
    agent, texts = counting()
    refusals = [InvalidParams("not yet")]

    @agent.admit
    async def admit(turn: Turn) -> None:
        if refusals:
            raise refusals.pop()

    async with editing(agent) as editor:
        session = await editor.open()
        assert (await insert(editor, session, "go", "k"))["code"] == INVALID_PARAMS
        assert "messageId" in await insert(editor, session, "go", "k")
        await editor.idle(session)
        assert texts == ["go"]


async def test_a_message_that_the_running_turn_has_taken_is_taken_once() -> None:
    agent, texts = counting(second_prompts="steer")
    steered: list[str] = []

    @agent.steer
    async def steer(turn: Turn, message: Message) -> None:
        steered.append(message.text)

    async with editing(agent) as editor:
        session = await editor.open()
        await insert(editor, session, "hang", "a")
        taken = await insert(editor, session, "left", "b")
        assert await insert(editor, session, "left", "b") == taken
        assert (texts, steered) == (["hang"], ["left"])


@pytest.mark.parametrize("key", ["", "x" * 256, 1, True, ["k"]])
async def test_what_is_no_key_is_refused(key: Any) -> None:
    agent, texts = counting()
    async with editing(agent) as editor:
        session = await editor.open()
        assert (await insert(editor, session, "go", key))["code"] == INVALID_PARAMS
        assert "messageId" in await insert(editor, session, "go", None)  # pyright: ignore[reportArgumentType]
        assert texts == ["go"]


async def test_the_keys_of_a_session_without_history_are_bounded() -> None:
    agent, texts = counting(history=False)
    async with editing(agent) as editor:
        session = await editor.open()
        first = await insert(editor, session, "0", "0")
        for number in range(1, 1001):
            await insert(editor, session, str(number), str(number))
        assert await insert(editor, session, "0", "0") == first
        await editor.settled()
        assert len(texts) == 1002
