"""The guide to tools: its examples run, and its tables are true."""

import inspect
import json
import re
from enum import Enum
from typing import Annotated, Any, Literal, get_args, get_type_hints

import pytest
from annotated_types import Ge, Lt
from pydantic import AfterValidator, Field
from typing_extensions import Doc

from acp_server import Approval, ToolContext, ToolResult, UserAction
from acp_server.apps.assistant import AssistantTool
from acp_server.apps.assistant.functions import ApprovalRequest
from acp_server.apps.assistant.manifest import Manifest
from acp_server.apps.assistant.manifest_parameter import Parameter
from acp_server.errors import InvalidParams, UsageError
from acp_server.tasks import threads
from acp_server.tools.editor import BlockingEditor, Editor, EditResult, FileOperation, ReplaceInstruction
from acp_server.tools.tool import Tool
from tests.session.editor import CANCELLED, END_TURN, editing

from .blocks import DOCS, opened, run

pytestmark = pytest.mark.anyio
ROOT = DOCS.parent
PERMISSION = "session/request_permission"
INTERNAL = {"executing", "take", "action"}
"""Of a running call, for those who carry it out."""


def guide() -> str:
    return (DOCS / "tools.md").read_text("utf-8")


def rows(heading: str) -> list[list[str]]:
    """The rows of the table whose first line begins like this, cell by cell."""
    lines = guide().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(heading))
    table = lines[start + 2 :]
    end = next((number for number, line in enumerate(table) if not line.startswith("|")), len(table))
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[:end]]


def names(cell: str) -> list[str]:
    return re.findall(r"`(?:call\.|tool\.)?(\w+)", cell)


def selected(option: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


# -- the examples


async def test_tools_first() -> None:
    async with opened("first", "tools.md") as (editor, session, example):
        assert await editor.ask(session, "bank") == END_TURN
        assert editor.said() == ["3 meanings. ", "count: completed, '0\\n1\\n'"]
        assert editor.client.updates()[0]["title"] == "Look a word up"
        assert await example["kernel"]()
        assert example["room"]() > 0
        described = {tool["name"]: tool for tool in example["agent"].tools.describe()}
        assert described["look_up"]["input_schema"]["properties"]["most"] == {"type": "integer", "default": 3}


async def test_tools_session() -> None:
    async with opened("session", "tools.md") as (editor, session, example):
        editor.client.answer(PERMISSION, selected("allow_always"))
        assert await editor.ask(session, "word") == END_TURN
        assert editor.said() == ["folder, look_up. ", "look_up: {'word': 'word'}"]
        served = example["agent"].find_session(editor.connection, session)
        assert served.approvals == {"dictionary/look_up": True}


async def test_tools_model() -> None:
    async with opened("model", "tools.md") as (editor, session, _):
        assert await editor.ask(session) == END_TURN
        assert editor.said() == ["fine in Oslo; fine in Rome"]
        ends = {u["toolCallId"] for u in editor.client.updates() if u.get("status") == "completed"}
        assert ends == {"call_Rome", "call_Oslo"}


async def test_tools_context() -> None:
    async with opened("context", "tools.md") as (editor, session, _):
        editor.client.answer("fs/read_text_file", {"content": "one two\nthree\n"})
        assert await editor.ask(session, "a.txt") == END_TURN
        assert editor.said() == ["{'words': 3}"]
        calls = [u for u in editor.client.updates() if "toolCallId" in u]
        assert calls[0]["title"] == "Count the words of a.txt"
        assert {"path": "/project/a.txt"} in [place for u in calls for place in u.get("locations", ())]
        assert "3 words so far" in calls[-1]["content"][0]["content"]["text"]
        assert calls[-1]["rawOutput"] == {"words": 3}


@pytest.mark.parametrize("option", ["allow_once", "reject_once"])
async def test_tools_approval(option: str) -> None:
    async with opened("approval", "tools.md") as (editor, session, _):
        editor.client.answer("fs/read_text_file", {"content": "be quiet"})
        editor.client.answer("fs/write_text_file", {})
        prompt = await editor.prompt(session, "quiet")
        request = await editor.client.expect_request(PERMISSION)
        assert request["params"]["toolCall"]["content"][0]["newText"] == "be QUIET"
        options = {o["optionId"]: o["name"] for o in request["params"]["options"]}
        assert [row[0].strip("`") for row in rows("| Option |")] == list(options)
        assert options["allow_once"] == "Apply"
        assert options["reject_always"] == "Leave it, always in this session: all calls of capitals"
        await editor.client.respond(request, selected(option))
        assert await editor.answer(prompt) == END_TURN
        written = [message["params"]["content"] for message in editor.client.all("fs/write_text_file")]
        assert written == (["be QUIET"] if option == "allow_once" else [])
        assert editor.said() == [
            "completed: Changed."
            if option == "allow_once"
            else "rejected: The user did not allow it, so it was not run."
        ]


async def test_tools_decisions() -> None:
    example = run("tools.md", "decisions")
    for asked in (1, 0):
        async with editing(example["agent"]) as editor:
            editor.client.answer(PERMISSION, selected("reject_always"))
            await editor.ask(await editor.open())
            assert editor.said() == ["rejected"]
            assert len(editor.asked(PERMISSION)) == asked
    assert example["DECISIONS"] == {"/project tidy_up": False}


async def test_tools_partial() -> None:
    async with opened("partial", "tools.md") as (editor, session, _):
        prompt = await editor.prompt(session, "tea")
        await editor.client.expect(lambda message: "papers is done" in str(message))
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": "search_1"})
        assert await editor.answer(prompt) == END_TURN
        words = "Cancelled by the user.\nPartial results:\nbooks: tea\npapers: tea"
        assert editor.said() == [f"The model is told: {words}"]


async def test_tools_results() -> None:
    async with opened("results", "tools.md") as (editor, session, _):
        id = await editor.prompt(session, "bees")
        await editor.client.expect(lambda m: m.get("params", {}).get("update", {}).get("status") == "in_progress")
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        await editor.ask(session, "what was found?")
        assert editor.said() == ["Cancelled by the user. Partial results: bees in books"]


async def test_tools_cancel() -> None:
    async with opened("cancel", "tools.md") as (editor, session, _):
        assert await editor.ask(session) == END_TURN
        assert editor.said() == ["cancelled: It is a hard question."]
        last = [u for u in editor.client.updates() if "toolCallId" in u][-1]
        assert (last["status"], last["_meta"]) == ("failed", {"outcome": "cancelled"})


async def test_a_client_is_told_that_one_tool_can_be_cancelled() -> None:
    async with editing(run("tools.md", "cancel")["agent"], initialize=False) as editor:
        answer = await editor.initialize()
        assert "_tool_call/cancel" in answer["agentCapabilities"]["_meta"]
    async with editing(run("agents.md", "whole")["agent"], initialize=False) as editor:
        answer = await editor.initialize()
        assert "_meta" not in answer["agentCapabilities"]


@pytest.mark.parametrize("option", ["allow_once", "reject_once"])
async def test_tools_assistant(option: str) -> None:
    async with opened("assistant", "tools.md") as (editor, session, example):
        editor.client.answer("fs/read_text_file", {"content": "one\n"})
        editor.client.answer("fs/write_text_file", {})
        prompt = await editor.prompt(session, "a.js")
        request = await editor.client.expect_request(PERMISSION)
        assert request["params"]["toolCall"]["content"][0]["newText"] == "one\n// New content\n"
        await editor.client.respond(request, selected(option))
        assert await editor.answer(prompt) == END_TURN
        assert editor.said() == [
            "a.js has the line." if option == "allow_once" else "The user does not want the change."
        ]
        written = [message["params"]["content"] for message in editor.client.all("fs/write_text_file")]
        assert written == (["one\n// New content\n"] if option == "allow_once" else [])
        action = UserAction(primary_confirmed=False, secondary_confirmed=True)
        tried = await example["test_execute"]({"path": "a"}, action)
        assert tried == {"success": False, "message": "The user does not want the change."}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def old(): ...\n", "completed: a.py has new."),
        ("no such thing\n", "failed: a.py: the block to replace is not in the file"),
    ],
)
async def test_tools_editor(text: str, said: str) -> None:
    async with opened("editor", "tools.md") as (editor, session, _):
        files = {"/project/a.py": text}

        def write(message: dict[str, Any]) -> dict[str, Any]:
            files[message["params"]["path"]] = message["params"]["content"]
            return {}

        editor.client.answer("fs/read_text_file", lambda m: {"content": files[m["params"]["path"]]})
        editor.client.answer("fs/write_text_file", write)
        assert await editor.ask(session, "new") == END_TURN
        assert editor.said() == [said]
        assert files["/project/a.py"] == ("# old is new now\ndef new(): ...\n" if "def" in text else text)


# -- the tables


def test_the_table_of_results_names_each_status() -> None:
    statuses = get_args(get_type_hints(ToolResult)["status"])
    assert [row[0].strip("`") for row in rows("| `status` |")] == list(statuses)


def test_the_table_of_the_running_call_names_all_that_it_has() -> None:
    # The attributes of an instance are in its constructor.
    source = (ROOT / "acp_server/tools/context.py").read_text("utf-8")
    known = set(re.findall(r"^        self\.([a-z]\w+)(?::| =)", source, re.MULTILINE))
    known |= {name for name in vars(ToolContext) if not name.startswith("_")}
    assert {name for row in rows("| The running call |") for name in names(row[0])} == known - INTERNAL


def test_the_numbers_of_threads_are_true() -> None:
    numbers = [int(found) for found in re.findall(r"^\| (\d+) \|", guide(), re.MULTILINE)]
    assert numbers == [threads.RUNNING, threads._MANY, threads.ABANDONED, threads.ASKED]


def test_the_defaults_of_an_approval_are_true() -> None:
    question = Approval("?")
    text = guide()
    assert f'`primary`, else "{question.primary}"' in text
    assert f'`secondary`, else "{question.secondary}"' in text
    assert question.remember


def test_the_table_of_the_manifest_names_each_key() -> None:
    keys = [name for row in rows("| Key of the manifest |") for name in names(row[0])]
    assert keys == [field.alias or name for name, field in Manifest.model_fields.items()]
    [parameters] = [row[1] for row in rows("| Key of the manifest |") if row[0] == "`parameters`"]
    assert sorted(names(parameters)) == sorted(Parameter.model_fields)


def test_what_an_assistant_tool_is_said_to_have_is_there() -> None:
    found = [name for row in rows("| In Python |") for name in names(row[0])]
    assert sorted(found) == sorted(name for name in vars(AssistantTool) if not name.startswith("_"))
    assert {"message", "preview_button", "primary_button_label", "secondary_button_label"} < set(
        ApprovalRequest.model_fields
    )


def test_the_table_of_the_editor_has_each_method_as_it_is_called() -> None:
    said = {row[0].strip("`").removeprefix("await ").split("(")[0]: row for row in rows("| Method of the `Editor` |")}
    public = {name for name in vars(Editor) if not name.startswith("_")} - {"of", "absolute", "take_diffs"}
    assert set(said) == public == {name for name in vars(BlockingEditor) if not name.startswith("_")}
    for name, (call, meaning) in said.items():
        method = getattr(Editor, name)
        if isinstance(method, property):
            assert call == f"`{name}`"
            continue
        parameters = [*inspect.signature(method).parameters]
        waits = "await " if inspect.iscoroutinefunction(method) else ""
        assert call == f"`{waits}{name}({', '.join(parameters[1:])})`"
        assert list(inspect.signature(getattr(BlockingEditor, name)).parameters) == parameters
        assert ("EditResult" in meaning) == (inspect.signature(method).return_annotation == EditResult.__name__)
    for instruction in (FileOperation, ReplaceInstruction):
        taken = [
            name if parameter.default is parameter.empty else f"{name}={parameter.default}"
            for name, parameter in inspect.signature(instruction).parameters.items()
        ]
        assert f"`{instruction.__name__}({', '.join(taken)})`" in guide()


class Colour(Enum):
    """For rows of the table of parameters."""

    RED = "red"


class Depends:
    """A marker of another framework."""

    def __init__(self, dependency: Any) -> None:
        self.dependency = dependency


class Connection:
    """A class of which JSON has no values."""


def double(n: int) -> int:
    """A validator."""
    return 2 * n


ROWS = re.findall(r"^\| `(n: .+?)`(?:, where .+?)? \| (.+) \|$", (DOCS / "tools.md").read_text("utf-8"), re.MULTILINE)


def test_the_table_of_parameters_is_read() -> None:
    assert len(ROWS) == 24


@pytest.mark.parametrize(("form", "promise"), ROWS, ids=[form for form, _ in ROWS])
def test_what_the_table_says_of_a_form_of_parameter_is_so(form: str, promise: str) -> None:
    scope: dict[str, Any] = {"Any": Any, "Annotated": Annotated, "Literal": Literal}
    scope |= {"Colour": Colour, "Connection": Connection}
    scope |= {"Depends": Depends, "double": double, "connect": double, "MISSING": object()}
    scope |= {"Field": Field, "Ge": Ge, "Lt": Lt, "Doc": Doc, "AfterValidator": AfterValidator}
    exec(f"def look({form.replace(chr(92), '')}): return n", scope)
    if promise.startswith("refused"):
        with pytest.raises(UsageError):
            Tool(scope["look"])
        return
    tool = Tool(scope["look"])
    (shown,) = tool.input_schema["properties"].values()
    assert ("required" in tool.input_schema) == promise.startswith("required")
    assert ("bound" in promise) == ("minimum" in shown)
    assert ("description" in promise) == ("description" in json.dumps(shown))
    if promise.startswith("optional"):
        tool.function(**tool.read({}))
    else:
        with pytest.raises(InvalidParams):
            tool.read({})
