"""The official Python SDK's server for remote clients, with an agent that does as a prompt says: "stream N", "ask",
"read PATH", "hang". It writes its port and ends with its input. `hypercorn CERTIFICATE KEY` serves HTTP/2 with TLS."""

import asyncio
import socket
import sys
from typing import Any

from acp import PROTOCOL_VERSION, Agent, InitializeResponse, LoadSessionResponse, NewSessionResponse, PromptResponse
from acp.http.asgi import create_asgi_app
from acp.schema import (
    AgentCapabilities,
    AgentMessageChunk,
    Implementation,
    PermissionOption,
    TextContentBlock,
    ToolCallUpdate,
)

HISTORIES: dict[str, list[AgentMessageChunk]] = {}


class Official(Agent):
    def __init__(self, client: Any) -> None:
        self._client = client
        self._cut = asyncio.Event()

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(load_session=True),
            agent_info=Implementation(name="official", version="1"),
        )

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_: Any) -> NewSessionResponse:
        session = f"s{len(HISTORIES) + 1}"
        HISTORIES[session] = []
        return NewSessionResponse(session_id=session)

    async def load_session(self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any) -> LoadSessionResponse:
        for update in HISTORIES[session_id]:
            await self._client.session_update(session_id, update)
        return LoadSessionResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        self._cut.set()

    async def prompt(self, prompt: Any, session_id: str, **_: Any) -> PromptResponse:
        self._cut.clear()

        async def say(text: str) -> None:
            content = TextContentBlock(type="text", text=text)
            update = AgentMessageChunk(session_update="agent_message_chunk", content=content)
            HISTORIES[session_id].append(update)
            await self._client.session_update(session_id, update)

        name, *words = prompt[0].text.split(" ")
        if name == "stream":
            for number in range(int(words[0])):
                await say(f"{number} ")
        elif name == "ask":
            options = [PermissionOption(option_id="yes", name="Yes", kind="allow_once")]
            call = ToolCallUpdate(tool_call_id="c1", title="May I?")
            answer = await self._client.request_permission(options=options, session_id=session_id, tool_call=call)
            await say(answer.outcome.option_id)
        elif name == "read":
            await say((await self._client.read_text_file(path=words[0], session_id=session_id)).content)
        else:
            await say("begun ")
            await self._cut.wait()
        return PromptResponse(stop_reason="cancelled" if self._cut.is_set() else "end_turn")


async def main(server: str, *tls: str) -> None:
    app = create_asgi_app(Official)
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, over.set)
    if server == "uvicorn":
        import uvicorn

        config = uvicorn.Config(app, log_level="error", ws="websockets-sansio", lifespan="off")
        serving = asyncio.create_task(uvicorn.Server(config).serve(sockets=[listener]))
    else:
        from hypercorn.asyncio import serve
        from hypercorn.config import Config

        made = Config()
        made.bind = [f"fd://{listener.fileno()}"]
        made.certfile, made.keyfile = tls
        made.loglevel = "ERROR"
        serving = asyncio.create_task(serve(app, made, shutdown_trigger=over.wait))  # pyright: ignore[reportArgumentType]
    await over.wait()
    serving.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
