"""What an author says of a tool is kept by whatever runs it, for tools of the agent and of one session alike."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from acp_server import Agent, Session, ToolContext, ToolFailed, Turn
from acp_server.tools.runner import EDITOR_ONLY
from tests.session.editor import EVERYTHING, Editor, editing

pytestmark = pytest.mark.anyio

PERMISSION = "session/request_permission"
WAYS = ("agent.tool", "add_tool", "session.tools.add", "session.tools.add with a schema", "in a turn")


class Offered:
    """An agent with one tool, registered in one of the ways, that runs it in each turn."""

    def __init__(self, way: str, calls: bool = False, **options: Any) -> None:
        self.way = way
        self.agent = Agent("kept")
        self.ran: list[bool] = []
        self.results: list[Any] = []
        options = {"name": "touch", **options}

        async def touch(call: ToolContext) -> str:
            "Touch a file."
            self.ran.append(call.primary_confirmed)
            return "touched"

        async def by_schema(arguments: dict[str, Any], call: ToolContext) -> str:
            "Touch a file."
            return await touch(call)

        if way == "agent.tool":
            self.agent.tool(**options)(touch)
        elif way == "add_tool":
            other = Agent("other")
            self.agent.add_tool(other.tool(**options)(touch))

        @self.agent.session
        async def prepare(session: Session) -> None:
            if way == "session.tools.add":
                session.tools.add(touch, **options)
            elif way == "session.tools.add with a schema":
                session.tools.add(by_schema, input_schema={"type": "object"}, **options)

        @self.agent.prompt
        async def prompt(turn: Turn) -> None:
            if way == "in a turn" and "touch" not in turn.session.tools:
                turn.session.tools.add(touch, **options)
            if calls:
                try:
                    self.results.append(await turn.call("touch"))
                except ToolFailed as error:
                    self.results.append(str(error))
            else:
                self.results.append(await turn.run_tool("touch"))

    @asynccontextmanager
    async def open(self, capabilities: dict[str, Any] | None = None) -> AsyncGenerator[tuple[Editor, str, Any]]:
        async with editing(self.agent, initialize=False) as editor:
            await editor.initialize(capabilities)
            answer = await editor.client.result("session/new", {"cwd": "/project", "mcpServers": []})
            yield editor, answer["sessionId"], answer


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return request.param


async def test_a_tool_that_needs_an_editor_does_not_run_without_one_and_nothing_is_asked(way: str) -> None:
    offered = Offered(way, needs_editor=True, approval=True)
    async with offered.open({}) as (editor, session, _):
        await editor.ask(session)
        assert editor.asked() == []
    assert [(result.status, result.message) for result in offered.results] == [("failed", EDITOR_ONLY)]
    assert offered.ran == []


async def test_a_call_from_the_program_of_a_tool_that_needs_an_editor_fails_without_one() -> None:
    offered = Offered("agent.tool", calls=True, needs_editor=True)
    async with offered.open({}) as (editor, session, _):
        await editor.ask(session)
    assert offered.results == [EDITOR_ONLY]


async def test_a_tool_that_needs_an_editor_runs_with_one(way: str) -> None:
    offered = Offered(way, needs_editor=True)
    async with offered.open() as (editor, session, _):
        await editor.ask(session)
    assert offered.ran == [True]


async def test_where_a_tool_may_run_without_asking_the_session_has_the_option(way: str) -> None:
    offered = Offered(way, approval=True, auto_approve=True)
    async with offered.open() as (editor, session, answer):
        if way == "in a turn":
            prompt = await editor.prompt(session)
            asked = await editor.client.expect_request(PERMISSION)
            await editor.client.respond(asked, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
            await editor.answer(prompt)
            shown = next(u for u in editor.client.updates() if u["sessionUpdate"] == "config_option_update")
        else:
            shown = answer
        assert [option["id"] for option in shown["configOptions"]] == ["auto_approve"]
        setting = {"sessionId": session, "configId": "auto_approve", "type": "boolean", "value": True}
        await editor.client.result("session/set_config_option", setting)
        await editor.ask(session)
    assert offered.ran[-1:] == [True]


async def test_a_client_without_boolean_options_gets_that_one_as_a_choice_of_two() -> None:
    offered = Offered("session.tools.add", approval=True, auto_approve=True)
    async with offered.open({**EVERYTHING, "session": {}}) as (_, _, answer):
        (option,) = answer["configOptions"]
        assert (option["type"], option["currentValue"]) == ("select", "off")


@pytest.mark.parametrize(
    ("options", "holds"),
    [
        ({"title": "Stroke it"}, lambda call, asked: call["title"] == "Stroke it"),
        ({"kind": "delete"}, lambda call, asked: call["kind"] == "delete"),
        ({"approval": False}, lambda call, asked: asked is None),
        ({"approval": True}, lambda call, asked: "allow_always" in asked),
        ({"approval": True, "asks_each_time": True}, lambda call, asked: "allow_always" not in asked),
        ({"approval": True, "approval_key": lambda **_: None}, lambda call, asked: "allow_always" not in asked),
    ],
    ids=["title", "kind", "no approval", "approval", "asks_each_time", "approval_key"],
)
async def test_what_is_said_of_a_tool_reaches_the_client(
    way: str, options: dict[str, Any], holds: Callable[[dict[str, Any], Any], bool]
) -> None:
    offered = Offered(way, **options)
    async with offered.open() as (editor, session, _):
        prompt = await editor.prompt(session)
        kinds = None
        if options.get("approval"):
            asked = await editor.client.expect_request(PERMISSION)
            kinds = [option["kind"] for option in asked["params"]["options"]]
            await editor.client.respond(asked, {"outcome": {"outcome": "selected", "optionId": "reject_once"}})
        await editor.answer(prompt)
        call = next(u for u in editor.client.updates() if u["sessionUpdate"] == "tool_call")
    assert holds(call, kinds)
    assert bool(offered.ran) is not bool(options.get("approval"))


async def test_a_question_that_is_not_answered_in_time_is_a_no(way: str) -> None:
    offered = Offered(way, approval=True, approval_timeout=0.01)
    async with offered.open() as (editor, session, _):
        await editor.ask(session)
    assert [result.status for result in offered.results] == ["rejected"]
    assert offered.ran == []


async def test_what_answers_a_refusal_is_called_when_the_user_says_no(way: str) -> None:
    offered = Offered(way, approval=True, answers_refusal=True)
    async with offered.open() as (editor, session, _):
        prompt = await editor.prompt(session)
        asked = await editor.client.expect_request(PERMISSION)
        await editor.client.respond(asked, {"outcome": {"outcome": "selected", "optionId": "reject_once"}})
        await editor.answer(prompt)
    assert offered.ran == [False]


async def test_the_names_and_words_for_a_model_are_those_that_were_given(way: str) -> None:
    offered = Offered(way, name="stroke", description="Do it.")
    seen: list[Any] = []

    @offered.agent.session
    async def look(session: Session) -> None:
        seen.extend((tool["name"], tool["description"]) for tool in session.tools.describe())

    async with offered.open():
        assert seen == ([] if way == "in a turn" else [("stroke", "Do it.")])
