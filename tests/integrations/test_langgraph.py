"""A graph of LangGraph as an agent."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="the extra langgraph is not installed: make test-integrations")
pytest.importorskip("langchain_openai", reason="langchain-openai is not installed: make test-integrations")

from langchain_core.messages import AIMessage, ToolMessage  # pyright: ignore[reportMissingImports]
from langchain_core.tools import tool  # pyright: ignore[reportMissingImports]
from langchain_openai import ChatOpenAI  # pyright: ignore[reportMissingImports]
from langgraph.graph import END, START, MessagesState, StateGraph  # pyright: ignore[reportMissingImports]
from langgraph.prebuilt import ToolNode, tools_condition  # pyright: ignore[reportMissingImports]
from langgraph.types import interrupt  # pyright: ignore[reportMissingImports]

from acp_server import Agent, MemoryStore, Turn, UsageError
from acp_server.integrations.langgraph import from_graph, session_tools
from tests.integrations import contract
from tests.integrations.conforming import conforms
from tests.integrations.model_server import ModelServer, Stop, model_server, tool_call
from tests.session.agents import setup
from tests.session.editor import END_TURN, editing

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


def chat(server: ModelServer) -> Any:
    return ChatOpenAI(model="test", base_url=server.url, api_key="none", max_retries=0, stream_usage=True)


def ask(arguments: dict[str, Any]) -> str | None:
    """Ask whether `touch` may run: None, or what the model is told."""
    request = {"action_requests": [{"name": "touch", "args": arguments}], "review_configs": []}
    [decision] = interrupt(request)["decisions"]
    return None if decision["type"] == "approve" else decision["message"]


def graph(server: ModelServer, tools: contract.Tools, how: str = "ainvoke") -> Any:
    """`how` its node calls the model: in one go, piece by piece, or in a graph of its own. With "leave" a node before
    the tools asks whether they may run; otherwise `touch` does."""

    @tool
    async def look(word: str) -> str:
        """Look for a word."""
        return await tools.look(word)

    @tool
    async def touch(word: str) -> str:
        """Touch a word."""
        refused = None if how == "leave" else ask({"word": word})
        return await tools.look(word) if refused is None else refused

    async def leave(state: dict[str, Any]) -> dict[str, Any]:
        [call] = state["messages"][-1].tool_calls
        refused = ask(call["args"]) if call["name"] == "touch" else None
        return {"messages": [] if refused is None else [ToolMessage(refused, tool_call_id=call["id"])]}

    bound = chat(server).bind_tools([look, touch])

    async def call_model(state: dict[str, Any]) -> dict[str, Any]:
        if how != "astream":
            return {"messages": [await bound.ainvoke(state["messages"])]}
        pieces = [piece async for piece in bound.astream(state["messages"])]
        return {"messages": [sum(pieces[1:], pieces[0])]}

    inner = StateGraph(MessagesState).add_node("call", call_model).add_edge(START, "call").compile()
    built = StateGraph(MessagesState)
    built.add_node("model", inner if how == "subgraph" else call_model)
    built.add_node("tools", ToolNode([look, touch]))
    built.add_edge(START, "model")
    built.add_node("leave", leave)
    built.add_conditional_edges("model", tools_condition, {"tools": "leave" if how == "leave" else "tools", END: END})
    built.add_conditional_edges("leave", lambda state: "model" if state["messages"][-1].type == "tool" else "tools")
    built.add_edge("tools", "model")
    return built.compile()


def make(server: ModelServer, tools: contract.Tools, how: str = "ainvoke", **options: Any) -> Agent:
    return from_graph(graph(server, tools, how), **options)


@pytest.mark.parametrize("how", ["ainvoke", "astream", "subgraph", "leave"])
@pytest.mark.parametrize("promise", contract.OF_ADAPTERS)
async def test_it_keeps_the_contract(promise: Callable[..., Awaitable[None]], how: str) -> None:
    await promise(partial(make, how=how))


async def test_a_client_cannot_replace_the_instructions_of_a_graph() -> None:
    with pytest.raises(UsageError, match="cannot override"):
        from_graph(waiting(), system_prompt="override")


async def test_sizes_and_prices_of_known_models_are_told() -> None:
    # The model's name is in its answer.
    await contract.knows_sizes_and_prices(lambda server, tools, _name: make(server, tools))


async def test_the_conformance_suite_finds_nothing_wrong_with_it() -> None:
    # A tool that asks by itself runs when it does: it is shown so.
    await conforms(partial(make, how="leave", mcp=True))


async def test_a_session_that_the_graph_has_forgotten_remembers_its_tool_calls() -> None:
    await contract.remembers_its_tool_calls(make, store=MemoryStore())


@pytest.mark.parametrize("option", ["allow_once", "reject_once"])
@pytest.mark.parametrize("how", ["ainvoke", "leave"])
async def test_an_interrupt_asks_the_user(how: str, option: str) -> None:
    await contract.approval_decides(partial(make, how=how), option)


def waiting() -> Any:
    """A graph that asks something, and says what it was told."""

    async def ask(_state: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [AIMessage(f"told {interrupt('Really?')}")]}

    return StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask").compile()


@pytest.mark.parametrize(("option", "told"), [("allow_once", True), ("reject_once", False)])
async def test_any_other_interrupt_is_a_question_for_yes_or_no(option: str, told: bool) -> None:
    async with editing(from_graph(waiting())) as editor:
        editor.client.answer(contract.PERMISSION, {"outcome": {"outcome": "selected", "optionId": option}})
        assert await editor.ask(await editor.open()) == END_TURN
        [asked] = editor.client.all(contract.PERMISSION)
        assert asked["params"]["toolCall"]["content"][0]["content"]["text"] == "Really?"
        assert editor.said() == [f"told {told}"]


async def test_an_author_answers_interrupts_in_another_way() -> None:
    async def answer(_turn: Turn, value: Any) -> str:
        return f"an answer to {value}"

    async with editing(from_graph(waiting(), name="asks", on_interrupt=answer)) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        assert editor.said() == ["told an answer to Really?"]


async def test_a_session_that_the_graph_has_forgotten_begins_with_what_was_said() -> None:
    store = MemoryStore()
    async with model_server(["one"], ["two"]) as server:
        for text in ("a", "b"):
            async with editing(from_graph(graph(server, contract.Tools()), store=store)) as editor:
                if text == "a":
                    session = await editor.open()
                else:
                    await editor.client.result("session/load", setup(session))
                assert (await editor.ask(session, text))["stopReason"] == "end_turn"
        assert server.said_to(1) == [("user", "a"), ("assistant", "one"), ("user", "b")]


async def test_what_a_prompt_has_beside_text_reaches_the_model() -> None:
    async with model_server(["Nice."]) as server:
        built = graph(server, contract.Tools())
        async with editing(from_graph(built, accepts=["image", "embedded_context"])) as editor:
            session = await editor.open()
            prompt = [
                {"type": "text", "text": "Look:"},
                {"type": "image", "mimeType": "image/png", "data": "aGk="},
                {"type": "resource_link", "name": "a.py", "uri": "file:///a.py"},
                {"type": "resource", "resource": {"uri": "file:///b.py", "text": "pass"}},
            ]
            await editor.client.result("session/prompt", {"sessionId": session, "prompt": prompt})
        # The author's graph is as it was.
        assert built.checkpointer is None
        assert server.said_to(0)[0][1] == [
            {"type": "text", "text": "Look:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            {"type": "text", "text": "[a.py](file:///a.py)"},
            {"type": "text", "text": "file:///b.py:\npass"},
        ]


def with_session_tools(server: ModelServer) -> Any:
    """A graph that offers the tools of the session beside one of its own."""

    @tool
    async def look(word: str) -> str:
        """Look for a word."""
        return f"found {word}"

    async def call_model(state: dict[str, Any]) -> dict[str, Any]:
        bound = chat(server).bind_tools([look, *session_tools()])
        return {"messages": [await bound.ainvoke(state["messages"])]}

    async def call_tools(state: dict[str, Any]) -> Any:
        return await ToolNode([look, *session_tools()]).ainvoke(state)

    built = StateGraph(MessagesState).add_node("model", call_model).add_node("tools", call_tools)
    built.add_edge(START, "model").add_conditional_edges("model", tools_condition).add_edge("tools", "model")
    return built.compile()


@pytest.mark.parametrize(("option", "told"), [("allow_once", "x stamped"), ("reject_once", "not run")])
async def test_the_tools_of_the_session_are_offered_and_run(option: str, told: str) -> None:
    calls = [[tool_call("stamp", {"word": "x"})], [tool_call("look", {"word": "y"})], ["Fine."]]
    async with model_server(*calls) as server:
        agent = from_graph(with_session_tools(server))

        @agent.tool(approval=True)
        async def stamp(word: str) -> str:
            """Put a stamp on a word."""
            return f"{word} stamped"

        async with editing(agent) as editor:
            editor.client.answer(contract.PERMISSION, {"outcome": {"outcome": "selected", "optionId": option}})
            assert (await editor.ask(await editor.open()))["stopReason"] == "end_turn"
            shown = [update for update in editor.client.updates() if update["sessionUpdate"] == "tool_call"]
            assert [call["name"] for call in shown] == ["stamp", "look"]
            assert len(editor.client.all(contract.PERMISSION)) == 1
        assert {tool["function"]["name"] for tool in server.requests[0]["tools"]} == {"look", "stamp"}
        stamped, found = (m["content"] for m in server.requests[2]["messages"] if m["role"] == "tool")
        assert told in stamped
        assert found == "found y"


async def test_a_cancel_ends_a_tool_of_the_session() -> None:
    async with model_server([tool_call("wait", {})]) as server:
        agent = from_graph(with_session_tools(server))
        tools = contract.Tools()
        tools.hangs = True

        @agent.tool
        async def wait() -> str:
            """Wait."""
            return await tools.look("nothing")

        async with editing(agent) as editor:
            session = await editor.open()
            id = await editor.prompt(session)
            await tools.running.wait()
            await editor.cancel(session)
            assert (await editor.answer(id))["stopReason"] == "cancelled"
            assert tools.stopped
            server.replies.append(["Fine."])
            assert (await editor.ask(session))["stopReason"] == "end_turn"


async def test_there_are_no_tools_of_a_session_outside_of_one() -> None:
    assert session_tools() == []


async def test_a_run_of_too_many_steps_is_stopped() -> None:
    replies = [[tool_call("look", {"word": "a"}, f"call_{number}")] for number in range(3)]
    async with (
        model_server(*replies) as server,
        editing(make(server, contract.Tools(), config={"recursion_limit": 5})) as editor,
    ):
        session = await editor.open()
        assert (await editor.ask(session, "Look."))["stopReason"] == "max_turn_requests"
        assert editor.said()[-1].endswith("send a message to go on.")
        server.replies[:] = [["Fine."]]
        assert (await editor.ask(session, "Go on."))["stopReason"] == "end_turn"


@pytest.mark.parametrize(
    ("reason", "stopped"), [("length", "max_tokens"), ("content_filter", "refusal"), ("stop", "end_turn")]
)
async def test_why_the_model_has_stopped_is_why_the_turn_has(reason: str, stopped: str) -> None:
    async with model_server(["Because", Stop(reason)]) as server, editing(make(server, contract.Tools())) as editor:
        assert (await editor.ask(await editor.open(), "Why?"))["stopReason"] == stopped
        assert ("answer" in "".join(editor.said())) == (stopped != "end_turn")


async def test_what_is_no_compiled_graph_is_refused() -> None:
    with pytest.raises(UsageError, match="compile"):
        from_graph(StateGraph(MessagesState))
