"""Serves an agent to one client: embedded over any stream, or as a program over standard input and output.

For a program it manages the process: descriptors, signals, the exit code and the deadline of the shutdown. The agent
defines the methods for the client.
"""

from __future__ import annotations

import atexit
import gc
import importlib.util
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, cast, runtime_checkable

import anyio
import sniffio

from acp_server.agent.ending import Children, Deadline, Ending, exit_now, outlast
from acp_server.agent.log import UnblockedLog
from acp_server.agent.loop_watch import LoopWatch, is_hung_up
from acp_server.agent.process import StandardIO
from acp_server.agent.signals import Signals, own_signals
from acp_server.agent.values import limits_of
from acp_server.errors import UsageError
from acp_server.peer.connection import Connection
from acp_server.peer.limits import Limits
from acp_server.peer.stream import Stream
from acp_server.tasks.cause import Cause
from acp_server.tasks.grace import grace
from acp_server.tasks.running import Spawner
from acp_server.tasks.tree import Node

if TYPE_CHECKING:
    from pathlib import Path

logger: logging.Logger = logging.getLogger("acp_server.agent")


Wrap: TypeAlias = "Callable[[Stream], Stream]"
"""A function that makes another stream from a stream."""


@runtime_checkable
class Servable(Protocol):
    """An agent that can be served, such as `acp_server.Agent`."""

    def connect(self, stream: Stream, limits: Limits | None = None) -> Connection:
        """Return a connection to one client, ready to `run`."""
        ...

    def interrupt(self, connection: Connection) -> bool:
        """Cancel the turns of the connection with `Cause.INTERRUPT`. Returns False if no turn ran."""
        ...


async def serve(agent: Servable, stream: Stream, *, limits: Limits | None = None) -> Connection:
    """Serve one client over `stream` until it disconnects or the connection is closed. Returns the closed connection.

    Use it in a program that embeds an agent: it changes no signal handler, descriptor or other part of the process. A
    cancel closes the connection within `limits` and then propagates. Raises the exceptions of `Connection.run`.
    """
    connection = agent.connect(stream, limits)
    await connection.run()
    return connection


async def serve_stdio(
    agent: Servable, *, limits: Limits | None = None, record: Path | None = None, wrap: Wrap | None = None
) -> int:
    """Serve one client over standard input and output, in your event loop. Returns the exit code for the program.

    While the agent is served, nothing else is written to standard output (see `acp_server.agent.process`), and signals
    are handled. An interrupt cancels the running turns. If no turn runs, or at a second interrupt within 2 s, the
    connection is closed. Termination and hang-up close it too. Standard output and signal handlers are restored at the
    end.

    `record`: a file that receives both directions, see `acp_server.agent.record`. `wrap`: a function that wraps the
    connection's stream, to observe or change its bytes.

    Exit codes: 0 if the client disconnected, 1 if reading or writing failed, 128 + the signal's number, or the code of
    a handler's SystemExit. Raises UsageError if standard input or output is closed, or `record` cannot be written. In a
    program that is only loaded (see `capture_run`), nothing is served and SystemExit is raised.
    """
    limits = limits_of(limits)
    if (load := _captured.get()) is not None:
        backend = sniffio.current_async_library()
        load.stop(agent, backend=backend, limits=limits, record=record, wrap=wrap)
    ending = Ending(limits)
    signals = Signals(ending.alarm)
    with StandardIO() as standard_io, UnblockedLog():
        say_if_terminal(standard_io.input)
        signals.take()
        try:
            return (await _Program(agent, standard_io, limits, record, wrap, ending).serve(signals))[0]
        finally:
            signals.release()
            ending.stop()


def run(
    agent: Servable,
    *,
    backend: str | None = None,
    loop: str | None = None,
    limits: Limits | None = None,
    record: Path | None = None,
    wrap: Wrap | None = None,
    standard_io: StandardIO | None = None,
) -> int:
    """Serve one client over standard input and output as this program's only purpose. Returns the exit code.

    Like `serve_stdio`, but in a new event loop, and standard output and signals are not restored. `backend` is
    `asyncio` (the default) or `trio`; `loop="uvloop"` replaces asyncio's event loop. If handlers, the loop or threads
    do not end, the process is ended here, because it must not outlive its client. Its child processes end with it (see
    `acp_server.agent.ending`).

    After a signal the process exits with the code 128 + the signal's number, as a shell reports it. It is not killed by
    the signal, so the program's exit handlers still run. In a container, where a signal does not kill the first
    process, the exit code is the same.
    """
    limits = None if limits is None else limits_of(limits)
    if (load := _captured.get()) is not None:
        load.stop(agent, backend=backend, loop=loop, limits=limits, record=record, wrap=wrap)
    backend = backend or "asyncio"
    _check_loop(backend, loop)
    _check_no_loop()
    standard_io = standard_io or StandardIO()
    say_if_terminal(standard_io.input)
    # Not restored, so that entries at the very end do not block either.
    log = UnblockedLog()
    limits = limits or Limits()
    children = Children()
    ending = Ending(limits, children.look)
    signals = Signals(ending.alarm)
    code = 1

    async def main() -> None:
        nonlocal code
        code, leaked = await _Program(agent, standard_io, limits, record, wrap, ending).serve(signals)
        standard_io.close()
        if leaked:
            exit_now(code, f"{leaked} handlers did not end")
        ending.served(code)

    # Modules stay loaded for the life of the program, and a request leaves no reference cycles. Garbage collection
    # among all these objects at the interpreter's default rate is a sixth of the cost of a prompt. The middle
    # generation is collected often: each collection then blocks the loop for 10 ms, and not for 70.
    gc.freeze()
    gc.set_threshold(10_000, 4, 250)
    children.end_with_us()
    own_signals()
    # Before the loop exists, so that the loop does not take the interrupt, and has no handler to restore.
    signals.take()
    atexit.register(signals.ignore)
    try:
        anyio.run(main, backend=backend, backend_options=None if loop is None else {"use_uvloop": True})
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except BaseException as error:
        signals.release()
        # No client is served any more, so standard error, which may be the same pipe as the output, is free for the
        # error.
        if isinstance(error, UsageError):
            log.restore()
            standard_io.release()
        else:
            standard_io.restore_stderr()
        raise
    finally:
        standard_io.close()
        ending.through(code)
    outlast(code)
    return code


def say_if_terminal(descriptor: int) -> None:
    """Tell a user who started the agent in a shell what is going on, since nothing else would be printed."""
    if os.isatty(descriptor):
        sys.stderr.write("Serving on this terminal: type JSON-RPC, or leave with Ctrl-D and try `acp-server chat`.\n")


def _check_loop(backend: str, loop: str | None) -> None:
    if backend not in ("asyncio", "trio"):
        raise UsageError(f"there is no backend {backend!r}; use 'asyncio' or 'trio'")
    if loop not in (None, "uvloop"):
        raise UsageError(
            f"there is no event loop {loop!r}; name 'uvloop', or leave the option out for the default loop"
        )
    if loop is not None and backend == "trio":
        raise UsageError("uvloop works only with the backend asyncio, not with trio")
    for name in (backend, loop):
        if name in ("trio", "uvloop") and importlib.util.find_spec(name) is None:
            raise UsageError(f"{name} is not installed: pip install 'acp-server[{name}]'")


def _check_no_loop() -> None:
    try:
        sniffio.current_async_library()
    except sniffio.AsyncLibraryNotFoundError:
        return
    instead = "await serve_stdio(agent), or serve(agent, stream)"
    raise UsageError(f"agent.run() starts an event loop, but an event loop is already running; use {instead} instead")


class _Program:
    """One process with one client."""

    def __init__(
        self,
        agent: Servable,
        standard_io: StandardIO,
        limits: Limits,
        record: Path | None,
        wrap: Wrap | None,
        ending: Ending,
    ) -> None:
        self._stream = standard_io.stream()
        stream = self._stream if wrap is None else wrap(self._stream)
        self._input = standard_io.input
        self._agent = agent
        self._ending = ending
        self._connection = agent.connect(stream if record is None else _recorded(stream, record), limits)
        self._connection.tree.on_cancel = self._was_cancelled
        self._signal: int | None = None

    async def serve(self, signals: Signals) -> tuple[int, int]:
        """The exit code, and the number of leaked handlers."""
        connection = self._connection
        code = 0
        deadline = Deadline()
        # The deadline of a shutdown that the blocked loop does not know of.
        watch = LoopWatch(lambda: is_hung_up(self._input), lambda: self._ending.outside(deadline))
        try:
            watch.start()
            async with self._watching(signals):
                await connection.run()
        except (OSError, anyio.BrokenResourceError) as error:
            logger.error("reading standard input failed: %s", error)
            code = 1
        except SystemExit as request:
            code = _exit_code(request)
        except KeyboardInterrupt:
            code = 128 + signal.SIGINT
        finally:
            watch.stop()
            deadline.disarm()
        if (problem := self._stream.problem) is not None:
            logger.error("writing standard output failed: %s", problem)
            code = code or 1
        if self._signal is not None:
            code = 128 + self._signal
        return code, connection.leaked

    @asynccontextmanager
    async def _watching(self, signals: Signals) -> AsyncGenerator[None]:
        """Meanwhile, handle signals, and notice that the client no longer reads."""
        scope = anyio.CancelScope()
        watchers = Spawner(
            lambda error: logger.error(
                "the task that watches for signals and a closed standard output failed", exc_info=error
            )
        )

        async def watch() -> None:
            with scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(signals.deliver, self._heard)
                    await self._stream.unread()
                    logger.info("the client has closed its end of standard output")
                    self._connection.close(Cause.CLOSED)

        watchers.spawn(watch)
        try:
            yield
        finally:
            scope.cancel()
            with grace(1):
                await watchers.wait_idle()

    def _was_cancelled(self, root: Node) -> None:
        self._ending.begin(0 if root.cause is Cause.CLOSED else 1)

    def _heard(self, number: int) -> None:
        self._ending.heard()
        if self._signal is None and not self._ending.is_wanted:
            try:
                if self._agent.interrupt(self._connection):
                    return
            except Exception:
                logger.exception("the agent's interrupt() failed; closing the connection")
        if self._signal is None:
            self._signal = number
            logger.info("closing the connection because of signal %d", number)
            self._ending.signalled(128 + number)
            self._connection.close(Cause.SHUTDOWN)


def _recorded(stream: Stream, record: Path) -> Stream:
    from acp_server.agent.record import RecordedStream, Recorder

    return RecordedStream(stream, Recorder(record))


def _exit_code(request: SystemExit) -> int:
    if request.code is None:
        return 0
    if isinstance(request.code, int):
        return request.code
    sys.stderr.write(f"{request.code}\n")
    return 1


@dataclass(slots=True)
class CapturedRun:
    """The agent that a program would have served, and its options. `acp-server serve` and other programs that load it
    serve the agent themselves."""

    agent: Servable | None = None
    """The first agent that it called `run` for; None if it called it for none."""
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """`backend`, `loop`, `limits`, `record` and `wrap`, as far as it passed them."""

    def stop(self, agent: Servable, **options: Any) -> NoReturn:
        """Record the agent, and end the program here: when it serves, nothing after `run` is executed either."""
        if self.agent is None:
            self.agent = agent
            self.options = {name: value for name, value in options.items() if value is not None}
        raise _Stop(0)

    def is_stop(self, error: BaseException) -> bool:
        """Whether the program was ended by `stop`, also if it wrapped or replaced the exception."""
        if isinstance(error, BaseExceptionGroup):
            # A task group in which it served.
            return any(map(self.is_stop, cast("BaseExceptionGroup[BaseException]", error).exceptions))
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, _Stop):
            cause = cause.__context__
        return cause is not None and isinstance(error, SystemExit)


class _Stop(SystemExit):
    pass


_captured: ContextVar[CapturedRun | None] = ContextVar("acp_server captured run", default=None)


@contextmanager
def capture_run() -> Generator[CapturedRun]:
    """A block that loads a program."""
    token = _captured.set(noted := CapturedRun())
    try:
        yield noted
    finally:
        _captured.reset(token)
