"""The bench agent as acp_server has it written: one prompt function, `agent.run()`.

What runs side by side is started by `asyncio.gather`, as in the other agents: how an author starts tasks is no
cost of a library's. A task group of anyio's costs about as much again for each task.
"""

import asyncio
from collections.abc import AsyncIterator

import anyio

from acp_server import Agent, Turn

CHUNK = "the quick brown fox jumps over the lazy dog, "

agent = Agent("bench", version="1")


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
            await anyio.sleep_forever()
        case _:
            pass


if __name__ == "__main__":
    agent.run()
