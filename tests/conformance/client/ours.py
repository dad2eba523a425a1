"""A small client on `acp_server.client`: one prompt, with files and terminals, and a user at standard input."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator

import anyio
import anyio.to_thread

from acp_server.client import Handlers, LocalFiles, LocalTerminals, RemoteSession, spawn_agent
from acp_server.errors import AcpError
from acp_server.schema import Implementation, PermissionOption, RequestPermissionRequest

# A text stream may lose a line if two threads read from it at once.
reading = anyio.Lock()


async def ask(request: RequestPermissionRequest) -> PermissionOption | None:
    async with reading:
        line = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    return request.options[int(line) - 1] if line.strip() else await anyio.sleep_forever()


async def prompt(session: RemoteSession, signals: AsyncIterator[signal.Signals]) -> None:
    """One turn, which a signal of the user stops."""
    async with session.prompt("hello") as turn, anyio.create_task_group() as group:

        async def stop() -> None:
            async for _ in signals:
                turn.cancel()

        group.start_soon(stop)
        await turn.wait()
        group.cancel_scope.cancel()


async def main(command: list[str]) -> None:
    again, resumes, version = "--again" in command, "--resume" in command, 2 if "--protocol-2" in command else 1
    command = [word for word in command if word not in ("--again", "--resume", "--protocol-2")]
    handlers = Handlers(permission=ask, files=LocalFiles([os.getcwd()]), terminals=LocalTerminals())
    async with spawn_agent(command, handlers) as agent:
        await agent.initialize(client_info=Implementation(name="ours", version="1.0"), version=version)
        opening = agent.load_session("earlier", os.getcwd()) if resumes else agent.new_session(os.getcwd())
        session = await opening
        with anyio.open_signal_receiver(signal.SIGINT) as signals:
            if again:
                try:
                    await prompt(session, signals)
                except* AcpError as errors:
                    sys.stderr.write(f"{errors.exceptions}\n")
                await anyio.to_thread.run_sync(sys.stdin.readline)
            await prompt(session, signals)


if __name__ == "__main__":
    try:
        anyio.run(main, sys.argv[2:], backend=sys.argv[1])
    except* AcpError as errors:
        sys.stderr.write(f"{errors.exceptions}\n")
        os._exit(1)
    # A thread may still read a line that nobody types.
    os._exit(0)
