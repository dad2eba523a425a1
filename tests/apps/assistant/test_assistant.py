"""`AssistantTool`: a manifest and registered functions, from the model's call to what the model is told."""

import logging
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from acp_server import Agent
from acp_server.apps.assistant import AssistantTool
from acp_server.errors import InvalidParams, ToolFailed, UsageError
from acp_server.tools.approval import UserAction
from acp_server.tools.editor import EditResult
from tests.apps.assistant.assistants import LOCATION, PLAIN, Case, located

pytestmark = pytest.mark.anyio


async def test_a_tool_without_approval_runs_and_its_message_goes_to_the_model():
    case = Case(PLAIN)

    async def search(params: dict[str, Any]) -> dict[str, Any]:
        return {"success": True, "message": f"found {params['query']}"}

    case.tool.register_execute_tool(search)
    case.arguments = {"query": "x"}
    assert await case.run() == ("completed", "found x")


async def test_a_plain_function_runs_in_a_thread():
    case = Case(PLAIN)
    threads: list[int] = []

    def search() -> dict[str, Any]:
        threads.append(threading.get_ident())
        return {"success": True, "message": "done"}

    case.tool.register_execute_tool(search)
    assert await case.run() == ("completed", "done")
    assert threads != [threading.get_ident()]


async def test_a_result_without_success_is_a_failure_with_its_message():
    case = Case(PLAIN)
    case.tool.register_execute_tool(lambda params: {"success": False, "message": "no permission"})
    assert await case.run() == ("failed", "no permission")


@pytest.mark.parametrize(
    "result",
    [None, "done", {}, {"success": True}, {"success": 1, "message": "x"}, {"success": EditResult()}, [True, "x"]],
)
async def test_a_result_that_is_none_is_a_failure_that_says_so(result: Any, caplog: pytest.LogCaptureFixture):
    case = Case(PLAIN)
    case.tool.register_execute_tool(lambda: result)
    assert await case.run() == ("failed", "Search did not report its result.")
    assert "search must return {'success': bool, 'message': str}" in caplog.text


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    ("edit", "outcome"),
    [
        (EditResult(), ("completed", "It is written.")),
        (EditResult("a.txt does not exist"), ("failed", "a.txt does not exist")),
    ],
)
async def test_a_result_of_the_editor_says_whether_it_was_a_success_and_why_not(
    plain: bool, edit: EditResult, outcome: Any
):
    case = Case(PLAIN)
    result = {"success": edit, "message": "It is written."}

    async def search() -> dict[str, Any]:
        return result

    test = case.tool.register_execute_tool((lambda: result) if plain else search)
    assert await case.run() == outcome
    assert await test({}) == {"success": outcome[0] == "completed", "message": outcome[1]}


async def test_the_reason_of_the_editor_needs_no_message():
    case = Case(PLAIN)
    case.tool.register_execute_tool(lambda: {"success": EditResult("a.txt does not exist")})
    assert await case.run() == ("failed", "a.txt does not exist")


async def test_arguments_that_do_not_fit_run_nothing():
    case = Case(PLAIN)
    ran: list[Any] = []
    case.tool.register_execute_tool(lambda params: ran.append(params))
    case.arguments = {"query": 5}
    status, message = await case.run()
    assert status == "failed"
    assert message is not None
    assert "query: should be a string, not 5" in message
    assert not ran


# -- registering


def test_the_functions_that_fit_the_manifest_can_be_registered():
    with pytest.raises(UsageError, match="search requires no approval: use register_execute_tool"):
        AssistantTool(PLAIN).register_execute_tool_with_approval(lambda: None)
    words = "an approval request was registered for search, whose manifest requires no approval"
    with pytest.raises(UsageError, match=words):
        AssistantTool(PLAIN).register_approval_request(lambda: None)
    with pytest.raises(UsageError, match="requires approval: use register_execute_tool_with_approval"):
        AssistantTool(LOCATION).register_execute_tool(lambda: None)


def test_a_function_that_cannot_be_called_is_refused_when_it_is_registered():
    tool = AssistantTool(PLAIN)
    with pytest.raises(UsageError, match=r"gets the arguments \(params, editor\), so its parameter third has no value"):
        tool.register_execute_tool(lambda first, second, third: None)
    with pytest.raises(UsageError, match="must return its result, not yield"):
        tool.register_execute_tool(_generator)
    with pytest.raises(UsageError, match="expected a function, not str"):
        tool.register_execute_tool("search")  # pyright: ignore[reportArgumentType]


async def _generator() -> AsyncGenerator[str]:
    yield "x"


def test_models_are_told_what_the_manifest_says_once_a_function_is_registered():
    agent = Agent("test")
    tool = AssistantTool(PLAIN, agent)
    assert agent.tools.describe() == []
    tool.register_execute_tool(lambda: None)
    assert agent.tools.describe() == [
        {"name": "search", "description": "Searches.", "input_schema": tool.manifest.input_schema}
    ]


async def test_registering_twice_replaces_the_function_and_warns(caplog: pytest.LogCaptureFixture):
    case = Case(PLAIN)
    case.tool.register_execute_tool(lambda: {"success": True, "message": "first"})
    with caplog.at_level(logging.WARNING):
        case.tool.register_execute_tool(lambda: {"success": True, "message": "second"})
    assert "search was registered twice; its first function was replaced" in caplog.text
    assert await case.run() == ("completed", "second")


async def test_registering_a_second_approval_request_replaces_the_first_and_warns(caplog: pytest.LogCaptureFixture):
    tool = AssistantTool(LOCATION)
    tool.register_approval_request(lambda: {"message": "first"})
    assert not caplog.records
    test_approval = tool.register_approval_request(lambda: {"message": "second"})
    warning = "the approval request of request_current_location was registered twice; the first was replaced"
    assert [record.getMessage() for record in caplog.records] == [warning]
    assert (await test_approval({})).message == "second"


# -- trying


async def test_the_test_functions_call_what_was_registered():
    plain = AssistantTool(PLAIN)
    test_execute = plain.register_execute_tool(lambda params: {"success": True, "message": params["query"]})
    assert await test_execute({"query": "x"}) == {"success": True, "message": "x"}
    with pytest.raises(InvalidParams):
        await test_execute({"query": 5})

    tool = AssistantTool(LOCATION)
    test_approval = tool.register_approval_request(lambda: {"message": "May I?", "primaryButtonLabel": "Yes"})
    asked = await test_approval({})
    assert (asked.message, asked.primary_button_label, asked.title) == ("May I?", "Yes", None)
    calls: list[UserAction] = []
    test_with_approval = tool.register_execute_tool_with_approval(located(calls))
    assert (await test_with_approval({}, UserAction(True, False)))["success"]
    refused = await test_with_approval({}, UserAction(False, True))
    assert refused == {"success": False, "message": "User cancelled the location request."}


async def test_a_trial_is_an_execution_that_nobody_cancels(caplog: pytest.LogCaptureFixture):
    tool = AssistantTool(PLAIN)

    async def search() -> Any:
        tool.on_cancel = lambda: "partial"
        assert tool.on_cancel is not None
        assert not tool.is_cancelled
        return None

    with pytest.raises(ToolFailed, match="did not report its result"):
        await tool.register_execute_tool(search)({})
    assert tool.on_cancel is None
    assert "was set while the tool was not running" not in caplog.text
