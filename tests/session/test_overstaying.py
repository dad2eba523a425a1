"""A prompt whose handler outstays its time has one deadline, however it was cancelled, and its answer says the same."""

from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest

from acp_server import Agent, Limits, Turn
from tests.session.editor import editing

pytestmark = pytest.mark.anyio

LONG = Limits(drain=0, grace=3600)


class Stubborn:
    """An agent whose handler counts how often it is hit by a cancel, and takes no notice."""

    def __init__(self) -> None:
        self.agent = Agent("stubborn")
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
