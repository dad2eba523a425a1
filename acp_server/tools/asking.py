"""One question for the user's permission, which what the user decides about another call can settle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from acp_server.schema.permission import PermissionOption
    from acp_server.schema.tool_call import ToolCallUpdate
    from acp_server.session.client import Client, PermissionAnswer


class Asking:
    """A question that is put once at most.

    An answer that has arrived counts more than a decision about another call, also before the call has looked at it. An
    answer that comes after the question was withdrawn has no effect.
    """

    def __init__(self) -> None:
        self.settled: bool | None = None
        """What another decision means for this call, if the question was withdrawn because of that."""
        self.always: bool | None = None
        """What this one means for all other calls of the tool."""
        self._scope = anyio.CancelScope()
        self._withdrawn = False
        self._arrived: PermissionAnswer | None = None

    def settle(self, allowed: bool) -> None:
        """The user has decided for all calls of the tool: withdraw the question, or do not put it."""
        if self.settled is None and not self._withdrawn:
            self.settled = allowed
            self._scope.cancel()

    async def ask(
        self, client: Client, call: ToolCallUpdate, options: Sequence[PermissionOption]
    ) -> PermissionAnswer | None:
        """What the user answers; None if it is `settled`. Raises ConnectionClosed."""
        with self._scope:
            return await client.request_permission(call, options, on_late=self._keep)
        # Not reached by a cut of the call, which this scope does not know.
        self._withdrawn = True
        if self._arrived is not None:
            self.settled = None
        return self._arrived

    def _keep(self, answer: PermissionAnswer) -> None:
        # An answer behind the withdrawal is not looked at any more.
        self._arrived = answer
