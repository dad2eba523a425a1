"""Runs a server in its own event loop until a signal. After the signal, the process ends within a deadline.

A program with one client on standard input and output uses `acp_server.agent.serve.run` instead.
"""

from __future__ import annotations

import atexit
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio

from acp_server.agent.ending import Children, Ending, outlast
from acp_server.agent.signals import Signals, own_signals
from acp_server.peer.limits import Limits

logger: logging.Logger = logging.getLogger("acp_server.agent")


def run_until_signal(
    serve: Callable[[], Awaitable[object]],
    end: Callable[[], Coroutine[Any, Any, None]],
    hurry: Callable[[], object],
    *,
    backend: str | None = None,
    loop: str | None = None,
    limits: Limits | None = None,
) -> int:
    """Run `serve` as this program's only purpose. The first signal starts `end` while `serve` still runs; `end` must
    make `serve` return. The next signal calls `hurry`. Returns the exit code: 128 + the number of the first signal, or
    0.

    If the loop, the handlers or their threads do not end, the process exits with that code after twice the seconds of
    `limits.closing` and 4 s. A signal that comes more than 2 s after the first makes the process exit at once. Child
    processes end with the process. For `backend` and `loop` see `acp_server.agent.serve.run`.
    """
    children = Children()
    ending = Ending(limits or Limits(), children.look)
    signals = Signals(ending.alarm)
    code = 0

    async def main() -> None:
        async with anyio.create_task_group() as group:

            def act(number: int) -> None:
                nonlocal code
                ending.heard()
                if code:
                    hurry()
                    return
                code = 128 + number
                logger.info("ending the program because of signal %d", number)
                ending.signalled(code)
                group.start_soon(end)

            group.start_soon(signals.deliver, act)
            await serve()
            group.cancel_scope.cancel()
        ending.served(code)

    children.end_with_us()
    own_signals()
    # Before the loop exists, so that the loop does not take the interrupt.
    signals.take()
    atexit.register(signals.ignore)
    try:
        anyio.run(main, backend=backend or "asyncio", backend_options=None if loop is None else {"use_uvloop": True})
    except KeyboardInterrupt:
        # A handler raised it.
        code = code or 128 + signal.SIGINT
    finally:
        ending.through(code)
    outlast(code)
    return code
