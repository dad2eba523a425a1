"""An agent for the tests of `acp-server chat`: the prompt says what it does."""

import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.to_thread

from acp_server import Agent, Turn
from acp_server.errors import AuthRequired, RpcError
from acp_server.schema import PermissionOption, PlanEntry, ToolCall, ToolCallUpdate

OPTIONS = [
    PermissionOption(option_id="yes", name="Allow it", kind="allow_once"),
    PermissionOption(option_id="no", name="Refuse it", kind="reject_once"),
]


def wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(0.01)


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
        case "two questions":
            answers: list[bool] = []

            async def put(id: str) -> None:
                tool = ToolCallUpdate(tool_call_id=id, title=id)
                answers.append((await turn.client.request_permission(tool, OPTIONS)).allowed)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(put, "the first")
                with anyio.move_on_after(0.5):
                    await anyio.sleep(0.1)
                    await put("the second")
                # An answer to what was asked later: by now the client knows that the second one is withdrawn.
                with contextlib.suppress(RpcError):
                    await turn.client.request("_nothing")
                await anyio.to_thread.run_sync(Path(turn.session.cwd, "withdrawn").touch)
            yield f"allowed: {answers}"
        case "withdrawn":
            async with anyio.create_task_group() as tasks:
                ask = ToolCallUpdate(tool_call_id="call_1", title="Delete everything")
                tasks.start_soon(turn.client.request_permission, ask, OPTIONS)
                await anyio.to_thread.run_sync(wait_for, Path(turn.session.cwd, "asked"))
                tasks.cancel_scope.cancel()
            with contextlib.suppress(RpcError):
                await turn.client.request("_nothing")
            await anyio.to_thread.run_sync(Path(turn.session.cwd, "withdrawn").touch)
            yield "It does not matter."
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
