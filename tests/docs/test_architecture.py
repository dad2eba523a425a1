"""What `docs/architecture.md` names is there, and the ways through the code are no longer than they were."""

import asyncio
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import pytest

from acp_server import Agent, Turn
from acp_server.testing import MemoryStream, memory_pair
from tests.peer.ends import PATIENCE, cancel, line, request

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "acp_server"
TEXT = (ROOT / "docs" / "architecture.md").read_text("utf-8")


class Walk:
    """Notes which functions of the package are entered or gone on with, and in which files."""

    def __init__(self) -> None:
        self.calls = 0
        self.files: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and PACKAGE in path.parents and PACKAGE / "testing" not in path.parents:
            self.calls += 1
            self.files.add(path.relative_to(PACKAGE).as_posix())


class AtOnce:
    """A stream in memory that reads and writes without waiting, as standard input and output do: `hear` hands over a
    chunk in a callback of the loop."""

    def __init__(self, stream: MemoryStream) -> None:
        self.receive, self.send, self.aclose = stream.receive, stream.send, stream.aclose
        self._put = stream.send_nowait
        self._take: Callable[[bytes], bool] = bool

    async def feed(self, take: Callable[[bytes], bool]) -> None:
        self._take = take
        while take(await self.receive()):
            pass

    def hear(self, data: bytes) -> None:
        asyncio.get_running_loop().call_soon(self._take, data)

    def send_now(self, data: bytes) -> int:
        self._put(data)
        return len(data)


async def walked(text: str, also: Callable[[int], dict[str, Any]] | None = None) -> Walk:
    """The way of one prompt from its bytes to its answer; or, of what is sent `also` while it runs, to the answer."""
    agent = Agent("walked")
    runs = anyio.Event()

    @agent.tool(approval=False)
    async def wait() -> None:
        """Wait."""
        runs.set()
        await anyio.sleep_forever()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        if turn.text == "wait":
            await turn.call(wait)

    ours, theirs = memory_pair()
    stream = AtOnce(ours)
    connection = agent.connect(stream)
    unread = b""

    async def answer(id: int) -> None:
        nonlocal unread
        while b'"id":%d,' % id not in unread:
            unread += await theirs.receive()

    def session_prompt(id: int, text: str) -> bytes:
        content = [{"type": "text", "text": text}]
        return line(request(id, "session/prompt", {"sessionId": session, "prompt": content}))

    walk = Walk()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(connection.run)
            theirs.send_nowait(line(request(1, "initialize", {"protocolVersion": 1})))
            await answer(1)
            theirs.send_nowait(line(request(2, "session/new", {"cwd": "/", "mcpServers": []})))
            await answer(2)
            found = re.search(rb'"sessionId":"([^"]+)"', unread)
            assert found is not None
            session = found[1].decode()
            # What is loaded by the first one is no part of the way.
            theirs.send_nowait(session_prompt(3, "nothing"))
            await answer(3)
            await anyio.wait_all_tasks_blocked()
            if also is not None:
                theirs.send_nowait(session_prompt(4, text))
                await runs.wait()
                await anyio.wait_all_tasks_blocked()
            before = sys.getprofile()
            sys.setprofile(walk)
            try:
                stream.hear(session_prompt(4, text) if also is None else line(also(4)))
                await answer(4)
            finally:
                sys.setprofile(before)
            connection.close()
    return walk


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_prompt_takes_no_longer_way_than_it_did() -> None:
    walk = await walked("nothing")
    assert 50 < walk.calls <= 68
    assert 10 < len(walk.files) <= 21


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancel_that_reaches_a_tool_takes_no_longer_way_than_it_did() -> None:
    walk = await walked("wait", also=cancel)
    # Three of them are of `grace`, which notices that it was called without `with`.
    assert 50 < walk.calls <= 128
    assert 10 < len(walk.files) <= 29


def test_each_file_that_is_named_is_there() -> None:
    files = set(re.findall(r"`([\w/]+/\w+\.py)`", TEXT))
    assert len(files) > 15
    assert {file for file in files if not (PACKAGE / file).is_file()} == set()


def test_each_function_that_is_named_is_there() -> None:
    names = set(re.findall(r"`([A-Z]\w+\.\w+)`", TEXT))
    modules = [
        import_module(f"acp_server.{path.relative_to(PACKAGE).with_suffix('').as_posix().replace('/', '.')}")
        for file in set(re.findall(r"`([\w/]+/\w+\.py)`", TEXT))
        for path in [PACKAGE / file]
    ]
    missing = {
        name
        for name in names
        for owner, _, member in [name.partition(".")]
        if not any(hasattr(getattr(module, owner, None), member) for module in modules)
    }
    assert len(names) > 15
    assert missing == set()
