"""Tools that a session has beside the agent's own: functions, and what a JSON Schema describes."""

from typing import Any

import anyio
import pytest

from acp_server import Agent, Session, Tool, ToolContext, ToolResult, Turn, UsageError
from tests.session.editor import END_TURN, Editor, editing
from tests.tools.calls import text
from tests.tools.kept import PERMISSION, selected, updates

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}}},
    "required": ["path"],
    "additionalProperties": False,
    "$defs": {"line": {"type": "integer", "minimum": 1}},
}


class Served:
    """An agent with a tool of its own; a prompt runs the tool that it names, with `arguments`."""

    def __init__(self) -> None:
        self.agent = Agent("served")
        self.sessions: list[Session] = []
        self.arguments: Any = {}
        self.results: list[ToolResult] = []
        self.got: list[Any] = []

        @self.agent.tool
        async def own() -> str:
            "Be here already."
            return "own"

        self.agent.session(self.sessions.append)

        @self.agent.prompt
        async def prompt(turn: Turn) -> None:
            self.results.append(await turn.run_tool(turn.text, self.arguments, id="c1"))

    async def handler(self, arguments: dict[str, Any], call: ToolContext) -> str:
        self.got.append(arguments)
        return f"{call.id} read"

    def described(self, session: Session, name: str = "fs_read", **options: Any) -> Tool[Any]:
        return session.tools.add(self.handler, name=name, description="Read a file.", input_schema=SCHEMA, **options)

    async def run(self, editor: Editor, session: str, name: str, arguments: Any) -> ToolResult:
        self.arguments = arguments
        assert await editor.ask(session, name) == END_TURN
        return self.results[-1]


async def test_a_function_is_a_tool_of_its_session_alone_until_it_is_removed() -> None:
    served = Served()
    async with editing(served.agent) as editor:
        first, second = await editor.open(), await editor.open()

        async def add(a: int, b: int) -> int:
            "Add."
            return a + b

        tools = served.sessions[0].tools
        tools.add(add, kind="think")
        assert [tool["name"] for tool in tools.describe()] == ["own", "add"]
        # The agent's own list says the same of a session, and knows the agent's own otherwise.
        assert served.agent.tools.describe(served.sessions[0]) == tools.describe()
        assert [tool["name"] for tool in served.agent.tools.describe(served.sessions[1])] == ["own"]
        assert [tool["name"] for tool in served.agent.tools.describe()] == ["own"]
        assert (await served.run(editor, first, "add", {"a": 1, "b": 2})).value == 3
        elsewhere = await served.run(editor, second, "add", {"a": 1, "b": 2})
        assert (elsewhere.status, elsewhere.message) == ("failed", "There is no tool named 'add'. There are: own.")
        tools.remove("add")
        assert (await served.run(editor, first, "add", {"a": 1, "b": 2})).status == "failed"
        assert (await served.run(editor, first, "own", {})).value == "own"
        with pytest.raises(KeyError):
            tools.remove("own")


async def test_what_a_schema_describes_is_told_to_models_as_it_is_and_its_handler_gets_what_fits() -> None:
    served = Served()
    async with editing(served.agent) as editor:
        session = await editor.open()
        served.described(served.sessions[0], title="Read")
        assert served.sessions[0].tools.describe()[1] == {
            "name": "fs_read",
            "description": "Read a file.",
            "input_schema": SCHEMA,
        }
        result = await served.run(editor, session, "fs_read", {"path": "a", "lines": [1, 2]})
        assert (result.status, result.message) == ("completed", "c1 read")
        assert served.got == [{"path": "a", "lines": [1, 2]}]
        assert updates(editor)[0]["title"] == "Read"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "'path' is a required property"),
        ({"path": 7}, "path: 7 is not of type 'string'"),
        ({"path": "a", "lines": [1, 0]}, "lines[1]: 0 is less than the minimum of 1"),
        ({"path": "a", "more": 1}, "Additional properties are not allowed ('more' was unexpected)"),
        (["a"], "['a'] is not of type 'object'"),
    ],
)
async def test_what_does_not_fit_the_schema_is_told_to_the_model_and_not_run(arguments: Any, why: str) -> None:
    served = Served()
    async with editing(served.agent) as editor:
        session = await editor.open()
        served.described(served.sessions[0])
        result = await served.run(editor, session, "fs_read", arguments)
        assert (result.status, result.message) == ("failed", f"The arguments are invalid: {why}")
    assert not served.got


async def test_what_is_told_of_arguments_that_do_not_fit_is_bounded() -> None:
    served = Served()
    async with editing(served.agent) as editor:
        session = await editor.open()
        served.described(served.sessions[0])
        result = await served.run(editor, session, "fs_read", {"path": "a", "lines": ["x" * 10_000] * 1_000})
        assert result.message is not None
        assert len(result.message) < 10_000


async def test_a_schema_is_not_looked_for_outside_of_itself() -> None:
    served = Served()
    async with editing(served.agent) as editor:
        session = await editor.open()
        elsewhere = {"properties": {"path": {"$ref": "http://127.0.0.1:9/schema.json"}}}
        served.sessions[0].tools.add(served.handler, name="odd", description="", input_schema=elsewhere)
        result = await served.run(editor, session, "odd", {"path": "a"})
        assert result.status == "failed"
        assert "has no definition for its reference" in str(result.message)


async def test_what_cannot_be_a_tool_is_refused_when_it_is_added() -> None:
    served = Served()
    async with editing(served.agent) as editor:
        await editor.open()
        tools = served.sessions[0].tools

        async def nothing() -> None: ...

        async def own() -> None: ...

        served.described(served.sessions[0])
        wrongs: list[tuple[Any, dict[str, Any]]] = [
            (own, {}),
            (served.handler, {"name": "fs_read", "input_schema": {}}),
            (served.handler, {"name": "a b", "input_schema": {}}),
            (served.handler, {"name": "list", "input_schema": {"type": "array"}}),
            (served.handler, {"name": "bad", "input_schema": {"type": "no type"}}),
            (nothing, {"input_schema": {}}),
            (Tool(nothing), {"name": "other"}),
            (7, {}),
            (7, {"input_schema": {}}),
        ]
        for wrong, options in wrongs:
            with pytest.raises(UsageError):
                tools.add(wrong, **options)
        assert [tool["name"] for tool in tools.describe()] == ["own", "fs_read"]
        tools.add(Tool(nothing))


async def test_a_tool_that_is_removed_while_it_runs_goes_on_and_can_be_cancelled() -> None:
    served = Served()
    begun = anyio.Event()
    async with editing(served.agent) as editor:
        session = await editor.open()

        async def hang(call: ToolContext) -> None:
            begun.set()
            call.on_cancel = lambda: "stopped"
            await anyio.sleep_forever()

        served.sessions[0].tools.add(hang)
        id = await editor.prompt(session, "hang")
        await begun.wait()
        served.sessions[0].tools.remove("hang")
        await editor.client.result("_tool_call/cancel", {"sessionId": session, "toolCallId": "c1"})
        assert await editor.answer(id) == END_TURN
    assert (served.results[0].status, served.results[0].message) == ("cancelled", "stopped")


# Approval


async def test_always_is_remembered_under_the_key_that_the_author_says() -> None:
    served = Served()
    async with editing(served.agent) as editor:
        editor.client.answer(PERMISSION, selected("allow_always"))
        session = await editor.open()
        for name, key in (("a_read", "files"), ("b_read", "files"), ("c_read", None)):
            served.described(served.sessions[0], name, approval=True, approval_key=key)
        asked = []
        for name in ("a_read", "b_read", "c_read"):
            assert (await served.run(editor, session, name, {"path": "a"})).status == "completed"
            asked.append(len(editor.asked(PERMISSION)))
        assert asked == [1, 1, 2]
        assert served.sessions[0].approvals == {"files": True, "c_read": True}


async def test_the_question_shows_what_will_be_run() -> None:
    served = Served()
    script = "cd /\nrm -rf x ~~~~ y"
    async with editing(served.agent) as editor:
        editor.client.answer(PERMISSION, selected("reject_once"))
        session = await editor.open()

        async def run(script: str, times: int, options: dict[str, str]) -> None:
            "Run a script."

        served.sessions[0].tools.add(run, approval=True)
        arguments = {"script": script, "times": "2", "options": {"user": "root"}}
        assert (await served.run(editor, session, "run", arguments)).status == "rejected"
        [asked] = [message["params"]["toolCall"] for message in editor.client.all(PERMISSION)]
        assert asked["rawInput"] == arguments
        [said] = asked["content"]
        # A fence that nothing in the arguments can end.
        assert said["content"]["text"] == (
            "May this run: Run a script?\n\n"
            '~~~~~\nscript: \n    cd /\n    rm -rf x ~~~~ y\ntimes: 2\noptions: {"user":"root"}\n~~~~~\n'
        )
        # It is part of the question, and not of what came of the call.
        assert text(updates(editor)[-1]) == ["It was not allowed, so it was not run."]


async def test_a_question_of_the_authors_has_the_arguments_too() -> None:
    served = Served()
    async with editing(served.agent) as editor:
        editor.client.answer(PERMISSION, selected("reject_once"))
        session = await editor.open()
        served.described(served.sessions[0], approval=lambda arguments: f"Read {arguments['path']}?")
        await served.run(editor, session, "fs_read", {"path": "a"})
        [asked] = [message["params"]["toolCall"] for message in editor.client.all(PERMISSION)]
        assert asked["rawInput"] == {"path": "a"}
        assert [piece["content"]["text"] for piece in asked["content"]] == ["Read a?"]


@pytest.mark.parametrize(
    ("arguments", "ends"),
    [
        ({"a": "x" * 10_000 + "the end"}, ["characters are left out]", "the end"]),
        ({f"a{number}": 1 for number in range(200)}, ["[150 more arguments]"]),
    ],
)
async def test_a_long_question_says_how_much_is_left_out(arguments: dict[str, Any], ends: list[str]) -> None:
    served = Served()
    async with editing(served.agent) as editor:
        editor.client.answer(PERMISSION, selected("reject_once"))
        session = await editor.open()
        served.sessions[0].tools.add(
            served.handler, name="any", description="", input_schema={"type": "object"}, approval=True
        )
        await served.run(editor, session, "any", arguments)
        [asked] = [message["params"]["toolCall"] for message in editor.client.all(PERMISSION)]
        said = asked["content"][0]["content"]["text"]
        assert len(said) < 5_000
        assert all(end in said for end in ends)
        assert asked["rawInput"] == arguments
