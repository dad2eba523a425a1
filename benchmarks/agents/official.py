"""The bench agent on the official SDK, 0.12 and 1.0: a subclass of `acp.Agent`, run by `run_agent`."""

import asyncio
from typing import Any

import acp
from acp.schema import AgentMessageChunk, InitializeResponse, NewSessionResponse, PromptResponse, TextContentBlock

CHUNK = "the quick brown fox jumps over the lazy dog, "


def _chunk() -> AgentMessageChunk:
    # The results of the helpers of 0.12, which 1.0 does not have.
    content = TextContentBlock(type="text", text=CHUNK)
    return AgentMessageChunk(session_update="agent_message_chunk", content=content)


class Bench(acp.Agent):
    def __init__(self) -> None:
        self._client: acp.Client
        self._cancelled: dict[str, asyncio.Event] = {}

    def on_connect(self, conn: acp.Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        session_id = f"session-{len(self._cancelled)}"
        self._cancelled[session_id] = asyncio.Event()
        return NewSessionResponse(session_id=session_id)

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        work, *amount = prompt[0].text.split()
        cancelled = self._cancelled[session_id]
        cancelled.clear()
        match work:
            case "echo":
                await self._client.session_update(session_id, _chunk())
            case "stream":
                for _step in range(int(amount[0])):
                    await self._client.session_update(session_id, _chunk())
            case "nested":
                reads = (
                    self._client.read_text_file(session_id=session_id, path=f"/project/{i}.py")
                    for i in range(int(amount[0]))
                )
                await asyncio.gather(*reads)
            case "hang":
                await cancelled.wait()
                return PromptResponse(stop_reason="cancelled")
            case _:
                pass
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:
        self._cancelled[session_id].set()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method != "bench/own":  # the SDK removes the underscore
            raise acp.RequestError.method_not_found(f"_{method}")
        return {"number": params["number"] + 1}


if __name__ == "__main__":
    asyncio.run(acp.run_agent(Bench()))  # pyright: ignore[reportAbstractUsage] - the SDK says to subclass it so
