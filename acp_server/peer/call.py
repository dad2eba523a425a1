"""An incoming request while it is in flight (`Call`, for the runtime `LiveCall`), and the table of methods of a
connection (`Routes`).

A handler returns or raises, and `acp_server.peer.outcome` decides on the response. The routes come from the modules
that know the protocol (`acp_server.session`, `acp_server.client`) and from authors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, cast

from acp_server.errors import InternalError, MethodNotFound, RpcError
from acp_server.peer.answer import Answer
from acp_server.peer.observer import Span
from acp_server.peer.peer import Peer
from acp_server.tasks.cause import Cause
from acp_server.tasks.grace import SupervisedWork
from acp_server.tasks.tree import NOTHING, Node
from acp_server.wire.messages import Notification, Params, Request, RequestId


class Follower:
    """Callbacks in the life of one request. The reader creates it by the route's `register`, or the handler creates it.
    Its methods must not wait or raise."""

    __slots__ = ()

    def partial(self) -> Any:
        """Return the partial result, or `NOTHING` for the result that the handler has offered."""
        return NOTHING

    def answered(self) -> None:
        """Called when the response is buffered. A message that is sent here comes right after the response."""

    def left(self) -> None:
        """Called when the request is answered and its handler has ended or never began. That may be long after the
        response, if the handler ignored its cancel."""


Handler: TypeAlias = "Callable[[LiveCall], Awaitable[Any]]"
"""Handles one request, with its parameters in `call.params`. Its return value is the result."""


class Call(ABC):
    """One request of the peer while it is being answered.

    `connection` leads to the peer, `params` has the parameters, and `data` may hold any value of the agent's author.
    """

    __slots__ = ()

    connection: Peer
    """The connection of the request."""
    params: dict[str, Any]
    """The named parameters, `_meta` included; empty without parameters, and for positional ones."""
    data: Any
    """A value that one function of the author passes to another within the request. None at first."""
    request: Request
    """The request as it was read."""
    node: Node
    """The node of the task tree in which the request is answered."""

    @property
    def id(self) -> RequestId:
        """Return the id of the request, as the peer sent it."""
        return self.request.id

    @property
    def method(self) -> str:
        """Return the method of the request."""
        return self.request.method

    @property
    def meta(self) -> dict[str, Any]:
        """Return the `_meta` of the request (ACP, Extensibility); empty if it is missing or malformed."""
        meta = self.params.get("_meta")
        return cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}

    @property
    @abstractmethod
    def answer(self) -> Answer:
        """Members to add to the result: `call.answer.meta["example.org/cost"] = 3`."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the request was cancelled."""
        return self.node.cause is not None

    @property
    def cause(self) -> Cause | None:
        """Return the cause of the cancel; None if the request was not cancelled. Only the first cause is kept."""
        return self.node.cause

    def cancel(self, cause: Cause = Cause.TIMEOUT) -> bool:
        """Cancel the request from outside of its handler, in any thread. A watchdog may do that, or code that saw a
        file disappear. Returns False if the handler has ended, or the request was cancelled before.

        The handler is cancelled in the same way as by the peer. Unless the user asked for the cancel
        (`Cause.asked_for`), the response is -32800 (ACP, Cancellation: internal cancellation).
        """
        return self.connection.cancel(self.node, cause)

    @abstractmethod
    def partial(self, result: Any) -> None:
        """Offer `result` as the response in case the peer cancels the request (ACP, Cancellation: a valid response with
        partial data). The last offer counts. Without an offer the response is -32800."""

    async def request_peer(
        self,
        method: str,
        params: Any = None,
        *,
        timeout: float | None = None,
        on_late: Callable[[Any], None] | None = None,
    ) -> Any:
        """See `Connection.request`."""
        return await self.connection.request(method, params, timeout=timeout, on_late=on_late)

    def notify_peer(self, method: str, params: Any = None) -> None:
        """See `Connection.notify`."""
        self.connection.notify(method, params)


class Answering(Protocol):
    """The owner of calls, see `acp_server.peer.inbound`."""

    def give_up(self, call: LiveCall) -> None:
        """See `LiveCall.give_up`."""
        ...


class LiveCall(SupervisedWork, Call):
    """The runtime's side of a call. Every call is a LiveCall."""

    __slots__ = (
        "_answering",
        "_partial",
        "added",
        "connection",
        "data",
        "follower",
        "handler",
        "is_answered",
        "params",
        "request",
        "span",
        "urgent",
    )

    def __init__(
        self, connection: Peer, request: Request, handler: Handler, urgent: bool, node: Node, answering: Answering
    ) -> None:
        super().__init__(node, connection.watchdog)
        self.connection: Peer = connection
        self.request: Request = request
        params = request.params
        self.params: dict[str, Any] = params if type(params) is dict else {}
        self.handler: Handler = handler
        """The function that handles it."""
        self.urgent: bool = urgent
        """See `Route`."""
        self._answering = answering
        self._partial: Any = NOTHING
        self.added: Answer | None = None
        """Members to add to its result; None while there are none."""
        self.data: Any = None
        self.is_answered: bool = False
        """Whether its response is buffered. Its handler may still clean up."""
        self.follower: Any = None
        """A `Follower`, or None. `register` also passes prepared values to the handler in it."""
        self.span: Span | None = None
        """The request for observers; None without observers."""

    def __dir__(self) -> list[str]:
        """The names for authors, as `dir(Call)`."""
        return [*Call.__annotations__, *dir(Call)]

    @property
    def answer(self) -> Answer:
        """See `Call`."""
        if self.added is None:
            self.added = Answer(self.method)
        return self.added

    def partial(self, result: Any) -> None:
        """See `Call`."""
        self._partial = result

    @property
    def offered(self) -> Any:
        """Return the partial result, or `NOTHING`."""
        offered = NOTHING if self.follower is None else self.follower.partial()
        return self._partial if offered is NOTHING else offered

    def give_up(self) -> None:
        """Respond to the cancelled request now, without waiting for its handler. A handler that has not begun never
        begins. After the response this has no effect."""
        self._answering.give_up(self)

    def was_cancelled(self, _node: Node) -> None:
        """Begin the grace period, because the request, its session or its connection was cancelled. The node calls
        this."""
        if self.task is not None:
            super().was_cancelled(_node)
        else:
            # The handler has not begun, so the response can go out at once.
            self.give_up()


def serve_follower(call: LiveCall) -> Awaitable[Any]:
    """The handler of a method whose `register` makes a follower that answers the request, in `serve`."""
    return call.follower.serve()


Register: TypeAlias = Callable[[LiveCall], None]
"""Called in the reader, in the order of arrival, before later messages are processed. It must be quick. It may set
`call.follower`, or raise an RpcError as the response."""

NoticeHandler: TypeAlias = "Callable[[Peer, Params | None], Awaitable[None] | None]"
"""Handles one notification."""


@dataclass(slots=True, frozen=True)
class Route:
    """The handler of one method, with its options."""

    handler: Handler | None = None
    register: Register | None = None
    direct: bool = False
    """Whether the handler is called directly, because it is a method of the runtime. Methods of authors go through
    jsonrpcserver, which is slow to import and to call."""
    urgent: bool = False
    """Whether the request begins at once, even above `Limits.running`, because it ends other requests."""
    foreign: Callable[..., Awaitable[Any]] | None = None
    """Replaces `handler`: a method written for jsonrpcserver's async dispatcher, without its context argument."""


@dataclass(slots=True, frozen=True)
class Notice:
    """A handler of one notification, with its options."""

    handler: NoticeHandler
    inline: bool = False
    """Whether the reader calls the handler, so that it is never queued behind another handler. This is for cancels. The
    handler must not wait. Under load it is called early and again in order, so it must be idempotent."""


NAME: Final = 200
"""The most characters of the peer's names and ids that are repeated in errors."""


def unknown(method: str) -> RpcError:
    """Return the error response to a request of an unknown method."""
    return MethodNotFound(data={"method": method[:NAME]})


def _overlook(_notification: Notification, _problem: str) -> None:
    pass


@dataclass(slots=True)
class Routes:
    """The requests and notifications that one side of a connection handles."""

    requests: dict[str, Route] = field(default_factory=dict[str, Route])
    notices: dict[str, list[Notice]] = field(default_factory=dict[str, list[Notice]])
    missing: Callable[[str], RpcError] = unknown
    """Makes the error response to a request of any other method."""
    unexplained: str = InternalError.default_message
    """The message of the error response if the text of an exception is not for the peer."""
    dropped: Callable[[Notification, str], None] = _overlook
    """Called with a notification that was dropped, and the reason."""

    def become(self, other: Routes) -> None:
        """Replace all handlers by those of `other`."""
        self.requests, self.notices, self.missing = other.requests, other.notices, other.missing

    def on_notice(self, method: str, notice: Notice) -> None:
        """Add a handler for a notification, after its other handlers."""
        self.notices.setdefault(method, []).append(notice)
