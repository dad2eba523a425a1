"""`talk` runs an agent in memory and opens a session with it through the client API, in one line of a test."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import anyio

from acp_server.errors import InvalidParams, ResourceNotFound, UsageError
from acp_server.tasks.running import Spawner
from acp_server.testing.streams import memory_pair

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from acp_server.agent.app import Agent
    from acp_server.client import RemoteSession
    from acp_server.client.handlers import AskPermission
    from acp_server.peer.limits import Limits
    from acp_server.schema import (
        ClientCapabilities,
        CreateElicitationResponse,
        ElicitationFormMode,
        McpServer,
        ReadTextFileRequest,
        ReadTextFileResponse,
        WriteTextFileRequest,
    )

Permission: TypeAlias = "Literal['allow', 'reject'] | AskPermission"
"""How permission requests are answered: `allow` or `reject` for all of them, or a function that gets the request."""


@asynccontextmanager
async def talk(
    agent: Agent,
    *,
    permission: Permission = "allow",
    files: MutableMapping[str, str] | None = None,
    form: Callable[[ElicitationFormMode], Awaitable[CreateElicitationResponse]] | None = None,
    cwd: str = "/project",
    load: str | None = None,
    version: Literal[1, 2] = 1,
    capabilities: ClientCapabilities | None = None,
    mcp_servers: Sequence[McpServer] = (),
    methods: Mapping[str, Callable[[dict[str, Any]], Awaitable[Any]]] | None = None,
    limits: Limits | None = None,
    patience: float = 20.0,
) -> AsyncGenerator[RemoteSession]:
    """Open a session of `agent` with a client, both in memory. `session.agent` is the client's side of the connection.
    Each block has its own client; several blocks at once are several clients.

    `permission`: `allow` and `reject` answer each permission request for one call. `files`: the client's files, a
    dictionary of texts by path below `cwd`; the agent's writes change it. By default the client has no files. `load`:
    the id of a session to load, instead of opening a new one. `version`: 2 is the draft. `limits`: the limits of the
    agent.

    At the end of the block, the agent has `patience` seconds to end. If it raised, the exception is raised.
    """
    # Not at the top: the client imports the types of the protocol, which tests of the wire do not need.
    from acp_server.client import Handlers, allow_once, connect_agent, reject_once

    answers: dict[str, AskPermission] = {"allow": allow_once, "reject": reject_once}
    answer = answers.get(permission) if isinstance(permission, str) else permission
    if answer is None:
        raise UsageError(f"permission must be 'allow', 'reject' or a function of the request, not {permission!r}")
    if not callable(getattr(agent, "connect", None)):
        raise UsageError(f"talk needs an Agent, not {agent!r}")
    held = None if files is None else _Files(files, cwd)
    here, there = memory_pair()
    ended: list[BaseException | None] = []

    async def serve() -> None:
        await agent.connect(there, limits).run()
        ended.append(None)

    house = Spawner(ended.append)
    house.spawn(serve)
    handlers = Handlers(permission=answer, files=held, form=form, methods=methods or {})
    try:
        async with connect_agent(here, handlers) as remote:
            await remote.initialize(capabilities=capabilities, version=version)
            if load is None:
                yield await remote.new_session(cwd, mcp_servers=mcp_servers)
            else:
                yield await remote.load_session(load, cwd, mcp_servers=mcp_servers)
    finally:
        with anyio.move_on_after(patience):
            await house.wait_idle()
    if not ended:
        raise TimeoutError(f"the agent did not end within {patience:g} s")
    if ended[0] is not None:
        raise ended[0]


class _Files:
    """Serves the files of a client from a dictionary."""

    def __init__(self, files: MutableMapping[str, str], cwd: str) -> None:
        for path, text in files.items():
            if not isinstance(text, str) or posixpath.isabs(path):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise UsageError(f"files must map paths below cwd to texts, but contains {path!r}: {text!r}")
        self._files = files
        self._cwd = cwd

    async def read_text_file(self, request: ReadTextFileRequest, /) -> ReadTextFileResponse:
        """See `ReadsFiles`."""
        from acp_server.schema import ReadTextFileResponse

        path = self._path(request.path)
        if path not in self._files:
            raise ResourceNotFound(data={"path": request.path})
        text = self._files[path]
        if request.line is not None or request.limit is not None:
            first = max(request.line or 1, 1) - 1
            last = None if request.limit is None else first + request.limit
            text = "".join(text.splitlines(keepends=True)[first:last])
        return ReadTextFileResponse(content=text)

    async def write_text_file(self, request: WriteTextFileRequest, /) -> None:
        """See `WritesFiles`."""
        self._files[self._path(request.path)] = request.content

    def _path(self, path: str) -> str:
        normal = posixpath.normpath(path)
        if not normal.startswith(f"{self._cwd.rstrip('/')}/"):
            raise InvalidParams(f"{path} is not below {self._cwd}")
        return posixpath.relpath(normal, self._cwd)
