"""Prompts that are shaped to break an agent that speaks version 2: each costs itself alone."""

from typing import Any

import pytest

from acp_server.errors import INVALID_PARAMS, EncodeError
from acp_server.session.v2.updates import Updates
from tests.session.v2.editor import editing
from tests.session.v2.test_held_prompts import waiter

pytestmark = pytest.mark.anyio


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.behaviour("M10", "M11")
async def test_prompts_that_are_nested_deep_are_worked_on_and_told_as_they_came() -> None:
    agent, texts = waiter()
    async with editing(agent) as editor:
        session = await editor.open()
        for number, block in enumerate([{"type": "text", "text": "on"}, {"type": "text", "text": "go"}]):
            prompt = [{**block, "_meta": {"deep": deep(900)}}]
            await editor.client.result("session/prompt", {"sessionId": session, "prompt": prompt})
            assert await editor.idle(session, 2 * number) == {"stopReason": "end_turn"}
            assert (await editor.until(session, "user_message"))["content"] == prompt
        assert texts == ["on", "go"]


@pytest.mark.behaviour("M11")
async def test_a_prompt_that_the_client_cannot_be_told_is_refused_and_holds_up_none_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What is nested a thousand deep can be read and, by Python 3.11, not be written.
    def too_deep(_updates: Updates, _id: str, _content: Any) -> None:
        raise EncodeError("Recursion limit reached")

    agent, texts = waiter()
    async with editing(agent) as editor:
        session = await editor.open()
        with monkeypatch.context() as patch:
            patch.setattr(Updates, "user_message", too_deep)
            params = {"sessionId": session, "prompt": [{"type": "text", "text": "deep"}]}
            refused = await editor.refusal("session/prompt", params)
        assert refused["data"] == {"problems": [{"path": "prompt", "message": "is nested too deep"}]}
        assert await editor.ask(session) == {"stopReason": "end_turn"}
        assert texts == ["go"]


@pytest.mark.behaviour("M6")
async def test_many_ids_that_there_never_were_are_refused_and_none_is_kept() -> None:
    agent, _ = waiter()
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.answer(await editor.prompt(session, "hang"))
        ids = {"toolCallId": "tool_call/cancel", "terminalId": "terminal/cancel"}
        asked = [
            editor.client.new_request(method, {"sessionId": session, name: f"{number}" * 100})
            for name, method in ids.items()
            for number in range(200)
        ]
        await editor.client.send(*asked)
        codes = [(await editor.client.response(one["id"]))["error"]["code"] for one in asked]
        assert set(codes) == {INVALID_PARAMS}
        assert editor.reasons(session) == ["running"]
        await editor.cancel(session)
        assert await editor.idle(session) == {"stopReason": "cancelled"}
