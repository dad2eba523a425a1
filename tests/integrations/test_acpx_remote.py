"""acpx, a client of others on the command line, uses an agent on another machine by `acp-server connect`."""

import asyncio
import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.interop.subjects import COMMAND
from tests.interop.typescript import NODE

ACPX = Path(__file__).parent / "node" / "node_modules" / ".bin" / "acpx"

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.skipif(
        not (ACPX.exists() and shutil.which("node")), reason="acpx is not installed: make test-integrations"
    ),
]


@pytest.fixture(params=["http", "ws"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where an agent on the official TypeScript SDK is served."""
    command = ["node", str(NODE / "remote_server.js")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"{request.param}://127.0.0.1:{int(server.stdout.readline())}/acp"
        server.communicate("")


@asynccontextmanager
async def asking(url: str, folder: Path, prompt: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    agent = shlex.join([str(COMMAND), "connect", url])
    process = await asyncio.create_subprocess_exec(
        ACPX, "--cwd", str(folder), "--format", "json", "--approve-all", "--agent", agent, "exec", prompt,
        env={**os.environ, "HOME": str(folder)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, limit=2**20,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def messages(process: asyncio.subprocess.Process) -> list[dict[str, Any]]:
    assert process.stdout is not None
    return [json.loads(line) for line in (await process.stdout.read()).splitlines()]


def said(messages: list[dict[str, Any]]) -> str:
    updates = [each["params"]["update"] for each in messages if each.get("method") == "session/update"]
    return "".join(update["content"]["text"] for update in updates)


async def test_it_streams_asks_and_reads(url: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a needle\n")
    for prompt, expected in [("stream 3", "0 1 2 "), ("ask", "yes"), (f"read {tmp_path / 'notes.txt'}", "a needle\n")]:
        async with asking(url, tmp_path, prompt) as process:
            seen = await messages(process)
            assert said(seen) == expected
            assert seen[-1]["result"] == {"stopReason": "end_turn"}
            assert await process.wait() == 0


async def test_an_interrupt_cancels_the_turn(url: str, tmp_path: Path) -> None:
    async with asking(url, tmp_path, "hang") as process:
        assert process.stdout is not None
        while b"begun " not in await process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert (await messages(process))[-1]["result"] == {"stopReason": "cancelled"}
