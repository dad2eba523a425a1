"""An agent whose turn has a hundred child sessions. They all wait until the client has cancelled the one that asks."""

import anyio

from acp_server import Agent, Turn
from acp_server.schema.tool_call import PermissionOption, ToolCallUpdate

agent = Agent("delegating", version="1", unstable={"subagents"})
CHILDREN = 100
OPTIONS = [PermissionOption(option_id="yes", name="Yes", kind="allow_once")]


@agent.prompt
async def prompt(turn: Turn) -> None:
    cancelled = anyio.Event()
    ends: list[bool] = []

    async def work(number: int) -> None:
        async with turn.subagent(f"child {number}", task="Work.") as child:
            await child.say(f"I am {number}. ")
            if number == CHILDREN // 2:
                await child.client.request_permission(ToolCallUpdate(tool_call_id="question"), OPTIONS)
                await anyio.sleep_forever()
            await cancelled.wait()
        ends.append(child.is_cancelled)
        if child.is_cancelled:
            cancelled.set()

    async with anyio.create_task_group() as group:
        for number in range(CHILDREN):
            group.start_soon(work, number)
    await turn.say(f"{len(ends)} ended, {sum(ends)} cancelled")
