"""A page in a browser that chats with an agent over WebSocket.

    npm ci
    pip install 'acp-server[remote]' starlette uvicorn
    python web.py [PORT]

The agent keeps a list of things to do. `add TEXT` shows the change and asks before it is made, and `count` counts until
it is stopped. Everything else is said again.
"""

import socket
import sys
from pathlib import Path

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.responses import FileResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles

from acp_server import Agent, Turn
from acp_server.remote import RemoteApp
from acp_server.schema import Diff, PermissionOption, ToolCall, ToolCallProgress, ToolCallUpdate

HERE = Path(__file__).resolve().parent
OPTIONS = PermissionOption.yes_or_no("Add it", "Leave it")

agent = Agent("to-do", version="1.0")
things = ["write a page", "show it"]


@agent.prompt
async def answer(turn: Turn):
    word, _, rest = turn.text.partition(" ")
    if word == "add" and rest:
        async for update in add(turn, rest):
            yield update
    elif word == "count":
        for number in range(1, 1000):
            yield f"{number} "
            await anyio.sleep(0.2)
    else:
        yield f"You said: {turn.text}\n"


async def add(turn: Turn, thing: str):
    old = "".join(f"{each}\n" for each in things)
    call = f"add_{turn.id}"
    change = Diff(path="/to-do.txt", old_text=old, new_text=f"{old}{thing}\n")
    yield ToolCall(tool_call_id=call, title=f"Add {thing}", kind="edit", content=[change])
    answer = await turn.client.request_permission(ToolCallUpdate(tool_call_id=call, title=f"Add {thing}"), OPTIONS)
    if not answer.allowed:
        yield ToolCallProgress(tool_call_id=call, status="failed")
        yield "I left it as it is.\n"
        return
    things.append(thing)
    yield ToolCallProgress(tool_call_id=call, status="completed")
    yield f"There are {len(things)} things to do.\n"


async def page(_request):
    return FileResponse(HERE / "index.html")


def application(origin: str) -> Starlette:
    """The page, the modules that it imports, and the agent."""
    remote = RemoteApp(agent, origins=[origin])
    modules = StaticFiles(directory=HERE / "node_modules")
    paths = [Route("/", page), Route("/acp", remote), WebSocketRoute("/acp", remote)]
    return Starlette(routes=[*paths, Mount("/node_modules", modules)])


def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8080
    with socket.create_server(("127.0.0.1", port)) as listening:
        origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
        print(f"Open {origin}/", flush=True)
        settings = uvicorn.Config(application(origin), log_level="warning", timeout_graceful_shutdown=1)
        uvicorn.Server(settings).run([listening])


if __name__ == "__main__":
    main()
