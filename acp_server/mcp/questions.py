"""What an MCP server asks the user (MCP, Elicitation), passed on to the client (ACP, Elicitation).

A question belongs to the tool calls of the server that run: without one it is declined, and it is withdrawn when the
last of them has ended.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import anyio
from pydantic import ValidationError

from acp_server.errors import AcpError
from acp_server.schema.elicitation_form import ElicitationSchema

if TYPE_CHECKING:
    from acp_server.session.session import Session
    from acp_server.tools.context import ToolContext

logger = logging.getLogger("acp_server.mcp")

_AT_ONCE: Final = 4
"""Questions of one server that wait for the user. More are declined."""

_LONGEST: Final = 2_000
"""Characters of a question."""


class Questions:
    """Those of the server that the client calls `name`."""

    def __init__(self, name: str, session: Session) -> None:
        self._name = name
        self._client = session.client
        self._calls: list[ToolContext] = []
        self._waiting: set[anyio.CancelScope] = set()

    @property
    def possible(self) -> bool:
        """Whether the client can ask anything."""
        return self._client.capabilities.elicitation is not None

    @contextmanager
    def during(self, call: ToolContext) -> Generator[None]:
        """For the length of the block a call runs that questions may belong to."""
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.remove(call)
            if not self._calls:
                for scope in self._waiting:
                    scope.cancel()

    async def ask(self, context: Any, params: Any) -> Any:
        """The callback of the official package: the user's answer, or a no. `context` is not needed."""
        result = import_module("mcp_types").ElicitResult
        if not self._calls or len(self._waiting) >= _AT_ONCE:
            return result(action="decline")
        answer: Any = None
        with anyio.CancelScope() as scope:
            self._waiting.add(scope)
            try:
                answer = await self._asked(params)
            except (AcpError, ValidationError) as error:
                logger.warning("a question of the MCP server %r is declined: %s", self._name, type(error).__name__)
                return result(action="decline")
            finally:
                self._waiting.discard(scope)
        action = getattr(answer, "action", None)
        if action == "accept":
            return result(action="accept", content=getattr(answer, "content", None))
        return result(action="decline" if action == "decline" else "cancel")

    async def _asked(self, params: Any) -> Any:
        message = f"{self._name}: {params.message[:_LONGEST]}"
        call = self._calls[0].id if len(self._calls) == 1 else None
        if params.mode == "url":
            id = params.elicitation_id or uuid4().hex
            return await self._client.elicit_url(message, params.url, elicitation_id=id, tool_call_id=call)
        form = ElicitationSchema.from_wire(params.requested_schema)
        return await self._client.elicit_form(message, form, tool_call_id=call)
