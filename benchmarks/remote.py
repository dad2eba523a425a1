"""The cost of a prompt and an update over HTTP and WebSocket, compared with standard input and output.

`python -m benchmarks.remote`: an agent in a separate process, our client in this one, the best of several rounds.
"""

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio

from acp_server.client import RemoteAgent, spawn_agent
from acp_server.remote import connect_url

ROUNDS = 5
PROMPTS = 300
UPDATES = 5000
SERVE = [sys.executable, "-m", "acp_server", "serve"]
AGENT = """
from acp_server import Agent, Turn
from acp_server.schema import AgentMessageChunk, TextContent

agent = Agent("measured")


@agent.prompt
async def prompt(turn: Turn) -> None:
    for number in range(int(turn.text)):
        await turn.update(AgentMessageChunk(content=TextContent(text=f"{number} ")))
"""


@contextmanager
def listening(file: Path) -> Generator[str]:
    """The agent behind our own server: its address without the scheme."""
    command = [*SERVE, str(file), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        found = re.search(r"Listening on http(.*)", process.stderr.readline())
        assert found is not None
        yield found[1]
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


async def measure(agent: RemoteAgent) -> tuple[float, float]:
    """Seconds of a prompt without updates, and of an update."""
    await agent.initialize()
    session = await agent.new_session("/")
    await session.ask("10")
    prompts: list[float] = []
    updates: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(PROMPTS):
            await session.ask("0")
        prompts.append((time.perf_counter() - start) / PROMPTS)
        start = time.perf_counter()
        await session.ask(str(UPDATES))
        updates.append((time.perf_counter() - start) / UPDATES)
    return min(prompts), min(updates)


async def main(file: Path) -> None:
    """Print the table."""
    with listening(file) as address:
        agents = {
            "standard input and output": spawn_agent([*SERVE, str(file)]),
            "WebSocket": connect_url(f"ws{address}"),
            "HTTP": connect_url(f"http{address}"),
        }
        base: tuple[float, float] | None = None
        for name, opening in agents.items():
            async with opening as agent:
                found = await measure(agent)
            base = base or found
            pairs = zip(found, base, strict=True)
            prompt, update = (f"{each * 1e6:.0f} us ({each / of:.1f})" for each, of in pairs)
            print(f"| {name} | {prompt} | {update} |")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "measured_agent.py")
        written.write_text(AGENT)
        anyio.run(main, written)
