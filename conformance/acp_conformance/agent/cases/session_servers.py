"""The setup of a session: its MCP servers, and its additional directories."""

from __future__ import annotations

import fcntl
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream

from acp_conformance.agent.cases.sessions import CLOSING, end
from acp_conformance.agent.cases.sessions_known import capable, reopen
from acp_conformance.agent.registry import case
from acp_conformance.agent.subject import Agent
from acp_conformance.core.case import MUST, SHOULD, Outcome, Verdict, fail, not_applicable

ACP = "ACP v1"
SERVERS = "Session Setup, MCP Servers"
STDIO = "Session Setup, Stdio Transport"
HTTP = "Session Setup, HTTP Transport"
DIRECTORIES = "Session Setup, Additional Workspace Roots"

NONE_STARTED = "it starts no MCP server"

_SERVER = """
import fcntl, json, os, sys
alive = open(sys.argv[1] + ".alive", "w")
fcntl.flock(alive, fcntl.LOCK_EX)
with open(sys.argv[1] + ".part", "w") as file:
    json.dump({"words": sys.argv[2:], "value": os.environ.get("CONFORMANCE")}, file)
os.rename(sys.argv[1] + ".part", sys.argv[1])
tool = {"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}}
results = {
    "initialize": {"capabilities": {"tools": {}}, "serverInfo": {"name": "conformance", "version": "1"}},
    "tools/list": {"tools": [tool]},
}
for line in sys.stdin:
    asked = json.loads(line)
    result = results.get(asked.get("method"), {})
    if asked.get("method") == "initialize":
        result["protocolVersion"] = asked["params"]["protocolVersion"]
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
"""A server of the Model Context Protocol with one tool. It notes how it was started, and locks a file while it runs."""

_WORDS = ["two words", '"quoted"', "ä", ""]


def _server(note: Path) -> dict[str, Any]:
    args = ["-I", "-S", "-c", _SERVER, str(note), *_WORDS]
    env = [{"name": "CONFORMANCE", "value": "a value = b"}]
    return {"name": "conformance", "command": sys.executable, "args": args, "env": env}


def _lives(note: Path) -> bool:
    """Whether the server that wrote this note still runs."""
    with open(f"{note}.alive", "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


async def _use(agent: Agent, *servers: Mapping[str, Any]) -> str:
    """Create a session with servers, and return its id. Prompts in the session if possible, because some agents connect
    only then."""
    session = await agent.session(mcpServers=servers)
    if "quick" in agent.profile.situations:
        await (await agent.prompt(session, "quick")).answer()
    return session


async def _comes(agent: Agent, there: Callable[[], bool]) -> bool:
    with anyio.move_on_after(agent.patience):
        while not there():  # noqa: ASYNC110 - another process makes it so
            await anyio.sleep(0.01)
    return there()


@case("sessions/starts-mcp-server", level=SHOULD, source=ACP, section=SERVERS)
async def starts_mcp_server(agent: Agent) -> None:
    """The agent starts an MCP server that the client names, and connects to it, at the latest for the first prompt."""
    await agent.initialize()
    note = agent.cwd / "started.json"
    await _use(agent, _server(note))
    if not await _comes(agent, note.exists):
        fail("the server was not started")


@case("sessions/mcp-server-as-told", level=MUST, source=ACP, section=STDIO, after="sessions/starts-mcp-server")
async def mcp_server_as_told(agent: Agent) -> None:
    """An MCP server is started with the arguments and the environment that the client names."""
    await agent.initialize()
    note = agent.cwd / "started.json"
    await _use(agent, _server(note))
    if not await _comes(agent, note.exists):
        fail("the server was not started")
    found = json.loads(note.read_text("utf-8"))
    if found["words"] != _WORDS:
        fail(f"its arguments are {found['words']!r:.200} instead of {_WORDS}")
    if found["value"] != "a value = b":
        fail(f"its variable is {found['value']!r:.100} instead of 'a value = b'")


@case("sessions/starts-each-mcp-server", level=SHOULD, source=ACP, section=SERVERS, after="sessions/starts-mcp-server")
async def starts_each_mcp_server(agent: Agent) -> None:
    """The agent starts all MCP servers that the client names."""
    await agent.initialize()
    notes = [agent.cwd / f"started-{number}.json" for number in range(3)]
    await _use(agent, *({**_server(note), "name": note.stem} for note in notes))
    if not await _comes(agent, lambda: all(note.exists() for note in notes)):
        started = sum(note.exists() for note in notes)
        if not started:
            not_applicable(NONE_STARTED)
        fail(f"of 3 servers {started} were started")


@case("sessions/close-ends-mcp-server", level=SHOULD, source=ACP, section=CLOSING, after="sessions/starts-mcp-server")
async def close_ends_mcp_server(agent: Agent) -> None:
    """Closing a session ends its MCP server, while the agent continues to run."""
    await capable(agent, "sessionCapabilities.close")
    note = agent.cwd / "started.json"
    session = await _use(agent, _server(note))
    if not await _comes(agent, note.exists):
        not_applicable(NONE_STARTED)
    await end(agent, session)
    if not await _comes(agent, lambda: not _lives(note)):
        fail(f"{agent.patience:.3g} s after session/close it still runs")


@case("sessions/connects-by-http", level=SHOULD, source=ACP, section=HTTP)
async def connects_by_http(agent: Agent) -> None:
    """An agent that announces MCP servers by HTTP connects to such a server with the headers that the client names."""
    await capable(agent, "mcpCapabilities.http")
    heads: list[bytes] = []
    ended: Outcome | None = None

    async def serve(stream: SocketStream) -> None:
        async with stream:
            head = b""
            try:
                while b"\r\n\r\n" not in head and len(head) < 65_536:
                    head += await stream.receive()
                heads.append(head)
                await stream.send(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        port = listener.extra(SocketAttribute.local_port)
        header = {"name": "X-Conformance", "value": "a value"}
        url = f"http://127.0.0.1:{port}/mcp"
        server = {"type": "http", "name": "conformance", "url": url, "headers": [header]}
        try:
            await _use(agent, server)
        except Outcome as outcome:
            ended = outcome  # the server is useless, which an agent may report
        came = await _comes(agent, lambda: bool(heads))
        tasks.cancel_scope.cancel()
    if ended is not None and ended.verdict is not Verdict.FAIL:
        raise ended
    if not came:
        fail("no connection was made")
    if not any(line.lower().replace(b" ", b"") == b"x-conformance:avalue" for line in heads[0].splitlines()):
        fail("the header X-Conformance was not sent")


@case("sessions/additional-directories", level=MUST, source=ACP, section=DIRECTORIES)
async def additional_directories(agent: Agent) -> None:
    """An agent that announces additional directories creates and reopens sessions with a list of directories, with an
    empty list, and without a list."""
    await capable(agent, "sessionCapabilities.additionalDirectories")
    (agent.cwd / "beside").mkdir()
    for directories in ([str(agent.cwd / "beside")], []):
        session = await agent.session(additionalDirectories=directories)
    if agent.can("loadSession") and "quick" in agent.profile.situations:
        await (await agent.prompt(session, "quick")).result()
        await (await reopen(agent, "session/load", session, additionalDirectories=[str(agent.cwd / "beside")])).result()
