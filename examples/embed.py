"""An agent inside your program: here a server on a local TCP port, with one agent for all who connect.

    python examples/embed.py [PORT]

It prints the port that it listens on. The prompts of all clients are counted together, in the program's state.
"""

import sys

import anyio
from anyio.abc import SocketAttribute, SocketStream

from acp_server import Agent, Limits, Turn, serve

agent = Agent("counter", version="1.0")
prompts = 0


@agent.prompt
async def count(turn: Turn):
    global prompts
    prompts += 1
    yield f"This is prompt {prompts}.\n"


class Wire:
    """A socket as the byte stream that `serve` wants."""

    def __init__(self, socket: SocketStream) -> None:
        self._socket = socket

    async def receive(self) -> bytes:
        try:
            return await self._socket.receive()
        except anyio.EndOfStream:
            return b""

    async def send(self, data: bytes) -> None:
        await self._socket.send(data)

    async def aclose(self) -> None:
        await self._socket.aclose()


async def welcome(socket: SocketStream) -> None:
    try:
        await serve(agent, Wire(socket), limits=Limits(grace=2.0))
    except (OSError, anyio.BrokenResourceError):
        sys.stderr.write("a client was cut off\n")


async def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port) as listener:
        print(listener.extra(SocketAttribute.local_port), flush=True)
        await listener.serve(welcome)


if __name__ == "__main__":
    try:
        anyio.run(main)
    except KeyboardInterrupt:
        pass
