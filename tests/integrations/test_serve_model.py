"""`acp-server serve --model`, as a process that the official clients drive."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("pydantic_ai", reason="the extra model is not installed: make test-integrations")

import acp

from acp_server.client import Handlers, allow_once, spawn_agent
from acp_server.schema import AgentMessageChunk, TextContent
from tests.integrations import contract
from tests.integrations.model_server import HANG, ModelServer, model_server, tool_call
from tests.integrations.test_model_agent import WORK
from tests.interop.editor import Editor, attached
from tests.interop.subjects import COMMAND
from tests.interop.typescript import Turn, drive

DONE = "I change it. It is done."


@pytest.fixture
def anyio_backend() -> str:
    """The server of the model is on asyncio, and so is the client of the SDK."""
    return "asyncio"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("a needle\n")
    return tmp_path


def command(server: ModelServer) -> tuple[str, ...]:
    return (COMMAND, "serve", "--store", "memory", "--model", "openai:test", "--base-url", server.url)


def refused(*options: str, **environment: str) -> str:
    """What is said before anything starts."""
    kept = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    done = subprocess.run(
        [sys.executable, "-m", "acp_server", "serve", *options],
        input="", env=kept | environment, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def test_a_missing_key_is_said_before_anything_starts() -> None:
    words = "acp-server: the provider openai needs a key: set OPENAI_API_KEY in the environment\n"
    assert refused("--model", "openai:gpt-5") == words


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--base-url", "http://localhost:1"], "--base-url needs --model"),
        (["agent.py", "--model", "openai:x"], "leave out the target"),
        (["--model", "openai:x", "--base-url", "http://localhost:1", "--backend", "trio"], "asyncio"),
    ],
)
def test_what_does_not_go_together_is_said(options: list[str], words: str) -> None:
    assert words in refused(*options)


@pytest.mark.anyio
async def test_our_client_drives_it(project: Path) -> None:
    handlers = Handlers(permission=allow_once)
    async with model_server(*WORK) as server, spawn_agent(command(server), handlers) as agent:
        await agent.initialize()
        session = await agent.new_session(str(project))
        said = ""
        async with session.prompt("Make it a pin.") as turn:
            async for update in turn:
                if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent):
                    said += update.content.text
        assert (turn.stop_reason, said) == ("end_turn", DONE)
    assert (project / "notes.txt").read_text() == "a pin\n"


@pytest.mark.anyio
async def test_of_several_models_the_user_chooses_one(project: Path) -> None:
    async with model_server(["One."], ["Two."]) as server:
        async with spawn_agent((*command(server), "--model", "openai:b")) as agent:
            info = (await agent.initialize()).agent_info
            assert info is not None
            assert info.title == "acp-server with openai:test or openai:b"
            session = await agent.new_session(str(project))
            assert await session.ask("First.") == "One."
            await session.set_config_option("model", "openai:b")
            assert await session.ask("Second.") == "Two."
        assert [request["model"] for request in server.requests] == ["test", "b"]


@pytest.mark.anyio
async def test_the_official_python_client_drives_it(project: Path) -> None:
    editor = Editor(files=False, terminals=False)
    async with model_server(*WORK) as server, attached(editor, command(server)) as connection:
        session = (await connection.new_session(cwd=str(project), mcp_servers=[])).session_id
        answer = await connection.prompt(session_id=session, prompt=[acp.text_block("Make it a pin.")])
        assert (answer.stop_reason, editor.said[session], len(editor.questions)) == ("end_turn", DONE, 2)
    assert (project / "notes.txt").read_text() == "a pin\n"


@pytest.mark.anyio
@pytest.mark.parametrize("reply", [[HANG], ["Because ", HANG]])
async def test_the_official_python_client_cancels_it_while_the_model_speaks(project: Path, reply: list[Any]) -> None:
    editor = Editor()
    async with model_server(reply, ["Fine."]) as server, attached(editor, command(server)) as connection:
        session = (await connection.new_session(cwd=str(project), mcp_servers=[])).session_id
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(connection.prompt(session_id=session, prompt=[acp.text_block("Why?")]))
            await server.hanging.wait()
            if len(reply) > 1:
                await editor.reached("agent_message_chunk")
            begun = time.monotonic()
            await connection.cancel(session_id=session)
            await server.left.wait()
            assert time.monotonic() - begun < contract.CLOSED_WITHIN
        assert turn.result().stop_reason == "cancelled"
        answer = await connection.prompt(session_id=session, prompt=[acp.text_block("And now?")])
        assert (answer.stop_reason, editor.said[session]) == ("end_turn", "".join(map(str, reply[:-1])) + "Fine.")


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["fs/read_text_file", "session/request_permission", "terminal/wait_for_exit"])
async def test_the_official_python_client_cancels_it_in_a_tool_and_in_an_approval(project: Path, method: str) -> None:
    call = WORK[1] if method == "fs/read_text_file" else [tool_call("run", {"command": "exec sleep 1000"})]
    editor = Editor()
    async with model_server(call, ["Fine."]) as server, attached(editor, command(server)) as connection:
        # The terminal is there until it is killed; the other two answer when the turn is over.
        held = None if method == "terminal/wait_for_exit" else editor.hold(method)
        session = (await connection.new_session(cwd=str(project), mcp_servers=[])).session_id
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(connection.prompt(session_id=session, prompt=[acp.text_block("Do it.")]))
            await editor.reached(method)
            await connection.cancel(session_id=session)
        assert turn.result().stop_reason == "cancelled"
        if held is not None:
            held.set()
        answer = await connection.prompt(session_id=session, prompt=[acp.text_block("And now?")])
        assert (answer.stop_reason, editor.said[session]) == ("end_turn", "Fine.")
        assert len(server.requests) == 2


@pytest.mark.anyio
@pytest.mark.usefixtures("require_npm")
async def test_the_official_typescript_client_drives_it_and_cancels_it_in_each_phase(project: Path) -> None:
    def cut(point: str) -> Turn:
        return {"text": "Again.", "cancelOn": point, "cancelBy": "session/cancel"}

    speaking, running = ["Because ", HANG], [tool_call("run", {"command": "exec sleep 1000"})]
    async with model_server(*WORK, WORK[3], speaking, running, WORK[1], ["Fine."]) as server:
        points = ["session/request_permission", "agent_message_chunk", "terminal/wait_for_exit", "fs/read_text_file"]
        turns = [{"text": "Make it a pin."}, *map(cut, points), {"text": "And now?"}]
        run: Any = await anyio.to_thread.run_sync(lambda: drive(command(server), project, turns))
    assert [end.stop_reason for end in run.turns()] == ["end_turn", *["cancelled"] * 4, "end_turn"]
    assert [end.said for end in run.turns()] == [DONE, "", "Because ", "", "", "Fine."]
    assert run.withdrawn() == [points[0], *points[2:]]
    assert (project / "notes.txt").read_text() == "a pin\n"
