"""acpx, a client of others on the command line, drives `acp-server serve --model`."""

import asyncio
import json
import os
import pty
import shlex
import shutil
import signal
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra model is not installed: make test-integrations")

from tests.integrations import contract
from tests.integrations.model_server import HANG, ModelServer, model_server, tool_call
from tests.integrations.test_model_agent import FOREVER, WORK
from tests.interop.subjects import COMMAND, no_orphans

ACPX = Path(__file__).parent / "node" / "node_modules" / ".bin" / "acpx"

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.skipif(
        not (ACPX.exists() and shutil.which("node")), reason="acpx is not installed: make test-integrations"
    ),
]

ASKING = [tool_call("run", {"command": "true"})]


class Project:
    """A directory with a project, and what else acpx and the agent write."""

    def __init__(self, path: Path, environment: dict[str, str]) -> None:
        self.path = path / "project"
        self.path.mkdir()
        (self.path / "notes.txt").write_text("a needle\n")
        self.environment = {**os.environ, **environment, "HOME": str(path / "home")}
        self.store = path / "sessions.db"

    @asynccontextmanager
    async def acpx(
        self, server: ModelServer, *arguments: str, terminal: int = asyncio.subprocess.DEVNULL
    ) -> AsyncGenerator["Seen"]:
        """One run, at a terminal if it is to have one."""
        agent = [COMMAND, "serve", "--store", str(self.store), "--model", "openai:test", "--base-url", server.url]
        process = await asyncio.create_subprocess_exec(
            ACPX, "--cwd", str(self.path), "--format", "json", "--agent", shlex.join(agent), *arguments,
            env=self.environment, stdin=terminal, stdout=asyncio.subprocess.PIPE, stderr=terminal,
            limit=2**20,
        )  # fmt: skip
        try:
            yield Seen(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


class Seen:
    """What one run of acpx prints: the messages of both sides, one a line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.messages: list[dict[str, Any]] = []

    async def until(self, seen: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next message that is so. Raises EOFError if there is none."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self.messages.append(json.loads(line))
            if seen(self.messages[-1]):
                return self.messages[-1]
        raise EOFError(self.messages)

    async def stop_reason(self) -> str:
        """How the turn ends."""
        return (await self.until(lambda message: "stopReason" in (message.get("result") or {})))["result"]["stopReason"]

    def called(self, method: str) -> list[dict[str, Any]]:
        """The parameters of what was called so far."""
        return [message["params"] for message in self.messages if message.get("method") == method]

    def said(self) -> str:
        updates = [params["update"] for params in self.called("session/update")]
        chunks = [update for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
        return "".join(chunk["content"]["text"] for chunk in chunks)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with no_orphans() as mark:
        yield Project(tmp_path, mark)


async def closed(server: ModelServer, interrupt: Callable[[], None]) -> None:
    begun = time.monotonic()
    interrupt()
    await server.left.wait()
    assert time.monotonic() - begun < contract.CLOSED_WITHIN


async def test_it_searches_reads_edits_with_approval_and_runs_a_command(project: Project) -> None:
    async with model_server(*WORK) as server, project.acpx(server, "--approve-all", "exec", "Make it a pin.") as run:
        assert await run.stop_reason() == "end_turn"
        assert await run.process.wait() == 0
        assert run.said() == "I change it. It is done."
        asked = [params["toolCall"]["kind"] for params in run.called("session/request_permission")]
        assert asked == ["edit", "execute"]
        assert run.called("fs/write_text_file")
        assert run.called("terminal/release")
    assert (project.path / "notes.txt").read_text() == "a pin\n"


async def test_what_its_user_does_not_approve_is_not_done(project: Project) -> None:
    async with model_server(*WORK[2:]) as server, project.acpx(server, "--deny-all", "exec", "Make it a pin.") as run:
        assert await run.stop_reason() == "end_turn"
    assert (project.path / "notes.txt").read_text() == "a needle\n"


@pytest.mark.parametrize("reply", [[HANG], ["Because ", HANG]])
async def test_an_interrupt_while_the_model_speaks_closes_its_connection(project: Project, reply: list[Any]) -> None:
    async with model_server(reply) as server, project.acpx(server, "exec", "Why?") as run:
        await server.hanging.wait()
        if len(reply) > 1:
            await run.until(lambda message: "Because " in str(message))
        await closed(server, lambda: run.process.send_signal(signal.SIGINT))
        assert await run.stop_reason() == "cancelled"


async def test_an_interrupt_in_a_running_command_ends_it(project: Project) -> None:
    async with (
        model_server([tool_call("run", {"command": FOREVER})]) as server,
        project.acpx(server, "--approve-all", "exec", "Wait.") as run,
    ):
        await run.until(lambda message: message.get("method") == "terminal/wait_for_exit")
        run.process.send_signal(signal.SIGINT)
        assert await run.stop_reason() == "cancelled"
        assert len(run.called("terminal/kill")) == 1


def asked(screen: int) -> None:
    """Read what is on the screen until the question is."""
    shown = b""
    while b"[permission]" not in shown:
        shown += os.read(screen, 4096)


async def test_an_interrupt_while_its_user_is_asked_ends_the_turn(project: Project) -> None:
    # It asks only on a terminal.
    screen, terminal = pty.openpty()
    try:
        async with model_server(ASKING) as server, project.acpx(server, "exec", "Do it.", terminal=terminal) as run:
            await run.until(lambda message: message.get("method") == "session/request_permission")
            await asyncio.to_thread(asked, screen)
            run.process.send_signal(signal.SIGINT)
            assert await run.stop_reason() == "cancelled"
            assert len(run.called("$/cancel_request")) == 1
    finally:
        os.close(screen)
        os.close(terminal)


@asynccontextmanager
async def session(project: Project, server: ModelServer) -> AsyncGenerator[None]:
    """A session of acpx, with the process in the background that holds it."""
    async with project.acpx(server, "sessions", "new") as run:
        assert await run.process.wait() == 0
    yield
    async with project.acpx(server, "sessions", "close") as run:
        assert await run.process.wait() == 0


async def test_a_session_is_cancelled_from_another_process_and_goes_on(project: Project) -> None:
    async with model_server(["One."], ["Because ", HANG], ["Fine."]) as server, session(project, server):
        async with project.acpx(server, "--ttl", "1", "prompt", "First.") as run:
            assert await run.stop_reason() == "end_turn"
        async with project.acpx(server, "--ttl", "1", "prompt", "Why?") as run:
            await server.hanging.wait()
            async with project.acpx(server, "cancel") as cancel:
                assert await cancel.process.wait() == 0
            await server.left.wait()
            assert await run.stop_reason() == "cancelled"
        async with project.acpx(server, "--ttl", "1", "prompt", "And now?") as run:
            assert await run.stop_reason() == "end_turn"
            assert run.said() == "Fine."
        told = [said for said in server.said_to(2) if said[0] != "system"]
        assert told == [("user", "First."), ("assistant", "One."), ("user", "And now?")]
