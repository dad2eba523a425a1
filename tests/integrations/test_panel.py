"""What an editor's panel has of `serve --model`: modes, options, commands, a plan, images."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra model is not installed: make test-integrations")

from acp_server.apps.coder.model_agent import model_agent
from acp_server.apps.coder.panel import MOST_STEPS
from tests.integrations import contract
from tests.integrations.model_server import ModelServer, model_server, tool_call
from tests.integrations.test_model_agent import ALLOWED, told
from tests.session.editor import Editor, editing

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

EDIT = tool_call("edit", {"path": "notes.txt", "old": "needle", "new": "pin"})
RUN = tool_call("run", {"command": "touch ran"})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("a needle\n")
    (tmp_path / ".git").mkdir()
    return tmp_path


@asynccontextmanager
async def working(server: ModelServer, project: Path, *models: str) -> AsyncGenerator[tuple[Editor, str]]:
    agent = model_agent(*(models or ("openai:test",)), base_url=server.url)
    async with editing(agent, capabilities={}) as editor:
        editor.client.answer(contract.PERMISSION, ALLOWED)
        yield editor, await editor.open(str(project))


async def choose(editor: Editor, session: str, option: str, value: str) -> dict[str, dict[str, Any]]:
    """The options then, by their ids."""
    chosen = {"sessionId": session, "configId": option, "value": value}
    answer = await editor.client.result("session/set_config_option", chosen)
    return {option["id"]: option for option in answer["configOptions"]}


def asked(editor: Editor) -> list[str]:
    return [request["params"]["toolCall"]["kind"] for request in editor.client.all(contract.PERMISSION)]


async def test_in_the_mode_plan_nothing_is_changed_or_run_and_the_model_is_told(project: Path) -> None:
    write = tool_call("write", {"path": "new.txt", "content": "x"})
    replies = [[EDIT], [RUN], [write], [tool_call("read", {"path": "notes.txt"})], ["I would."]]
    async with model_server(*replies) as server, working(server, project) as (editor, session):
        await choose(editor, session, "auto_approve", "on")
        await editor.client.result("session/set_mode", {"sessionId": session, "modeId": "plan"})
        assert (await editor.ask(session))["stopReason"] == "end_turn"
        assert "plan mode" in contract.system_of(server, 0)
        *refused, read = told(server)
        assert ["plan mode" in text for text in refused] == [True, True, True]
        assert read == "a needle"
        assert not (project / "ran").exists()
        assert not (project / "new.txt").exists()
        assert (project / "notes.txt").read_text() == "a needle\n"
        assert asked(editor) == []


async def test_another_tool_that_would_ask_does_not_run_in_the_mode_plan(project: Path) -> None:
    async with model_server([tool_call("other", {})], ["Well."]) as server:
        agent = model_agent("openai:test", base_url=server.url)
        ran: list[str] = []

        @agent.tool(approval=True)
        async def other() -> str:
            ran.append("other")
            return "done"

        async with editing(agent, capabilities={}) as editor:
            editor.client.answer(contract.PERMISSION, ALLOWED)
            session = await editor.open(str(project))
            await editor.client.result("session/set_mode", {"sessionId": session, "modeId": "plan"})
            await editor.ask(session)
        assert ran == asked(editor) == []


async def test_accept_edits_changes_files_without_asking_and_commands_and_delicate_files_ask(project: Path) -> None:
    hook = tool_call("write", {"path": ".git/config", "content": "x"})
    async with model_server([EDIT], [RUN], [hook], ["Done."]) as server, working(server, project) as (editor, session):
        await choose(editor, session, "mode", "accept_edits")
        await editor.ask(session)
        assert asked(editor) == ["execute", "edit"]
        assert (project / "notes.txt").read_text() == "a pin\n"
        diffs = [update for update in editor.client.updates() if "newText" in str(update.get("content"))]
        assert diffs[0]["content"][0]["newText"] == "a pin\n"


async def test_the_mode_and_its_option_are_in_step(project: Path) -> None:
    async with model_server() as server, working(server, project) as (editor, session):
        shown = (await choose(editor, session, "mode", "plan"))["mode"]
        assert (shown["category"], shown["currentValue"]) == ("mode", "plan")
        assert [choice["name"] for choice in shown["options"]] == ["Ask", "Plan", "Accept edits"]
        modes = [update for update in editor.client.updates() if update["sessionUpdate"] == "current_mode_update"]
        assert [update["currentModeId"] for update in modes] == ["plan"]


async def test_models_have_their_names_and_are_told_how_much_to_think(project: Path) -> None:
    models = ("openai:gpt-5", "openai:qwen3")
    async with model_server(["One."], ["Two."]) as server, working(server, project, *models) as (editor, session):
        await editor.ask(session)
        options = await choose(editor, session, "thought_level", "low")
        assert [choice["name"] for choice in options["model"]["options"]] == ["GPT-5", "openai:qwen3"]
        assert (options["model"]["category"], options["thought_level"]["category"]) == ("model", "thought_level")
        await editor.ask(session)
        assert [request.get("reasoning_effort") for request in server.requests] == [None, "low"]
    async with model_server() as server, working(server, project) as (editor, session):
        assert "thought_level" not in await choose(editor, session, "mode", "plan")


async def test_the_plan_of_the_model_is_the_plan_of_the_turn(project: Path) -> None:
    steps = [{"content": "Look", "status": "completed"}, {"content": "Change\nit", "status": "in_progress"}]
    many = [{"content": "x", "status": "pending"}] * (MOST_STEPS + 1)
    replies = [[tool_call("plan", {"steps": steps})], [tool_call("plan", {"steps": many})], ["Done."]]
    async with model_server(*replies) as server, working(server, project) as (editor, session):
        await editor.ask(session)
        [plan] = [update for update in editor.client.updates() if update["sessionUpdate"] == "plan"]
        entries = [(entry["content"], entry["status"]) for entry in plan["entries"]]
        assert entries == [("Look", "completed"), ("Change\\nit", "in_progress")]
        assert "at most" in told(server)[-1]


async def test_commands_are_listed_and_do_what_they_say(project: Path) -> None:
    async with model_server(["Fine."], ["Hello."]) as server, working(server, project) as (editor, session):
        updates = editor.client.updates
        await editor.ask(session, "/review the notes")
        [listed] = [update for update in updates() if update["sessionUpdate"] == "available_commands_update"]
        assert [command["name"] for command in listed["availableCommands"]] == ["init", "review", "mode", "usage"]
        assert "`/review` means" in contract.system_of(server)
        assert server.said_to(0)[-1] == ("user", "/review the notes")
        await editor.ask(session, "Hello.")
        assert "`/review` means" not in contract.system_of(server)
        assert ("assistant", "Fine.") in server.said_to(1)
        await editor.ask(session, "/mode plan")
        await editor.ask(session, "/usage")
        assert editor.said()[-2].startswith("Plan: ")
        assert editor.said()[-1] == "10 tokens in 2 turns.\n"
        assert len(server.requests) == 2


async def test_an_image_reaches_the_model(project: Path) -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    async with model_server(["Nice."]) as server, working(server, project) as (editor, session):
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "What is it?"}, image]}
        await editor.client.result("session/prompt", prompt)
        content = server.requests[0]["messages"][-1]["content"]
        assert [part["type"] for part in content] == ["text", "image_url"]


async def test_every_call_has_a_kind_and_where_it_works(project: Path) -> None:
    replies = [
        [tool_call("list_files", {"path": "."})],
        [tool_call("search", {"pattern": "pin", "path": "notes.txt"})],
        [tool_call("read", {"path": "notes.txt"})],
        [EDIT],
        ["Done."],
    ]
    async with model_server(*replies) as server, working(server, project) as (editor, session):
        await editor.ask(session)
        calls: dict[str, dict[str, Any]] = {}
        for update in editor.client.updates():
            if "toolCallId" in update:
                calls.setdefault(update["toolCallId"], {}).update(update)
        assert [call["kind"] for call in calls.values()] == ["search", "search", "read", "edit"]
        places = [Path(call["locations"][0]["path"]).name for call in calls.values()]
        assert places == [project.name, "notes.txt", "notes.txt", "notes.txt"]
