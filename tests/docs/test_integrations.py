"""The guide to frameworks: its examples run, where the framework is installed."""

import sys
from pathlib import Path

import pytest

from tests.integrations.model_server import model_server, tool_call
from tests.session.editor import END_TURN

from .blocks import opened
from .calc import CALC

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


async def test_integrations_langgraph() -> None:
    pytest.importorskip("langgraph", reason="the extra langgraph is not installed: make test-integrations")
    async with opened("langgraph", "integrations.md") as (editor, session, _):
        assert await editor.ask(session, "one") == END_TURN
        assert await editor.ask(session, "two") == END_TURN
        assert editor.said() == ["Message 1.", "Message 3."]


async def test_integrations_langgraph_with_the_tools_of_mcp_servers(tmp_path: Path) -> None:
    pytest.importorskip("langgraph", reason="the extra langgraph is not installed: make test-integrations")
    pytest.importorskip("mcp", reason="the extra mcp is not installed: make test-integrations")
    library = pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    calc = {"name": "calc", "command": sys.executable, "args": ["-c", CALC], "env": []}
    async with (
        model_server([tool_call("calc_add", {"a": 1, "b": 2})], ["It is 3."]) as server,
        opened("langgraph_tools", "integrations.md") as (editor, _, example),
    ):
        example["model"] = library.ChatOpenAI(model="test", base_url=server.url, api_key="none", max_retries=0)
        editor.client.answer(
            "session/request_permission", {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        )
        session = await editor.open(str(tmp_path), mcpServers=[calc])
        assert (await editor.ask(session, "What is 1 and 2?"))["stopReason"] == "end_turn"
        assert editor.asked() == ["session/request_permission"]
        assert server.said_to(1)[-1] == ("tool", "3")


async def test_integrations_pydantic_ai() -> None:
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed: make test-integrations")
    async with opened("pydantic_ai", "integrations.md") as (editor, session, _):
        editor.client.answer(
            "session/request_permission", {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        )
        assert (await editor.ask(session))["stopReason"] == "end_turn"
        assert editor.asked() == ["session/request_permission"]
        assert "a is tidy." in "".join(editor.said())


async def test_integrations_openai_agents() -> None:
    agents = pytest.importorskip("agents", reason="the extra openai-agents is not installed: make test-integrations")
    agents.set_tracing_disabled(True)
    async with model_server([tool_call("tidy_up", {"folder": "a"})], ["It is tidy."]) as server:
        import openai  # pyright: ignore[reportMissingImports]

        client = openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0)
        agents.set_default_openai_client(client, use_for_tracing=False)
        agents.set_default_openai_api("chat_completions")
        async with opened("openai_agents", "integrations.md") as (editor, session, _):
            editor.client.answer(
                "session/request_permission", {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
            )
            assert (await editor.ask(session))["stopReason"] == "end_turn"
            assert editor.asked() == ["session/request_permission"]
            assert editor.said() == ["It is tidy."]
