"""`AssistantTool` and the user's approval: what is asked, what is shown, who decides, what is run."""

from collections.abc import Callable
from typing import Any

import pytest

from acp_server.apps.assistant import AssistantTool
from acp_server.schema import TextContent
from acp_server.tools.approval import CONFIRMED, DISMISSED, UserAction
from acp_server.tools.editor import BlockingEditor, Editor
from acp_server.tools.runner import EDITOR_ONLY
from tests.apps.assistant.assistants import ASK, EDIT, LOCATION, PLAIN, READ, WRITE, Case, located, statuses
from tests.session.editor import editing

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("answer", "action", "outcome"),
    [
        ("allow_once", CONFIRMED, ("completed", "<latitude>1</latitude>")),
        ("reject_once", UserAction(False, True), ("rejected", "User cancelled the location request.")),
        ("", DISMISSED, ("rejected", "User cancelled the location request.")),
    ],
)
async def test_the_function_is_told_what_the_user_did(answer: str, action: UserAction, outcome: tuple[str, str]):
    case = Case(LOCATION)
    calls: list[UserAction] = []
    case.tool.register_approval_request(
        lambda: {
            "message": "The assistant wants to request your current location.",
            "primaryButtonLabel": "Allow",
            "secondaryButtonLabel": "Cancel",
        }
    )
    case.tool.register_execute_tool_with_approval(located(calls))
    assert await case.run(answer=answer) == outcome
    assert calls == [action]


@pytest.mark.parametrize("answer", ["reject_once", ""])
async def test_a_call_that_was_not_approved_never_runs_for_the_client_and_says_why(answer: str):
    case = Case(LOCATION)
    case.tool.register_execute_tool_with_approval(located([]))
    chosen = {"outcome": "selected", "optionId": answer} if answer else {"outcome": "cancelled"}
    async with case.running() as (editor, _, prompt):
        await editor.client.respond(await editor.client.expect_request(ASK), {"outcome": chosen})
        await editor.answer(prompt)
        last = editor.client.updates()[-1]
        assert statuses(editor) == ["pending", "failed"]
    assert last["_meta"] == {"outcome": "rejected"}
    assert last["content"][-1]["content"]["text"] == "User cancelled the location request."


async def test_the_question_has_the_message_the_title_and_the_labels():
    case = Case(LOCATION)
    case.tool.register_approval_request(
        lambda: {
            "message": "Wants your location.",
            "title": "Location",
            "primary_button_label": "Yes",
            "secondary_button_label": "No",
        }
    )
    case.tool.register_execute_tool_with_approval(located([]))
    async with case.running() as (editor, _, prompt):
        request = await editor.client.expect_request(ASK)
        assert request["params"]["toolCall"]["title"] == "Location"
        assert request["params"]["toolCall"]["content"] == [
            {"type": "content", "content": {"type": "text", "text": "Wants your location."}}
        ]
        names = {option["optionId"]: option["name"] for option in request["params"]["options"]}
        assert (names["allow_once"], names["reject_once"]) == ("Yes", "No")
        await editor.client.respond(request, {"outcome": {"outcome": "cancelled"}})
        await editor.answer(prompt)


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
async def test_a_preview_is_the_diff_that_its_action_opens(plain: bool):
    case = Case(EDIT)
    case.arguments = {"path": "a.py"}

    async def ask(params: dict[str, Any], editor: Editor) -> dict[str, Any]:
        current = await editor.get_file_content(params["path"])
        return asked(params, editor, current)

    def ask_plainly(params: dict[str, Any], editor: BlockingEditor) -> dict[str, Any]:
        return asked(params, editor, editor.get_file_content(params["path"]))

    def asked(params: dict[str, Any], editor: Editor | BlockingEditor, current: str | None) -> dict[str, Any]:
        return {
            "message": f"The assistant wants to modify {params['path']}.",
            "previewButton": {
                "label": "Preview Diff",
                "action": lambda: editor.open_diff_editor(params["path"], f"{current}\n// New content"),
            },
        }

    async def execute(params: dict[str, Any], action: UserAction, editor: Editor) -> dict[str, Any]:
        assert action.primary_confirmed
        await editor.write_to_file(params["path"], "new")
        return {"success": True, "message": "Modified."}

    case.tool.register_approval_request(ask_plainly if plain else ask)
    case.tool.register_execute_tool_with_approval(execute)
    async with case.running() as (editor, _, prompt):
        editor.client.answer(READ, {"content": "old"})
        editor.client.answer(WRITE, {})
        request = await editor.client.expect_request(ASK)
        assert {"type": "diff", "path": "/project/a.py", "oldText": "old", "newText": "old\n// New content"} in request[
            "params"
        ]["toolCall"]["content"]
        assert not editor.client.all(WRITE)
        await editor.client.respond(request, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        await editor.answer(prompt)
        assert [message["params"]["content"] for message in editor.client.all(WRITE)] == ["new"]
    assert case.outcome == ("completed", "Modified.")


async def test_a_preview_may_be_several_pieces_of_content():
    case = Case(LOCATION)
    case.tool.register_approval_request(
        lambda: {
            "message": "m",
            "previewButton": {"label": "Preview", "action": lambda: ["one", TextContent(text="2")]},
        }
    )
    case.tool.register_execute_tool_with_approval(lambda: {"success": True, "message": "done"})
    async with case.running() as (editor, _, prompt):
        request = await editor.client.expect_request(ASK)
        content = request["params"]["toolCall"]["content"]
        assert [piece["content"]["text"] for piece in content] == ["m", "Preview", "one", "2"]
        await editor.client.respond(request, {"outcome": {"outcome": "cancelled"}})
        await editor.answer(prompt)


async def test_what_was_not_approved_is_no_success_whatever_the_function_says():
    case = Case(LOCATION)
    case.tool.register_execute_tool_with_approval(lambda: {"success": True, "message": "did it anyway"})
    assert await case.run(answer="reject_once") == ("rejected", "did it anyway")


async def test_without_a_request_function_the_question_names_the_tool():
    case = Case(LOCATION)
    case.tool.register_execute_tool_with_approval(located([]))
    async with case.running() as (editor, _, prompt):
        request = await editor.client.expect_request(ASK)
        assert "Request Current Location" in request["params"]["toolCall"]["content"][0]["content"]["text"]
        await editor.client.respond(request, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        await editor.answer(prompt)
    assert case.outcome == ("completed", "<latitude>1</latitude>")


@pytest.mark.parametrize("users", [True, False])
@pytest.mark.parametrize("tools", [True, False])
async def test_nobody_is_asked_only_where_both_the_user_and_the_tool_allow_it(users: bool, tools: bool):
    case = Case(LOCATION | {"autoApprove": tools})
    calls: list[UserAction] = []
    case.tool.register_execute_tool_with_approval(located(calls))
    # Another tool that may be approved automatically: without one, there is no setting.
    AssistantTool(LOCATION | {"id": "other"}, case.agent).register_execute_tool_with_approval(located([]))
    async with editing(case.agent) as editor:
        session = await editor.open()
        setting = {"sessionId": session, "configId": "auto_approve", "type": "boolean", "value": users}
        await editor.client.result("session/set_config_option", setting)
        editor.client.answer(ASK, {"outcome": {"outcome": "cancelled"}})
        await editor.ask(session)
        assert editor.asked() == ([] if users and tools else [ASK])
    assert calls == [CONFIRMED if users and tools else DISMISSED]


@pytest.mark.parametrize(
    "request_function",
    [
        lambda: None,
        lambda: {"message": ""},
        lambda: {"title": "no message"},
        lambda: {"message": "m", "previewButton": {"label": "Preview"}},
        lambda: {"message": "m", "previewButton": {"label": "Preview", "action": lambda: 1 / 0}},
        lambda: 1 / 0,
    ],
)
async def test_a_question_that_cannot_be_made_runs_nothing_and_says_so(request_function: Callable[[], Any]):
    case = Case(LOCATION)
    calls: list[UserAction] = []
    case.tool.register_approval_request(request_function)
    case.tool.register_execute_tool_with_approval(located(calls))
    async with case.running() as (editor, _, prompt):
        await editor.answer(prompt)
        assert editor.asked() == []
    assert case.outcome == (
        "failed",
        "The tool was not run, because the question for the user's approval could not be made.",
    )
    assert not calls


async def test_the_approval_request_cannot_write():
    case = Case(EDIT)
    case.arguments = {"path": "a"}

    async def ask(params: dict[str, Any], editor: Editor) -> dict[str, Any]:
        await editor.write_to_file(params["path"], "x")
        return {"message": "m"}

    case.tool.register_approval_request(ask)
    case.tool.register_execute_tool_with_approval(located([]))
    async with case.running() as (editor, _, prompt):
        await editor.answer(prompt)
        assert editor.asked() == []
    assert case.outcome[0] == "failed"


async def test_a_diff_that_is_opened_while_the_tool_runs_is_shown_in_its_call():
    case = Case(EDIT | {"requireApproval": False})
    case.arguments = {"path": "a"}

    async def execute(params: dict[str, Any], editor: Editor) -> dict[str, Any]:
        editor.open_diff_editor(params["path"], "new")
        editor.open_diff_editor("same", "old")
        return {"success": True, "message": "look"}

    case.tool.register_execute_tool(execute)
    async with case.running() as (editor, _, prompt):
        editor.client.answer(READ, {"content": "old"})
        await editor.answer(prompt)
        last = editor.client.updates()[-1]
    assert last["status"] == "completed"
    assert [content for content in last["content"] if content["type"] == "diff"] == [
        {"type": "diff", "path": "/project/a", "oldText": "old", "newText": "new"}
    ]


@pytest.mark.parametrize("approval", [True, False])
async def test_a_tool_for_editors_runs_nothing_where_there_is_none(approval: bool):
    case = Case(EDIT | {"requireApproval": approval})
    case.arguments = {"path": "a"}
    ran: list[str] = []
    if approval:
        case.tool.register_approval_request(lambda: ran.append("asked"))
        case.tool.register_execute_tool_with_approval(lambda: ran.append("ran"))
    else:
        case.tool.register_execute_tool(lambda: ran.append("ran"))
    async with case.running(capabilities={}) as (editor, _, prompt):
        await editor.answer(prompt)
        assert editor.asked() == []
    assert case.outcome == ("failed", EDITOR_ONLY)
    assert not ran


@pytest.mark.parametrize(("capabilities", "there"), [(None, True), ({}, False)])
async def test_another_tool_has_an_editor_where_there_is_one(capabilities: Any, there: bool):
    case = Case(PLAIN)
    seen: list[Any] = []

    async def execute(params: dict[str, Any], editor: Editor | None) -> dict[str, Any]:
        seen.append(editor)
        return {"success": True, "message": ""}

    case.tool.register_execute_tool(execute)
    await case.run(capabilities)
    assert [editor is not None for editor in seen] == [there]
