"""The memory of a listening server and the CPU time of a cancel, among many clients and two that hardly read.

`python -m benchmarks.load` measures a server over HTTP and one over WebSocket. It opens 1,000 idle connections. Then
200 sessions on 20 connections stream 20 updates per second each. Of two further sessions, which send as much as they
may, one is never read and one is read at a byte per second. It takes a minute.
"""

import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup, TaskStatus
from anyio.streams.buffered import BufferedByteReceiveStream

from acp_server.client import RemoteAgent, RemoteSession
from acp_server.http.listener import raise_descriptors
from acp_server.remote import connect_url

from . import clock
from .remote import SERVE, listening

IDLE = 1000
CONNECTIONS = 20
SESSIONS = 10
"""Sessions of each connection."""
CANCELS = 15
SETTLING = 5.0
"""Seconds until the streams are as full as they get, and for which the CPU time is measured."""
AGENT = """
import anyio
from acp_server import Agent, Turn

agent = Agent("loaded")


@agent.prompt
async def prompt(turn: Turn) -> None:
    while True:
        await turn.say("x" * 100)
        if turn.text == "stream":
            await anyio.sleep(0.05)
"""


class SlowProxy:
    """Passes connections on to a port. While `is_slow`, it reads `rate` bytes per second from the server on each."""

    def __init__(self, port: int, rate: int) -> None:
        self._port = port
        self._rate = rate
        self.is_slow = False

    async def handle(self, client: SocketStream) -> None:
        """Serve one connection."""
        plain = socket.socket()
        # Less than the kernel's default, so that the server's own buffers are what fills.
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        plain.connect(("127.0.0.1", self._port))
        server = await SocketStream.from_socket(plain)
        async with client, server, anyio.create_task_group() as group:
            group.start_soon(self._pass_back, server, client)
            await _until_closed(lambda: _copy(client, server))
            group.cancel_scope.cancel()

    async def _pass_back(self, server: SocketStream, client: SocketStream) -> None:
        await _until_closed(lambda: self._copy_back(server, client))
        await client.aclose()

    async def _copy_back(self, server: SocketStream, client: SocketStream) -> None:
        while True:
            if self.is_slow:
                await (anyio.sleep(1 / self._rate) if self._rate else anyio.sleep_forever())
            await client.send(await server.receive(1 if self.is_slow else 65536))


async def _copy(source: SocketStream, target: SocketStream) -> None:
    while True:
        await target.send(await source.receive())


async def _until_closed(run: Callable[[], Awaitable[None]]) -> None:
    try:
        await run()
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass


class Clients:
    """The clients of one server, whose tasks run in `group`."""

    def __init__(self, address: str, group: TaskGroup) -> None:
        self._address = address
        self._group = group

    async def connect(self, address: str = "") -> RemoteAgent:
        """A client that is initialized."""
        return await self._group.start(self._hold, address or self._address)

    async def _hold(self, address: str, *, task_status: TaskStatus[RemoteAgent]) -> None:
        async with connect_url(address) as agent:
            await agent.initialize()
            task_status.started(agent)
            await anyio.sleep_forever()

    async def stream(self, session: RemoteSession, prompt: str) -> None:
        """Prompt a session, and read its updates from here on."""
        await self._group.start(_read, session, prompt)

    async def slow_one(self, rate: int) -> None:
        """A client that reads `rate` bytes per second of a session that sends as much as it may."""
        scheme, _, rest = self._address.partition("://")
        proxy = SlowProxy(int(rest.partition(":")[2].partition("/")[0]), rate)
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self._group.start_soon(listener.serve, proxy.handle)
        port = listener.extra(SocketAttribute.local_port)
        agent = await self.connect(f"{scheme}://127.0.0.1:{port}/acp")
        await self.stream(await agent.new_session("/"), "flood")
        proxy.is_slow = True


async def _read(session: RemoteSession, prompt: str, *, task_status: TaskStatus[None]) -> None:
    async with session.prompt(prompt) as turn:
        await anext(turn)
        task_status.started()
        async for _ in turn:
            pass


async def cancels(pid: int, sessions: list[RemoteSession]) -> list[float]:
    """The CPU time of the server from a cancel to the response of its prompt, for a prompt of each session."""
    taken: list[float] = []
    for session in sessions:
        async with session.prompt("stream") as turn:
            await anext(turn)
            start = clock.cpu_seconds(pid)
            turn.cancel()
            await turn.wait()
            taken.append(clock.cpu_seconds(pid) - start)
    return taken


@dataclass
class Figures:
    """The figures of one transport: memory in bytes, CPU time in seconds."""

    idle: float
    """Memory of an idle connection."""
    peak: int
    """The most memory that the server had."""
    busy: float
    """CPU time per second while 200 sessions stream."""
    alone: list[float]
    """CPU times of cancels before anything else streams."""
    among: list[float]
    """CPU times of cancels among the sessions that stream and the clients that hardly read."""

    def row(self, name: str) -> str:
        """A row of the table."""
        alone, among = (f"{median(each) * 1e3:.1f} / {max(each) * 1e3:.1f} ms" for each in (self.alone, self.among))
        memory = f"{self.idle / 1024:.0f} KiB | {self.peak / 2**20:.0f} MiB"
        return f"| {name} | {memory} | {self.busy:.0%} | {alone} | {among} |"


async def load(address: str) -> None:
    """The other clients, in a process of their own: idle ones until it gets a line, then all until its input ends."""
    async with anyio.create_task_group() as group:
        clients = Clients(address, group)
        for _ in range(IDLE):
            await clients.connect()
        await _next_step("idle")
        for rate in (0, 1):
            await clients.slow_one(rate)
        for _ in range(CONNECTIONS):
            agent = await clients.connect()
            for _ in range(SESSIONS):
                await clients.stream(await agent.new_session("/"), "stream")
        await _next_step("busy")
        group.cancel_scope.cancel()


async def _next_step(reached: str) -> None:
    print(reached, flush=True)
    await anyio.to_thread.run_sync(sys.stdin.readline)


async def measure(pid: int, address: str) -> Figures:
    """Load one server."""
    async with connect_url(address) as agent:
        await agent.initialize()
        sessions = [await agent.new_session("/") for _ in range(CANCELS)]
        alone = await cancels(pid, sessions)
        empty = clock.resident_bytes(pid)
        async with await anyio.open_process([sys.executable, "-m", "benchmarks.load", address], stderr=None) as others:
            assert others.stdin is not None
            assert others.stdout is not None
            reached = BufferedByteReceiveStream(others.stdout)
            assert await reached.receive_until(b"\n", 100) == b"idle"
            idle = (clock.resident_bytes(pid) - empty) / IDLE
            await others.stdin.send(b"\n")
            assert await reached.receive_until(b"\n", 100) == b"busy"
            start = clock.cpu_seconds(pid)
            await anyio.sleep(SETTLING)
            busy = (clock.cpu_seconds(pid) - start) / SETTLING
            among = await cancels(pid, sessions)
            peak = clock.peak_bytes(pid)
            await others.stdin.aclose()
    return Figures(idle, peak, busy, alone, among)


def main() -> None:
    """Print the table; or be the other clients of the server at the address in the arguments."""
    raise_descriptors(16 * IDLE)
    if len(sys.argv) > 1:
        anyio.run(load, sys.argv[1])
        return
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "loaded_agent.py")
        written.write_text(AGENT)
        for name, scheme in {"HTTP": "http", "WebSocket": "ws"}.items():
            with listening([*SERVE, str(written), "--listen", "127.0.0.1:0"]) as (pid, address):
                figures = anyio.run(measure, pid, scheme + address)
            print(figures.row(name))


if __name__ == "__main__":
    main()
