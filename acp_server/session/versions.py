"""The registry of protocol versions above 1. It says what a version registers, and what objects a version gets.

A connection begins in version 1 (`acp_server.session.routes`). If its client requests a later version, that version
takes the connection over before any other message is processed. This module does not know the methods of a version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from acp_server.errors import InvalidRequest, RpcError

if TYPE_CHECKING:
    from acp_server.peer.call import LiveCall, Notice, Routes
    from acp_server.session.definition import AgentDefinition
    from acp_server.session.lifecycle import Lifecycle
    from acp_server.session.live_session import LiveSession
    from acp_server.session.negotiation import ClientProfile


class Side(NamedTuple):
    """The agent's side of one connection before its version is negotiated."""

    definition: AgentDefinition
    profile: ClientProfile
    sessions: dict[str, LiveSession]
    """The open sessions, by id. There are no entries yet."""
    find: Callable[[str], LiveSession]
    """Returns the open session with this id. Raises ResourceNotFound, and InvalidParams for a child session."""
    routes: Routes
    """The present methods of the connection. The version replaces them as a whole (`Routes.become`)."""
    cancel: Notice
    """The handler of `session/cancel`, which all versions have."""
    refuse_children: Callable[[Routes], None]
    """Makes these routes refuse requests about a child session."""


class Dialect(NamedTuple):
    """One version of the protocol. `speak` imports its modules when it is called."""

    number: int
    """The number of the version in `initialize`."""
    speak: Callable[[LiveCall, Side], Lifecycle]
    """Register the client's `initialize`. Returns the lifecycle of the connection's sessions. Raises InvalidParams,
    InvalidRequest and UnsupportedProtocolVersion; the connection is unchanged then."""


_DIALECTS: Final[dict[int, Dialect]] = {}


def register(dialect: Dialect) -> None:
    """Register a version above 1."""
    _DIALECTS[dialect.number] = dialect


def spoken() -> tuple[int, ...]:
    """Return the supported versions, in ascending order."""
    return 1, *sorted(_DIALECTS)


def newest(numbers: tuple[int, ...]) -> Dialect:
    """Return the newest of these versions, at least one of which is above 1."""
    return _DIALECTS[max(numbers)]


def uninitialized(_method: str) -> RpcError:
    """Return the error response, in versions above 1, to a request before the response to `initialize`."""
    return InvalidRequest("The connection is not initialized; send initialize and wait for its response")
