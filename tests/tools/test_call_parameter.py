"""Which parameter of a tool's function gets the running call."""

from __future__ import annotations

from typing import Any

import pytest

from acp_server import Agent, Tool, ToolContext
from acp_server.tools import context as module
from tests.tools.calls import calling, text, updates

pytestmark = pytest.mark.anyio


async def by_name(call, topic: str) -> str:  # type: ignore[no-untyped-def]
    call.progress(f"looking for {topic}")
    return call.id


async def by_type(topic: str, running: ToolContext) -> str:
    running.progress(f"looking for {topic}")
    return running.id


async def by_qualified_type(topic: str, *, running: module.ToolContext) -> str:
    running.progress(f"looking for {topic}")
    return running.id


@pytest.mark.parametrize("function", [by_name, by_type, by_qualified_type])
async def test_the_running_call_is_known_by_its_type_or_as_call(function: Any) -> None:
    agent = Agent("t", version="1")
    agent.tool(name="look")(function)
    assert set(agent.tools.describe()[0]["input_schema"]["properties"]) == {"topic"}
    results = calling(agent, "look", {"topic": "tea"})
    seen = await updates(agent)
    assert results[0].value == "c1"
    assert "looking for tea" in "".join(piece for update in seen for piece in text(update))


def test_a_parameter_named_call_that_has_another_type_is_the_models() -> None:
    async def telephone(call: str) -> str:
        return call

    tool = Tool(telephone)
    assert tool.takes_context is None
    assert tool.input_schema["properties"] == {"call": {"type": "string"}}
