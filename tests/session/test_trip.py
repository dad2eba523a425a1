"""How many functions of the package a message runs through, and in how many files: counted, and bound from above.

More is not wrong by itself. What is, is work done twice or handed through, and that shows here first.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import acp_server
from acp_server import Agent, ToolContext, Turn, serve

PACKAGE = str(Path(acp_server.__file__).parent)

MOST = {"prompt": (76, 20), "tool": (230, 34), "cancel": (57, 20)}
"""Calls and files, on asyncio. Python 3.11 also counts comprehensions; 3.13 takes two calls more for a cancel."""


TIMES = 5
"""How often each message is counted. The least counts: where others take the processor, a handler yields to the loop,
and that takes more calls."""


class Line:
    """A stream that hands a line over in a callback of the loop and writes without waiting, as standard input and
    output do."""

    def __init__(self) -> None:
        self._take: Callable[[bytes], bool] | None = None
        self._given = asyncio.Event()
        self._ended = asyncio.Event()
        self.said: list[dict[str, Any]] = []
        self.news = asyncio.Event()

    async def feed(self, take: Callable[[bytes], bool]) -> None:
        self._take = take
        self._given.set()
        await self._ended.wait()

    async def receive(self) -> bytes:
        await self._ended.wait()
        return b""

    def send_now(self, data: bytes) -> int:
        self.said += map(json.loads, data.splitlines())
        self.news.set()
        return len(data)

    async def send(self, data: bytes) -> None:
        self.send_now(data)

    async def aclose(self) -> None:
        self._ended.set()

    async def tell(self, **message: Any) -> None:
        await self._given.wait()
        data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        assert self._take is not None
        asyncio.get_running_loop().call_soon(self._take, data)

    async def hear(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            found = next(filter(wanted, self.said), None)
            if found is not None:
                self.said.remove(found)
                return found
            self.news.clear()
            await self.news.wait()

    async def answer(self, id: int) -> dict[str, Any]:
        return (await self.hear(lambda message: message.get("id") == id and "method" not in message))["result"]


def agent() -> Agent:
    made = Agent("counted")

    @made.tool(kind="edit", approval=True)
    async def change(call: ToolContext, path: str) -> str:
        """Change a file."""
        return "done"

    @made.prompt
    async def prompt(turn: Turn) -> Any:
        if turn.text == "hang":
            await anyio.sleep_forever()
        if turn.text == "tool":
            yield (await turn.run_tool("change", {"path": "/p/a"})).message
        else:
            yield "hello"

    return made


class Conversation:
    """A client of the agent, with one session."""

    def __init__(self) -> None:
        self.line = Line()
        self.session = ""

    async def open(self) -> None:
        hello = {"protocolVersion": 1, "clientCapabilities": {}}
        await self.line.tell(id=0, method="initialize", params=hello)
        await self.line.answer(0)
        await self.line.tell(id=1, method="session/new", params={"cwd": "/p", "mcpServers": []})
        self.session = (await self.line.answer(1))["sessionId"]

    async def ask(self, id: int, text: str) -> None:
        prompt = [{"type": "text", "text": text}]
        await self.line.tell(id=id, method="session/prompt", params={"sessionId": self.session, "prompt": prompt})

    async def allow(self) -> None:
        asked = await self.line.hear(lambda message: message.get("method") == "session/request_permission")
        outcome = {"outcome": "selected", "optionId": asked["params"]["options"][0]["optionId"]}
        await self.line.tell(id=asked["id"], result={"outcome": outcome})

    async def act(self, what: str, id: int) -> None:
        if what == "cancel":
            await self.line.tell(method="session/cancel", params={"sessionId": self.session})
            id -= 1
        else:
            await self.ask(id, what)
        if what == "tool":
            await self.allow()
        await self.line.answer(id)
        await rest()


async def rest() -> None:
    """Let what is behind the answer run to its end, which takes a few rounds of the loop."""
    for _ in range(20):
        await asyncio.sleep(0)


async def trips() -> dict[str, list[tuple[str, str]]]:
    """The functions that each message runs through: file and name, in order."""
    found: dict[str, list[tuple[str, str]]] = {}
    trip: list[tuple[str, str]] = []

    def note(frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            trip.append((code.co_filename.removeprefix(PACKAGE), code.co_qualname))

    talk = Conversation()
    with anyio.fail_after(60):
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(serve(agent(), talk.line))
            await talk.open()
            # What is loaded and built once.
            await talk.act("prompt", 2)
            await talk.act("tool", 3)
            for id in range(10, 10 + 6 * TIMES, 2):
                what = ("prompt", "tool", "cancel")[id // 2 % 3]
                if what == "cancel":
                    await talk.ask(id - 1, "hang")
                    await rest()
                else:
                    # A cancel leaves no task behind that waits for the next request.
                    await talk.act("prompt", id - 1)
                trip.clear()
                before = sys.getprofile()
                sys.setprofile(note)
                try:
                    await talk.act(what, id)
                finally:
                    sys.setprofile(before)
                found[what] = min(trip.copy(), found.get(what, trip), key=len)
            serving.cancel()
    return found


@pytest.fixture(scope="module")
def counted() -> dict[str, list[tuple[str, str]]]:
    return asyncio.run(trips())


@pytest.mark.parametrize("what", list(MOST))
def test_a_message_takes_no_more_calls_and_files_than_it_did(
    what: str, counted: dict[str, list[tuple[str, str]]]
) -> None:
    calls, files = MOST[what]
    trip = counted[what]
    assert trip
    assert len(trip) <= calls, "\n".join(f"{file} {name}" for file, name in trip)
    assert len({file for file, _ in trip}) <= files
