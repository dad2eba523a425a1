"""One request of the peer's while it is answered (`Call`), and what a connection can be asked, as data (`Routes`).

Neither answers anything: a handler returns or raises, and `acp_server.peer.outcome` decides. The routes are made by
what knows the protocol (`acp_server.session`, `acp_server.client`, the author's own methods).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, cast

from acp_server.errors import InternalError, MethodNotFound, RpcError
from acp_server.peer.answer import Answer
from acp_server.peer.peer import Peer
from acp_server.tasks.cause import Cause
from acp_server.tasks.grace import SupervisedWork
from acp_server.tasks.tree import NOTHING, Node
from acp_server.wire.messages import Notification, Params, Request, RequestId


class Follower:
    """What goes along with a request, made in the reader by the route's `register` or by the handler: one for a
    request. None of its methods may wait or raise."""

    __slots__ = ()

    def partial(self) -> Any:
        """The partial result, made when it is needed; or `NOTHING`, for what the handler has offered."""
        return NOTHING

    def answered(self) -> None:
        """The answer is queued, and nothing behind it is; what it sends is the next."""

    def left(self) -> None:
        """The request is answered and its handler is through, or never began; which may be long after the answer, if
        the handler outlasted its cancel."""


Handler: TypeAlias = "Callable[[Call], Awaitable[Any]]"
"""Answers one request; the parameters are in `call.params`."""


class Answering(Protocol):
    """What answers calls, see `acp_server.peer.inbound`."""

    def give_up(self, call: Call) -> None:
        """See `Call.give_up`."""
        ...


class Call(SupervisedWork):
    """One incoming request while it is being answered."""

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
        """The named parameters, `_meta` included; empty if there are none or if they are positional."""
        self.handler: Handler = handler
        """What is called to answer it."""
        self.urgent: bool = urgent
        """See `Route`."""
        self._answering = answering
        self._partial: Any = NOTHING
        self.added: Answer | None = None
        """What is added to its answer, once something is."""
        self.data: Any = None
        """The agent author's own: what one function that is called for the request leaves for another."""
        self.is_answered: bool = False
        """Whether its answer is queued; its handler may still clean up."""
        self.follower: Any = None
        """A `Follower`, or None: it may make the partial result, and hears how the request fares.
        What `register` prepares for the handler is in it."""

    @property
    def id(self) -> RequestId:
        """The request's id, as the peer sent it."""
        return self.request.id

    @property
    def method(self) -> str:
        """The request's method."""
        return self.request.method

    @property
    def meta(self) -> dict[str, Any]:
        """The request's `_meta` (ACP, Extensibility); empty if it has none or a malformed one."""
        meta = self.params.get("_meta")
        return cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}

    @property
    def answer(self) -> Answer:
        """What is added to the answer: `call.answer.meta["example.org/cost"] = 3`."""
        if self.added is None:
            self.added = Answer(self.method)
        return self.added

    @property
    def is_cancelled(self) -> bool:
        """Whether this request is being cancelled."""
        return self.node.cause is not None

    @property
    def cause(self) -> Cause | None:
        """Why it is being cancelled. The first cause stands."""
        return self.node.cause

    def cancel(self, cause: Cause = Cause.TIMEOUT) -> bool:
        """Cancel this request from outside of its handler, from any thread: a watchdog, a file that went away. False if
        its handler is through, or it is being cancelled.

        The handler is cancelled as by the peer's cancel. With a cause that the user did not ask for, as the default is,
        the answer is -32800 (ACP, Cancellation: internal cancellation).
        """
        return self.connection.cancel(self.node, cause)

    def partial(self, result: Any) -> None:
        """Offer `result` as the answer in case the peer cancels this request (ACP, Cancellation: a valid response with
        partial data). The last offer counts; without one the answer is -32800."""
        self._partial = result

    @property
    def offered(self) -> Any:
        """The partial result, or `NOTHING`."""
        offered = NOTHING if self.follower is None else self.follower.partial()
        return self._partial if offered is NOTHING else offered

    def give_up(self) -> None:
        """It was cancelled: answer now, without waiting any longer for the handler. A handler that has not begun will
        not. No effect on a request that is answered."""
        self._answering.give_up(self)

    def was_cancelled(self, _node: Node) -> None:
        """For the nodes: this request, what it is about, or all of its connection was cancelled."""
        if self.task is not None:
            super().was_cancelled(_node)
        else:
            # The handler has not begun, and need not.
            self.give_up()

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


Register: TypeAlias = Callable[[Call], None]
"""Runs in the reader, in the order of arrival, before anything behind the request is looked at. It must be quick. It
may set `call.follower`, or raise an RpcError, which is the answer then."""

NoticeHandler: TypeAlias = "Callable[[Peer, Params | None], Awaitable[None] | None]"
"""Acts on one notification."""


@dataclass(slots=True, frozen=True)
class Route:
    """How one method is answered."""

    handler: Handler | None = None
    register: Register | None = None
    direct: bool = False
    """A method of the protocol's: its handler is called as it is. What agents' authors add goes through jsonrpcserver,
    which takes long to import and to call."""
    urgent: bool = False
    """Never waits for a place among those that run at once (`Limits.running`), since it ends some of them."""
    foreign: Callable[..., Awaitable[Any]] | None = None
    """Instead of `handler`: a method written for jsonrpcserver's async dispatcher, without its context argument."""


@dataclass(slots=True, frozen=True)
class Notice:
    """How one notification is acted on."""

    handler: NoticeHandler
    inline: bool = False
    """Runs in the reader, never queued behind the handler of an earlier notification. It must not wait. It is for
    cancels: under load it is called ahead of its turn as well as in it, and a further call must change nothing."""


NAME: Final = 200
"""Characters of a name or an id that the peer made up which are repeated to it."""


def unknown(method: str) -> RpcError:
    """What a request is answered with whose method is not there."""
    return MethodNotFound(data={"method": method[:NAME]})


def _overlook(_notification: Notification, _problem: str) -> None:
    pass


@dataclass(slots=True)
class Routes:
    """All that one side of a connection can be asked."""

    requests: dict[str, Route] = field(default_factory=dict[str, Route])
    notices: dict[str, list[Notice]] = field(default_factory=dict[str, list[Notice]])
    missing: Callable[[str], RpcError] = unknown
    """The answer to a request of any other method."""
    unexplained: str = InternalError.default_message
    """What the peer is told where a handler failed with words that are not for it."""
    dropped: Callable[[Notification, str], None] = _overlook
    """Told of a notification that is not acted on, and what it has too much of."""

    def become(self, other: Routes) -> None:
        """From now on, what `other` has can be asked, and nothing else."""
        self.requests, self.notices, self.missing = other.requests, other.notices, other.missing

    def on_notice(self, method: str, notice: Notice) -> None:
        """Add a handler for a notification, behind those that it already has."""
        self.notices.setdefault(method, []).append(notice)
