"""One turn as the client sees it: the prompt, the updates in order, the answer, and the ways to end it early.

The prompt's request runs in a task of its own, so that the program may leave at any time, from any task. What the
updates mean for the session is not looked at here. What is not for the program is in `LiveTurn`, so that no help and no
completion offers it.
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
"""How long the agent may take to answer a cancelled prompt before the prompt is withdrawn, by default. An agent of ours
may clean up for all of its grace, and its answer needs time for the way."""


class RemoteTurn:
    """A turn of a session; made by `RemoteSession.prompt` and begun by `async with`.

    Iterate over it for the updates, in the order in which the agent sent them. The iteration ends when the prompt is
    answered, and raises what became of it otherwise: RpcError, ConnectionClosed, CancelUnanswered or MalformedResponse.
    The last also says that an update was too long to be read, so that no turn looks complete that is not. It raises
    UpdatesDropped in the place of updates for which there was no room, since the program took those before too slowly.
    Before the turn is begun nothing is sent, and iterating and waiting raise UsageError.

    Leaving the block before that cancels the turn and waits until the agent has confirmed it. However a turn was
    cancelled, an agent that does not answer within `RemoteAgent.cancel_timeout` has its prompt withdrawn with
    `$/cancel_request`.
    If the task itself is cancelled, by a scope or natively, the prompt is withdrawn at once and nothing is waited for.
    """

    def __init__(self, session: LiveSession, request: PromptRequest) -> None:
        self._session = session
        self.request = request
        self.cancelled = False
        """Whether `session/cancel` has been sent for it."""
        self._cancelled_at = math.inf
        self.patience = math.inf
        """Until when the agent may answer, by the clock of the event loop."""
        self.over: anyio.Event = anyio.Event()
        """Set when nothing more will come of it: it is answered, late answers included, or the session goes on without
        it."""
        self._updates = Backlog()
        self._changed: anyio.Event | None = None
        self._asking = anyio.CancelScope()
        self._asked = anyio.Event()
        # From then on there is a result or an error, and the program waits no longer.
        self._ended = anyio.Event()
        self._result: PromptResponse | None = None
        self._error: AcpError | None = None
        self._error_seen = False
        self._missing: str | None = None
        self._left = False

    @property
    def session(self) -> RemoteSession:
        """The session that it belongs to."""
        return self._session

    @property
    def result(self) -> PromptResponse:
        """The prompt's answer. Raises what became of it otherwise, and UsageError while it is not there yet."""
        if self._error is not None:
            self._error_seen = True
            raise self._error
        if self._result is None:
            raise UsageError("the turn has not been answered")
        return self._result

    @property
    def stop_reason(self) -> str:
        """Why the turn ended (ACP, Stop Reasons); raises like `result`."""
        return self.result.stop_reason

    def cancel(self) -> None:
        """Ask the agent to stop (ACP, Prompt Turn, Cancellation). Never waits; updates come until the answer does.

        Permission requests of the session that are open, or that come until then, are answered `cancelled`. No effect
        on a turn that is over, or not yet begun.
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
        """Wait for the answer, leaving the updates where they are; raises like `result`."""
        self._check_begun()
        await self._ended.wait()
        return self.result

    def __aiter__(self) -> AsyncIterator[SessionUpdate]:
        return self

    async def __anext__(self) -> SessionUpdate:
        # Before anything is taken, so that a cancel loses nothing; and so that other tasks run between many updates.
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
            # A cancel of the turn must find the prompt in front of it on the wire.
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
                # A native cancel, on asyncio, would not keep anyio from waiting.
                if error is None or not is_cancellation(error):
                    await self._ended.wait()
            finally:
                if not self._ended.is_set():
                    self._withdraw()
        elif kind is None and self._error is not None and not self._error_seen:
            raise self._error

    def _check_begun(self) -> None:
        # Nothing would ever come of it.
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
    """A turn as its session has it, as each turn is."""

    def put(self, update: SessionUpdate, params: Any) -> None:
        """An update has arrived while this turn was under way, with these parameters of its notification."""
        if not self._left and not self._ended.is_set():
            self._updates.put(update, params)
            self._signal()

    def miss(self, what: str) -> None:
        """An update has arrived that could not be read."""
        self._missing = what

    async def ask(self) -> None:
        """Send the prompt and wait for its answer, or until it is withdrawn."""
        with self._asking:
            # A prompt that was withdrawn before the agent could hear of it is not sent.
            if not self._asking.cancel_called:
                await self._ask()
        if not self._ended.is_set():
            self._end(None, CancelUnanswered(max(self._session.agent.link.time() - self._cancelled_at, 0.0)))

    def finish(self) -> None:
        """Nothing more will come of it."""
        self.over.set()

    async def _ask(self) -> None:
        # Nothing is waited for between this and the sending of the request.
        self._asked.set()
        result: PromptResponse | None = None
        failure: AcpError | None = None
        try:
            result = await self._session.agent.link.call("session/prompt", self.request, on_over=self.finish)
        except AcpError as error:
            if self.cancelled and isinstance(error, RpcError):
                # Not what the protocol wants for a cancelled turn, but what some agents answer, with any code.
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
"""What the log says of an update that means nothing."""

UNTAKEN_BYTES: Final = 64 * 1024 * 1024
"""What the updates of one turn may take that the program has not taken, as JSON."""

_OVERHEAD: Final = 200
"""Bytes that an update takes in memory beside its JSON."""


class Backlog:
    """Updates on their way to one program.

    They are kept as JSON. As models they would take ten times the memory, and the garbage collector, which looks at all
    of them again and again, would hold the event loop.
    """

    __slots__ = ("_size", "_updates", "lost")

    def __init__(self) -> None:
        # The first one is taken at once as a rule, and is not read twice.
        self._updates: deque[SessionUpdate | bytes] = deque()
        self._size = 0
        self.lost: int = 0
        """How many were dropped."""

    def put(self, update: SessionUpdate, params: Any) -> None:
        """`update` has arrived, with these parameters of its notification."""
        if not self._updates and not self.lost:
            self._updates.append(update)
            return
        kept = codec.encode(params)
        size = len(kept) + _OVERHEAD
        if self.lost or self._size + size > UNTAKEN_BYTES:
            if not self.lost:
                logger.warning("the program does not take the updates of a turn; they are dropped from here on")
            self.lost += 1
            return
        self._updates.append(kept)
        self._size += size

    def take(self) -> SessionUpdate:
        """The first one; there has to be one."""
        update = self._updates.popleft()
        if isinstance(update, bytes):
            self._size -= len(update) + _OVERHEAD
            again = read_update(codec.decode(update))
            assert again is not None
            return again
        return update

    def clear(self) -> None:
        """The program will not take them."""
        self._updates.clear()
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._updates)


def read_update(params: Any) -> SessionUpdate | None:
    """The update in the parameters of a `session/update`. None, and a line in the log, if there is none."""
    try:
        return SessionNotification.from_wire(params).update
    except ValidationError:
        pass
    # A known kind of update with something in it that this version does not understand is passed on unread.
    try:
        return UnknownSessionUpdate.from_wire(params["update"])
    except (ValidationError, LookupError, TypeError):
        logger.warning(UNREADABLE)
        return None
