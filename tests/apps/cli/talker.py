"""An agent for the tests of `acp-server chat`: the prompt says what it does."""

import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.to_thread

from acp_server import Agent, Session, Turn, grace
from acp_server.errors import AuthRequired, RpcError
from acp_server.schema import (
    AvailableCommand,
    Content,
    PermissionOption,
    PlanEntry,
    SessionConfigBoolean,
    SessionConfigSelect,
    SessionConfigSelectOption,
    SessionMode,
    TextContent,
    ToolCall,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallUpdate,
)

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
        case "last words":
            yield "hanging"
            try:
                await anyio.sleep_forever()
            finally:
                with grace():
                    text = Content(content=TextContent(text="Half of it\nis done."))
                    await turn.update(ToolCall(tool_call_id="t", title="t", status="failed", content=[text]))
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
        case "later":
            yield "waiting"
            await anyio.to_thread.run_sync(wait_for, Path(turn.session.cwd, "go"))
            ask = ToolCallUpdate(
                tool_call_id="call_1", title="Delete everything", raw_input={"path": "/", "force": True}
            )
            answer = await turn.client.request_permission(ask, OPTIONS)
            yield f"allowed: {answer.allowed}, chosen: {answer.option_id}"
        case "a question too long":
            command = "".join(f"step {number}\n" for number in range(1, 401))
            ask = ToolCallUpdate(tool_call_id="call_1", title="Run it", raw_input={"command": command})
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
        case "markdown":
            yield "# Heading\n\nSome **bold** words and a [link](https://example.org).\n\n- one\n- two\n\nThe **open"
            await anyio.to_thread.run_sync(wait_for, Path(turn.session.cwd, "go"))
            yield "** end."
        case "tool":
            place = ToolCallLocation(path="/some/where.py", line=3)
            text = Content(content=TextContent(text="so far\n"))
            await turn.update(ToolCall(tool_call_id="t", title="Dig", status="in_progress", locations=[place]))
            await turn.update(ToolCallProgress(tool_call_id="t", content=[text]))
            await anyio.to_thread.run_sync(wait_for, Path(turn.session.cwd, "go"))
            await turn.update(ToolCallProgress(tool_call_id="t", status="completed"))
        case "long":
            yield "word " * 100
        case "error":
            raise ValueError("for the log")
        case "refuse":
            turn.stop_reason = "refusal"
        case "limit":
            turn.stop_reason = "max_tokens"
        case "exit":
            os._exit(9)
        case "what is set":
            yield " ".join(map(str, (turn.session.mode, turn.session.config("model"), turn.session.config("loud"))))
        case text:
            yield f"You said {text}."


settled = Agent("settled", version="1")
settled.prompt(prompt)
settled.modes(SessionMode(id="ask", name="Ask first"), SessionMode(id="code", name="Go ahead"))
MODELS = [SessionConfigSelectOption(value=value, name=value.title()) for value in ("small", "large")]
settled.config_options(
    SessionConfigSelect(id="model", name="Model", current_value="small", options=MODELS),
    SessionConfigBoolean(id="loud", name="Loud", current_value=False),
)


@settled.session
async def offer(session: Session) -> None:
    await session.set_commands([AvailableCommand(name="search", description="Look for it.")])


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


oldest = Agent("oldest", version="1", versions=[1])
oldest.prompt(prompt)

newest = Agent("newest", version="1", versions=[2])
newest.prompt(prompt)
