"""The same agent on our own side of the protocol, for `acp-server serve`."""

from collections.abc import AsyncIterator

import anyio

from acp_server import Agent, Turn
from acp_server.schema import PermissionOption, ToolCallUpdate

OPTIONS = [
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]

agent = Agent("obedient")


@agent.prompt
async def prompt(turn: Turn) -> AsyncIterator[str]:
    work, *rest = turn.text.split()
    if work == "stream":
        for number in range(int(rest[0])):
            yield str(number)
    elif work == "read":
        yield await turn.client.read_text_file(rest[0])
    elif work == "ask":
        call = ToolCallUpdate(tool_call_id="call-1", title="Delete everything")
        answer = await turn.client.request_permission(call, OPTIONS)
        yield "selected" if answer.option_id else "cancelled"
    elif work == "run":
        async with await turn.client.create_terminal(rest[0], rest[1:]) as terminal:
            await terminal.wait_for_exit()
            yield (await terminal.output()).output
    elif work == "hang":
        yield "hanging"
        await anyio.sleep_forever()
