"""What becomes of a prompt that arrives while a turn runs, as the author wants it (version 2)."""

from typing import Any

import pytest

from acp_server import Agent, UsageError
from acp_server.errors import INVALID_REQUEST, REQUEST_CANCELLED
from acp_server.schema import v2
from tests.session.test_steering import METHOD, Listener, saying
from tests.session.v2.editor import HELLO, Editor, editing

pytestmark = pytest.mark.anyio


async def listening(editor: Editor) -> str:
    session = await editor.open()
    await editor.answer(await editor.prompt(session, "listen"))
    await editor.until(session, "agent_message_chunk")
    return session


def messages(editor: Editor, session: str) -> list[tuple[str, str]]:
    """Who says what, in the order of the messages."""
    said: list[tuple[str, str]] = []
    for (kind, _), thing in editor.record(session).things.items():
        assert isinstance(thing, v2.Patch)
        said.append((kind, "".join(block["text"] for block in thing.to_wire()["content"])))
    return said


def test_there_are_three_ways() -> None:
    with pytest.raises(UsageError, match="must be 'hold', 'refuse', 'steer' or None"):
        Agent("x", second_prompts="queue")  # pyright: ignore[reportArgumentType]


async def test_by_default_it_is_held() -> None:
    listener = Listener()
    async with editing(listener.agent) as editor:
        session = await listening(editor)
        held = await editor.prompt(session, "second")
        assert await editor.client.result(METHOD, saying(session, "stop")) == {"outcome": "injected"}
        assert set(await editor.answer(held)) == {"messageId"}
        await editor.idle(session, 3)
        assert [turn.text for turn in listener.turns] == ["listen", "second"]


async def test_it_can_be_refused_but_not_behind_a_cancel() -> None:
    listener = Listener(second_prompts="refuse")
    async with editing(listener.agent) as editor:
        session = await listening(editor)
        assert await editor.code(await editor.prompt(session, "second")) == INVALID_REQUEST
        next_one = editor.prompting(session, "next")
        await editor.client.send(editor.cancelling(session), next_one)
        assert set(await editor.answer(next_one["id"])) == {"messageId"}
        await editor.idle(session, 3)
        assert editor.reasons(session) == ["running", "cancelled", "running", "end_turn"]


@pytest.mark.behaviour("M1", "M10")
async def test_it_can_steer_the_turn_whose_work_it_then_is_part_of() -> None:
    listener = Listener(second_prompts="steer")
    async with editing(listener.agent) as editor:
        session = await listening(editor)
        ids = [(await editor.answer(await editor.prompt(session, text)))["messageId"] for text in ("left", "stop")]
        assert await editor.idle(session) == {"stopReason": "end_turn"}
        assert editor.reasons(session) == ["running", "end_turn"]
        told = messages(editor, session)
        assert [said for said in told if said[0] == "user_message"] == [
            ("user_message", "listen"),
            ("user_message", "left"),
            ("user_message", "stop"),
        ]
        # What the agent says behind one of them is another message than what it has said before.
        assert told[:2] == [("user_message", "listen"), ("agent_message", "listening")]
        assert told[-1] == ("agent_message", "heard stop")
        assert [key[1] for key in editor.record(session).things if key[0] == "user_message"][1:] == ids
        assert len(listener.turns) == 1


async def test_a_replay_has_the_same_messages() -> None:
    listener = Listener(second_prompts="steer")
    async with editing(listener.agent) as editor:
        session = await listening(editor)
        await editor.answer(await editor.prompt(session, "stop"))
        await editor.idle(session)
        live = editor.record(session).things.keys()
        seen = len(editor.client.updates())
        await editor.client.result(
            "session/resume", {"sessionId": session, "cwd": "/p", "replayFrom": {"type": "start"}}
        )
        editor.client.received[:] = [m for m in editor.client.received if m.get("method") == "session/update"][seen:]
        assert editor.record(session).things.keys() == live


@pytest.mark.behaviour("M2", "M3")
async def test_a_cancel_ends_a_prompt_that_is_still_being_taken() -> None:
    listener = Listener(second_prompts="steer")
    async with editing(listener.agent) as editor:
        session = await listening(editor)
        second = await editor.prompt(session, "slow")
        await listener.taking.wait()
        await editor.cancel(session)
        assert await editor.code(second) == REQUEST_CANCELLED
        assert await editor.idle(session) == {"stopReason": "cancelled"}
        assert not listener.heard
        assert [text for _, text in messages(editor, session)] == ["listen", "listening"]


@pytest.mark.behaviour("M4")
async def test_it_can_be_withdrawn_while_it_is_being_taken() -> None:
    listener = Listener(second_prompts="steer")
    async with editing(listener.agent) as editor:
        session = await listening(editor)
        second = await editor.prompt(session, "slow")
        await listener.taking.wait()
        await editor.withdraw(second)
        assert await editor.code(second) == REQUEST_CANCELLED
        await editor.answer(await editor.prompt(session, "stop"))
        assert await editor.idle(session) == {"stopReason": "end_turn"}


async def test_a_turn_that_ends_meanwhile_leaves_it_a_prompt_of_its_own() -> None:
    listener = Listener(second_prompts="steer")
    async with editing(listener.agent) as editor:
        session = await listening(editor)
        second = await editor.prompt(session, "slow")
        await listener.taking.wait()
        await editor.client.result(METHOD, saying(session, "stop"))
        await editor.idle(session)
        listener.go_on.set()
        answer = await editor.answer(second)
        await editor.idle(session, 3)
        assert answer == {"messageId": listener.turns[1].id}
        assert [turn.text for turn in listener.turns] == ["listen", "slow"]


async def test_what_the_author_raises_is_the_answer() -> None:
    listener = Listener(second_prompts="steer")
    async with editing(listener.agent) as editor:
        session = await listening(editor)
        assert await editor.code(await editor.prompt(session, "bad")) == -31000
        await editor.answer(await editor.prompt(session, "stop"))
        assert await editor.idle(session) == {"stopReason": "end_turn"}
        assert "'bad'" not in str(editor.client.updates(session))


async def test_without_a_function_that_steers_it_is_held() -> None:
    listener = Listener(second_prompts="steer")
    listener.agent._definition.steer = None
    async with editing(listener.agent) as editor:
        session = await listening(editor)
        held = await editor.prompt(session, "second")
        await editor.settled()
        await editor.cancel(session)
        assert await editor.code(held) == REQUEST_CANCELLED


async def test_the_answer_to_initialize_says_that_it_can_be_steered() -> None:
    from tests.session import editor as v1

    async with v1.editing(Listener().agent, initialize=False) as editor:
        told: Any = await editor.client.result("initialize", HELLO)
        assert told["_meta"] == {"steering": {"supported": True}}
