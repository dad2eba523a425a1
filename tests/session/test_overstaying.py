"""A prompt whose handler outstays its time has one deadline, however it was cancelled, and its answer says the same."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Literal

import anyio
import anyio.lowlevel
import pytest

from acp_server import Agent, Limits, Turn, grace, schema
from tests.session.editor import CANCELLED, editing

pytestmark = pytest.mark.anyio

LONG = Limits(drain=0, grace=3600)


class Stubborn:
    """An agent whose handler counts how often it is hit by a cancel, and takes no notice."""

    def __init__(self, second_prompts: Literal["hold"] | None = None) -> None:
        self.agent = Agent("stubborn", second_prompts=second_prompts)
        self.agent.prompt(self.prompt)
        self.hits = 0
        self.go_on = anyio.Event()

    async def prompt(self, turn: Turn) -> None:
        turn.add_usage(input_tokens=2, output_tokens=3)
        await turn.say("here")
        while not self.go_on.is_set():
            try:
                await self.go_on.wait()
            except anyio.get_cancelled_exc_class():
                self.hits += 1

    async def is_hit(self) -> bool:
        """Whether a cancel still hits it."""
        # One that is on its way arrives.
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        before = self.hits
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        return self.hits > before


@pytest.mark.behaviour("F2", "B8")
@pytest.mark.parametrize("by", ["session", "request", "both"])
async def test_it_is_answered_with_its_usage_after_one_grace_and_left_alone_after_two(by: str) -> None:
    stubborn = Stubborn()
    async with editing(stubborn.agent, LONG) as editor:
        try:
            watch = editor.connection.watchdog
            session = await editor.open()
            id = await editor.prompt(session)
            await editor.client.expect("session/update")
            if by in ("session", "both"):
                await editor.cancel(session)
            if by in ("request", "both"):
                await editor.withdraw(id)
            await editor.settled()
            assert await stubborn.is_hit()
            watch.finish_now()
            tokens = {"inputTokens": 2, "outputTokens": 3, "totalTokens": 5}
            assert await editor.answer(id) == {"stopReason": "cancelled", "_meta": {"usage": tokens}}
            assert await stubborn.is_hit()
            watch.finish_now()
            assert not await stubborn.is_hit()
        finally:
            stubborn.go_on.set()


@pytest.mark.behaviour("E10", "B5")
async def test_a_prompt_that_is_cancelled_while_it_waits_behind_one_leaves_nothing_in_its_session() -> None:
    stubborn = Stubborn()
    async with editing(stubborn.agent, LONG) as editor:
        try:
            session = await editor.open()
            await editor.prompt(session)
            await editor.client.expect("session/update")
            await editor.cancel(session)
            waiting = await editor.prompt(session)
            await editor.settled()
            await editor.withdraw(waiting)
            assert await editor.answer(waiting) == CANCELLED
            (side,) = stubborn.agent._sides.values()
            assert not side.lifecycle.sessions[session]._awaited
        finally:
            stubborn.go_on.set()


@pytest.mark.behaviour("F2", "G8")
@pytest.mark.parametrize("end", ["end of input", "close"])
@pytest.mark.parametrize("by", ["session", "request"])
async def test_one_that_is_being_cancelled_when_the_connection_ends_has_the_grace_of_the_end_alone(
    by: str, end: str
) -> None:
    stubborn = Stubborn()
    # Its own grace would not end in the life of this test; the answer does not wait for it.
    async with editing(stubborn.agent, LONG, leaks=1) as editor:
        try:
            session = await editor.open()
            id = await editor.prompt(session)
            await editor.client.expect("session/update")
            await (editor.cancel(session) if by == "session" else editor.withdraw(id))
            await editor.settled()
            connection = editor.connection
            connection.limits = replace(LONG, grace=0.05)
            if end == "close":
                connection.close()
            else:
                editor.stream.end_input()
            tokens = {"inputTokens": 2, "outputTokens": 3, "totalTokens": 5}
            assert await editor.answer(id) == {"stopReason": "cancelled", "_meta": {"usage": tokens}}
            with anyio.fail_after(10):
                await connection.wait_closed()
            assert not await stubborn.is_hit()
        finally:
            stubborn.go_on.set()
            await editor.connection.work.wait_idle()


CHUNK = schema.AgentMessageChunk(content=schema.TextContent(text="x" * 10_000))


@pytest.mark.behaviour("K7")
@pytest.mark.parametrize("piece", ["x" * 10_000, CHUNK])
@pytest.mark.parametrize("how", ["yield", "show", "session"])
async def test_a_handler_that_takes_no_notice_of_its_cancel_is_held_back_by_a_client_that_does_not_read(
    how: str, piece: Any
) -> None:
    agent = Agent("talks on")
    hits = 0

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[Any]:
        nonlocal hits
        while hits < 200:
            try:
                if how == "yield":
                    yield piece
                elif how == "show":
                    await turn.show(piece)
                else:
                    await turn.session.update(CHUNK)
            except anyio.get_cancelled_exc_class():
                hits += 1

    async with editing(agent, LONG) as editor:
        session = await editor.open()
        editor.stream.stall_sending()
        id = await editor.prompt(session)
        await editor.stream.stalled.wait()
        await editor.cancel(session)
        while hits < 200:
            await anyio.lowlevel.checkpoint()
        assert editor.connection.writer.size < 200_000
        editor.stream.release()
        assert await editor.answer(id) == CANCELLED


@pytest.mark.behaviour("K7")
async def test_what_a_cancelled_handler_says_last_goes_out_although_the_client_is_behind() -> None:
    agent = Agent("says goodbye")

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[str]:
        try:
            while True:
                yield "x" * 10_000
        finally:
            await turn.say("goodbye")

    async with editing(agent, LONG) as editor:
        session = await editor.open()
        editor.stream.stall_sending()
        id = await editor.prompt(session)
        await anyio.wait_all_tasks_blocked()
        await editor.cancel(session)
        await anyio.wait_all_tasks_blocked()
        editor.stream.release()
        assert await editor.answer(id) == CANCELLED
        assert editor.said()[-1] == "goodbye"


async def test_with_no_limit_a_cancelled_turn_is_waited_for_as_long_as_it_saves() -> None:
    agent = Agent("saves")
    saved = anyio.Event()
    saving = anyio.Event()

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        if turn.text == "second":
            return "after"
        try:
            await anyio.sleep_forever()
        finally:
            with grace(None):
                saving.set()
                await saved.wait()
                await turn.say("saved")
        return "never"

    async with editing(agent, Limits(drain=0, grace=None)) as editor:
        session = await editor.open()
        first = await editor.prompt(session)
        await editor.settled()
        await editor.cancel(session)
        await saving.wait()
        second = await editor.prompt(session, "second")
        await editor.settled()
        assert not editor.connection.watchdog._running
        saved.set()
        assert await editor.answer(first) == CANCELLED
        assert await editor.answer(second) == {"stopReason": "end_turn"}
        assert editor.said() == ["saved", "after"]


async def test_with_no_limit_the_end_of_the_connection_has_one_all_the_same() -> None:
    assert Limits(grace=None).closing == Limits().closing
    assert Limits(grace=None).end_grace == Limits().end_grace
