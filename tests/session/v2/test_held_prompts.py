"""Many prompts that are held in one session: what they cost, and where they end."""

from typing import Any

import anyio
import pytest

from acp_server import Agent, Limits, Turn
from acp_server.errors import INTERNAL_ERROR, REQUEST_CANCELLED
from tests.cancel import stepper
from tests.cancel.stepper import Steps
from tests.session.editor import CALM
from tests.session.v2.editor import Editor, editing

MANY = 5_000


def waiter() -> tuple[Agent, list[str]]:
    """An agent whose first turn waits to be cancelled, and the texts of its turns."""
    agent = Agent("waiter")
    texts: list[str] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        texts.append(turn.text)
        if turn.text == "hang":
            await anyio.sleep_forever()

    return agent, texts


async def hold(editor: Editor, session: str, count: int) -> list[Any]:
    """Have so many prompts held, behind one that hangs: their ids."""
    await editor.answer(await editor.prompt(session, "hang"))
    held = [editor.prompting(session, str(number)) for number in range(count)]
    await editor.client.send(*held)
    await editor.settled()
    return [prompt["id"] for prompt in held]


def errors(editor: Editor, prompts: list[Any]) -> dict[Any, dict[str, Any]]:
    """The errors so far that these prompts were answered with, by their ids."""
    wanted = set(prompts)
    answers = [message for message in editor.client.received if message.get("id") in wanted]
    return {message["id"]: message["error"] for message in answers if "error" in message}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_held_prompt_takes_as_many_steps_however_many_are_held(backend: str) -> None:
    async def work_off(steps: Steps, count: int) -> int:
        go_on = anyio.Event()
        agent = Agent("patient")

        @agent.prompt
        async def prompt(turn: Turn) -> None:
            await go_on.wait()

        async with editing(agent) as editor:
            session = await editor.open()
            await editor.answer(await editor.prompt(session))
            held = [editor.prompting(session) for _ in range(count)]
            await editor.client.send(*held)
            await editor.settled()
            steps.start()
            go_on.set()
            await editor.idle(session, 2 * count + 1)
            steps.stop()
            assert editor.reasons(session) == ["running", "end_turn"] * (count + 1)
        return steps.count

    few, many = (stepper.run(backend, lambda steps, n=n: work_off(steps, n)) for n in (50, 200))
    assert many < 5 * few


@pytest.mark.anyio
@pytest.mark.behaviour("M2", "M3")
@pytest.mark.parametrize("end", ["session/cancel", "session/close"])
async def test_thousands_of_held_prompts_end_with_what_they_wait_for(end: str) -> None:
    agent, texts = waiter()
    async with editing(agent) as editor:
        session = await editor.open()
        held = await hold(editor, session, MANY)
        if end == "session/cancel":
            await editor.cancel(session)
            assert await editor.idle(session) == {"stopReason": "cancelled"}
            await editor.answer(await editor.prompt(session, "next"))
        else:
            await editor.client.result("session/close", {"sessionId": session})
        codes = {id: error["code"] for id, error in errors(editor, held).items()}
        assert codes == dict.fromkeys(held, REQUEST_CANCELLED)
        assert texts in (["hang"], ["hang", "next"])
        assert editor.reasons(session)[:2] == ["running", "cancelled"]


@pytest.mark.anyio
async def test_prompts_beyond_the_bound_are_refused_and_those_that_are_held_go_on() -> None:
    agent, texts = waiter()
    limits = Limits(drain=CALM.drain, requests=100_000)
    async with editing(agent, limits) as editor:
        session = await editor.open()
        held = await hold(editor, session, 100)
        refused = errors(editor, held)
        assert {error["code"] for error in refused.values()} == {INTERNAL_ERROR}
        assert [error["data"] for error in refused.values()] == [{"limit": "requests"}] * len(refused)
        taken = [id for id in held if id not in refused]
        assert 5 <= len(taken) <= 12
        assert taken == held[: len(taken)]
        await editor.cancel(session)
        assert [await editor.code(id) for id in taken] == [REQUEST_CANCELLED] * len(taken)
        assert texts == ["hang"]
