"""An agent of each adapter, as a process that the official clients drive: a tool that asks, a cancel, the next turn."""

import asyncio
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import acp
import anyio
import pytest

from tests.integrations import contract
from tests.integrations.model_server import HANG, ModelServer, model_server, tool_call
from tests.interop.editor import Editor, attached
from tests.interop.typescript import drive

NEEDED = {"pydantic_ai": "pydantic_ai", "langgraph": "langchain_openai", "openai_agents": "agents"}
"""The modules of tests that make an agent, each with what it imports."""

PROGRAM = """
import sys
from importlib import import_module
from types import SimpleNamespace
from tests.integrations import contract
module = import_module("tests.integrations.test_" + sys.argv[1])
module.make(SimpleNamespace(url=sys.argv[2]), contract.Tools()).run()
"""

WORK: list[list[Any]] = [["I touch it. ", tool_call("touch", {"word": "a"})], ["It is ", "done."]]
DONE = "I touch it. It is done."

pytestmark = pytest.mark.parametrize(
    "adapter",
    [
        pytest.param(name, marks=pytest.mark.skipif(find_spec(module) is None, reason=f"{module} is not installed"))
        for name, module in NEEDED.items()
    ],
)


@pytest.fixture
def anyio_backend() -> str:
    """The server of the model is on asyncio, and so is the client of the SDK."""
    return "asyncio"


def command(adapter: str, server: ModelServer) -> tuple[str, ...]:
    return (sys.executable, "-c", PROGRAM, adapter, server.url)


@pytest.mark.anyio
async def test_the_official_python_client_drives_it_and_cancels_it(adapter: str, tmp_path: Path) -> None:
    editor = Editor()
    model = model_server(*WORK, ["Because ", HANG], ["Fine."])
    async with model as server, attached(editor, command(adapter, server)) as connection:
        session = (await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        answer = await connection.prompt(session_id=session, prompt=[acp.text_block("Touch it.")])
        assert (answer.stop_reason, editor.said[session], len(editor.questions)) == ("end_turn", DONE, 1)
        await editor.reached("agent_message_chunk")
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(connection.prompt(session_id=session, prompt=[acp.text_block("Why?")]))
            await server.hanging.wait()
            # On Python 3.11 a framework's `asyncio.wait_for` loses a cancel that comes together with a piece of text.
            await editor.reached("agent_message_chunk")
            begun = time.monotonic()
            await connection.cancel(session_id=session)
            await server.left.wait()
            assert time.monotonic() - begun < contract.CLOSED_WITHIN
        assert turn.result().stop_reason == "cancelled"
        answer = await connection.prompt(session_id=session, prompt=[acp.text_block("And now?")])
        assert (answer.stop_reason, editor.said[session][-5:]) == ("end_turn", "Fine.")


@pytest.mark.anyio
@pytest.mark.usefixtures("require_npm")
async def test_the_official_typescript_client_drives_it_and_cancels_it(adapter: str, tmp_path: Path) -> None:
    async with model_server(*WORK, ["Because ", HANG], ["Fine."]) as server:
        cut: Any = {"text": "Why?", "cancelOn": "agent_message_chunk", "cancelBy": "session/cancel"}
        turns: Any = [{"text": "Touch it."}, cut, {"text": "And now?"}]
        run: Any = await anyio.to_thread.run_sync(lambda: drive(command(adapter, server), tmp_path, turns))
        assert server.left.is_set()
    assert [end.stop_reason for end in run.turns()] == ["end_turn", "cancelled", "end_turn"]
    assert [end.said for end in run.turns()] == [DONE, "Because ", "Fine."]
