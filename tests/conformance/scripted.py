"""An agent that does in a turn what the prompt's first word says; the profile `scripted` describes it.

`acp-server serve tests/conformance/scripted.py` serves it. It announces everything that an agent can announce, so that
every rule applies to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import anyio

from acp_server import Agent, Call, CapabilityMissing, RpcError, ToolContext, Turn, grace
from acp_server.schema import (
    AvailableCommand,
    Content,
    McpServerHttp,
    McpServerStdio,
    PermissionOption,
    PlanEntry,
    SessionConfigSelect,
    SessionConfigSelectOption,
    SessionMode,
    TextContent,
    ToolCall,
    ToolCallProgress,
    ToolCallUpdate,
)
from acp_server.schema import Terminal as ShownTerminal
from acp_server.session.session import Session

OPTIONS = [
    PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    PermissionOption(option_id="no", name="Reject", kind="reject_once"),
]
PACES = [SessionConfigSelectOption(value=value, name=value.title()) for value in ("fast", "slow")]

agent = Agent("scripted", version="1", accepts=["image", "audio", "embedded_context"], mcp=["http", "sse"])
agent.modes(SessionMode(id="ask", name="Ask"), SessionMode(id="code", name="Code"))
agent.config_options(
    SessionConfigSelect(id="pace", name="Pace", current_value="fast", options=PACES),
    SessionConfigSelect(id="effort", name="Effort", current_value="slow", options=PACES),
)


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "scripted", "version": "1"}},
}


async def connect(server: object, servers: AsyncExitStack) -> None:
    """Say hello to an MCP server; one that is not there is done without."""
    body = json.dumps(HELLO).encode()
    try:
        if isinstance(server, McpServerStdio):
            env = {**os.environ, **{each.name: each.value for each in server.env}}
            opened = await anyio.open_process([server.command, *server.args], env=env, stderr=None)
            process = await servers.enter_async_context(opened)
            assert process.stdin
            assert process.stdout
            await process.stdin.send(body + b"\n")
            await process.stdout.receive()
        elif isinstance(server, McpServerHttp):
            host, _, port = urlsplit(server.url).netloc.partition(":")
            named = [f"{each.name}: {each.value}" for each in server.headers]
            head = ["POST /mcp HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}", *named, "", ""]
            async with await anyio.connect_tcp(host, int(port or 80)) as stream:
                await stream.send("\r\n".join(head).encode() + body)
                await stream.receive()
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
        pass


@agent.session
async def prepare(session: Session) -> AsyncIterator[None]:
    async with AsyncExitStack() as servers:
        for server in session.mcp_servers:
            await connect(server, servers)
        await session.set_commands([AvailableCommand(name=name, description=name.title()) for name in SITUATIONS])
        yield


@agent.authenticate("nobody", name="Nobody has to log in")
async def log_in(call: Call) -> None:
    """Whoever wants to may."""


@agent.logout
async def log_out(call: Call) -> None:
    """Nothing is remembered."""


@agent.prompt
async def prompt(turn: Turn) -> AsyncIterator[str]:
    situation = SITUATIONS.get(turn.text.partition(" ")[0])
    if situation is None:
        yield f"You said: {turn.text}"
        return
    try:
        async for text in situation(turn):
            yield text
    except CapabilityMissing as missing:
        yield f"The client cannot do that: {missing}"


async def quick(turn: Turn) -> AsyncIterator[str]:
    yield "Done."


async def stream(turn: Turn) -> AsyncIterator[str]:
    for word in ("one ", "two ", "three ", "four ", "five"):
        yield word


async def hang(turn: Turn) -> AsyncIterator[str]:
    yield "Working."
    await anyio.sleep_forever()


async def stubborn(turn: Turn) -> AsyncIterator[str]:
    yield "Working."
    try:
        await anyio.sleep_forever()
    finally:
        with grace(2.0):
            await anyio.sleep(0.2)  # being slow is what it is for
            await turn.say("Stopped.")


async def fails(turn: Turn) -> AsyncIterator[str]:
    yield "Working."
    raise ValueError("a mishap with a secret in it")


async def reports(turn: Turn) -> AsyncIterator[str]:
    await turn.session.set_config("effort", "fast")
    yield "Faster now."


async def tool(turn: Turn) -> AsyncIterator[str]:
    call = f"count_{turn.id}"
    await turn.update(ToolCall(tool_call_id=call, title="Count lines", kind="read", status="pending"))
    await turn.update(ToolCallProgress(tool_call_id=call, status="in_progress"))
    update = ToolCallProgress(
        tool_call_id=call, status="completed", content=[Content(content=TextContent(text="5 lines"))]
    )
    await turn.update(update)
    yield "5 lines."


async def plan(turn: Turn) -> AsyncIterator[str]:
    for status in ("pending", "in_progress", "completed"):
        await turn.plan([PlanEntry(content="Look at it", priority="medium", status=status)])
    yield "Looked."


async def permission(turn: Turn) -> AsyncIterator[str]:
    call = f"change_{turn.id}"
    await turn.update(ToolCall(tool_call_id=call, title="Change things", kind="edit", status="pending"))
    try:
        allowed = (await turn.client.request_permission(ToolCallUpdate(tool_call_id=call), OPTIONS)).allowed
    except RpcError:
        allowed = False
    if allowed:
        await turn.update(ToolCallProgress(tool_call_id=call, status="in_progress"))
    await turn.update(ToolCallProgress(tool_call_id=call, status="completed" if allowed else "failed"))
    yield "Changed." if allowed else "Not allowed."


async def read(turn: Turn) -> AsyncIterator[str]:
    try:
        yield await turn.client.read_text_file(f"{turn.session.cwd}/a.txt")
    except RpcError as error:
        yield f"It cannot be read: {error.message}"


async def write(turn: Turn) -> AsyncIterator[str]:
    try:
        await turn.client.write_text_file(f"{turn.session.cwd}/b.txt", "new\n")
        yield "Written."
    except RpcError as error:
        yield f"It cannot be written: {error.message}"


async def nested(turn: Turn) -> AsyncIterator[str]:
    yield "Asking."
    async for text in read(turn):
        yield text


async def terminal(turn: Turn) -> AsyncIterator[str]:
    call = f"run_{turn.id}"
    await turn.update(ToolCall(tool_call_id=call, title="make test", kind="execute", status="pending"))
    ended = "failed"
    try:
        async with await turn.client.create_terminal("make", ["test"], cwd=turn.session.cwd) as shell:
            await turn.update(
                ToolCallProgress(tool_call_id=call, status="in_progress", content=[ShownTerminal(terminal_id=shell.id)])
            )
            status = await shell.wait_for_exit()
            yield (await shell.output()).output
            ended = "completed" if status.exit_code == 0 else "failed"
    except RpcError as error:
        yield f"It cannot be run: {error.message}"
    await turn.update(ToolCallProgress(tool_call_id=call, status=ended))


@agent.tool
async def count(call: ToolContext) -> str:
    """Count without an end."""
    call.progress("one")
    await anyio.sleep_forever()
    return "never"


async def cancellable(turn: Turn) -> AsyncIterator[str]:
    result = await turn.run_tool("count")
    yield f"The count is {result.status}."


async def shell(turn: Turn) -> AsyncIterator[str]:
    try:
        async with await turn.client.create_terminal("sleep", ["1000"], cwd=turn.session.cwd) as shown:
            ended = await shown.wait_for_exit()
            yield f"It ended with {ended.signal or ended.exit_code}."
    except RpcError as error:
        yield f"It cannot be run: {error.message}"


ON_VERSION_2 = (cancellable, shell)

SITUATIONS: dict[str, Callable[[Turn], AsyncIterator[str]]] = {
    each.__name__: each
    for each in (
        quick,
        stream,
        hang,
        stubborn,
        fails,
        reports,
        tool,
        plan,
        permission,
        read,
        write,
        nested,
        terminal,
        cancellable,
        shell,
    )
}
