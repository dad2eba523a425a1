"""The tools of a session, offered to a model that pydantic-ai drives."""

from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed: make test-integrations")

import anyio.lowlevel

from acp_server import Agent, Session, ToolContext, ToolFailed, schema
from acp_server.integrations.messages import MOST
from tests.integrations import contract
from tests.integrations.model_server import ModelServer, model_server, tool_call
from tests.integrations.test_pydantic_ai import make
from tests.session.editor import Editor, editing

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


def with_tools(server: ModelServer) -> Agent:
    agent = make(server, contract.Tools())

    @agent.tool(approval=True)
    async def stamp(word: str, call: ToolContext) -> str:
        """Put a stamp on a word."""
        return f"{word} stamped in {call.session.id}"

    @agent.tool
    async def fail() -> None:
        """Fail."""
        raise ToolFailed("It is closed on Sundays.")

    @agent.tool
    async def long() -> str:
        """Say much."""
        return "a" * MOST + "b" * MOST

    @agent.tool
    async def picture() -> list[Any]:
        """Show a picture."""
        return ["Here:", schema.ImageContent(data="aGk=", mime_type="image/png")]

    @agent.session
    async def prepare(session: Session) -> None:
        def handle(arguments: dict[str, Any]) -> str:
            return f"{arguments['number'] + 1}"

        one = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
        session.tools.add(handle, name="one_more", description="Add one.", input_schema=one)

    return agent


async def called(name: str, arguments: dict[str, Any], editor: Editor, server: ModelServer) -> tuple[str, Any]:
    """A session in which the model has called a tool, and what it was told."""
    server.replies += [[tool_call(name, arguments)], ["Fine."]]
    session = await editor.open()
    assert (await editor.ask(session, "Do it."))["stopReason"] == "end_turn"
    return session, [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"][-1]


@pytest.mark.parametrize(("option", "told"), [("allow_once", "x stamped in {}"), ("reject_once", "not run")])
async def test_a_tool_of_the_agent_runs_when_the_user_allows_it_and_is_shown_once(option: str, told: str) -> None:
    async with model_server() as server, editing(with_tools(server)) as editor:
        editor.client.answer(contract.PERMISSION, {"outcome": {"outcome": "selected", "optionId": option}})
        session, answer = await called("stamp", {"word": "x"}, editor, server)
        assert told.format(session) in answer
        shown = [update for update in editor.client.updates() if update["sessionUpdate"] == "tool_call"]
        assert [(call["toolCallId"], call["rawInput"]) for call in shown] == [("call_1", {"word": "x"})]


async def test_a_tool_of_the_session_is_offered_with_its_schema_and_its_arguments_are_checked() -> None:
    async with model_server() as server, editing(with_tools(server)) as editor:
        assert (await called("one_more", {"number": 1}, editor, server))[1] == "2"
        offered = {tool["function"]["name"]: tool["function"] for tool in server.requests[-1]["tools"]}
        assert set(offered) == {"look", "touch", "stamp", "fail", "long", "picture", "one_more"}
        assert offered["one_more"]["description"] == "Add one."
        assert offered["one_more"]["parameters"]["required"] == ["number"]
        assert "number" in (await called("one_more", {"number": "two"}, editor, server))[1]


async def test_a_tool_that_fails_tells_the_model_why_and_the_turn_goes_on() -> None:
    async with model_server() as server, editing(with_tools(server)) as editor:
        assert "It is closed on Sundays." in (await called("fail", {}, editor, server))[1]


async def test_of_a_long_result_the_model_is_told_the_beginning_and_the_end() -> None:
    async with model_server() as server, editing(with_tools(server)) as editor:
        told = (await called("long", {}, editor, server))[1]
        assert told.startswith("a" * (MOST * 3 // 4) + "\n[32,768 characters omitted]\n")
        assert told.endswith("b" * (MOST // 4))
        assert len(told) < MOST + 100


async def test_a_picture_reaches_the_model() -> None:
    async with model_server() as server, editing(with_tools(server)) as editor:
        await called("picture", {}, editor, server)
        assert "data:image/png;base64,aGk=" in str(server.requests[-1]["messages"])


async def test_a_tool_that_is_added_while_a_turn_runs_is_offered_with_the_next_request() -> None:
    async with model_server([tool_call("grow", {})], ["Fine."]) as server:
        agent = make(server, contract.Tools())

        @agent.tool
        async def grow(call: ToolContext) -> str:
            """Add a tool."""
            await anyio.lowlevel.checkpoint()
            call.session.tools.add(lambda: "new", name="grown", description="New.")
            return "It is there."

        async with editing(agent) as editor:
            assert (await editor.ask(await editor.open()))["stopReason"] == "end_turn"
        names = [[tool["function"]["name"] for tool in request["tools"]] for request in server.requests]
        assert ("grown" in names[0], "grown" in names[1]) == (False, True)
