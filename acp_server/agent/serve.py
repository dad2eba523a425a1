"""Serves an agent to one client: embedded over any stream, or as a program over standard input and output.

As a program it owns what a process has: descriptors, signals, the exit code and the certainty that it ends. What the
client can ask for is the agent's matter.
"""

from __future__ import annotations

import gc
import importlib.util
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import anyio

from acp_server.agent.claim import Claim
from acp_server.agent.leave import Deadline, leave, outlast_threads
from acp_server.agent.loading import current
from acp_server.agent.log import UnblockedLog
from acp_server.agent.record import RecordedStream, Recorder
from acp_server.agent.signals import Signals
from acp_server.errors import UsageError
from acp_server.peer.connection import Connection
from acp_server.peer.limits import Limits
from acp_server.peer.stream import Stream
from acp_server.tasks.cause import Cause

if TYPE_CHECKING:
    from acp_server.agent.stdio import FdStream
    from acp_server.agent.threads import ThreadedStream

logger = logging.getLogger("acp_server.agent")

_AGAIN: Final = 2.0
"""Seconds within which a second interrupt means the program and no longer the turn."""

_LOOP_ENDS: Final = 2.0
"""Seconds that the event loop has to end after the last answer is out."""


@runtime_checkable
class Servable(Protocol):
    """What can be served; `acp_server.Agent` is one."""

    def connect(self, stream: Stream, limits: Limits | None = None) -> Connection:
        """A connection to one client, ready to `run`."""
        ...

    def interrupt(self, connection: Connection) -> bool:
        """Cut the turns of the connection with `Cause.INTERRUPT`. False if none ran."""
        ...


async def serve(agent: Servable, stream: Stream, *, limits: Limits | None = None) -> Connection:
    """Serve one client over `stream` until it is gone or the connection is closed; the closed connection.

    For programs that embed an agent: no signal, descriptor or other part of the process is touched. Cancelling it
    closes the connection within its `limits` and then propagates. Raises what `Connection.run` raises.
    """
    connection = agent.connect(stream, limits)
    await connection.run()
    return connection


async def serve_stdio(agent: Servable, *, limits: Limits | None = None, record: Path | None = None) -> int:
    """Serve one client over standard input and output, in an event loop of yours; the exit code that is due.

    Meanwhile nothing else reaches standard output (see `acp_server.agent.claim`), and signals mean: an interrupt
    cancels the running turns; without any, or a second time within 2 s, it closes the connection, as do termination and
    hang-up. All is given back at the end. `record`: a file for both directions, see `acp_server.agent.record`.

    0: the client is gone. 1: reading or writing failed. 128 + the signal's number. A handler's SystemExit has its own.
    Raises UsageError if standard input or output is closed, or `record` cannot be written.
    """
    deadline = Deadline()
    try:
        with Claim() as claim, UnblockedLog():
            return (await _Program(agent, claim, limits or Limits(), record, deadline).serve())[0]
    finally:
        deadline.disarm()


def run(
    agent: Servable,
    *,
    backend: str | None = None,
    limits: Limits | None = None,
    record: Path | None = None,
    claim: Claim | None = None,
) -> int:
    """Serve one client over standard input and output as this program's only purpose; the code to exit with.

    As `serve_stdio`, but with an event loop of its own (`backend`: `asyncio` or `trio`; None is asyncio), and standard
    output is not given back. If handlers, the loop or threads do not end, the process is ended here, for it may not
    outlive its client.

    An end by signal is an exit code (128 + its number, as a shell reports it) and no death by that signal: what the
    program runs at its end still runs, and in a container, where the first process is not killed by a signal, it is the
    same.

    In a program that is only loaded (see `acp_server.agent.loading`) nothing is served, and it raises SystemExit.
    """
    if (load := current()) is not None:
        load.stop(agent, backend=backend, limits=limits, record=record)
    backend = backend or "asyncio"
    if backend not in ("asyncio", "trio"):
        raise UsageError(f"there is no backend {backend!r}: asyncio and trio are supported")
    if backend == "trio" and importlib.util.find_spec("trio") is None:
        raise UsageError("the backend trio is not installed: pip install 'acp-server[trio]'")
    claim = claim or Claim()
    # For good: what is logged at the very end does not wait either.
    log = UnblockedLog()
    deadline = Deadline()

    # What an interrupt means that comes before there is anything to close.
    code = 128 + signal.SIGINT

    async def main() -> None:
        nonlocal code
        code, leaked = await _Program(agent, claim, limits or Limits(), record, deadline).serve()
        claim.close()
        if leaked:
            leave(code, f"{leaked} handlers did not end")
        deadline.disarm()
        deadline.arm(_LOOP_ENDS, code, "the event loop does not end")

    # What is loaded by now stays for the life of the program, and a request leaves no circles behind. To look for
    # garbage among all that as often as the interpreter does of its own accord is a sixth of the cost of a prompt.
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    try:
        anyio.run(main, backend=backend)
    except KeyboardInterrupt:
        logger.info("interrupted")
    except UsageError:
        # Nobody was served, so standard error, which may be one pipe with the output, is for saying why.
        log.restore()
        claim.release()
        raise
    finally:
        claim.close()
        deadline.disarm()
    outlast_threads(code)
    return code


class _Program:
    """One process with one client."""

    def __init__(self, agent: Servable, claim: Claim, limits: Limits, record: Path | None, deadline: Deadline) -> None:
        stream = self._stream = _open(claim)
        self._agent = agent
        self._limits = limits
        # What the connection allows itself, twice over: beyond that it is stuck.
        self._longest_end = 2 * (limits.drain + limits.grace + limits.flush) + 2 * _LOOP_ENDS
        self._deadline = deadline
        self._connection = agent.connect(stream if record is None else RecordedStream(stream, Recorder(record)), limits)
        self._interrupted = -_AGAIN
        self._unheard = False
        self._ending: int | None = None
        self._ending_since = 0.0

    async def serve(self) -> tuple[int, int]:
        """The exit code, and how many handlers were left behind."""
        connection = self._connection
        code = 0
        try:
            async with Signals(self._heard_at_once, self._heard):
                await connection.run()
        except (OSError, anyio.BrokenResourceError) as error:
            logger.error("reading standard input failed: %s", error)
            code = 1
        except SystemExit as request:
            code = _exit_code(request)
        except KeyboardInterrupt:
            code = 128 + signal.SIGINT
        if (problem := self._stream.problem) is not None:
            logger.error("writing standard output failed: %s", problem)
            code = code or 1
        if self._ending is not None:
            code = 128 + self._ending
        return code, connection.leaked

    def _heard_at_once(self, number: int) -> None:
        # In the signal handler: if the loop is blocked, this is all that will happen.
        if self._unheard or number != signal.SIGINT:
            self._deadline.arm(self._limits.grace + _LOOP_ENDS, 128 + number, "the event loop is blocked")
        self._unheard = True

    def _heard(self, number: int) -> None:
        self._unheard = False
        self._deadline.disarm()
        now = anyio.current_time()
        if number == signal.SIGINT and self._ending is None and now - self._interrupted > _AGAIN:
            self._interrupted = now
            try:
                if self._agent.interrupt(self._connection):
                    return
            except Exception:
                logger.exception("interrupting the agent failed")
        if self._ending is None:
            self._ending = number
            self._ending_since = now
            logger.info("closing because of signal %d", number)
            self._connection.close(Cause.SHUTDOWN)
            self._deadline.arm(self._longest_end, 128 + number, "closing takes too long")
        elif now - self._ending_since > _AGAIN:
            leave(128 + self._ending, "signalled again while closing")


def _open(claim: Claim) -> FdStream | ThreadedStream:
    if sys.platform == "win32":
        from acp_server.agent.threads import ThreadedStream

        return ThreadedStream(claim.input, claim.output)
    else:
        from acp_server.agent.stdio import FdStream

        return FdStream(claim.input, claim.output)


def _exit_code(request: SystemExit) -> int:
    if request.code is None:
        return 0
    if isinstance(request.code, int):
        return request.code
    sys.stderr.write(f"{request.code}\n")
    return 1
