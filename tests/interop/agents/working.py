"""A small agent that says things, runs a tool and asks the user, whatever the version; `acp-server serve` serves it.

say                 a thought, and two messages around a tool call
hang                says so and waits for ever
work                runs a tool that shows something and then waits for ever, and goes on when that was cancelled
ask                 runs a tool that needs the user's approval
run                 runs a command that says something and then waits for ever
fail                raises
"""

from collections.abc import AsyncIterator

import anyio

from acp_server import Agent, ToolContext, Turn
from acp_server.schema import AvailableCommand, Diff, SessionMode
from acp_server.session.session import Session

agent = Agent("working", version="1", versions=(1, 2))
agent.modes(SessionMode(id="calm", name="Calm"), SessionMode(id="keen", name="Keen"))


@agent.session
async def prepare(session: Session) -> None:
    await session.set_commands([AvailableCommand(name="say", description="Say things")])


@agent.tool(kind="read")
async def look(call: ToolContext) -> str:
    """Look around."""
    call.progress(Diff(path="/notes.txt", old_text="one\n", new_text="two\n"))
    return "seen"


@agent.tool
async def work(call: ToolContext) -> None:
    """Work for ever."""
    call.progress("half of it")
    call.on_cancel = lambda: "stopped in the middle"
    await anyio.sleep_forever()


@agent.tool(approval=True)
async def risky() -> str:
    """Do something risky."""
    return "done"


@agent.prompt
async def prompt(turn: Turn) -> AsyncIterator[str]:
    match turn.text:
        case "say":
            await turn.think("thinking")
            yield "one "
            yield "message"
            await turn.call(look)
            yield "and another"
        case "hang":
            yield "hanging"
            await anyio.sleep_forever()
        case "work":
            result = await turn.run_tool("work")
            yield f"{result.status}: {result.message}"
        case "ask":
            yield (await turn.run_tool("risky")).status
        case "run":
            async with await turn.client.create_terminal("sh", ["-c", "echo begun; exec sleep 1000"]) as terminal:
                ended = await terminal.wait_for_exit()
            yield f"ended by {ended.signal}"
        case "fail":
            raise ValueError("secret")
        case _:
            yield f"re: {turn.text}"
