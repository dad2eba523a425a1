"""An agent on the official SDK. Prompts: `stream N`, `read PATH`, `ask`, `run COMMAND...`, `hang`."""

import asyncio
from typing import Any

import acp
from acp.schema import AgentMessageChunk, PermissionOption, TextContentBlock, ToolCallUpdate

OPTIONS = [
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]


class Obedient(acp.Agent):
    client: Any

    def __init__(self) -> None:
        self.stops: dict[str, asyncio.Event] = {}

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        return acp.InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, **_: Any) -> acp.NewSessionResponse:
        id = f"session {len(self.stops)}"
        self.stops[id] = asyncio.Event()
        return acp.NewSessionResponse(session_id=id)

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.stops[session_id].set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> acp.PromptResponse:
        work, *rest = prompt[0].text.split()
        stop = self.stops[session_id]
        stop.clear()
        if work == "stream":
            for number in range(int(rest[0])):
                await self.say(session_id, str(number))
        elif work == "read":
            file = await self.client.read_text_file(session_id=session_id, path=rest[0])
            await self.say(session_id, file.content)
        elif work == "ask":
            call = ToolCallUpdate(tool_call_id="call-1", title="Delete everything")
            answer = await self.client.request_permission(session_id=session_id, tool_call=call, options=OPTIONS)
            await self.say(session_id, answer.outcome.outcome)
        elif work == "run":
            names = {"session_id": session_id}
            names["terminal_id"] = (
                await self.client.create_terminal(command=rest[0], args=rest[1:], session_id=session_id)
            ).terminal_id
            await self.client.wait_for_terminal_exit(**names)
            await self.say(session_id, (await self.client.terminal_output(**names)).output)
            await self.client.release_terminal(**names)
        elif work == "hang":
            await self.say(session_id, "hanging")
            await stop.wait()
        return acp.PromptResponse(stop_reason="cancelled" if stop.is_set() else "end_turn")

    async def say(self, session_id: str, text: str) -> None:
        content = TextContentBlock(type="text", text=text)
        update = AgentMessageChunk(session_update="agent_message_chunk", content=content)
        await self.client.session_update(session_id=session_id, update=update)


if __name__ == "__main__":
    asyncio.run(acp.run_agent(Obedient()))  # pyright: ignore[reportAbstractUsage]
