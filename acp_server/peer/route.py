"""What a connection can be asked: the methods and notifications of one side, as data.

Built by those who know the protocol (`acp_server.session`, `acp_server.client`, the user's own methods); it calls
nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from acp_server.errors import MethodNotFound, RpcError
from acp_server.peer.context import Call, Handler
from acp_server.peer.peer import Peer

if TYPE_CHECKING:
    from acp_server.wire.messages import Params

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


_NAME: Final = 200
"""Characters of a name that the peer made up which are repeated to it."""


def unknown(method: str) -> RpcError:
    """What a request is answered with whose method is not there."""
    return MethodNotFound(data={"method": method[:_NAME]})


@dataclass(slots=True)
class Routes:
    """All that one side of a connection can be asked."""

    requests: dict[str, Route] = field(default_factory=dict[str, Route])
    notices: dict[str, list[Notice]] = field(default_factory=dict[str, list[Notice]])
    missing: Callable[[str], RpcError] = unknown
    """The answer to a request of any other method."""

    def become(self, other: Routes) -> None:
        """From now on, what `other` has can be asked, and nothing else."""
        self.requests, self.notices, self.missing = other.requests, other.notices, other.missing

    def on_notice(self, method: str, notice: Notice) -> None:
        """Add a handler for a notification, behind those that it already has."""
        self.notices.setdefault(method, []).append(notice)
