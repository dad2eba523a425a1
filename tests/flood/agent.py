"""An agent with the default limits that is flooded: `python -m tests.flood.agent BACKEND NOTES FOLDER [store]`, the
descriptor for the notes of its meter, and a folder for the file of its sessions if it is to have one."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

from acp_server import Agent, Call, Connection, SqliteStore, ToolContext, Turn
from tests.flood.meter import Meter

agent = Agent("flooded")
if sys.argv[4:] == ["store"]:
    agent.store = SqliteStore(Path(sys.argv[3], "sessions.db"))
meter = Meter(int(sys.argv[2]))

LARGE = "x" * 1_000_000
SAID = "x" * 1000


@agent.method("_watch")
async def watch(call: Call) -> None:
    await meter.watch()


@agent.method("_probe")
async def probe(call: Call) -> None:
    await meter.probe()


@agent.method("_hang")
async def hang(call: Call) -> None:
    await anyio.sleep_forever()


@agent.method("_large")
async def large(call: Call) -> str:
    return LARGE


@agent.method("_echo")
async def echo(call: Call) -> dict[str, Any]:
    return call.params


@agent.notification("_note")
async def heed(connection: Connection, text: str = "") -> None:
    await anyio.lowlevel.checkpoint()


@agent.notification("_slow")
async def slow(connection: Connection, text: str = "") -> None:
    await anyio.sleep_forever()


@agent.tool
def talk(call: ToolContext) -> str:
    """Says more than can be shown, in a thread."""
    while not call.is_cancelled:
        call.progress(SAID)
    return "done"


@agent.prompt
async def answer(turn: Turn) -> AsyncIterator[Any]:
    meter.note("begun")
    try:
        if turn.text == "tool":
            await turn.call(talk)
        elif turn.text == "read":
            yield await turn.client.read_text_file("/tmp/text")
            return
        elif turn.text == "brief":
            for _ in range(50):
                yield SAID
            return
        while True:
            yield SAID
    finally:
        meter.note("cut")


if __name__ == "__main__":
    agent.run(backend="trio" if sys.argv[1] == "trio" else "asyncio")
