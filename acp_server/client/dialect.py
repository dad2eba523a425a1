"""The interface of a connection with a later version of the protocol, for a program that uses the types of version 1.

The link sends its requests through a `Dialect`, and the update router and the questions read through it. There is none
on a connection with version 1. How a connection gets a dialect is in `acp_server.client.versions`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from acp_server.peer.outbound import OnOver, OnResult
    from acp_server.schema import PromptRequest, PromptResponse, SessionUpdate
    from acp_server.schema.base import Record


class Hearer(Protocol):
    """A receiver of updates: a session, or a child of one."""

    id: str

    def receive(self, update: SessionUpdate, params: Any, /) -> Awaitable[None] | None:
        """An update for it has arrived. `params`: the parameters of its notification."""
        ...


class Dialect(Protocol):
    """Sends requests in the form of its version, and returns results, updates and questions in the form of version
    1."""

    async def call(self, method: str, params: Record, timeout: float | None, on_late: OnResult | None) -> Any:
        """Send a request of version 1. Returns its result. Raises CapabilityMissing for a method that the version does
        not have."""
        ...

    async def prompt(self, request: PromptRequest, on_over: OnOver | None) -> PromptResponse:
        """`session/prompt`, and the work for it. Also raises RpcError if the work fails."""
        ...

    async def open(self, method: str, wire: dict[str, Any], on_late: OnResult | None) -> dict[str, Any]:
        """Send any request whose result opens a session; `wire` is sent unchanged. Returns the result."""
        ...

    async def request(self, name: str, wire: dict[str, Any]) -> dict[str, Any]:
        """Send a request in the form of the version. Returns its result in that form."""
        ...

    def updates(self, session: Hearer, params: Any) -> Iterable[Any]:
        """The parameters of updates of version 1 with the same content as the update in `params`."""
        ...

    def question(self, params: Any, name: str) -> Any:
        """The parameters of a permission request of version 1. `name`: the id of its tool call if it has none. Raises
        InvalidParams."""
        ...

    def lost(self) -> None:
        """The connection has ended."""
        ...
