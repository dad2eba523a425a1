"""An MCP server of the official package, over stdio or, with `http` or `sse` as its argument, over HTTP.

It tells the named pipe in its environment where it is: its port, its process id, and what becomes of its calls.
"""

import os
import socket
import subprocess
import sys
from typing import Annotated, Any

import anyio
from mcp.server.lowlevel import server as lowlevel  # pyright: ignore[reportMissingImports]
from mcp.server.mcpserver import (  # pyright: ignore[reportMissingImports]
    Context,
    Elicit,
    ElicitationResult,
    Image,
    MCPServer,
    Resolve,
)
from mcp.server.runner import serve_loop  # pyright: ignore[reportMissingImports]
from mcp_types import ToolAnnotations  # pyright: ignore[reportMissingImports]
from pydantic import BaseModel

READS = ToolAnnotations(read_only_hint=True)
server = MCPServer("real", instructions="Add with care.", log_level="CRITICAL")


def tell(line: str) -> None:
    with open(os.environ["EAR"], "w") as ear:
        ear.write(f"{line}\n")


@server.tool(annotations=READS, title="Add")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def touch(path: str) -> str:
    """Touch a file."""
    return f"touched {path}"


@server.tool(annotations=READS, structured_output=False)
def draw() -> list[Any]:
    """Draw something."""
    return ["a dot:", Image(data=b"dot", format="png")]


@server.tool(annotations=READS)
def fail() -> str:
    """Fail."""
    raise ValueError("no luck")


@server.tool(annotations=READS)
async def count(ctx: Context) -> str:
    """Count to two."""
    for number in (1, 2):
        await ctx.report_progress(number, 2, f"number {number}")
    return "counted"


@server.tool(annotations=READS)
async def hang() -> str:
    """Hang until it is cancelled."""
    tell("hanging")
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        tell("cancelled")
        raise
    return "never"


@server.tool(annotations=READS)
async def grow(ctx: Context) -> str:
    """Have one tool more."""

    def grown() -> str:
        """Be new."""
        return "grown"

    server.add_tool(grown, annotations=READS)
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "more"


class Name(BaseModel):
    name: str


async def who() -> Elicit[Name]:
    return Elicit("Who are you?", Name)


@server.tool(annotations=READS)
async def ask(answer: Annotated[ElicitationResult[Name], Resolve(who)]) -> str:
    """Ask the user."""
    return f"{answer.action}: {getattr(answer, 'data', None)}"


def main() -> None:
    if "old" in sys.argv:
        # A server from before 2026: it knows no other beginning than `initialize`.
        lowlevel.__dict__["serve_dual_era_loop"] = serve_loop
    if "child" in sys.argv:
        # It outlives its parent, unless the whole group is ended.
        child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        tell(f"{os.getpid()} {child.pid}")
    if "http" not in sys.argv and "sse" not in sys.argv:
        server.run("stdio")
        return
    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0))
    app = server.streamable_http_app() if "http" in sys.argv else server.sse_app()
    tell(f"{listening.getsockname()[1]} {os.getpid()}")
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listening])


if __name__ == "__main__":
    main()
