"""An agent on the official Python SDK, written with care: what is wrong with it is the SDK's.

A prompt's first word names the situation, see the profile `situations.toml`. A turn is a task of its own, since the SDK
cancels nothing by itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import acp
from acp.schema import (
    AgentCapabilities,
    AgentMessageChunk,
    AgentPlanUpdate,
    ContentToolCallContent,
    Implementation,
    PermissionOption,
    PlanEntry,
    TerminalToolCallContent,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
)

OPTIONS = [
    PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    PermissionOption(option_id="no", name="Reject", kind="reject_once"),
]


class Session:
    def __init__(self, id: str, cwd: str, client: Any) -> None:
        self.id = id
        self.cwd = cwd
        self.client = client
        self.turn: asyncio.Task[None] | None = None
        self.cancelled = False
        self.calls = 0
        self.can_read = self.can_write = self.can_run = False

    async def say(self, text: str) -> None:
        content = TextContentBlock(type="text", text=text)
        await self.update(AgentMessageChunk(session_update="agent_message_chunk", content=content))

    async def update(self, update: Any) -> None:
        await self.client.session_update(session_id=self.id, update=update)

    async def call(self, title: str, kind: Any) -> str:
        self.calls += 1
        id = f"call_{self.calls}"
        start = ToolCallStart(session_update="tool_call", tool_call_id=id, title=title, kind=kind, status="pending")
        await self.update(start)
        return id

    async def progress(self, id: str, **changes: Any) -> None:
        await self.update(ToolCallProgress(session_update="tool_call_update", tool_call_id=id, **changes))


async def quick(session: Session) -> None:
    await session.say("Done.")


async def stream(session: Session) -> None:
    for word in ("one ", "two ", "three ", "four ", "five"):
        await session.say(word)


async def hang(session: Session) -> None:
    await session.say("Working.")
    await asyncio.Event().wait()


async def fails(session: Session) -> None:
    await session.say("Working.")
    raise ValueError("a mishap with a secret in it")


async def tool(session: Session) -> None:
    call = await session.call("Count lines", "read")
    await session.progress(call, status="in_progress")
    text = TextContentBlock(type="text", text="5 lines")
    await session.progress(call, status="completed", content=[ContentToolCallContent(type="content", content=text)])


async def plan(session: Session) -> None:
    for status in ("pending", "in_progress", "completed"):
        entry = PlanEntry(content="Look at it", priority="medium", status=status)
        await session.update(AgentPlanUpdate(session_update="plan", entries=[entry]))


async def permission(session: Session) -> None:
    call = await session.call("Change things", "edit")
    try:
        answer = await session.client.request_permission(
            session_id=session.id, tool_call=ToolCallUpdate(tool_call_id=call), options=OPTIONS
        )
        allowed = getattr(answer.outcome, "option_id", None) == "yes"
    except acp.RequestError:
        allowed = False
    await session.progress(call, status="completed" if allowed else "failed")


async def read(session: Session) -> None:
    if not session.can_read:
        await session.say("The client reads no files.")
        return
    try:
        answer = await session.client.read_text_file(session_id=session.id, path=f"{session.cwd}/a.txt")
        await session.say(answer.content)
    except acp.RequestError as error:
        await session.say(f"It cannot be read: {error}")


async def write(session: Session) -> None:
    if not session.can_write:
        await session.say("The client writes no files.")
        return
    try:
        await session.client.write_text_file(session_id=session.id, path=f"{session.cwd}/b.txt", content="new\n")
        await session.say("Written.")
    except acp.RequestError as error:
        await session.say(f"It cannot be written: {error}")


async def nested(session: Session) -> None:
    await session.say("Asking.")
    await read(session)


async def terminal(session: Session) -> None:
    if not session.can_run:
        await session.say("The client has no terminals.")
        return
    call = await session.call("make test", "execute")
    try:
        created = await session.client.create_terminal(
            session_id=session.id, command="make", args=["test"], cwd=session.cwd
        )
    except acp.RequestError:
        await session.progress(call, status="failed")
        return
    names = {"session_id": session.id, "terminal_id": created.terminal_id}
    shown = TerminalToolCallContent(type="terminal", terminal_id=created.terminal_id)
    await session.progress(call, status="in_progress", content=[shown])
    try:
        await session.client.wait_for_terminal_exit(**names)
        await session.say((await session.client.terminal_output(**names)).output)
    except acp.RequestError as error:
        await session.say(f"It cannot be run: {error}")
    finally:
        await session.client.release_terminal(**names)
    await session.progress(call, status="completed")


SITUATIONS: dict[str, Callable[[Session], Awaitable[None]]] = {
    each.__name__: each for each in (quick, stream, hang, fails, tool, plan, permission, read, write, nested, terminal)
}


class Careful(acp.Agent):
    client: Any

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.capabilities: Any = None

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, **_: Any
    ) -> acp.InitializeResponse:
        self.capabilities = client_capabilities
        return acp.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(),
            agent_info=Implementation(name="python-sdk", version="0.12.1"),
        )

    async def new_session(self, cwd: str, **_: Any) -> acp.NewSessionResponse:
        if not Path(cwd).is_absolute():
            raise acp.RequestError.invalid_params({"cwd": "not absolute"})
        session = Session(f"session-{len(self.sessions)}", cwd, self.client)
        if self.capabilities is not None:
            files = self.capabilities.fs
            session.can_read = bool(files and files.read_text_file)
            session.can_write = bool(files and files.write_text_file)
            session.can_run = bool(self.capabilities.terminal)
        self.sessions[session.id] = session
        return acp.NewSessionResponse(session_id=session.id)

    async def cancel(self, session_id: str, **_: Any) -> None:
        session = self.sessions.get(session_id)
        if session is not None and session.turn is not None:
            session.cancelled = True
            session.turn.cancel()

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> acp.PromptResponse:
        session = self.sessions.get(session_id)
        if session is None:
            raise acp.RequestError.invalid_params({"sessionId": "unknown"})
        if session.turn is not None:
            raise acp.RequestError.invalid_request({"sessionId": "a turn is running"})
        text = "".join(getattr(block, "text", "") for block in prompt)
        situation = SITUATIONS.get(text.partition(" ")[0])
        work = session.say(f"You said: {text}") if situation is None else situation(session)
        session.cancelled = False
        session.turn = asyncio.ensure_future(work)
        try:
            await session.turn
        except (asyncio.CancelledError, acp.RequestError):
            if not session.cancelled:
                raise
        finally:
            session.turn = None
        return acp.PromptResponse(stop_reason="cancelled" if session.cancelled else "end_turn")


if __name__ == "__main__":
    asyncio.run(acp.run_agent(Careful()))  # pyright: ignore[reportAbstractUsage]
