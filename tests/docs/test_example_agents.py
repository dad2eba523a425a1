"""Each example agent as it is: a real process, driven the way an editor drives it."""

import logging
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server.client import (
    Handlers,
    LocalFiles,
    LocalTerminals,
    RemoteAgent,
    RemoteSession,
    allow_once,
    connect_agent,
    reject_once,
    spawn_agent,
)
from acp_server.schema import AgentMessageChunk, TerminalOutputRequest, TextContent, ToolCall, ToolCallProgress
from tests.agent.processes.driver import environment
from tests.prefork import Prefork

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def nothing_on_standard_error(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An example writes nothing to standard error, tracebacks least of all."""
    with caplog.at_level(logging.INFO, "acp_server.client.stderr"):
        yield
    assert not [r.getMessage() for r in caplog.get_records("call") if r.name == "acp_server.client.stderr"]


_forks: Prefork | None = None


@pytest.fixture(autouse=True)
def started_by_forks(forks: Prefork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "_forks", forks)


def command(name: str) -> tuple[str, ...]:
    assert _forks
    return _forks.stand_in([str(EXAMPLES / name)])


@asynccontextmanager
async def running(name: str, handlers: Handlers | None = None) -> AsyncGenerator[RemoteAgent]:
    with anyio.fail_after(30):
        async with spawn_agent(command(name), handlers, env=environment()) as agent:
            await agent.initialize()
            yield agent


def text_of(updates: list[Any]) -> str:
    chunks = [u.content for u in updates if isinstance(u, AgentMessageChunk)]
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextContent))


async def turn(session: RemoteSession, prompt: str) -> tuple[str, list[Any]]:
    """Why the turn ended, and its updates."""
    updates: list[Any] = []
    return (await session.run(prompt, on_update=updates.append)).stop_reason, updates


def test_every_example_has_a_test() -> None:
    tests = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_example_*.py"))
    examples = {path.name for path in EXAMPLES.glob("*.py") if not path.name.startswith("test_")}
    assert {name for name in examples if f'"{name}"' in tests} == examples != set()


async def test_echo_repeats_word_by_word_and_stops_when_it_is_told(tmp_path: Path) -> None:
    async with running("echo.py") as agent:
        session = await agent.new_session(tmp_path)
        reason, updates = await turn(session, "one two")
        assert (reason, [u.content.text for u in updates]) == ("end_turn", ["one ", "two "])
        async with session.prompt("word " * 1000) as long:
            async for _ in long:
                long.cancel()
        assert long.stop_reason == "cancelled"


@pytest.mark.parametrize(
    ("ask", "expected"), [(allow_once, "a\nb\n"), (reject_once, "a  \nb\t\n")], ids=["allowed", "rejected"]
)
async def test_files_changes_a_file_only_if_the_user_allows_it(tmp_path: Path, ask: Any, expected: str) -> None:
    file = tmp_path / "a.txt"
    file.write_text("a  \nb\t\n")
    async with running("files.py", Handlers(permission=ask, files=LocalFiles([tmp_path]))) as agent:
        session = await agent.new_session(tmp_path)
        reason, updates = await turn(session, "a.txt")
        assert reason == "end_turn"
        assert file.read_text() == expected
        (begun,) = [u.to_wire() for u in updates if isinstance(u, ToolCall)]
        assert begun["content"][0]["newText"] == "a\nb\n"
        last = [u for u in updates if isinstance(u, ToolCallProgress)][-1]
        assert last.status == ("completed" if ask is allow_once else "failed")


async def test_files_says_what_it_cannot_do(tmp_path: Path) -> None:
    async with running("files.py", Handlers(files=LocalFiles([tmp_path]))) as agent:
        session = await agent.new_session(tmp_path)
        _, updates = await turn(session, "missing.txt")
        assert text_of(updates) == "The file cannot be read: Resource not found\n"
    async with running("files.py") as agent:
        session = await agent.new_session(tmp_path)
        _, updates = await turn(session, "missing.txt")
        assert text_of(updates) == "This editor has no files for me.\n"


async def test_files_withdraws_its_question_when_the_user_cancels(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a  \n")
    asked, dismissed = anyio.Event(), anyio.Event()

    async def think_it_over(_request: Any) -> None:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            dismissed.set()

    async with running("files.py", Handlers(permission=think_it_over, files=LocalFiles([tmp_path]))) as agent:
        session = await agent.new_session(tmp_path)
        async with session.prompt("a.txt") as question:
            await asked.wait()
            question.cancel()
            await dismissed.wait()
            assert (await question.wait()).stop_reason == "cancelled"
    assert (tmp_path / "a.txt").read_text() == "a  \n"


async def test_terminal_shows_what_a_command_printed_and_how_it_ended(tmp_path: Path) -> None:
    async with running("terminal.py", Handlers(terminals=LocalTerminals())) as agent:
        session = await agent.new_session(tmp_path)
        reason, updates = await turn(session, "sh -c 'pwd; exit 3'")
        assert (reason, text_of(updates)) == ("end_turn", "It ended with 3.\n")
        last = [u for u in updates if isinstance(u, ToolCallProgress)][-1]
        assert last.status == "failed"
        assert last.to_wire()["content"][1]["content"]["text"].endswith(f"{tmp_path.name}\n")
        _, updates = await turn(session, "sh -c 'not closed")
        assert text_of(updates) == "That is not a command.\n"


async def test_terminal_keeps_the_output_and_not_the_command_when_the_user_cancels(tmp_path: Path) -> None:
    terminals = LocalTerminals()
    async with running("terminal.py", Handlers(terminals=terminals)) as agent:
        session = await agent.new_session(tmp_path)
        async with session.prompt("sh -c 'echo begun; exec sleep 600'") as long:
            begun: Any = await anext(long)
            running_in = TerminalOutputRequest(session_id=session.id, terminal_id=begun.content[0].terminal_id)
            while "begun" not in (await terminals.output(running_in)).output:
                await anyio.lowlevel.checkpoint()
            long.cancel()
            rest = [update async for update in long]
            assert long.stop_reason == "cancelled"
        last = rest[-1]
        assert isinstance(last, ToolCallProgress)
        assert (last.status, last.to_wire()["content"][1]["content"]["text"]) == ("failed", "begun\n")
        with pytest.raises(Exception, match="not found"):
            await terminals.output(running_in)


async def test_embed_serves_all_who_connect_with_one_agent(tmp_path: Path) -> None:
    with anyio.fail_after(30):
        async with await anyio.open_process(
            command("embed.py"), stderr=subprocess.STDOUT, env=environment()
        ) as process:
            assert process.stdout is not None
            port = int(await process.stdout.receive())
            for number in (1, 2):
                wire = Wire(await anyio.connect_tcp("127.0.0.1", port))
                async with connect_agent(wire) as agent:
                    await agent.initialize()
                    session = await agent.new_session(tmp_path)
                    _, updates = await turn(session, "hello")
                    assert text_of(updates) == f"This is prompt {number}.\n"
            process.send_signal(signal.SIGINT)
            await process.wait()
            with pytest.raises(anyio.EndOfStream):
                await process.stdout.receive()
            assert process.returncode == 0


class Wire:
    """The client's end of a socket."""

    def __init__(self, socket: anyio.abc.SocketStream) -> None:
        self.socket = socket

    async def receive(self) -> bytes:
        try:
            return await self.socket.receive()
        except anyio.EndOfStream:
            return b""

    async def send(self, data: bytes) -> None:
        await self.socket.send(data)

    async def aclose(self) -> None:
        await self.socket.aclose()
