"""An agent for the tests of `acp-server chat`: the prompt says what it does."""

import os
import sys
from collections.abc import AsyncIterator

import anyio

from acp_server import Agent, Turn
from acp_server.errors import AuthRequired
from acp_server.schema import PermissionOption, PlanEntry, ToolCall, ToolCallUpdate

OPTIONS = [
    PermissionOption(option_id="yes", name="Allow it", kind="allow_once"),
    PermissionOption(option_id="no", name="Refuse it", kind="reject_once"),
]

agent = Agent("talker", version="7", title="Talker")


@agent.prompt
async def prompt(turn: Turn) -> AsyncIterator[str]:
    match turn.text:
        case "hang":
            yield "hanging"
            try:
                await anyio.sleep_forever()
            finally:
                sys.stderr.write("stopped\n")
        case "stubborn":
            yield "stubborn"
            while True:
                try:
                    await anyio.sleep_forever()
                except BaseException:
                    sys.stderr.write("no\n")
        case "permission":
            call = ToolCall(tool_call_id="call_1", title="Delete everything", kind="delete")
            await turn.update(call)
            ask = ToolCallUpdate(tool_call_id="call_1", title="Delete everything")
            answer = await turn.client.request_permission(ask, OPTIONS)
            yield f"allowed: {answer.allowed}, chosen: {answer.option_id}"
        case "withdraw":
            ask = ToolCallUpdate(tool_call_id="call_2", title="Never mind")
            with anyio.move_on_after(0):
                await turn.client.request_permission(ask, OPTIONS)
            yield "withdrawn"
        case "plan":
            await turn.plan([PlanEntry(content="Think", priority="high", status="in_progress")])
        case "error":
            raise ValueError("for the log")
        case "refuse":
            turn.stop_reason = "refusal"
        case "exit":
            os._exit(9)
        case text:
            yield f"You said {text}."


locked = Agent("locked", version="1")
locked.prompt(prompt)


@locked.authenticate("word", name="By a word", required=True)
async def authenticate(_call: object) -> None:
    pass


never = Agent("never", version="1")
never.prompt(prompt)


@never.session
async def refuse(_session: object) -> None:
    raise AuthRequired
