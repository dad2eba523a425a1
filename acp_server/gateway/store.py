"""Where conversations, chats and messages are kept, whatever the engine: in a file, or in memory.

What was answered for is kept, whatever then becomes of the process: every change is committed before a client is told
of it.

A transaction is a function, which a thread runs from its beginning to its end. So the event loop never waits for a
disk, and a transaction costs one hop however many statements it has. No task that is cancelled leaves one open, and the
same code works on asyncio and on trio.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import anyio
from anyio import to_thread

from acp_server.gateway.rows import Rows

P = ParamSpec("P")
T = TypeVar("T")


class Unsure(Exception):
    """It is not known whether the transaction was committed: the connection was cut in that moment."""


class Engine(Protocol):
    """What runs transactions. Its methods may be called by any thread, and wait as long as a disk or a server takes."""

    at_once: int
    """How many transactions it can run at the same time."""
    shared: bool
    """Whether other gateways may use it at the same time."""

    def transact(self, work: Callable[[Rows], T]) -> T:
        """What `work` does with the rows is kept as a whole, or not at all. Raises what it raises, Unsure,
        and the engine's own errors."""
        ...

    def explained(self) -> AbstractContextManager[None]:
        """Raise UsageError for an engine that fails, with the reason."""
        ...

    def listen(self, channel: str) -> Ear:
        """Hear what transactions tell on a channel, those of other gateways as well. Only if it is `shared`."""
        ...

    def close(self) -> None:
        """No transaction from here on."""
        ...


class Ear(Protocol):
    """Hears what is told on a channel."""

    def fileno(self) -> int:
        """Can be read when something was told, or the connection is cut."""
        ...

    def hear(self) -> list[str]:
        """What was told meanwhile. Never waits. Raises the engine's error if the connection is cut."""
        ...

    def close(self) -> None:
        """Hear no more."""
        ...


class Store:
    """An engine for tasks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._places = anyio.CapacityLimiter(engine.at_once)

    async def do(self, work: Callable[Concatenate[Rows, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work`, a function of `Rows`, as one transaction. It must not touch what the event loop uses, but may put
        something into `Rows.afterwards`. Raises what it raises, and the engine's errors; then nothing has changed.

        A cancel keeps it from being begun. It does not end it: a caller always hears what has become of it.
        """

        def transact(rows: Rows) -> tuple[T, list[Callable[[], object]]]:
            return work(rows, *args, **kwargs), rows.afterwards

        value, afterwards = await to_thread.run_sync(self._engine.transact, transact, limiter=self._places)
        for each in afterwards:
            each()
        return value
