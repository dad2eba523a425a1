"""An agent of pydantic-ai as an agent."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed: make test-integrations")

import pydantic_ai  # pyright: ignore[reportMissingImports]
from pydantic_ai.models.openai import OpenAIChatModel  # pyright: ignore[reportMissingImports]
from pydantic_ai.providers.openai import OpenAIProvider  # pyright: ignore[reportMissingImports]

from acp_server import Agent, InvalidParams, MemoryStore, Turn, UsageError
from acp_server.integrations.pydantic_ai import from_agent, prompt_handler
from tests.integrations import contract
from tests.integrations.conforming import conforms
from tests.integrations.model_server import HANG, ModelServer, model_server
from tests.integrations.official import client_of
from tests.session.agents import setup
from tests.session.editor import editing

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


def model_at(server: ModelServer, name: str = "test") -> Any:
    client = client_of(server, official=name.startswith("gpt-"))
    return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))


def make(server: ModelServer, tools: contract.Tools, model: str = "test", **options: Any) -> Agent:
    agent = pydantic_ai.Agent(model_at(server, model))

    @agent.tool_plain
    async def look(word: str) -> str:
        """Look for a word."""
        return await tools.look(word)

    @agent.tool_plain(requires_approval=True)
    async def touch(word: str) -> str:
        """Touch a word."""
        return await tools.look(word)

    return from_agent(agent, **options)


@pytest.mark.parametrize("promise", contract.OF_ADAPTERS)
async def test_it_keeps_the_contract(promise: Callable[..., Awaitable[None]]) -> None:
    await promise(make)


async def test_a_client_may_replace_the_instructions() -> None:
    def french(server: ModelServer, _tools: contract.Tools, **options: Any) -> Agent:
        return from_agent(pydantic_ai.Agent(model_at(server), instructions="Write French."), **options)

    await contract.has_its_own_instructions_replaced(french)
    with pytest.raises(UsageError, match="keeps a system_prompt in the history"):
        from_agent(pydantic_ai.Agent(system_prompt="Write French."), system_prompt="override")


async def test_sizes_and_prices_of_known_models_are_told() -> None:
    await contract.knows_sizes_and_prices(make)


async def test_the_conformance_suite_finds_nothing_wrong_with_it() -> None:
    await conforms(partial(make, mcp=True))


@pytest.mark.parametrize("option", ["allow_once", "reject_once"])
async def test_a_tool_that_needs_approval_asks_the_user(option: str) -> None:
    await contract.approval_decides(make, option)


async def test_a_session_that_is_loaded_begins_with_what_was_said() -> None:
    store = MemoryStore()
    async with model_server(["one"], ["two"]) as server:
        for text in ("a", "b"):
            async with editing(make(server, contract.Tools(), store=store)) as editor:
                if text == "a":
                    session = await editor.open()
                else:
                    await editor.client.result("session/load", setup(session))
                assert (await editor.ask(session, text))["stopReason"] == "end_turn"
        assert server.said_to(1) == [("user", "a"), ("assistant", "one"), ("user", "b")]


async def test_a_session_that_is_loaded_remembers_its_tool_calls() -> None:
    await contract.remembers_its_tool_calls(make, store=MemoryStore())


async def test_a_turn_that_fails_behind_its_run_leaves_nothing_in_the_history() -> None:
    async with model_server(["One."], ["Two."], ["Three."]) as server:
        answer = prompt_handler(pydantic_ai.Agent(model_at(server)))
        agent = Agent("does more")

        @agent.prompt
        async def prompt(turn: Turn) -> None:
            await answer(turn)
            if turn.text == "Second.":
                raise InvalidParams("not this one")

        async with editing(agent) as editor:
            session = await editor.open()
            await editor.ask(session, "First.")
            assert (await editor.answer(await editor.prompt(session, "Second.")))["code"] == -32602
            await editor.ask(session, "Third.")
        assert server.said_to(2) == [("user", "First."), ("assistant", "One."), ("user", "Third.")]


async def test_the_user_chooses_the_model_in_the_middle_of_a_session() -> None:
    async with model_server(["One."], [HANG], ["Three."], ["Four."]) as server:
        models = {"small": model_at(server, "s-1"), "large": model_at(server, "l-1")}
        async with editing(make(server, contract.Tools(), models=models)) as editor:
            session = await editor.open()
            await editor.ask(session, "First.")
            id = await editor.prompt(session, "Second.")
            await server.hanging.wait()
            chosen = {"sessionId": session, "configId": "model", "value": "large"}
            [option] = (await editor.client.result("session/set_config_option", chosen))["configOptions"]
            assert (option["category"], option["currentValue"]) == ("model", "large")
            assert [choice["value"] for choice in option["options"]] == ["small", "large"]
            # What runs goes on with the model that it began with.
            assert not server.left.is_set()
            await editor.cancel(session)
            await editor.answer(id)
            await editor.ask(session, "Third.")
            other = await editor.open()
            await editor.ask(other, "Fourth.")
        assert [request["model"] for request in server.requests] == ["s-1", "s-1", "l-1", "s-1"]
        assert server.said_to(2) == [("user", "First."), ("assistant", "One."), ("user", "Third.")]


async def test_a_model_that_cannot_be_used_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        from_agent(pydantic_ai.Agent("test"), models=["openai:gpt-5"])


async def test_what_is_no_agent_is_refused() -> None:
    with pytest.raises(UsageError, match="pydantic-ai"):
        from_agent(object())
