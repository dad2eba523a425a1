"""A small agent written with the official SDK, as a program of its own: it says what it was sent."""

import asyncio
from typing import Any

from acp import (
    PROTOCOL_VERSION,
    Agent,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
)
from acp.schema import AgentCapabilities, AgentMessageChunk, Implementation, TextContentBlock


class Official(Agent):
    def on_connect(self, conn: Any) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        who = Implementation(name="official", title="Official", version="1")
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION, agent_capabilities=AgentCapabilities(), agent_info=who
        )

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id="one")

    async def prompt(self, prompt: Any, session_id: str, **_: Any) -> PromptResponse:
        text = f"The client sent: {''.join(block.text for block in prompt)}"
        content = TextContentBlock(type="text", text=text)
        update = AgentMessageChunk(session_update="agent_message_chunk", content=content)
        await self._client.session_update(session_id, update)
        return PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    official: Any = Official  # what its protocol has besides has defaults
    asyncio.run(run_agent(official()))
