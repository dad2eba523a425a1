"""Opening a session is quick in a program that has just been started, and makes ready for the first prompt."""

import subprocess
import sys
from typing import Any

import pytest

from acp_server.schema.session import NewSessionRequest
from acp_server.session.setup import plain_setup

PROGRAM = """
import sys

import anyio

from acp_server import Agent, Session, Turn
from acp_server.testing.streams import memory_pair

agent = Agent("quick")

@agent.prompt
async def prompt(turn: Turn) -> None: ...

@agent.session
def opened(session: Session) -> None:
    print("pydantic" in sys.modules)

async def main() -> None:
    ours, theirs = memory_pair()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.connect(theirs).run)
            await ours.send(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\\n')
            assert b'"id":1' in await ours.receive()
            await ours.send(b'{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/p","mcpServers":[]}}\\n')
            answer = await ours.receive()
            assert b'"id":2' in answer and b"sessionId" in answer, answer
            while "acp_server.session.prompting" not in sys.modules:
                await anyio.lowlevel.checkpoint()
            await ours.aclose()

anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_first_session_is_opened_without_pydantic_which_is_loaded_before_the_first_prompt(backend: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, backend], capture_output=True, text=True, timeout=40)
    assert (done.stdout, done.stderr) == ("False\n", "")


@pytest.mark.parametrize(
    "params",
    [
        {"cwd": "/p", "mcpServers": []},
        {"cwd": "/p", "mcpServers": [], "systemPrompt": None},
        {"cwd": "/p", "mcpServers": [], "additionalDirectories": ["/q", "r"], "_meta": {"a": 1}, "more": True},
        {"cwd": "", "mcpServers": [], "additionalDirectories": []},
    ],
)
def test_a_plain_setup_is_what_the_schema_reads(params: dict[str, Any]) -> None:
    plain, read = plain_setup(params), NewSessionRequest.from_wire(params)
    assert plain == (read.cwd, read.additional_directories, read.mcp_servers, read.system_prompt, ())


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"cwd": "/p"},
        {"cwd": 1, "mcpServers": []},
        {"cwd": "/p", "mcpServers": None},
        {"cwd": "/p", "mcpServers": {}},
        {"cwd": "/p", "mcpServers": [{"name": "a", "command": "/a", "args": [], "env": []}]},
        {"cwd": "/p", "mcpServers": [], "additionalDirectories": None},
        {"cwd": "/p", "mcpServers": [], "systemPrompt": {"mode": "append", "content": []}},
        {"cwd": "/p", "mcpServers": [], "configOptions": []},
        {"cwd": "/p", "mcpServers": [], "additionalDirectories": ["/q", 1]},
    ],
)
def test_anything_else_is_left_to_the_schema(params: dict[str, Any]) -> None:
    assert plain_setup(params) is None
