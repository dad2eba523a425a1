"""What becomes of a prompt that arrives while a turn runs, as the author wants it (version 1)."""

from dataclasses import replace
from typing import Literal

import anyio
import pytest

from acp_server import Agent, Turn
from acp_server.errors import INVALID_REQUEST
from tests.session.editor import CANCELLED, END_TURN, editing
from tests.session.test_overstaying import LONG, Stubborn

pytestmark = pytest.mark.anyio


class Slow:
    """An agent whose first turn goes on until it is let go."""

    def __init__(self, second_prompts: Literal["hold", "refuse", "steer"] | None = "hold") -> None:
        self.agent = Agent("slow", second_prompts=second_prompts)
        self.agent.prompt(self.prompt)
        self.begun: list[str] = []
        self.go_on = anyio.Event()

    async def prompt(self, turn: Turn) -> None:
        self.begun.append(turn.text)
        await turn.say(f"{turn.text} begins. ")
        if turn.text == "first":
            await self.go_on.wait()
        await turn.say(f"{turn.text} ends.")


async def test_it_is_held_until_the_turns_before_it_are_over() -> None:
    slow = Slow()
    async with editing(slow.agent) as editor:
        session = await editor.open()
        ids = [await editor.prompt(session, text) for text in ("first", "second", "third")]
        await editor.settled()
        assert slow.begun == ["first"]
        slow.go_on.set()
        assert [await editor.answer(id) for id in ids] == [END_TURN] * 3
        said = [update["content"]["text"] for update in editor.client.updates(session) if "content" in update]
        assert said == [f"{text} {what}" for text in ("first", "second", "third") for what in ("begins. ", "ends.")]
        (side,) = slow.agent._sides.values()
        assert not side.lifecycle.sessions[session]._awaited


@pytest.mark.parametrize("wish", [None, "refuse", "steer"])
async def test_it_is_refused_unless_the_author_wants_it_held(wish: Literal["refuse", "steer"] | None) -> None:
    slow = Slow(wish)
    async with editing(slow.agent) as editor:
        session = await editor.open()
        first = await editor.prompt(session, "first")
        assert await editor.code(await editor.prompt(session, "second")) == INVALID_REQUEST
        slow.go_on.set()
        assert await editor.answer(first) == END_TURN
        assert slow.begun == ["first"]


async def test_a_cancel_of_the_session_reaches_those_that_are_held() -> None:
    slow = Slow()
    async with editing(slow.agent) as editor:
        session = await editor.open()
        ids = [await editor.prompt(session, text) for text in ("first", "second", "third")]
        await editor.settled()
        await editor.cancel(session)
        assert [await editor.answer(id) for id in ids] == [CANCELLED] * 3
        assert slow.begun == ["first"]
        assert await editor.ask(session, "next") == END_TURN


async def test_one_that_is_withdrawn_leaves_the_others() -> None:
    slow = Slow()
    async with editing(slow.agent) as editor:
        session = await editor.open()
        first, second, third = [await editor.prompt(session, text) for text in ("first", "second", "third")]
        await editor.settled()
        await editor.withdraw(second)
        assert await editor.answer(second) == CANCELLED
        slow.go_on.set()
        assert [await editor.answer(id) for id in (first, third)] == [END_TURN] * 2
        assert slow.begun == ["first", "third"]


async def test_it_takes_its_turn_when_that_before_it_alone_is_withdrawn() -> None:
    slow = Slow()
    async with editing(slow.agent) as editor:
        session = await editor.open()
        first, second = [await editor.prompt(session, text) for text in ("first", "second")]
        await editor.settled()
        await editor.withdraw(first)
        assert [await editor.answer(id) for id in (first, second)] == [CANCELLED, END_TURN]


@pytest.mark.behaviour("F2")
async def test_behind_a_turn_that_is_withdrawn_and_never_ends_it_is_refused_after_its_patience() -> None:
    stubborn = Stubborn("hold")
    async with editing(stubborn.agent, LONG) as editor:
        try:
            watch = editor.connection.watchdog
            session = await editor.open()
            first, second = [await editor.prompt(session) for _ in range(2)]
            await editor.settled()
            await editor.withdraw(first)
            await editor.settled()
            # The patience with the one that does not end begins with its answer.
            editor.connection.limits = replace(LONG, grace=0)
            watch.finish_now()
            assert (await editor.answer(first))["stopReason"] == "cancelled"
            assert await editor.code(second) == INVALID_REQUEST
        finally:
            stubborn.go_on.set()


async def test_the_end_of_the_session_ends_those_that_are_held() -> None:
    slow = Slow()
    async with editing(slow.agent) as editor:
        session = await editor.open()
        ids = [await editor.prompt(session, text) for text in ("first", "second")]
        await editor.settled()
        assert await editor.client.result("session/close", {"sessionId": session}) == {}
        assert [await editor.answer(id) for id in ids] == [CANCELLED] * 2
        assert slow.begun == ["first"]
