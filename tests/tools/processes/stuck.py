# ruff: noqa: T201 - the host says on standard error how far it is
"""An agent with a tool that never stops: `stuck.py HOW BACKEND`.

HOW it is served: `run` is a program of its own, `host` a program that serves standard input and output inside of its
own event loop, `embed` one that serves a stream, of which the runtime does not know that it is the standard input.

A prompt is a list of tools, which run in parallel. What became of each is said at the end.
"""

import logging
import os
import sys
import threading
import time

import anyio
import anyio.to_thread

from acp_server import Agent, Call, RequestCancelled, ToolContext, Turn, serve
from acp_server.agent.serve import serve_stdio

agent = Agent("stuck")
told = threading.Event()
"""Whether the threads go on, and say what nobody is to hear any more."""
told_loop = anyio.Event()
ended: list[str] = []


@agent.tool
def sleep(call: ToolContext) -> None:
    call.progress("sleeping")
    while True:
        time.sleep(3600)


@agent.tool
def block(call: ToolContext) -> str:
    call.on_cancel = lambda: "partial"
    call.progress("blocking")
    told.wait()
    refused = 0
    call.progress("late")
    call.set_title("late")
    call.locate("/late")
    call.raw_output = "late"
    for function, *arguments in ((call.turn.say, "late"), (call.client.read_text_file, "/late")):
        try:
            call.run(function, *arguments)
        except RequestCancelled:
            refused += 1
    ended.append(f"refused {refused} times")
    return "late"


@agent.tool
def thread_beside(call: ToolContext) -> str:
    call.progress("running")
    told.wait()
    return "done"


@agent.tool
async def beside(call: ToolContext) -> str:
    call.progress("running")
    await told_loop.wait()
    return "done"


@agent.tool
def quick() -> str:
    return "done"


@agent.tool
async def loop_only() -> str:
    return "done"


@agent.prompt
async def prompt(turn: Turn) -> None:
    said: list[str] = []

    async def one(number: int, name: str) -> None:
        result = await turn.run_tool(name, id=f"{name}_{number}")
        said.append(f"{name} {result.status}: {result.message}\n")

    async with anyio.create_task_group() as group:
        for number, name in enumerate(turn.text.split()):
            group.start_soon(one, number, name)
    await turn.say("".join(said))


@agent.method("_go_on")
async def go_on(call: Call) -> list[str]:
    """Let what waits go on; what came of the threads that block, when all have ended."""
    told.set()
    told_loop.set()
    for thread in threading.enumerate():
        if thread.name == "acp_server block":
            await anyio.to_thread.run_sync(thread.join)
    return ended


class Pipe:
    """Standard input and output as any stream."""

    async def receive(self) -> bytes:
        await anyio.wait_readable(0)
        return os.read(0, 65536)

    async def send(self, data: bytes) -> None:
        while data:
            await anyio.wait_writable(1)
            data = data[os.write(1, data) :]

    async def aclose(self) -> None:
        pass


async def host(how: str) -> None:
    if how == "host":
        await serve_stdio(agent)
    else:
        await serve(agent, Pipe())
    print("the host goes on", file=sys.stderr)


if __name__ == "__main__":
    logging.basicConfig(format="%(levelname)s %(message)s")
    backend = "trio" if sys.argv[2] == "trio" else "asyncio"
    if sys.argv[1] == "run":
        agent.run(backend=backend)
    anyio.run(host, sys.argv[1], backend=backend)
    print("the host is through", file=sys.stderr)
