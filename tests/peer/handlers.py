"""Handlers that note what happens to them, and what their requests are answered with."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from acp_server.peer.call import Call, Route, Routes
from tests.wire.live import cancel, request, served

CANCELLED = {"code": -32800, "message": "Request cancelled"}
INTERNAL = {"code": -32603, "message": "Internal error"}


class Handlers:
    """`wait` waits until it is told to `go`, or is cancelled; `never` must not run; `quick` answers with its
    parameters."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.go = anyio.Event()

    def routes(self, **more: Route) -> Routes:
        return Routes({"wait": Route(self.wait), "never": Route(self.never), "quick": Route(self.quick), **more})

    async def wait(self, call: Call) -> Any:
        self.log.append(f"begin {call.id}")
        try:
            await self.go.wait()
        except anyio.get_cancelled_exc_class():
            self.log.append(f"cut {call.id}")
            raise
        self.log.append(f"end {call.id}")
        return call.id

    async def never(self, call: Call) -> None:
        pytest.fail(f"{call.method} ran")

    async def quick(self, call: Call) -> Any:
        self.log.append(f"quick {call.id}")
        return call.params


def raiser(*errors: BaseException, when_cut: bool = False) -> Callable[[Call], Awaitable[Any]]:
    """A handler that raises one error, or a group of several; at once, or instead of giving in to its cancel."""
    error = errors[0] if len(errors) == 1 else BaseExceptionGroup("several", errors)

    async def handle(_call: Call) -> None:
        try:
            if when_cut:
                await anyio.sleep_forever()
        finally:
            raise error

    return handle


async def answer_of(handler: Callable[[Call], Awaitable[Any]], *, peer_cancels: bool = False) -> Any:
    """What the peer gets for one request; the next one works."""
    async with served(Routes({"handle": Route(handler)})) as peer:
        peer.send(request(1, "handle"))
        if peer_cancels:
            await peer.ping()
            peer.send(cancel(1))
        answer = await peer.answer(1)
        assert await peer.ping() == []
    return answer


def logged(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    """What was logged at exactly this level."""
    return [record.getMessage() for record in caplog.records if record.levelno == level]
