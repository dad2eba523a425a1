"""What a connection has of a version of the protocol beyond version 1, for a program that knows version 1 alone.

The link sends its requests through a `Dialect`, and the update router and the questions read through it. There is none
where version 1 is spoken. How a connection gets one is in `acp_server.client.versions`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from acp_server.peer.outbound import OnOver, OnResult
    from acp_server.schema import PromptRequest, PromptResponse, SessionUpdate
    from acp_server.schema.base import Record


class Hearer(Protocol):
    """What has updates: a session, or a child of one."""

    id: str

    def receive(self, update: SessionUpdate, params: Any, /) -> Awaitable[None] | None:
        """An update for it has arrived, with these parameters of its notification."""
        ...


class Dialect(Protocol):
    """Requests go out in the words of its version, and results, updates and questions come back in those of version
    1."""

    async def call(self, method: str, params: Record, timeout: float | None, on_late: OnResult | None) -> Any:
        """A request of version 1: its result. Raises CapabilityMissing for a method that the version does not have."""
        ...

    async def prompt(self, request: PromptRequest, on_over: OnOver | None) -> PromptResponse:
        """`session/prompt`, and the work for it. Raises RpcError, too, if the work fails."""
        ...

    async def open(self, method: str, wire: dict[str, Any], on_late: OnResult | None) -> dict[str, Any]:
        """Any request whose answer opens a session, in words of the caller's own: the answer."""
        ...

    async def request(self, name: str, wire: dict[str, Any]) -> dict[str, Any]:
        """A request in the words of the version: its result in these words."""
        ...

    def updates(self, session: Hearer, params: Any) -> Iterable[Any]:
        """From the parameters of one `session/update` to those of the updates that say the same."""
        ...

    def question(self, params: Any, name: str) -> Any:
        """From the parameters of a permission request to those of version 1; it is about a tool call `name` if it is
        about no other. Raises InvalidParams."""
        ...

    def lost(self) -> None:
        """The connection has ended."""
        ...
