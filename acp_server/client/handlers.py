"""Handlers that a program offers to the agent: permission requests and elicitations, files, terminals. All are
optional.

This module has only the interfaces. `acp_server.client.local` has ready-made handlers, and `acp_server.client.routes`
calls the handlers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, cast

from acp_server.errors import UsageError
from acp_server.schema import (
    ClientCapabilities,
    CompleteElicitationNotification,
    CreateElicitationResponse,
    CreateTerminalRequest,
    CreateTerminalResponse,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    ElicitationFormMode,
    ElicitationUrlCapabilities,
    ElicitationUrlMode,
    FileSystemCapabilities,
    KillTerminalRequest,
    KillTerminalResponse,
    PermissionOption,
    ReadTextFileRequest,
    ReadTextFileResponse,
    ReleaseTerminalRequest,
    ReleaseTerminalResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
    WriteTextFileRequest,
    WriteTextFileResponse,
)

PermissionAnswer: TypeAlias = PermissionOption | RequestPermissionResponse | None
"""The chosen option, or None if the request was dismissed, or a whole response."""

AskPermission: TypeAlias = Callable[[RequestPermissionRequest], Awaitable[PermissionAnswer]]


class ReadsFiles(Protocol):
    """Answers `fs/read_text_file`."""

    async def read_text_file(self, request: ReadTextFileRequest, /) -> ReadTextFileResponse:
        """Return the text of a file, or of a part of it."""
        ...


class WritesFiles(Protocol):
    """Answers `fs/write_text_file`."""

    async def write_text_file(self, request: WriteTextFileRequest, /) -> WriteTextFileResponse | None:
        """Create or replace a file."""
        ...


class Terminals(Protocol):
    """Answers `terminal/*`. The object belongs to one connection, and is closed when the connection ends."""

    async def create(self, request: CreateTerminalRequest, /) -> CreateTerminalResponse:
        """Start a command. Does not wait until the command has ended."""
        ...

    async def output(self, request: TerminalOutputRequest, /) -> TerminalOutputResponse:
        """Return the output so far."""
        ...

    async def wait_for_exit(self, request: WaitForTerminalExitRequest, /) -> WaitForTerminalExitResponse:
        """Wait until the command has ended."""
        ...

    async def kill(self, request: KillTerminalRequest, /) -> KillTerminalResponse | None:
        """Kill the command and keep the terminal."""
        ...

    async def release(self, request: ReleaseTerminalRequest, /) -> ReleaseTerminalResponse | None:
        """Kill the command and release the terminal."""
        ...

    async def aclose(self) -> None:
        """Release every terminal."""
        ...


async def allow_once(request: RequestPermissionRequest) -> PermissionAnswer:
    """Allow only this call: choose the first option of kind `allow_once`, or dismiss the request if there is no such
    option."""
    return _first(request, "allow_once")


async def reject_once(request: RequestPermissionRequest) -> PermissionAnswer:
    """Reject this call: choose the first option of kind `reject_once`, else `reject_always`; dismiss the request if
    there is neither."""
    return _first(request, "reject_once", "reject_always")


def _first(request: RequestPermissionRequest, *kinds: str) -> PermissionOption | None:
    return next((option for kind in kinds for option in request.options if option.kind == kind), None)


def _check_function(name: str, given: Any, may_be_none: bool = False) -> None:
    if not (callable(given) or (may_be_none and given is None)):
        raise UsageError(f"Handlers({name}=...) must be a function, not {given!r}")


def _check_methods(name: str, given: Any, methods: tuple[str, ...], enough: Callable[[Iterable[bool]], bool]) -> None:
    has = enough(callable(getattr(given, method, None)) for method in methods)
    if given is not None and (isinstance(given, type) or not has):
        raise UsageError(f"Handlers({name}=...) must be an object with the methods {', '.join(methods)}, not {given!r}")


@dataclass(frozen=True, kw_only=True)
class Handlers:
    """Handlers for the agent's requests. If a handler is None, its capability is not announced and its requests are
    refused.

    Each function runs in its own cancel scope, which is cancelled when the agent withdraws its request or the
    connection ends. If it raises an `RpcError`, that is the response. Any other exception is logged and answered with
    -32603, except a `TimeoutError`, which is answered with -32800.
    """

    permission: AskPermission = reject_once
    """Decides whether a tool may run. By default it may not. If the turn is cancelled, the handler is cancelled and the
    request is answered `cancelled`."""
    files: ReadsFiles | WritesFiles | None = None
    """Reads files, writes files, or both, depending on the object's methods."""
    terminals: Terminals | None = None
    """Runs commands."""
    form: Callable[[ElicitationFormMode], Awaitable[CreateElicitationResponse]] | None = None
    """Shows the user a form."""
    url: Callable[[ElicitationUrlMode], Awaitable[CreateElicitationResponse]] | None = None
    """Sends the user to a URL."""
    url_done: Callable[[CompleteElicitationNotification], Awaitable[None] | None] | None = None
    """Called when an elicitation by URL is complete. An unknown id must be ignored."""
    methods: Mapping[str, Callable[[dict[str, Any]], Awaitable[Any]]] = field(default_factory=dict[str, Any])
    """Handlers of extension requests by method. A handler gets the named parameters and returns a JSON value or a model
    (ACP, Extensibility)."""
    notifications: Mapping[str, Callable[[dict[str, Any]], Awaitable[None] | None]] = field(
        default_factory=dict[str, Any]
    )
    """Handlers of notifications by method, called in the order of arrival. They may include notifications of the
    protocol; the handler then gets unparsed parameters."""

    def __post_init__(self) -> None:
        """Raise UsageError for a value that cannot be a handler. Otherwise the agent's requests would fail, and the
        program would never learn why."""
        for name in ("permission", "form", "url", "url_done"):
            _check_function(name, getattr(self, name), may_be_none=name != "permission")
        for name in ("methods", "notifications"):
            given: Any = getattr(self, name)
            if not isinstance(given, Mapping):
                raise UsageError(f"Handlers({name}=...) must map the names of methods to functions, not {given!r}")
            for method, function in cast("Mapping[Any, Any]", given).items():
                _check_function(f"{name}[{method!r}]", function)
        _check_methods("files", self.files, ("read_text_file", "write_text_file"), any)
        calls = ("create", "output", "wait_for_exit", "kill", "release", "aclose")
        _check_methods("terminals", self.terminals, calls, all)

    def capabilities(self, base: ClientCapabilities | None = None) -> ClientCapabilities:
        """Return the capabilities to announce in `initialize`: `base`, updated with everything that follows from these
        handlers."""
        derived: dict[str, Any] = {
            "fs": FileSystemCapabilities(
                read_text_file=hasattr(self.files, "read_text_file"),
                write_text_file=hasattr(self.files, "write_text_file"),
            ),
            "terminal": self.terminals is not None,
        }
        if self.form is not None or self.url is not None:
            derived["elicitation"] = ElicitationCapabilities(
                form=None if self.form is None else ElicitationFormCapabilities(),
                url=None if self.url is None else ElicitationUrlCapabilities(),
            )
        return (base or ClientCapabilities()).model_copy(update=derived)
