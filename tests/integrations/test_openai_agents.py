"""An agent of the OpenAI Agents SDK as an agent."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

pytest.importorskip("agents", reason="the extra openai-agents is not installed: make test-integrations")

import agents  # pyright: ignore[reportMissingImports]

from acp_server import Agent, MemoryStore, UsageError
from acp_server.integrations.openai_agents import from_agent
from tests.integrations import contract
from tests.integrations.conforming import conforms
from tests.integrations.model_server import ModelServer, Refusal, model_server, tool_call
from tests.integrations.official import client_of
from tests.session.agents import setup
from tests.session.editor import END_TURN, editing

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


def assistant(server: ModelServer, tools: contract.Tools, name: str = "test") -> Any:
    @agents.function_tool
    async def look(word: str) -> str:
        """Look for a word."""
        return await tools.look(word)

    @agents.function_tool(needs_approval=True)
    async def touch(word: str) -> str:
        """Touch a word."""
        return await tools.look(word)

    client = client_of(server, official=name.startswith("gpt-"))
    model = agents.OpenAIChatCompletionsModel(name, client)
    settings = agents.ModelSettings(include_usage=True)
    return agents.Agent(name="assistant", model=model, model_settings=settings, tools=[look, touch])


def make(server: ModelServer, tools: contract.Tools, model: str = "test", **options: Any) -> Agent:
    return from_agent(assistant(server, tools, model), **options)


@pytest.mark.parametrize("promise", contract.OF_ADAPTERS)
async def test_it_keeps_the_contract(promise: Callable[..., Awaitable[None]]) -> None:
    await promise(make)


async def test_a_client_may_replace_the_instructions() -> None:
    def french(server: ModelServer, tools: contract.Tools, **options: Any) -> Agent:
        return from_agent(assistant(server, tools).clone(instructions="Write French."), **options)

    await contract.has_its_own_instructions_replaced(french)


async def test_what_the_client_says_is_told_behind_a_handoff_and_behind_a_filter_of_the_authors() -> None:
    async with model_server([tool_call("transfer_to_other", {})], ["Done."]) as server:
        other = assistant(server, contract.Tools()).clone(name="other", instructions="Write Dutch.")
        first = assistant(server, contract.Tools()).clone(handoffs=[other])

        def louder(data: Any) -> Any:
            data.model_data.instructions = f"{data.model_data.instructions}!"
            return data.model_data

        config = agents.RunConfig(call_model_input_filter=louder)
        async with editing(from_agent(first, run_config=config)) as editor:
            session = await editor.open(systemPrompt=contract.instructions("append", "Be short."))
            assert (await editor.ask(session))["stopReason"] == "end_turn"
        assert contract.system_of(server) == "Write Dutch.!\n\nBe short."


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
        assert [role for role, _ in server.said_to(1)] == ["user", "assistant", "user"]
        assert server.said_to(1)[1] == ("assistant", "one")


async def test_a_session_that_is_loaded_remembers_its_tool_calls() -> None:
    await contract.remembers_its_tool_calls(make, store=MemoryStore())


async def test_the_tools_of_the_session_are_offered_and_run() -> None:
    async with model_server([tool_call("stamp", {"word": "x"})], ["Fine."]) as server:
        agent = make(server, contract.Tools())

        @agent.tool(approval=True)
        async def stamp(word: str) -> str:
            """Put a stamp on a word."""
            return f"{word} stamped"

        async with editing(agent) as editor:
            allowed = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
            editor.client.answer(contract.PERMISSION, allowed)
            assert (await editor.ask(await editor.open()))["stopReason"] == "end_turn"
            shown = [update for update in editor.client.updates() if update["sessionUpdate"] == "tool_call"]
            assert [call["toolCallId"] for call in shown] == ["call_1"]
        assert [m["content"] for m in server.requests[1]["messages"] if m["role"] == "tool"] == ["x stamped"]


async def test_a_model_that_never_comes_to_an_end_is_stopped() -> None:
    replies = [[tool_call("look", {"word": "a"}, f"call_{number}")] for number in range(3)]
    async with model_server(*replies) as server, editing(make(server, contract.Tools(), max_turns=3)) as editor:
        session = await editor.open()
        assert (await editor.ask(session, "Look."))["stopReason"] == "max_turn_requests"
        assert editor.said()[-1].endswith("send a message to go on.")
        server.replies.append(["Fine."])
        assert (await editor.ask(session, "Go on."))["stopReason"] == "end_turn"


@pytest.mark.parametrize("side", ["input", "output", "tool_input", "tool_output"])
async def test_a_guardrail_that_trips_is_a_refusal_with_a_sentence(side: str) -> None:
    def trip(*_: Any) -> Any:
        return agents.GuardrailFunctionOutput(output_info=contract.SECRET, tripwire_triggered=True)

    def trip_of_tool(*_: Any) -> Any:
        return agents.ToolGuardrailFunctionOutput.raise_exception(contract.SECRET)

    async with model_server([tool_call("look", {"word": "a"})], ["Fine."]) as server:
        guarded = assistant(server, contract.Tools())
        if side == "input":
            guarded.input_guardrails.append(agents.InputGuardrail(trip, run_in_parallel=False))
        elif side == "output":
            guarded.output_guardrails.append(agents.OutputGuardrail(trip))
        elif side == "tool_input":
            guarded.tools[0].tool_input_guardrails = [agents.ToolInputGuardrail(trip_of_tool)]
        else:
            guarded.tools[0].tool_output_guardrails = [agents.ToolOutputGuardrail(trip_of_tool)]
        async with editing(from_agent(guarded)) as editor:
            assert (await editor.ask(await editor.open()))["stopReason"] == "refusal"
            assert "A guardrail of the agent does not let" in "".join(editor.said())
            assert contract.SECRET not in str(editor.client.received)


async def test_a_server_that_filters_is_a_refusal_with_a_sentence() -> None:
    refusal = Refusal(400, {"message": contract.SECRET, "code": "content_filter"})
    async with model_server(refusal) as server, editing(make(server, contract.Tools())) as editor:
        assert (await editor.ask(await editor.open()))["stopReason"] == "refusal"
        assert editor.said() == ["The model's server has withheld the answer because of its content."]


async def test_a_model_that_is_not_known_is_told() -> None:
    refusal = Refusal(404, {"message": contract.SECRET, "code": "model_not_found"})
    async with model_server(refusal) as server, editing(make(server, contract.Tools())) as editor:
        error = await editor.answer(await editor.prompt(await editor.open(), "Why?"))
        assert error["message"].endswith("does not know this model (HTTP 404 Not Found, model_not_found).")


async def test_what_a_prompt_has_beside_text_reaches_the_model() -> None:
    async with model_server(["Nice."]) as server:
        agent = make(server, contract.Tools(), accepts=["image", "embedded_context"])
        async with editing(agent) as editor:
            prompt = [
                {"type": "text", "text": "Look:"},
                {"type": "image", "mimeType": "image/png", "data": "aGk="},
                {"type": "resource_link", "name": "a.py", "uri": "file:///a.py"},
                {"type": "resource", "resource": {"uri": "file:///b.py", "text": "pass"}},
            ]
            session = await editor.open()
            answer = await editor.client.result("session/prompt", {"sessionId": session, "prompt": prompt})
            assert answer["stopReason"] == END_TURN["stopReason"]
        content = server.said_to(0)[0][1]
        assert [piece.get("text") or piece["image_url"]["url"] for piece in content] == [
            "Look:",
            "data:image/png;base64,aGk=",
            "[a.py](file:///a.py)",
            "file:///b.py:\npass",
        ]


async def test_what_is_not_an_agent_is_refused() -> None:
    with pytest.raises(UsageError, match="OpenAI Agents SDK"):
        from_agent(object())
