"""The versions of the protocol after version 1 that a client can request: what a version registers, and what it gets.

`acp_server.client.dialect` has the way in which a connection uses such a version.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from acp_server.errors import UsageError

if TYPE_CHECKING:
    from acp_server.client.dialect import Dialect
    from acp_server.client.link import Link
    from acp_server.client.session import LiveSession
    from acp_server.peer.call import Routes
    from acp_server.schema import InitializeRequest, InitializeResponse


class Side(NamedTuple):
    """The client's side of one connection before its version is negotiated."""

    link: Link
    routes: Routes
    """The handlers for requests from the agent."""
    sessions: Mapping[str, LiveSession]
    """The open sessions, by id."""
    is_cancelling: Callable[[str], bool]
    """Whether a session's turn is being cancelled."""
    receive: Callable[[Any], Awaitable[None] | None]
    """Called with the parameters of an update that the dialect creates."""
    speak: Callable[[Dialect], None]
    """Called when the version is negotiated."""
    start_over: Callable[[], Awaitable[None]] | None
    """Restarts the agent and connects to it again; None if that is impossible."""


class Version(NamedTuple):
    """A version that clients can request."""

    number: int
    """The version number in `initialize`."""
    ask: Callable[[Side, InitializeRequest, float | None], Awaitable[InitializeResponse | None]]
    """Requests the version, with a time-out in seconds, given the request of version 1. Returns the response in the
    form of version 1, whichever version the agent has chosen, or None if version 1 must be requested next. Raises
    ConnectionClosed, MalformedResponse and RequestTimeout."""


_VERSIONS: Final[dict[int, Version]] = {}


def register(version: Version) -> None:
    """Make a later version available to clients."""
    _VERSIONS[version.number] = version


def beyond_1(number: int) -> Version | None:
    """Return the version with this number; None for 1. Raises UsageError for a version that this package does not
    support."""
    if number != 1 and number not in _VERSIONS:
        known = ", ".join(map(str, (1, *sorted(_VERSIONS))))
        raise UsageError(f"the protocol version must be one of {known}, not {number!r}")
    return _VERSIONS.get(number)
