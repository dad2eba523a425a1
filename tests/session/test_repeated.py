"""Which blocks of a prompt are new to a turn, where its client says again what was cancelled."""

from typing import Any

import anyio
import pytest

from acp_server import Agent, Turn
from tests.session.editor import CANCELLED, END_TURN, Editor, editing

pytestmark = pytest.mark.anyio


def texts(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text} for text in texts]


def hanging(*, history: bool = True) -> tuple[Agent, list[Turn]]:
    """An agent that hangs if the last word is "hang" and fails if that is "fail", and its turns."""
    agent, turns = Agent("hanging", history=history), list[Turn]()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turns.append(turn)
        if turn.text.endswith("hang"):
            await anyio.sleep_forever()
        if turn.text.endswith("fail"):
            raise RuntimeError

    return agent, turns


async def sent(editor: Editor, session: str, *said: str) -> Any:
    request = editor.prompting(session, "")
    request["params"]["prompt"] = texts(*said)
    await editor.client.send(request)
    return request["id"]


async def cut(editor: Editor, session: str, *said: str) -> None:
    id = await sent(editor, session, *said)
    await editor.settled()
    await editor.cancel(session)
    assert await editor.answer(id) == CANCELLED


@pytest.mark.parametrize("history", [True, False])
async def test_a_model_is_not_told_twice_what_was_cancelled(history: bool) -> None:
    agent, turns = hanging(history=history)
    async with editing(agent) as editor:
        session = await editor.open()
        await cut(editor, session, "first hang")
        await cut(editor, session, "first hang", "second hang")
        assert await editor.answer(await sent(editor, session, "first hang", "second hang", "third")) == END_TURN
    assert [turn.text for turn in turns] == ["first hang", "second hang", "third"]
    assert [block.to_wire() for block in turns[-1].prompt] == texts("third")
    assert turns[-1].params["prompt"] == texts("first hang", "second hang", "third")
    said = [message.text for message in turns[-1].context(cancelled=True)]
    assert said == (["first hang", "second hang", "third"] if history else ["third"])


async def test_what_repeats_a_turn_that_still_cleans_up_is_left_out() -> None:
    agent, turns = hanging()
    async with editing(agent) as editor:
        session = await editor.open()
        first = await sent(editor, session, "first hang")
        await editor.settled()
        request = editor.prompting(session, "")
        request["params"]["prompt"] = texts("first hang", "second")
        await editor.client.send(editor.cancelling(session), request)
        assert await editor.answer(first) == CANCELLED
        assert await editor.answer(request["id"]) == END_TURN
    assert turns[-1].text == "second"


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("hang", ["hang"]),
        ("hang", ["other", "hang", "more"]),
        ("done", ["done", "more"]),
        ("fail", ["fail", "more"]),
    ],
)
async def test_what_may_be_meant_is_all_there(first: str, said: list[str]) -> None:
    agent, turns = hanging()
    async with editing(agent) as editor:
        session = await editor.open()
        id = await sent(editor, session, first)
        await editor.settled()
        await editor.cancel(session)
        await editor.answer(id)
        await sent(editor, session, *said)
        await editor.settled()
        assert turns[-1].text == "\n".join(said)
        await editor.cancel(session)
