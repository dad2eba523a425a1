"""The page of agents on other machines: its example asks one."""

import pytest

from tests.remote.client import Request, serving

from .blocks import run

pytestmark = pytest.mark.anyio


async def test_reach() -> None:
    async with serving() as server:

        async def react(request: Request) -> bool:
            message = request.message or {}
            if message.get("method") == "session/new":
                await request.answer(202)
                await (await server.stream()).say({"jsonrpc": "2.0", "id": message["id"], "result": {"sessionId": "s"}})
            elif message.get("method") == "session/prompt":
                await request.answer(202)
                events = await server.stream("s")
                content = {"type": "text", "text": f"You said {message['params']['prompt'][0]['text']}"}
                params = {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": content}}
                await events.say({"jsonrpc": "2.0", "method": "session/update", "params": params})
                await events.say({"jsonrpc": "2.0", "id": message["id"], "result": {"stopReason": "end_turn"}})
            else:
                return False
            return True

        server.react = react
        assert await run("remote-clients.md", "reach")["ask"](server.url, "secret", "hello") == "You said hello"
        assert {request.headers["authorization"] for request in server.posts} == {"Bearer secret"}
