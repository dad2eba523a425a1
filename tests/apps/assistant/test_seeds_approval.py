"""What an `AssistantTool` promises about approval: the documented examples and each of the rules."""

import json
from pathlib import Path
from typing import Any

import pytest

from acp_server import UsageError
from acp_server.apps.assistant import AssistantTool
from acp_server.apps.assistant.manifest import Manifest
from acp_server.tools.approval import CONFIRMED, UserAction
from acp_server.tools.editor import Editor
from tests.apps.assistant.assistants import ASK, EDIT, LOCATION, PLAIN, READ, WRITE, Case, statuses
from tests.session.editor import END_TURN

ALLOW = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}

pytestmark = pytest.mark.anyio


class Location:
    """What the examples ask for the location."""

    latitude, longitude = 39.9042, 116.4074

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.requests = 0

    async def request_current(self) -> "Location":
        self.requests += 1
        if self.fails:
            raise OSError("no signal")
        return self


# The examples.


async def approval_request(params: dict[str, Any]) -> dict[str, Any]:
    return {
        "message": "The assistant wants to request your current location.",
        "primaryButtonLabel": "Allow",
        "secondaryButtonLabel": "Cancel",
    }


def locating(location: Location) -> Any:
    async def execute_with_approval(params: dict[str, Any], user_action: UserAction) -> dict[str, Any]:
        if not user_action.primary_confirmed:
            return {"success": False, "message": "User cancelled the location request."}
        try:
            found = await location.request_current()
            return {
                "success": True,
                "message": "\n".join(
                    [
                        "User location retrieved successfully.",
                        f"<latitude>{found.latitude}</latitude>",
                        f"<longitude>{found.longitude}</longitude>",
                    ]
                ),
            }
        except Exception:
            return {"success": False, "message": "Failed to retrieve user location."}

    return execute_with_approval


async def diff_request(params: dict[str, Any], editor: Editor | None) -> dict[str, Any]:
    if not editor:
        return {"message": "This tool must be used in the script editor."}

    current = await editor.get_file_content(params["path"])

    def preview() -> None:
        if current is not None:
            editor.open_diff_editor(params["path"], current + "\n// New content")

    return {
        "message": f"The assistant wants to modify {params['path']}.",
        "primaryButtonLabel": "Apply Changes",
        "secondaryButtonLabel": "Cancel",
        "previewButton": {"label": "Preview Diff", "action": preview},
    }


FOUND = "User location retrieved successfully.\n<latitude>39.9042</latitude>\n<longitude>116.4074</longitude>"


# -- the manifest


def test_the_manifest_of_the_example_has_each_documented_key(tmp_path: Path) -> None:
    (tmp_path / "assistant_tool.json").write_text(json.dumps(LOCATION))
    manifest = Manifest.load(tmp_path)
    assert (manifest.display_name, manifest.id) == ("Request Current Location", "request_current_location")
    assert manifest.description == "Requests the user's current location one time."
    assert (manifest.icon, manifest.color, manifest.parameters) == ("location.fill", "systemBlue", [])
    assert (manifest.require_approval, manifest.auto_approve, manifest.script_editor_only) == (True, True, False)


async def test_a_tool_that_requires_approval_is_never_run_without_asking_unless_both_agreed() -> None:
    location = Location()
    case = Case(LOCATION | {"autoApprove": False})
    case.tool.register_execute_tool_with_approval(locating(location))
    async with case.running() as (editor, _, prompt):
        request = await editor.client.expect_request(ASK)
        await editor.settled()
        assert location.requests == 0
        await editor.client.respond(request, ALLOW)
        await editor.answer(prompt)
    assert location.requests == 1


@pytest.mark.parametrize("manifest", [PLAIN | {"scriptEditorOnly": True}, EDIT])
async def test_a_tool_for_the_editor_is_there_only_where_there_is_one(manifest: dict[str, Any]) -> None:
    ran: list[Any] = []

    async def execute(*arguments: Any) -> dict[str, Any]:
        ran.append(arguments[-1])
        return {"success": True, "message": "done"}

    for capabilities in ({}, None):
        case = Case(manifest)
        case.arguments = {"path": "a"} if manifest is EDIT else {}
        if manifest is EDIT:
            case.tool.register_execute_tool_with_approval(execute)
        else:
            case.tool.register_execute_tool(execute)
        answer = "allow_once" if manifest is EDIT and capabilities is None else None
        assert (await case.run(capabilities, answer))[0] == ("failed" if capabilities == {} else "completed")
    [editor] = ran
    assert isinstance(editor, Editor)


# -- the two phases


@pytest.mark.parametrize(
    ("answer", "fails", "outcome", "requests"),
    [
        ("allow_once", False, ("completed", FOUND), 1),
        ("allow_once", True, ("failed", "Failed to retrieve user location."), 1),
        ("reject_once", False, ("rejected", "User cancelled the location request."), 0),
        ("", False, ("rejected", "User cancelled the location request."), 0),
    ],
    ids=["allowed", "allowed, and it fails", "cancelled", "dismissed"],
)
async def test_the_example_of_the_location(answer: str, fails: bool, outcome: tuple[str, str], requests: int) -> None:
    location = Location(fails=fails)
    case = Case(LOCATION)
    case.tool.register_approval_request(approval_request)
    case.tool.register_execute_tool_with_approval(locating(location))
    assert await case.run(answer=answer) == outcome
    assert location.requests == requests


async def test_the_users_question_is_what_the_request_function_returned() -> None:
    case = Case(LOCATION)
    case.tool.register_approval_request(approval_request)
    case.tool.register_execute_tool_with_approval(locating(Location()))
    async with case.running() as (editor, _, prompt):
        request = await editor.client.expect_request(ASK)
        call = request["params"]["toolCall"]
        assert call["content"][0]["content"]["text"] == "The assistant wants to request your current location."
        names = {option["kind"]: option["name"] for option in request["params"]["options"]}
        assert (names["allow_once"], names["reject_once"]) == ("Allow", "Cancel")
        assert statuses(editor) == ["pending"]
        await editor.client.respond(request, ALLOW)
        await editor.answer(prompt)
        assert statuses(editor) == ["pending", "in_progress", "completed"]


async def test_the_example_of_the_diff_shows_it_before_the_user_decides_and_changes_nothing() -> None:
    case = Case(EDIT)
    case.arguments = {"path": "main.js"}

    async def execute(params: dict[str, Any], user_action: UserAction, editor: Editor) -> dict[str, Any]:
        if not user_action.primary_confirmed:
            return {"success": False, "message": "The edit was cancelled."}
        await editor.write_to_file(params["path"], "old\n// New content")
        return {"success": True, "message": "Modified."}

    case.tool.register_approval_request(diff_request)
    case.tool.register_execute_tool_with_approval(execute)
    async with case.running() as (editor, session, prompt):
        editor.client.answer(READ, {"content": "old"})
        editor.client.answer(WRITE, {})
        for option in ("reject_once", "allow_once"):
            request = await editor.client.expect_request(ASK)
            call = request["params"]["toolCall"]
            assert call["content"][1]["content"]["text"] == "The assistant wants to modify main.js."
            assert call["content"][2]["content"]["text"] == "Preview Diff"
            assert call["content"][:1] == [
                {"type": "diff", "path": "/project/main.js", "oldText": "old", "newText": "old\n// New content"}
            ]
            assert call["locations"] == [{"path": "/project/main.js"}]
            names = {option["kind"]: option["name"] for option in request["params"]["options"]}
            assert names["allow_once"] == "Apply Changes"
            assert not editor.client.all(WRITE)
            await editor.client.respond(request, {"outcome": {"outcome": "selected", "optionId": option}})
            assert await editor.answer(prompt) == END_TURN
            if option == "reject_once":
                prompt = await editor.prompt(session)
        assert [m["params"]["content"] for m in editor.client.all(WRITE)] == ["old\n// New content"]
    assert [(r.status, r.message) for r in case.results] == [
        ("rejected", "The edit was cancelled."),
        ("completed", "Modified."),
    ]


async def test_the_example_of_the_diff_asks_all_the_same_where_there_is_no_editor() -> None:
    case = Case(EDIT | {"scriptEditorOnly": False})
    case.arguments = {"path": "main.js"}
    case.tool.register_approval_request(diff_request)
    case.tool.register_execute_tool_with_approval(lambda: {"success": False, "message": "No editor."})
    async with case.running(capabilities={}) as (editor, _, prompt):
        request = await editor.client.expect_request(ASK)
        [message] = request["params"]["toolCall"]["content"]
        assert message["content"]["text"] == "This tool must be used in the script editor."
        await editor.client.respond(request, {"outcome": {"outcome": "cancelled"}})
        await editor.answer(prompt)
    assert case.outcome == ("rejected", "No editor.")


async def test_the_example_of_the_diff_has_no_preview_for_a_file_that_does_not_exist() -> None:
    case = Case(EDIT)
    case.arguments = {"path": "new.js"}
    case.tool.register_approval_request(diff_request)
    case.tool.register_execute_tool_with_approval(lambda: {"success": False, "message": "Cancelled."})
    async with case.running() as (editor, _, prompt):
        await editor.client.refuse(await editor.client.expect_request(READ), -32002)
        request = await editor.client.expect_request(ASK)
        assert [piece["type"] for piece in request["params"]["toolCall"]["content"]] == ["content"]
        await editor.client.respond(request, {"outcome": {"outcome": "cancelled"}})
        await editor.answer(prompt)


async def test_a_preview_may_be_a_summary_in_words() -> None:
    case = Case(LOCATION)
    case.tool.register_approval_request(
        lambda: {
            "message": "The assistant wants to export your notes.",
            "previewButton": {"label": "Preview", "action": lambda: "12 notes, 3 pictures"},
        }
    )
    case.tool.register_execute_tool_with_approval(locating(Location()))
    async with case.running() as (editor, _, prompt):
        request = await editor.client.expect_request(ASK)
        pieces = [piece["content"]["text"] for piece in request["params"]["toolCall"]["content"]]
        assert pieces == ["The assistant wants to export your notes.", "Preview", "12 notes, 3 pictures"]
        await editor.client.respond(request, {"outcome": {"outcome": "cancelled"}})
        await editor.answer(prompt)


@pytest.mark.parametrize(("only", "there"), [(True, True), (False, True), (False, False)])
async def test_both_functions_get_the_editor_wherever_there_is_one(only: bool, there: bool) -> None:
    case = Case(LOCATION | {"scriptEditorOnly": only})
    editors: list[tuple[str, bool]] = []

    async def request(params: dict[str, Any], editor: Editor | None) -> dict[str, Any]:
        editors.append(("request", editor is not None))
        return {"message": "May I?"}

    async def execute(params: dict[str, Any], user_action: UserAction, editor: Editor | None) -> dict[str, Any]:
        editors.append(("execute", editor is not None))
        return {"success": True, "message": "done"}

    case.tool.register_approval_request(request)
    case.tool.register_execute_tool_with_approval(execute)
    assert await case.run(None if there else {}, "allow_once") == ("completed", "done")
    assert editors == [("request", there), ("execute", there)]


# -- approved automatically


async def test_what_is_approved_automatically_is_executed_at_once_with_the_primary_confirmed() -> None:
    case = Case(LOCATION)
    actions: list[UserAction] = []

    async def execute(params: dict[str, Any], user_action: UserAction) -> dict[str, Any]:
        actions.append(user_action)
        return await locating(Location())(params, user_action)

    asked: list[str] = []

    def request() -> dict[str, Any]:
        asked.append("for the words")
        return {"message": "May I?"}

    case.tool.register_approval_request(request)
    case.tool.register_execute_tool_with_approval(execute)
    async with case.running_after_setting(True) as (editor, _, prompt):
        assert await editor.answer(prompt) == END_TURN
        assert editor.asked() == []
        assert statuses(editor) == ["pending", "in_progress", "completed"]
    assert actions == [CONFIRMED]
    # The first phase is gone through all the same.
    assert asked == ["for the words"]
    assert case.outcome == ("completed", FOUND)


# -- trying


@pytest.mark.parametrize(
    ("action", "confirmed"),
    [
        ({"primaryConfirmed": True, "secondaryConfirmed": False}, True),
        ({"primaryConfirmed": True}, True),
        ({"primary_confirmed": True}, True),
        ({"secondaryConfirmed": True}, False),
        ({}, False),
    ],
)
async def test_the_action_that_is_tried_may_be_a_mapping_in_either_spelling(
    action: dict[str, bool], confirmed: bool
) -> None:
    tool = AssistantTool(LOCATION)
    test_execute = tool.register_execute_tool_with_approval(locating(Location()))
    assert (await test_execute({}, action))["success"] == confirmed


@pytest.mark.parametrize("action", [None, {"primaryConfirmed": 1}, {"confirmed": True}, {"primary_confirmed": None}])
async def test_what_is_no_action_of_a_user_is_refused(action: Any) -> None:
    test_execute = AssistantTool(LOCATION).register_execute_tool_with_approval(locating(Location()))
    with pytest.raises(UsageError, match="a user action"):
        await test_execute({}, action)


async def test_the_test_functions_of_the_example() -> None:
    tool = AssistantTool(LOCATION)
    location = Location()
    test_approval = tool.register_approval_request(approval_request)
    test_execute = tool.register_execute_tool_with_approval(locating(location))
    asked = await test_approval({})
    assert asked.message == "The assistant wants to request your current location."
    action = UserAction(primary_confirmed=True, secondary_confirmed=False)
    assert await test_execute({}, action) == {"success": True, "message": FOUND}
    dismissed = UserAction(primary_confirmed=False, secondary_confirmed=False)
    assert (await test_execute({}, dismissed))["message"] == "User cancelled the location request."
    assert location.requests == 1
