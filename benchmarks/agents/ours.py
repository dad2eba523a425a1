"""The bench agent on acp_server: one prompt function, `agent.run()`.

Started as `ours.py furnished` it also has a custom method and three tools; as `ours.py roomy` a tool, and limits above
the growing amounts of work.

`asyncio.gather` starts concurrent work, as in the other agents, because the way in which an author starts tasks does
not belong to a library's cost. A task group of anyio costs about as much again for each task. A hanging prompt waits
for an `asyncio.Event` of its session, as in the other agents; nothing sets it here.
"""

import asyncio
import sys
from collections.abc import AsyncIterator

import anyio

from acp_server import Agent, Call, Limits, Session, Turn

CHUNK = "the quick brown fox jumps over the lazy dog, "

agent = Agent("bench", version="1")


@agent.session
def begin(session: Session) -> None:
    session.data = asyncio.Event()


@agent.prompt
async def prompt(turn: Turn) -> AsyncIterator[str]:
    work, _, amount = turn.text.partition(" ")
    match work:
        case "echo":
            yield CHUNK
        case "stream":
            for _ in range(int(amount)):
                yield CHUNK
        case "nested":
            await asyncio.gather(*(turn.client.read_text_file(f"/project/{i}.py") for i in range(int(amount))))
        case "hang":
            await turn.session.data.wait()
        case "deep":
            await deep(turn, int(amount))
        case "tools":
            for number in range(int(amount)):
                await turn.call("count", number=number)
        case _:
            pass


async def deep(turn: Turn, levels: int) -> None:
    if levels == 0:
        await turn.say("at the bottom")
        await anyio.sleep_forever()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(deep, turn, levels - 1)


async def count(number: int) -> int:
    return number + 1


def furnish() -> None:
    @agent.method("_bench/own")
    async def own(call: Call, number: int) -> dict[str, int]:
        return {"number": number + 1}

    @agent.tool(kind="read")
    async def read(path: str, line: int | None = None, limit: int | None = None) -> str:
        """Read a file."""
        return f"{path}:{line}:{limit}"

    @agent.tool(kind="search")
    async def search(pattern: str, folders: list[str], case: bool = False) -> list[str]:
        """Search some folders."""
        return [pattern, *folders, str(case)]

    @agent.tool(kind="execute", approval=True)
    def shell(command: str, seconds: float = 60.0) -> str:
        """Run a command."""
        return f"{command}: {seconds}"


if __name__ == "__main__":
    if "furnished" in sys.argv:
        furnish()
    limits = None
    if "roomy" in sys.argv:
        agent.tool(count)
        limits = Limits(sessions=100_000, requests=1 << 30, unread=1 << 30, notifications=1 << 30)
    agent.run(loop="uvloop" if "uvloop" in sys.argv else None, limits=limits)
