"""How an agent speaks a version of the protocol beyond version 1: what the version registers, and what it is given.

A connection begins in version 1 (`acp_server.session.routes`). When its client asks for a later version, the connection
is handed over before anything else is taken. Which methods a version has is not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from acp_server.errors import InvalidRequest, RpcError

if TYPE_CHECKING:
    from acp_server.peer.call import Call, Notice, Routes
    from acp_server.session.definition import AgentDefinition
    from acp_server.session.lifecycle import Lifecycle
    from acp_server.session.live_session import LiveSession
    from acp_server.session.negotiation import ClientProfile


class Side(NamedTuple):
    """The agent's side of one connection whose version is not agreed on yet."""

    definition: AgentDefinition
    profile: ClientProfile
    sessions: dict[str, LiveSession]
    """Those that are open, by id. There are none yet."""
    find: Callable[[str], LiveSession]
    """The open session with this id. Raises ResourceNotFound, and InvalidParams for a child."""
    routes: Routes
    """What can be asked on the connection at present. The version changes it as a whole (`Routes.become`)."""
    cancel: Notice
    """`session/cancel`, which all versions have."""
    refuse_children: Callable[[Routes], None]
    """Have these refuse what is asked about a child session."""


class Dialect(NamedTuple):
    """How a version is spoken. What `speak` needs is loaded when it is called."""

    number: int
    """The version, as `initialize` has it."""
    speak: Callable[[Call, Side], Lifecycle]
    """Take the client's `initialize`: the lifecycle of the connection's sessions. Raises InvalidParams, InvalidRequest
    and UnsupportedProtocolVersion; then the connection is as it was."""


_DIALECTS: Final[dict[int, Dialect]] = {}


def register(dialect: Dialect) -> None:
    """Have agents speak a version beyond 1."""
    _DIALECTS[dialect.number] = dialect


def spoken() -> tuple[int, ...]:
    """The versions that an agent can speak, in their order."""
    return 1, *sorted(_DIALECTS)


def newest(numbers: tuple[int, ...]) -> Dialect:
    """The newest of these versions, of which one is beyond 1."""
    return _DIALECTS[max(numbers)]


def uninitialized(_method: str) -> RpcError:
    """What a request is answered with that comes before the answer to `initialize`, in versions beyond 1."""
    return InvalidRequest("The connection is not initialized; wait for the answer to initialize")
