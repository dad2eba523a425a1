"""The guide to frameworks: its examples run, where the framework is installed."""

import pytest

from tests.session.editor import END_TURN

from .blocks import opened

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


async def test_integrations_langgraph() -> None:
    pytest.importorskip("langgraph", reason="the extra langgraph is not installed: make test-integrations")
    async with opened("langgraph", "integrations.md") as (editor, session, _):
        assert await editor.ask(session, "one") == END_TURN
        assert await editor.ask(session, "two") == END_TURN
        assert editor.said() == ["Message 1.", "Message 3."]


async def test_integrations_pydantic_ai() -> None:
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed: make test-integrations")
    async with opened("pydantic_ai", "integrations.md") as (editor, session, _):
        editor.client.answer(
            "session/request_permission", {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        )
        assert (await editor.ask(session))["stopReason"] == "end_turn"
        assert editor.asked() == ["session/request_permission"]
        assert "a is tidy." in "".join(editor.said())
