"""A small agent whose prompts ask the client for something; `acp-server serve` serves it.

stream N            N chunks
read PATH           a file, through the client's file system
ask                 the user's permission
run COMMAND...      a command, in a terminal of the client's
hang                says so and waits for ever
"""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio

from acp_server import Agent, RpcError, Turn
from acp_server.schema import PermissionOption, ToolCallUpdate

OPTIONS = [
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]

agent = Agent("nested", version="1")


@agent.prompt
async def prompt(turn: Turn) -> AsyncIterator[str]:
    work, *rest = turn.text.split()
    match work:
        case "stream":
            for number in range(int(rest[0])):
                yield f"{number} "
        case "read":
            yield await turn.client.read_text_file(str(Path(turn.session.cwd) / rest[0]))
        case "ask":
            yield "allowed" if await allowed(turn) else "not allowed"
        case "run":
            yield await run(turn, *rest)
        case "hang":
            yield "hanging"
            await anyio.sleep_forever()
        case _:
            yield "?"


async def allowed(turn: Turn) -> bool:
    call = ToolCallUpdate(tool_call_id="call-1", title="Delete everything")
    try:
        return (await turn.client.request_permission(call, OPTIONS)).allowed
    except RpcError:
        return False


async def run(turn: Turn, command: str, *args: str) -> str:
    async with await turn.client.create_terminal(command, args) as terminal:
        await terminal.wait_for_exit()
        return (await terminal.output()).output
