"""One turn as the client sees it: the prompt, the updates in order, the response, and the ways to end it early.

The request runs in its own task, so that the program may leave the turn at any time, from any task. This module does
not interpret updates. Methods that are not for the program are in `LiveTurn`, so that neither help nor completion
offers them.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import anyio.lowlevel
from pydantic import ValidationError

from acp_server.errors import (
    AcpError,
    CancelUnanswered,
    MalformedResponse,
    RequestCancelled,
    RpcError,
    UpdatesDropped,
    UsageError,
)
from acp_server.schema import PromptRequest, PromptResponse, SessionNotification, SessionUpdate, UnknownSessionUpdate
from acp_server.tasks.cause import is_cancellation
from acp_server.tasks.grace import DEFAULT_GRACE
from acp_server.wire import codec

if TYPE_CHECKING:
    from acp_server.client.session import LiveSession, RemoteSession

logger: logging.Logger = logging.getLogger("acp_server.client")

CANCEL_SECONDS: Final = DEFAULT_GRACE + 1.0
"""By default, seconds that the agent may take to answer a cancelled prompt before the prompt is withdrawn. An agent of
this package may use its whole grace period for cleanup, and its response needs time on the wire."""


class RemoteTurn:
    """A turn of a session. `RemoteSession.prompt` returns it; enter it with `async with`.

    Iterate over the turn for its updates, in the order in which the agent sent them. The iteration ends when the prompt
    is answered. It raises RpcError, ConnectionClosed, CancelUnanswered or MalformedResponse if the prompt failed.
    MalformedResponse also means that an update was too long to be read, so that no incomplete turn looks complete.
    UpdatesDropped means that the program read too slowly and updates exceeded the buffer. Before the turn is entered,
    nothing is sent, and iterating or waiting raises UsageError.

    Leaving the block early cancels the turn and waits until the agent has confirmed that. If the agent does not answer
    within `RemoteAgent.cancel_timeout` after a cancel, the prompt is withdrawn with `$/cancel_request`. If the task
    itself is cancelled, by a scope or natively, the prompt is withdrawn at once and the block does not wait.
    """

    def __init__(self, session: LiveSession, request: PromptRequest) -> None:
        self._session = session
        self.request = request
        self.cancelled = False
        """Whether `session/cancel` has been sent for this turn."""
        self._cancelled_at = math.inf
        self.patience = math.inf
        """Until when the agent may answer, in the event loop's time."""
        self.over: anyio.Event = anyio.Event()
        """Set when the turn has ended completely: either it was answered, perhaps late, or the session continues
        without it."""
        self._updates = Backlog()
        self._changed: anyio.Event | None = None
        self._asking = anyio.CancelScope()
        self._asked = anyio.Event()
        # Set when there is a result or an error; the program waits no longer.
        self._ended = anyio.Event()
        self._result: PromptResponse | None = None
        self._error: AcpError | None = None
        self._error_seen = False
        self._missing: str | None = None
        self._left = False

    @property
    def session(self) -> RemoteSession:
        """The session of the turn."""
        return self._session

    @property
    def result(self) -> PromptResponse:
        """The response to the prompt. If the prompt failed, reading this raises its error. While there is neither a
        response nor an error, it raises UsageError."""
        if self._error is not None:
            self._error_seen = True
            raise self._error
        if self._result is None:
            raise UsageError("the turn has no response yet")
        return self._result

    @property
    def stop_reason(self) -> str:
        """Why the turn ended (ACP, Stop Reasons). Raises like `result`."""
        return self.result.stop_reason

    def cancel(self) -> None:
        """Cancel the turn (ACP, Prompt Turn, Cancellation). Never waits. Updates still arrive until the response does.

        The session's permission requests are answered `cancelled`: the open requests, and later ones until the
        response. Has no effect on a turn that has ended or was not entered.
        """
        if self._asked.is_set() and not self.cancelled and not self.over.is_set():
            self._session.send_cancel()
            self.cancelled: bool = True
            agent = self._session.agent
            self._cancelled_at = agent.link.time()
            if agent.cancel_timeout is not None:
                self._asking.deadline = self._cancelled_at + agent.cancel_timeout
                self.patience: float = self._asking.deadline

    async def wait(self) -> PromptResponse:
        """Wait for the response without reading updates. Raises like `result`."""
        self._check_begun()
        await self._ended.wait()
        return self.result

    def __aiter__(self) -> AsyncIterator[SessionUpdate]:
        return self

    async def __anext__(self) -> SessionUpdate:
        # Before an update is taken, so that a cancel loses none; and so that other tasks run between many updates.
        await anyio.lowlevel.checkpoint()
        while not self._updates:
            if self._updates.lost:
                raise UpdatesDropped(self._updates.lost)
            if self._ended.is_set():
                if self._error is not None:
                    self._error_seen = True
                    raise self._error
                raise StopAsyncIteration
            self._check_begun()
            if self._changed is None:
                self._changed = anyio.Event()
            await self._changed.wait()
        return self._updates.take()

    async def __aenter__(self) -> RemoteTurn:
        await anyio.lowlevel.checkpoint_if_cancelled()
        await self._session.begin(cast("LiveTurn", self))
        try:
            # The prompt must be on the wire before a cancel of the turn.
            await self._asked.wait()
        except BaseException:
            self._withdraw()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._left = True
        self._updates.clear()
        if not self._ended.is_set():
            self.cancel()
            try:
                # On asyncio, anyio's wait would not notice that the task is being natively cancelled.
                if error is None or not is_cancellation(error):
                    await self._ended.wait()
            finally:
                if not self._ended.is_set():
                    self._withdraw()
        elif kind is None and self._error is not None and not self._error_seen:
            raise self._error

    def _check_begun(self) -> None:
        # Without this check the caller would wait for ever.
        if not self._asked.is_set() and not self._ended.is_set():
            raise UsageError("begin the turn first: async with session.prompt(...) as turn")

    def _end(self, result: PromptResponse | None, error: AcpError | None) -> None:
        self._result, self._error = result, error
        self._ended.set()
        self._signal()

    def _withdraw(self) -> None:
        self.cancel()
        self._asking.cancel()
        if not self._asked.is_set():
            self.over.set()

    def _signal(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None


class LiveTurn(RemoteTurn):
    """The methods that the session calls. Every turn is a `LiveTurn`."""

    def put(self, update: SessionUpdate, params: Any) -> None:
        """Add an update that has arrived while this turn was running. `params`: the parameters of its notification."""
        if not self._left and not self._ended.is_set():
            self._updates.put(update, params)
            self._signal()

    def miss(self, what: str) -> None:
        """Record that an update could not be read. `what` describes the update."""
        self._missing = what

    async def ask(self) -> None:
        """Send the prompt and wait until it is answered or withdrawn."""
        with self._asking:
            # A prompt that was withdrawn before it was sent is not sent.
            if not self._asking.cancel_called:
                await self._ask()
        if not self._ended.is_set():
            self._end(None, CancelUnanswered(max(self._session.agent.link.time() - self._cancelled_at, 0.0)))

    def finish(self) -> None:
        """Record that nothing more will arrive for this turn."""
        self.over.set()

    async def _ask(self) -> None:
        # There is no await between this and the sending of the request.
        self._asked.set()
        result: PromptResponse | None = None
        failure: AcpError | None = None
        try:
            result = await self._session.agent.link.call("session/prompt", self.request, on_over=self.finish)
        except AcpError as error:
            if self.cancelled and isinstance(error, RpcError):
                # The protocol requires a result for a cancelled turn, but some agents answer with an error of any code.
                if not isinstance(error, RequestCancelled):
                    logger.info("a cancelled session/prompt was answered with an error: %s", error)
                result = PromptResponse(stop_reason="cancelled")
            else:
                failure = error
        if self._missing is not None and failure is None and not self.cancelled:
            result, failure = None, MalformedResponse("session/prompt", f"{self._missing} came before it")
        self._end(result, failure)
        self.finish()


UNREADABLE: Final = "dropped a session/update that has no session or no kind of update"
"""The log message for an update that cannot be routed."""

UNTAKEN_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of JSON of one turn's updates that the program has not read."""

_OVERHEAD: Final = 200
"""The bytes of memory that a buffered update takes besides its JSON."""


class Backlog:
    """Buffers updates until the program reads them.

    Updates are kept as JSON. As models they would take ten times the memory. The garbage collector would visit all of
    them again and again, and block the event loop.
    """

    __slots__ = ("_size", "_updates", "lost")

    def __init__(self) -> None:
        # The first update is usually read at once, so it stays a model and is not parsed twice.
        self._updates: deque[SessionUpdate | bytes] = deque()
        self._size = 0
        self.lost: int = 0
        """The number of dropped updates."""

    def put(self, update: SessionUpdate, params: Any) -> None:
        """Add an update. `params`: the parameters of its notification."""
        if not self._updates and not self.lost:
            self._updates.append(update)
            return
        kept = codec.encode(params)
        size = len(kept) + _OVERHEAD
        if self.lost or self._size + size > UNTAKEN_BYTES:
            if not self.lost:
                logger.warning("the program does not read the updates of a turn; further updates are dropped")
            self.lost += 1
            return
        self._updates.append(kept)
        self._size += size

    def take(self) -> SessionUpdate:
        """Remove and return the first update. The buffer must not be empty."""
        update = self._updates.popleft()
        if isinstance(update, bytes):
            self._size -= len(update) + _OVERHEAD
            again = read_update(codec.decode(update))
            assert again is not None
            return again
        return update

    def clear(self) -> None:
        """Drop all updates, because the program will not read them."""
        self._updates.clear()
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._updates)


def read_update(params: Any) -> SessionUpdate | None:
    """Return the update in the parameters of a `session/update`. If they hold no update, log that and return None."""
    try:
        return SessionNotification.from_wire(params).update
    except ValidationError:
        pass
    # A known kind of update with members that this version does not understand is passed on as unknown.
    try:
        return UnknownSessionUpdate.from_wire(params["update"])
    except (ValidationError, LookupError, TypeError):
        logger.warning(UNREADABLE)
        return None
