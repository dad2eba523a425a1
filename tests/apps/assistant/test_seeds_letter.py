"""What an `AssistantTool` promises about approval to the letter: what is shown, asked and offered, and when."""

import pytest

from acp_server import Agent, Turn
from acp_server.apps.assistant import AssistantTool
from tests.apps.assistant.assistants import ASK, EDIT, LOCATION, Case
from tests.apps.assistant.test_seeds_approval import ALLOW, FOUND, Location, approval_request, locating
from tests.session.editor import END_TURN, editing

pytestmark = pytest.mark.anyio


async def test_the_words_of_the_request_are_shown_for_what_is_approved_automatically() -> None:
    case = Case(LOCATION)
    words = "The assistant wants to request your current location."
    case.tool.register_approval_request(lambda: {"message": words, "title": "Find You"})
    case.tool.register_execute_tool_with_approval(locating(Location()))
    async with case.running_after_setting(True) as (editor, _, prompt):
        assert await editor.answer(prompt) == END_TURN
        assert editor.asked() == []
        calls = [update for update in editor.client.updates() if update.get("toolCallId") == "c1"]
    assert [piece["content"]["text"] for piece in calls[-1]["content"]] == [words, FOUND]
    assert "Find You" in [update.get("title") for update in calls]
    # While it runs, and not only when it is over.
    assert any("content" in update for update in calls if update.get("status") != "completed")


async def test_without_auto_approve_the_user_is_asked_every_time_and_offered_no_always() -> None:
    case = Case(LOCATION | {"autoApprove": False})
    case.tool.register_execute_tool_with_approval(locating(Location()))
    async with case.running() as (editor, session, prompt):
        for _ in range(2):
            request = await editor.client.expect_request(ASK)
            assert "allow_always" not in [option["kind"] for option in request["params"]["options"]]
            await editor.client.respond(request, ALLOW)
            assert await editor.answer(prompt) == END_TURN
            prompt = await editor.prompt(session)
        await editor.client.respond(await editor.client.expect_request(ASK), ALLOW)
        await editor.answer(prompt)


@pytest.mark.parametrize("remember", [True, False])
async def test_a_request_may_say_that_nothing_is_remembered(remember: bool) -> None:
    case = Case(LOCATION)
    case.tool.register_approval_request(lambda: {"message": "May I?", "remember": remember})
    case.tool.register_execute_tool_with_approval(locating(Location()))
    async with case.running() as (editor, _, prompt):
        request = await editor.client.expect_request(ASK)
        assert len(request["params"]["options"]) == (4 if remember else 2)
        await editor.client.respond(request, ALLOW)
        await editor.answer(prompt)


async def test_a_model_is_not_offered_a_tool_for_the_editor_where_there_is_none() -> None:
    for capabilities, offered in (({}, ["plain"]), (None, ["plain", "edit"])):
        agent = Agent("a")
        AssistantTool(LOCATION | {"id": "plain"}, agent).register_execute_tool_with_approval(approval_request)
        AssistantTool(EDIT, agent).register_execute_tool_with_approval(approval_request)
        seen: list[str] = []

        @agent.prompt
        async def handler(turn: Turn, agent: Agent = agent, seen: list[str] = seen) -> str:
            seen += [tool["name"] for tool in agent.tools.describe(turn.session)]
            return str((await turn.run_tool("none")).message)

        async with editing(agent, capabilities=capabilities) as editor:
            await editor.ask(await editor.open())
            assert editor.said() == [f"There is no tool named 'none'. There are: {', '.join(offered)}."]
        assert seen == offered
        assert len(agent.tools.describe()) == 2


async def test_no_answer_within_the_time_that_the_tool_gives_is_no_approval() -> None:
    agent = Agent("a")
    tool = AssistantTool(LOCATION, agent, approval_timeout=0.01)
    tool.register_execute_tool_with_approval(locating(Location()))

    @agent.prompt
    async def handler(turn: Turn) -> str:
        return str((await turn.run_tool(tool.manifest.id)).message)

    async with editing(agent) as editor:
        await editor.ask(await editor.open())
        assert editor.said() == ["User cancelled the location request."]
