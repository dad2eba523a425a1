"""What an agent can ask its client for: files, terminals, permission, information (ACP, the client's methods).

Every call is checked against what the client announced before anything is sent. Being cancelled while a call is awaited
withdraws it. What to do with the answers is the agent's matter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from acp_server.errors import AcpError, CapabilityMissing
from acp_server.peer.connection import Connection
from acp_server.schema.capabilities import ClientCapabilities
from acp_server.schema.initialization import Implementation
from acp_server.session.terminal import PATIENCE, Terminal
from acp_server.tasks.grace import grace

logger = logging.getLogger("acp_server.session")


@dataclass(slots=True)
class ClientProfile:
    """Who the client is and what it announced in `initialize`. Before that, nothing is announced."""

    capabilities: ClientCapabilities = field(default_factory=ClientCapabilities)
    info: Implementation | None = None


@dataclass(frozen=True, slots=True)
class PermissionAnswer:
    """What the user chose. Anything but an offered option that allows is not an approval."""

    option_id: str | None
    """The chosen option, or None if the question was dismissed or cancelled."""
    kind: str | None
    """Its kind: `allow_once`, `allow_always`, `reject_once`, `reject_always`; None if dismissed or not offered."""

    @property
    def allowed(self) -> bool:
        """Whether the user allows it."""
        return self.kind in ("allow_once", "allow_always")


class Client:
    """The client, as one session sees it. All methods raise RpcError for the client's error answers, ConnectionClosed,
    and CapabilityMissing if the client did not announce the method; nothing is sent then."""

    def __init__(self, connection: Connection, profile: ClientProfile, session_id: str) -> None:
        self.connection = connection
        self.profile = profile
        self._session_id = session_id

    @property
    def capabilities(self) -> ClientCapabilities:
        """What the client announced."""
        return self.profile.capabilities

    async def read_text_file(self, path: str, *, line: int | None = None, limit: int | None = None) -> str:
        """The text of a file as the editor has it, unsaved changes included (ACP, File System).

        `path` is absolute; `line` is the first line, counted from 1; `limit` is the number of lines.
        """
        from acp_server.schema.file_system import ReadTextFileRequest, ReadTextFileResponse

        self._need(self.capabilities.fs.read_text_file, "fs/read_text_file", "fs.readTextFile")
        params = ReadTextFileRequest(session_id=self._session_id, path=path, line=line, limit=limit)
        return ReadTextFileResponse.from_wire(await self._ask("fs/read_text_file", params)).content

    async def write_text_file(self, path: str, content: str) -> None:
        """Write a file through the editor, which makes it if need be (ACP, File System). `path` is absolute."""
        from acp_server.schema.file_system import WriteTextFileRequest

        self._need(self.capabilities.fs.write_text_file, "fs/write_text_file", "fs.writeTextFile")
        params = WriteTextFileRequest(session_id=self._session_id, path=path, content=content)
        await self._ask("fs/write_text_file", params)

    async def request_permission(self, tool_call: Any, options: Sequence[Any]) -> PermissionAnswer:
        """Ask the user whether a tool may run (ACP, Tool Calls).

        `tool_call`: a `schema.ToolCallUpdate`. `options`: `schema.PermissionOption`s. The answer `cancelled` and an
        option that was never offered count as not allowed; an error of the client's is raised as RpcError.
        """
        from acp_server.schema.permission import (
            RequestPermissionRequest,
            RequestPermissionResponse,
            SelectedPermissionOutcome,
        )

        params = RequestPermissionRequest(session_id=self._session_id, tool_call=tool_call, options=list(options))
        response = RequestPermissionResponse.from_wire(await self._ask("session/request_permission", params))
        outcome = response.outcome
        if not isinstance(outcome, SelectedPermissionOutcome):
            return PermissionAnswer(None, None)
        kind = next((option.kind for option in params.options if option.option_id == outcome.option_id), None)
        return PermissionAnswer(outcome.option_id, kind)

    async def create_terminal(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
    ) -> Terminal:
        """Start a command in a terminal of the client's (ACP, Terminals). Use the result in an `async with` block.

        `cwd` is absolute. If this call is cancelled and the terminal comes into being all the same, it is released.
        """
        from acp_server.schema.mcp import EnvVariable
        from acp_server.schema.terminal import CreateTerminalRequest, CreateTerminalResponse

        self._need(self.capabilities.terminal, "terminal/create", "terminal")
        params = CreateTerminalRequest(session_id=self._session_id, command=command)
        if args:
            params.args = list(args)
        if env:
            params.env = [EnvVariable(name=name, value=value) for name, value in env.items()]
        if cwd is not None:
            params.cwd = cwd
        if output_byte_limit is not None:
            params.output_byte_limit = output_byte_limit
        result = await self._ask("terminal/create", params, self._release_late)
        return Terminal(self.connection, self._session_id, CreateTerminalResponse.from_wire(result).terminal_id)

    async def elicit(self, request: Any) -> Any:
        """Ask the user for information (ACP, Elicitation): the user's action, a `schema.CreateElicitationResponse`.

        `request`: a `schema.ElicitationFormMode` or `ElicitationUrlMode`; without a scope it gets this session's. That
        the user chose `cancel` is an answer like any other, and cancels nothing.
        """
        from acp_server import schema

        announced = self.capabilities.elicitation
        mode = getattr(request, "mode", "")
        self._need(
            announced is not None and getattr(announced, mode, None) is not None,
            "elicitation/create",
            f"elicitation.{mode}",
        )
        if request.session_id is None and "request_id" not in request.model_fields_set:
            request = request.model_copy(update={"session_id": self._session_id})
        return schema.METHODS["elicitation/create"].read_result(await self._ask("elicitation/create", request))

    async def request(self, method: str, params: Any = None, *, timeout: float | None = None) -> Any:
        """Ask for anything else, an extension of the client's for example. See `Connection.request`."""
        return await self.connection.request(method, params, timeout=timeout)

    def notify(self, method: str, params: Any = None) -> None:
        """Tell the client anything else. See `Connection.notify`."""
        self.connection.notify(method, params)

    async def _ask(self, method: str, params: Any, on_late: Callable[[Any], None] | None = None) -> Any:
        return await self.connection.request(method, params, on_late=on_late)

    def _need(self, announced: bool, method: str, capability: str) -> None:
        if not announced:
            raise CapabilityMissing(method, f"clientCapabilities.{capability}")

    def _release_late(self, result: Any) -> None:
        from acp_server.schema.terminal import CreateTerminalResponse

        terminal_id = CreateTerminalResponse.from_wire(result).terminal_id
        self.connection.background(_release, Terminal(self.connection, self._session_id, terminal_id))


async def _release(terminal: Terminal) -> None:
    with grace(PATIENCE):
        try:
            await terminal.release()
        except AcpError as error:
            logger.info("terminal/release of %s: %s", terminal.id, error)
