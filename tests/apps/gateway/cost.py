"""What a chat costs a gateway with each store: CPU time of the gateway's process, as a ratio to the file.

`python -m tests.apps.gateway.cost 300`
"""

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx
import psutil

from .postgres import postgres
from .serving import TOKEN, NoEar, Server, serving

AT_ONCE = 10
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def _used(servers: list[Server]) -> float:
    times = [psutil.Process(server.process.pid).cpu_times() for server in servers]
    return sum(each.user + each.system for each in times)


async def _chats(servers: list[Server], number: int) -> None:
    body: dict[str, Any] = {"bot_id": "1", "user_id": "u", "stream": True}
    body["additional_messages"] = [{"role": "user", "content": "count 20", "content_type": "text"}]
    left = list(range(number))

    async def visit(http: httpx.AsyncClient) -> None:
        while left:
            place = servers[left.pop() % len(servers)].url
            said = (await http.post(f"{place}/v3/chat", json=body)).text
            assert "event:conversation.chat.completed" in said, said

    async with httpx.AsyncClient(headers=HEADERS, timeout=60) as http, anyio.create_task_group() as group:
        for _ in range(AT_ONCE):
            group.start_soon(visit, http)


def cost(folder: Path, number: int, gateways: int, *options: str) -> tuple[float, float]:
    """Seconds of CPU time of all gateways for one chat, and chats a second."""
    with ExitStack() as opened:
        servers = [opened.enter_context(serving(folder / str(each), *options, ear=NoEar())) for each in range(gateways)]
        anyio.run(_chats, servers, AT_ONCE * gateways)
        before, began = _used(servers), time.perf_counter()
        anyio.run(_chats, servers, number)
        took = time.perf_counter() - began
        return (_used(servers) - before) / number, number / took


def main() -> None:
    """Measure each store, one after another."""
    number = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as name, postgres() as database:
        folder = Path(name)
        kinds = {
            "SQLite": (1, "--store", f"{folder}/store"),
            "PostgreSQL, 1 gateway": (1, "--store", database.database()),
            "PostgreSQL, 3 gateways": (3, "--store", database.database()),
        }
        costs = {kind: cost(folder / kind, number, *given) for kind, given in kinds.items()}
    base = costs["SQLite"]
    for kind, (seconds, rate) in costs.items():
        ratios = f"{seconds / base[0]:.2f} CPU time, {rate / base[1]:.2f} throughput"
        sys.stdout.write(f"{kind:25} {seconds * 1000:6.1f} ms a chat, {rate:5.0f} a second; {ratios}\n")


if __name__ == "__main__":
    main()
