"""The interface of a connection with a later version of the protocol, for a program that uses the types of version 1.

The link sends its requests through a `Dialect`. The update router and the permission requests are read through it. A
connection with version 1 has no dialect. `acp_server.client.versions` has the way in which a connection gets a
dialect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from acp_server.peer.outbound import OnOver, OnResult
    from acp_server.schema import PromptRequest, PromptResponse, SessionUpdate
    from acp_server.schema.base import Record


class Hearer(Protocol):
    """A receiver of updates: a session, or a child session."""

    id: str

    def receive(self, update: SessionUpdate, params: Any, /) -> Awaitable[None] | None:
        """Handle an update for this receiver. `params`: the parameters of the update's notification."""
        ...


class Dialect(Protocol):
    """Translates between version 1 and a later version. It sends requests in the form of the later version, and returns
    results, updates and questions in the form of version 1."""

    async def call(self, method: str, params: Record, timeout: float | None, on_late: OnResult | None) -> Any:
        """Send a request of version 1. Returns its result. Raises CapabilityMissing if the later version does not have
        the method."""
        ...

    async def prompt(self, request: PromptRequest, on_over: OnOver | None) -> PromptResponse:
        """Send `session/prompt` and wait until the work for the prompt has ended. Also raises RpcError if the work
        fails."""
        ...

    async def open(self, method: str, wire: dict[str, Any], on_late: OnResult | None) -> dict[str, Any]:
        """Send a request whose result opens a session; `wire` is sent unchanged. Returns the result."""
        ...

    async def request(self, name: str, wire: dict[str, Any]) -> dict[str, Any]:
        """Send a request in the form of the later version. Returns the result in that form."""
        ...

    def updates(self, session: Hearer, params: Any) -> Iterable[Any]:
        """Return the parameters of version 1 updates with the same content as the update in `params`."""
        ...

    def question(self, params: Any, name: str) -> Any:
        """Return a permission request as the parameters of version 1. `name` becomes the id of the tool call if the
        request names no tool call. Raises InvalidParams."""
        ...

    def lost(self) -> None:
        """Record that the connection has ended."""
        ...
