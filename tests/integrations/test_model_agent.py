"""The built-in agent with a model: it searches, reads, edits and runs things, and a cancel ends it in every phase."""

import shlex
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra model is not installed: make test-integrations")

from acp_server import Agent
from acp_server.apps.coder.model_agent import model_agent
from acp_server.apps.coder.search import Search
from tests.integrations import contract
from tests.integrations.model_server import HANG, ModelServer, model_server, tool_call
from tests.session.agents import setup
from tests.session.editor import Editor, editing

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}
ALLOWED = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
FOREVER = f"echo begun; exec {shlex.quote(sys.executable)} -c 'import time; time.sleep(1000)'"
WORK = [
    [tool_call("search", {"pattern": "needle"})],
    [tool_call("read", {"path": "notes.txt"})],
    ["I change it. ", tool_call("edit", {"path": "notes.txt", "old": "needle", "new": "pin"})],
    [tool_call("run", {"command": "cat notes.txt"})],
    ["It is ", "done."],
]
"""What the model says, to do one piece of work."""


CALC = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("calc", instructions="Add up whatever there is.", log_level="CRITICAL")


@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b


server.run()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("a needle\n")
    (tmp_path / "AGENTS.md").write_text("Write British English.\n")
    return tmp_path


def make(server: ModelServer) -> Agent:
    return model_agent("openai:test", base_url=server.url)


@asynccontextmanager
async def working(
    server: ModelServer, project: Path, capabilities: dict[str, Any] | None = None
) -> AsyncGenerator[tuple[Editor, str]]:
    async with editing(make(server), capabilities=capabilities or {}) as editor:
        yield editor, await editor.open(str(project))


def told(server: ModelServer, request: int = -1) -> list[str]:
    """What the model was told of the calls that it has made."""
    return [message["content"] for message in server.requests[request]["messages"] if message["role"] == "tool"]


async def test_a_model_searches_reads_edits_with_approval_and_runs_a_command(project: Path) -> None:
    async with model_server(*WORK) as server, working(server, project) as (editor, session):
        editor.client.answer(contract.PERMISSION, ALLOWED)
        answer = await editor.ask(session, "Make it a pin.")
        assert (answer["stopReason"], answer["_meta"]["usage"]["totalTokens"]) == ("end_turn", 25)
        assert "".join(editor.said()) == "I change it. It is done."
        assert told(server) == [
            "notes.txt:1:3: a needle",
            "a needle",
            "`notes.txt` is changed.",
            "a pin\n\n[It ended with exit code 0.]",
        ]
        assert (project / "notes.txt").read_text() == "a pin\n"
        edit, run = editor.client.all(contract.PERMISSION)
        assert edit["params"]["toolCall"]["content"][0]["newText"] == "a pin\n"
        assert run["params"]["toolCall"]["rawInput"] == {"command": "cat notes.txt"}
        kinds = [update["kind"] for update in editor.client.updates() if update["sessionUpdate"] == "tool_call"]
        assert kinds == ["search", "read", "edit", "execute"]
        titles = [
            update["title"]
            for update in editor.client.updates()
            if update.get("sessionUpdate") == "session_info_update"
        ]
        assert titles == ["Make it a pin."]


async def test_what_the_user_does_not_allow_is_not_done_and_the_model_is_told(project: Path) -> None:
    async with model_server(*WORK[2:]) as server, working(server, project) as (editor, session):
        rejected = {"outcome": {"outcome": "selected", "optionId": "reject_once"}}
        editor.client.answer(contract.PERMISSION, rejected)
        assert (await editor.ask(session))["stopReason"] == "end_turn"
        assert all("not run" in text for text in told(server))
        assert (project / "notes.txt").read_text() == "a needle\n"


async def test_the_model_is_told_how_the_project_wants_it_as_the_file_is_now(project: Path) -> None:
    async with model_server(["One."], ["Two."], ["Three."]) as server, working(server, project) as (editor, session):
        for number, text in enumerate(("Write British English.", "Write French.", None)):
            if text is None:
                (project / "AGENTS.md").unlink()
            else:
                (project / "AGENTS.md").write_text(text)
            await editor.ask(session)
            system = [content for role, content in server.said_to(number) if role == "system"]
            assert len(system) == 1
            assert str(project) in system[0]
            assert ("AGENTS.md" in system[0]) == (text is not None)
            assert text is None or text in system[0]


async def test_a_client_adds_to_the_instructions_or_replaces_them_and_the_projects_stay(project: Path) -> None:
    async with model_server(["One."], ["Two."]) as server, editing(make(server), capabilities={}) as editor:
        for mode in ("append", "override"):
            session = await editor.open(str(project), systemPrompt=contract.instructions(mode, "Be short."))
            await editor.ask(session)
            system = contract.system_of(server)
            assert ("You work on the user's project" in system) == (mode == "append")
            assert all(words in system for words in ("Be short.", str(project), "Write British English."))


async def test_it_announces_what_clients_may_do_with_its_sessions(project: Path) -> None:
    async with model_server(["One."]) as server, editing(make(server), capabilities={}) as editor:
        session = await editor.open(str(project))
        assert (await editor.ask(session))["usage"]["totalTokens"] == 5
        fork = await editor.client.result("session/fork", setup(session) | {"cwd": str(project)})
        assert fork["sessionId"] != session
        title = {"sessionId": session, "title": "Mine"}
        assert (await editor.client.result("session/set_title", title))["title"] == "Mine"
        assert (await editor.client.result("session/status", {"sessionId": session}))["status"] == "open"
        await editor.client.result("session/archive", {"sessionId": session})


async def test_instructions_from_outside_of_the_project_are_not_read(project: Path, tmp_path_factory: Any) -> None:
    outside = tmp_path_factory.mktemp("outside") / "secret.txt"
    outside.write_text("a secret")
    (project / "AGENTS.md").unlink()
    (project / "AGENTS.md").symlink_to(outside)
    async with model_server(["Well."]) as server, working(server, project) as (editor, session):
        assert (await editor.ask(session))["stopReason"] == "end_turn"
        assert "a secret" not in str(server.requests)


async def test_the_tools_of_the_sessions_mcp_servers_are_offered_and_run_with_approval(project: Path) -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed: make test-integrations")
    calc = {"name": "calc", "command": sys.executable, "args": ["-c", CALC], "env": []}
    async with (
        model_server([tool_call("calc_add", {"a": 1, "b": 2})], ["It is 3."]) as server,
        editing(make(server), capabilities={}) as editor,
    ):
        editor.client.answer(contract.PERMISSION, ALLOWED)
        session = await editor.open(str(project), mcpServers=[calc])
        assert (await editor.ask(session, "What is 1 and 2?"))["stopReason"] == "end_turn"
        assert told(server) == ["3"]
        assert "calc_add" in [tool["function"]["name"] for tool in server.requests[0]["tools"]]
        assert "Add up whatever there is." in server.said_to(0)[0][1]
        assert len(editor.client.all(contract.PERMISSION)) == 1


async def test_a_session_is_told_apart_from_another(project: Path) -> None:
    await contract.sessions_do_not_mix(lambda server, _: make(server), cwd=str(project))


async def cancel(editor: Editor, session: str, id: Any, server: ModelServer | None = None) -> None:
    begun = time.monotonic()
    await editor.cancel(session)
    if server is not None:
        await server.left.wait()
        assert time.monotonic() - begun < contract.CLOSED_WITHIN
    assert (await editor.answer(id))["stopReason"] == "cancelled"


async def goes_on(editor: Editor, session: str, server: ModelServer) -> None:
    server.replies = [["Fine."]]
    assert (await editor.ask(session, "And now?"))["stopReason"] == "end_turn"
    assert editor.said()[-1] == "Fine."
    said = [(role, content) for role, content in server.said_to(-1) if role != "system"]
    assert said == [("user", "And now?")]


@pytest.mark.parametrize("reply", [[HANG], ["Because ", HANG], [tool_call("read", {}), HANG]])
async def test_a_cancel_while_the_model_speaks_closes_its_connection(project: Path, reply: list[Any]) -> None:
    async with model_server(reply) as server, working(server, project) as (editor, session):
        id = await editor.prompt(session)
        await server.hanging.wait()
        await cancel(editor, session, id, server)
        await goes_on(editor, session, server)


@pytest.mark.parametrize(
    ("reply", "method"),
    [
        (tool_call("read", {"path": "notes.txt"}), "fs/read_text_file"),
        (tool_call("edit", {"path": "notes.txt", "old": "needle", "new": "pin"}), "fs/read_text_file"),
        (tool_call("edit", {"path": "notes.txt", "old": "needle", "new": "pin"}), contract.PERMISSION),
        (tool_call("write", {"path": "notes.txt", "content": "x"}), "fs/write_text_file"),
        (tool_call("run", {"command": "true"}), contract.PERMISSION),
    ],
)
async def test_a_cancel_while_the_client_is_asked_withdraws_the_question(
    project: Path, reply: dict[str, Any], method: str
) -> None:
    async with model_server([reply]) as server, working(server, project, FILES) as (editor, session):
        for other, answer in ((contract.PERMISSION, ALLOWED), ("fs/read_text_file", {"content": "a needle\n"})):
            if other != method:
                editor.client.answer(other, answer)
        id = await editor.prompt(session)
        asked = await editor.client.expect_request(method)
        await cancel(editor, session, id)
        assert editor.withdrawn() == [asked["id"]]
        assert len(server.requests) == 1
        assert (project / "notes.txt").read_text() == "a needle\n"
        await goes_on(editor, session, server)


async def test_a_cancel_in_a_running_command_ends_it(project: Path) -> None:
    async with (
        model_server([tool_call("run", {"command": FOREVER})]) as server,
        working(server, project) as (editor, session),
    ):
        editor.client.answer(contract.PERMISSION, ALLOWED)
        id = await editor.prompt(session)
        await editor.client.expect(lambda message: "begun\\n" in str(message))
        await cancel(editor, session, id)
        await goes_on(editor, session, server)


class Endless(Search):
    """A search that does not come to an end."""

    def run(self) -> Generator[None]:
        while True:
            yield None


async def test_a_cancel_in_a_search_stops_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_server.apps.coder.model_agent.Search", Endless)
    async with (
        model_server([tool_call("search", {"pattern": "needle"})]) as server,
        working(server, project) as (editor, session),
    ):
        id = await editor.prompt(session)
        await editor.client.expect(lambda message: "in_progress" in str(message))
        await cancel(editor, session, id)
        await goes_on(editor, session, server)
