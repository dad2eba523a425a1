"""One question for the user's permission, which what the user decides about another call can settle."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio

from acp_server.session.client import Client

if TYPE_CHECKING:
    from acp_server.session.session import Session


class Asking(Client):
    """The client of `session`, for one question. It is asked only once.

    An answer that has arrived counts more than a decision about another call, also if nobody has looked at it yet; one
    that comes after the question was withdrawn has no effect.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session.client.connection, session.client.profile, session.id, session.turns)
        self.settled: bool | None = None
        """What another decision means for this call, if the question was withdrawn because of that."""
        self.always: bool | None = None
        """What this one means for all other calls of the tool."""
        self._scope = anyio.CancelScope()
        self._withdrawn = False
        self._arrived: Any = None

    def settle(self, allowed: bool) -> None:
        """The user has decided for all calls of the tool: withdraw the question, or do not put it."""
        if self.settled is None and not self._withdrawn:
            self.settled = allowed
            self._scope.cancel()

    async def _ask(self, method: str, params: Any, on_late: Callable[[Any], None] | None = None) -> Any:
        with self._scope:
            return await self.connection.request(method, params, on_late=self._keep)
        # Not reached by a cut of the call, which is none of this scope's.
        self._withdrawn = True
        if self._arrived is None:
            return {"outcome": {"outcome": "cancelled"}}
        self.settled = None
        return self._arrived

    def _keep(self, result: Any) -> None:
        if not self._withdrawn:
            self._arrived = result
