"""How a client asks for a version of the protocol beyond version 1: what the version registers, and what it is given.

How the version is spoken from then on is in `acp_server.client.dialect`.
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
    """The client's side of one connection whose version is not agreed on yet."""

    link: Link
    routes: Routes
    """What the agent can ask."""
    sessions: Mapping[str, LiveSession]
    """Those that are open, by id."""
    is_cancelling: Callable[[str], bool]
    """Whether the turn of a session is ending."""
    receive: Callable[[Any], Awaitable[None] | None]
    """Takes the parameters of an update that the agent did not send."""
    speak: Callable[[Dialect], None]
    """Called when the version is agreed on."""
    start_over: Callable[[], Awaitable[None]] | None
    """Starts the agent anew, and connects to it; None where that cannot be done."""


class Version(NamedTuple):
    """A version that clients can ask for."""

    number: int
    """The version, as `initialize` has it."""
    ask: Callable[[Side, InitializeRequest, float | None], Awaitable[InitializeResponse | None]]
    """Ask for it, in some seconds, by a request that asks for version 1: the answer as version 1 has it, whichever
    version the agent has chosen. None if version 1 is to be asked for. Raises ConnectionClosed, MalformedResponse and
    RequestTimeout."""


_VERSIONS: Final[dict[int, Version]] = {}


def register(version: Version) -> None:
    """Have clients speak a version beyond 1."""
    _VERSIONS[version.number] = version


def beyond_1(number: int) -> Version | None:
    """The version of this number, None for 1. Raises UsageError for a version that this package does not speak."""
    if number != 1 and number not in _VERSIONS:
        known = ", ".join(map(str, (1, *sorted(_VERSIONS))))
        raise UsageError(f"a client can ask for the versions {known} of the protocol, and not for {number!r}")
    return _VERSIONS.get(number)
