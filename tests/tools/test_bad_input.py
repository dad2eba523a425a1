"""What becomes of tool calls that cannot work, and of tools that fail: a clear message, and nothing is executed."""

import logging
from typing import Any

import pytest
from pydantic import BaseModel

from acp_server import Agent, RpcError, ToolContext, ToolFailed, Turn, grace
from acp_server.errors import EncodeError, UsageError
from acp_server.session.turn import live_of
from acp_server.tasks import threads
from tests.session.editor import CANCELLED, END_TURN, editing
from tests.tools.calls import calling, shown, text, updates

pytestmark = pytest.mark.anyio


class Point(BaseModel):
    x: int
    y: int = 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"path": 5}, "path: Input should be a valid string"),
        ({}, "path: Field required"),
        ({"path": "a", "mode": "x"}, "mode: Extra inputs are not permitted"),
        ({"path": "a", "lines": "many"}, "lines: Input should be a valid integer"),
        (["a"], "the arguments must be an object"),
    ],
)
@pytest.mark.behaviour("L4")
async def test_arguments_that_do_not_fit_are_said_to_the_model_and_nothing_runs(arguments: Any, says: str) -> None:
    agent = Agent("a")
    ran: list[str] = []

    @agent.tool(approval=True)
    async def read(path: str, lines: int = 10) -> None:
        ran.append(path)

    results = calling(agent, "read", arguments)
    seen = await updates(agent)
    assert results[0].status == "failed"
    assert says in (results[0].message or "")
    assert [u["status"] for u in seen] == ["pending", "failed"]
    assert says in text(seen[-1])[0]
    assert ran == []


async def test_an_unknown_tool_fails_like_any_other_and_the_model_learns_what_there_is() -> None:
    agent = Agent("a")

    @agent.tool
    async def read() -> None: ...

    @agent.tool
    async def write() -> None: ...

    results = calling(agent, "raed")
    seen = await updates(agent)
    assert results[0].message == "There is no tool named 'raed'. There are: read, write."
    assert [u["status"] for u in seen] == ["pending", "failed"]


async def test_an_exceptions_text_is_for_the_program_and_not_for_the_client(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent("a")

    @agent.tool
    def fail() -> None:
        raise ValueError("the password is hunter2")

    results = calling(agent, "fail")
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.ask(session)
        assert "hunter2" not in str(editor.client.received)
        assert text(shown(editor)[-1]) == ["The tool failed."]
    assert isinstance(results[0].error, ValueError)
    assert any(record.exc_info for record in caplog.records)


@pytest.mark.parametrize("plain", [False, True])
async def test_a_tool_that_ends_the_program_is_no_failed_one(plain: bool) -> None:
    agent = Agent("a")
    ending = SystemExit(3)

    async def leave() -> None:
        raise ending

    def leave_plainly() -> None:
        raise ending

    agent.tool(name="leave")(leave_plainly if plain else leave)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        with pytest.raises(SystemExit) as raised:
            await turn.run_tool("leave")
        assert raised.value is ending

    assert [u["status"] for u in await updates(agent)] == ["pending", "in_progress", "failed"]


async def test_a_tool_for_which_there_is_no_thread_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(threads, "ABANDONED", 0)
    agent = Agent("a")
    ran: list[str] = []

    @agent.tool
    def read() -> None:
        ran.append("read")

    results = calling(agent, "read")
    seen = await updates(agent)
    words = "Too much that was cancelled still runs, so it was not run."
    assert (results[0].status, results[0].message) == ("failed", words)
    assert text(seen[-1]) == [words]
    assert not ran
    why = "read is not started, because 0 threads still run after their cancel"
    assert f"the tool 'read' was not run: {why}" in caplog.text


@pytest.mark.parametrize("error", [ToolFailed("no such file"), RpcError("no such file")])
async def test_a_tool_can_say_what_went_wrong(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent("a")

    @agent.tool
    async def fail() -> None:
        raise error

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        with pytest.raises(ToolFailed) as failed:
            await turn.call("fail")
        assert failed.value.__cause__ is error
        return str(failed.value.message)

    async with editing(agent) as editor:
        session = await editor.open()
        assert await editor.ask(session) == END_TURN
        assert editor.said() == ["no such file"]
        assert text(shown(editor)[-1]) == ["no such file"]
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


async def test_a_tool_that_does_not_say_what_went_wrong_has_failed() -> None:
    agent = Agent("a")

    @agent.tool
    async def fail() -> None:
        raise ToolFailed

    results = calling(agent, "fail")
    seen = await updates(agent)
    assert (results[0].status, results[0].message) == ("failed", "The tool failed.")
    assert text(seen[-1]) == ["The tool failed."]


async def test_a_tool_that_finds_the_client_gone_says_so_and_it_is_no_fault_of_the_program(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = Agent("a")

    @agent.tool
    async def read(call: ToolContext) -> str:
        return await call.client.read_text_file("/a")

    results = calling(agent, "read")
    async with editing(agent) as editor:
        id = await editor.prompt(await editor.open())
        await editor.client.expect_request("fs/read_text_file")
        editor.stream.end_input()
        await editor.answer(id)
    assert [(result.status, result.message) for result in results] == [("failed", "The client is gone.")]
    assert "the tool 'read' failed" not in caplog.text


@pytest.mark.parametrize(
    "title", [lambda path: path.nothing, lambda path: None, lambda path: 5], ids=["raises", "none", "a number"]
)
async def test_a_title_that_cannot_be_made_fails_the_call_and_runs_nothing(title: Any) -> None:
    agent = Agent("a")
    ran: list[str] = []

    @agent.tool(title=title)
    async def read(path: str) -> None:
        ran.append(path)

    results = calling(agent, "read", {"path": "a"})
    seen = await updates(agent)
    assert (results[0].status, results[0].message, ran) == ("failed", "The tool failed.", [])
    assert [u["status"] for u in seen] == ["pending", "failed"]
    assert seen[0]["title"] == "read"


@pytest.mark.parametrize("in_thread", [False, True])
async def test_places_and_titles_that_are_none_are_refused_and_change_nothing(in_thread: bool) -> None:
    agent = Agent("a")

    def say(call: Any) -> None:
        call.locate("/project/a")
        for places in ("abc", [5], [{"path": 5}]):
            with pytest.raises(ValueError, match="ToolCallLocation"):
                call.locations = places
        with pytest.raises(ValueError, match="ToolCallLocation"):
            call.locate(5)
        with pytest.raises(TypeError, match="a title must be a string"):
            call.set_title(5)
        call.locate("/project/b")

    async def direct(call: ToolContext) -> None:
        say(call)

    def threaded(call: ToolContext) -> None:
        say(call)

    agent.tool(name="look")(threaded if in_thread else direct)
    results = calling(agent, "look")
    seen = await updates(agent)
    assert [u["locations"] for u in seen if "locations" in u][-1] == [{"path": "/project/a"}, {"path": "/project/b"}]
    assert results[0].error is None


async def test_a_call_that_cannot_begin_leaves_nothing_behind() -> None:
    agent = Agent("a")

    @agent.tool(kind="read")
    async def odd() -> None: ...

    vars(odd)["kind"] = object()  # as no registration lets it pass

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        for _ in range(2):
            with pytest.raises(EncodeError, match="object"):
                await turn.run_tool("odd", id="c1")
            assert not live_of(turn).tool_calls
            assert not live_of(turn).node.size
        return "went on"

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        assert shown(editor) == []
        assert editor.said() == ["went on"]


async def test_a_title_that_cancels_its_turn_begins_nothing() -> None:
    agent = Agent("a")
    sessions: list[Any] = []
    results: list[Any] = []

    @agent.tool(title=lambda: str(sessions[0].cancel()))
    async def odd() -> None: ...

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        sessions.append(turn.session)
        with grace():
            results.append(await turn.run_tool("odd"))

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == CANCELLED
        assert shown(editor) == []
    assert [r.status for r in results] == ["cancelled"]


@pytest.mark.parametrize(
    ("tool", "id", "says"),
    [
        ([], None, "call a tool by its name or its function, not by a list"),
        (None, None, "call a tool by its name or its function, not by a NoneType"),
        (5, None, "call a tool by its name or its function, not by a int"),
        ("read", 5, "must be a string, not int"),
        ("read", ["c1"], "must be a string, not list"),
        ("unknown", b"c1", "must be a string, not bytes"),
    ],
)
async def test_calls_that_only_a_program_gets_wrong_are_mistakes_of_the_program(tool: Any, id: Any, says: str) -> None:
    agent = Agent("a")

    @agent.tool
    async def read() -> None: ...

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        with pytest.raises(UsageError, match=says):
            await turn.run_tool(tool, id=id)

    assert await updates(agent) == []


async def test_arguments_that_json_cannot_express_are_left_out_and_nothing_is_lost() -> None:
    agent = Agent("a")
    thing = object()
    taken: list[Any] = []

    @agent.tool
    async def odd(thing: Any) -> None:
        taken.append(thing)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await turn.call(odd, thing=thing)

    seen = await updates(agent)
    assert "rawInput" not in seen[0]
    assert seen[-1]["status"] == "completed"
    assert taken == [thing]


async def test_a_tool_may_be_asked_for_its_schema() -> None:
    agent = Agent("a")

    @agent.tool
    async def read(call: ToolContext, path: str, at: Point | None = None, lines: int = 10) -> None:
        """Read a file."""

    [described] = agent.tools.describe()
    assert described["name"] == "read"
    assert described["description"] == "Read a file."
    schema = described["input_schema"]
    assert schema["type"] == "object"
    assert schema["required"] == ["path"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["path"] == {"type": "string"}
    assert schema["properties"]["lines"] == {"type": "integer", "default": 10}


def test_mistakes_of_the_author_show_when_the_program_starts() -> None:
    agent = Agent("a")
    agent.tool(name="one")(lambda: None)
    with pytest.raises(UsageError, match="two tools named one"):
        agent.tool(name="one")(lambda: None)
    with pytest.raises(UsageError, match="cannot be passed by name"):
        agent.tool(name="two")(lambda *parts: None)
    with pytest.raises(UsageError, match="must be a function"):
        agent.tool("read")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="more than 0"):
        agent.tool(name="three", approval_timeout=0)(lambda: None)


def call_ü() -> None: ...


@pytest.mark.parametrize("name", ["a b", "a.b", "größe", "", "a\n", "x" * 65, 5])
def test_a_name_that_models_do_not_take_is_refused(name: Any) -> None:
    agent = Agent("a")
    for function, options in ((lambda: None, {"name": name}), (lambda: None, {}), (call_ü, {})):
        with pytest.raises(UsageError, match=r"has no valid name for models \(1 to 64 of the characters a-z, A-Z, 0-9"):
            agent.tool(**options)(function)
    assert not len(agent.tools)
    agent.tool(name="x" * 64)(lambda: None)


async def test_an_agent_without_tools_says_so() -> None:
    agent = Agent("a")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        with pytest.raises(ToolFailed, match="There are: none"):
            await turn.call("read")
        assert not turn.cancel_tool("x")

    assert [update["status"] for update in await updates(agent)] == ["pending", "failed"]


async def test_two_running_calls_cannot_have_one_id() -> None:
    agent = Agent("a")

    @agent.tool
    async def twice(call: ToolContext) -> None:
        with pytest.raises(UsageError, match="is already running"):
            await call.turn.run_tool("twice", id=call.id)

    results = calling(agent, "twice")
    await updates(agent)
    assert results[0].ok
