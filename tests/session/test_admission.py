"""What an author looks at before a prompt is part of its session: rate limits, budgets, rules for content."""

from typing import Any

import anyio
import pytest

from acp_server import Agent, RpcError, Turn
from acp_server.errors import INTERNAL_ERROR, REQUEST_CANCELLED, UsageError
from tests.session.editor import CANCELLED, editing
from tests.session.v2 import editor as v2

pytestmark = pytest.mark.anyio

TOO_MANY = -31001


def limited() -> Agent:
    agent = Agent("limited")

    @agent.admit
    async def admit(turn: Turn) -> None:
        match turn.text:
            case "no":
                raise RpcError("Too many prompts", code=TOO_MANY, data={"retryAfter": 60})
            case "bug":
                raise ValueError("secret")
            case "slow":
                await anyio.sleep_forever()

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        return " ".join(message.text for message in turn.context() if message.role == "user")

    return agent


@pytest.mark.parametrize("version", [1, 2])
async def test_a_prompt_that_is_not_admitted_is_answered_so_and_leaves_nothing_behind(version: int) -> None:
    async with (editing if version == 1 else v2.editing)(limited()) as editor:
        session = await editor.open()
        await editor.ask(session, "a")
        prompt: dict[str, Any] = {"sessionId": session, "prompt": [{"type": "text", "text": "no"}]}
        before = len(editor.client.updates(session))
        error = await editor.refusal("session/prompt", prompt)
        assert error == {"code": TOO_MANY, "message": "Too many prompts", "data": {"retryAfter": 60}}
        assert len(editor.client.updates(session)) == before
        error = await editor.refusal("session/prompt", {**prompt, "prompt": [{"type": "text", "text": "bug"}]})
        assert error["code"] == INTERNAL_ERROR
        assert "secret" not in str(error)
        await editor.ask(session, "b")
        assert editor.said(session)[-1] == "a b"


async def test_a_prompt_that_waits_for_its_admission_can_be_cancelled() -> None:
    async with editing(limited()) as editor:
        session = await editor.open()
        waiting = await editor.prompt(session, "slow")
        await editor.cancel(session)
        assert await editor.answer(waiting) == CANCELLED
        await editor.ask(session, "b")
        assert editor.said(session) == ["b"]
    async with v2.editing(limited()) as editor:
        session = await editor.open()
        waiting = await editor.prompt(session, "slow")
        await editor.settled()
        await editor.cancel(session)
        assert await editor.code(waiting) == REQUEST_CANCELLED
        await editor.ask(session, "b")
        assert editor.said(session) == ["b"]


def test_there_is_one_of_them() -> None:
    agent = limited()
    with pytest.raises(UsageError, match="there is a second"):

        @agent.admit
        async def again(turn: Turn) -> None: ...
