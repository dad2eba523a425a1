"""The CPU time of a prompt and of an update in servers over HTTP and WebSocket, beside standard input and output.

`python -m benchmarks.remote`: our agent and the servers of the official SDKs, each in a process of its own, and one
client of ours in this process. The rounds are interleaved. It needs `npm ci` in `tests/interop/node`.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import anyio

from acp_server.client import RemoteAgent, RemoteSession, spawn_agent
from acp_server.remote import connect_url

from . import clock

ROUNDS = 5
PROMPTS = 200
UPDATES = 2000
SERVE = [sys.executable, "-m", "acp_server", "serve"]
INTEROP = Path(__file__).parents[1] / "tests" / "interop"
AGENT = """
from acp_server import Agent, Turn
from acp_server.schema import AgentMessageChunk, TextContent

agent = Agent("measured")


@agent.prompt
async def prompt(turn: Turn) -> None:
    for number in range(int(turn.text.split()[1])):
        await turn.update(AgentMessageChunk(content=TextContent(text=f"{number} ")))
"""


@dataclass
class Subject:
    """A server in the process `pid`, and its costs in seconds of CPU time, one for each round."""

    name: str
    pid: int
    session: RemoteSession
    prompts: list[float] = field(default_factory=list[float])
    updates: list[float] = field(default_factory=list[float])

    async def measure(self) -> None:
        """One round."""
        start = clock.cpu_seconds(self.pid)
        for _ in range(PROMPTS):
            await self.session.ask("stream 0")
        self.prompts.append((clock.cpu_seconds(self.pid) - start) / PROMPTS)
        start = clock.cpu_seconds(self.pid)
        await self.session.ask(f"stream {UPDATES}")
        self.updates.append((clock.cpu_seconds(self.pid) - start) / UPDATES)


@contextmanager
def listening(command: Sequence[str]) -> Generator[tuple[int, str]]:
    """A server that writes its port or its address: its process, and its address without the scheme."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        found = re.search(r"(\d+)(?:/acp)?$", process.stdout.readline().strip())
        assert found is not None
        yield process.pid, f"://127.0.0.1:{found[1]}/acp"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stdin.close()


async def subject(stack: AsyncExitStack, name: str, opening: RemoteAgent, pid: int | None = None) -> Subject:
    """The server of `opening`, with a session that has had its first prompt."""
    agent = await stack.enter_async_context(opening)
    await agent.initialize()
    session = await agent.new_session("/")
    await session.ask("stream 10")
    if pid is None:
        assert agent.process is not None
        pid = agent.process.pid
    return Subject(name, pid, session)


async def main(file: Path) -> None:
    """Print the table."""
    servers = {
        "acp-server": [*SERVE, str(file), "--listen", "127.0.0.1:0"],
        "TypeScript SDK": ["node", str(INTEROP / "node" / "remote_server.js")],
        "Python SDK, uvicorn": [sys.executable, str(INTEROP / "agents" / "remote_official.py"), "uvicorn"],
    }
    async with AsyncExitStack() as stack:
        subjects = [await subject(stack, "acp-server, standard input and output", spawn_agent([*SERVE, str(file)]))]
        for name, command in servers.items():
            pid, address = stack.enter_context(listening(command))
            for scheme, transport in {"ws": "WebSocket", "http": "HTTP"}.items():
                opening = connect_url(f"{scheme}{address}")
                subjects.append(await subject(stack, f"{name}, {transport}", opening, pid))
        for _ in range(ROUNDS):
            for each in subjects:
                await each.measure()
    base = subjects[0]
    for each in subjects:
        print(f"| {each.name} | {cost(each.prompts, base.prompts)} | {cost(each.updates, base.updates)} |")


def cost(samples: list[float], base: list[float]) -> str:
    """Microseconds, and the ratio to `base`: the medians over the rounds."""
    ratio = median(mine / other for mine, other in zip(samples, base, strict=True))
    return f"{median(samples) * 1e6:.0f} us ({ratio:.1f})"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "measured_agent.py")
        written.write_text(AGENT)
        anyio.run(main, written)
