"""`python -m tests.docs.pictures` records what the guides show, and has `acp-server trace` draw it."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from acp_server import Agent, ToolContext, Turn, grace
from acp_server.agent.record import RecordedStream, Recorder
from acp_server.apps.cli import main as command
from acp_server.errors import REQUEST_CANCELLED
from acp_server.testing import ScriptedClient, scripted

from .blocks import DOCS

PICTURES = DOCS / "pictures"
STEP = 0.1
"""Seconds. Long enough to be seen."""


def searching() -> Agent:
    """An agent whose tool has asked the client for two things when it is cancelled, and cleans up."""
    agent = Agent("searching")

    @agent.tool(kind="search", title="Search the project")
    async def search(call: ToolContext) -> str:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(call.client.read_text_file, "/project/a.txt")
                await anyio.sleep(STEP / 2)
                group.start_soon(call.client.read_text_file, "/project/b.txt")
        finally:
            with grace(2.0):
                await anyio.sleep(STEP)
        return "done"

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await turn.say("I look.\n")
        await anyio.sleep(STEP / 2)
        await turn.run_tool(search, {})

    return agent


def impatient() -> Agent:
    """An agent that waits for the client a short time only, and then goes on."""
    agent = Agent("impatient")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        with anyio.move_on_after(STEP):
            await turn.client.read_text_file("/project/a.txt")
        await turn.say("The editor is busy.")
        await anyio.sleep(STEP)

    return agent


async def _turn(client: ScriptedClient, session: str) -> None:
    prompt = await client.request("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})
    await client.expect(lambda message: "b.txt" in str(message))
    await anyio.sleep(STEP)
    await client.notify("session/cancel", {"sessionId": session})
    for _ in client.all("fs/read_text_file"):
        await _withdraw(client)
    await client.response(prompt)


async def _limit(client: ScriptedClient, session: str) -> None:
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "a.txt"}]}
    id = await client.request("session/prompt", prompt)
    await _withdraw(client)
    await client.response(id)


async def _withdraw(client: ScriptedClient) -> None:
    """Wait until a request of the agent's is withdrawn, and answer it."""
    cancel = await client.expect(lambda message: message.get("method") == "$/cancel_request")
    await client.refuse({"id": cancel["params"]["requestId"]}, REQUEST_CANCELLED, "Request cancelled")


CONVERSATIONS: dict[str, tuple[Callable[[], Agent], Callable[[ScriptedClient, str], Awaitable[None]]]] = {
    "cancel-turn": (searching, _turn),
    "time-limit": (impatient, _limit),
}


async def record(name: str, path: Path) -> None:
    """Record one of the conversations anew."""
    make, talk = CONVERSATIONS[name]
    agent = make()
    async with scripted(lambda stream: agent.connect(RecordedStream(stream, Recorder(path))).run()) as client:
        capabilities = {"fs": {"readTextFile": True}}
        await client.result("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
        opened = await client.result("session/new", {"cwd": "/project", "mcpServers": []})
        await talk(client, opened["sessionId"])


def main() -> int:
    PICTURES.mkdir(exist_ok=True)
    for name in CONVERSATIONS:
        path = PICTURES / f"{name}.ndjson"
        for _ in range(2):  # what is imported on the first use takes no time in the second recording
            path.unlink(missing_ok=True)
            anyio.run(record, name, path)
        path.chmod(0o644)
        command(["trace", str(path), "--svg", str(path.with_suffix(".svg"))])
    return 0


if __name__ == "__main__":
    sys.exit(main())
