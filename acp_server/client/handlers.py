"""What a program offers the agent: the answers to its questions, files, terminals. All of it is optional.

Only the shapes. `acp_server.client.local` has ready-made ones, and `acp_server.client.routes` connects them to the
wire.
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
"""The option that was chosen, or None if the question was dismissed, or a whole response."""

AskPermission: TypeAlias = Callable[[RequestPermissionRequest], Awaitable[PermissionAnswer]]


class ReadsFiles(Protocol):
    """Answers `fs/read_text_file`."""

    async def read_text_file(self, request: ReadTextFileRequest, /) -> ReadTextFileResponse:
        """The text of a file, or a part of it."""
        ...


class WritesFiles(Protocol):
    """Answers `fs/write_text_file`."""

    async def write_text_file(self, request: WriteTextFileRequest, /) -> WriteTextFileResponse | None:
        """Make or replace a file."""
        ...


class Terminals(Protocol):
    """Answers `terminal/*`. The object belongs to one connection, and is closed at its end."""

    async def create(self, request: CreateTerminalRequest, /) -> CreateTerminalResponse:
        """Start a command; do not wait for it."""
        ...

    async def output(self, request: TerminalOutputRequest, /) -> TerminalOutputResponse:
        """What it has written so far."""
        ...

    async def wait_for_exit(self, request: WaitForTerminalExitRequest, /) -> WaitForTerminalExitResponse:
        """Wait until it has ended."""
        ...

    async def kill(self, request: KillTerminalRequest, /) -> KillTerminalResponse | None:
        """End it and keep the terminal."""
        ...

    async def release(self, request: ReleaseTerminalRequest, /) -> ReleaseTerminalResponse | None:
        """End it and forget the terminal."""
        ...

    async def aclose(self) -> None:
        """Release every terminal."""
        ...


async def allow_once(request: RequestPermissionRequest) -> PermissionAnswer:
    """Yes, this time: the first option of kind `allow_once`; dismissed if there is none. What would allow more than
    this call is not chosen."""
    return _first(request, "allow_once")


async def reject_once(request: RequestPermissionRequest) -> PermissionAnswer:
    """No, this time: the first option of kind `reject_once`, or else `reject_always`; dismissed if there is neither."""
    return _first(request, "reject_once", "reject_always")


def _first(request: RequestPermissionRequest, *kinds: str) -> PermissionOption | None:
    return next((option for kind in kinds for option in request.options if option.kind == kind), None)


def _check_function(name: str, given: Any, may_be_none: bool = False) -> None:
    if not (callable(given) or (may_be_none and given is None)):
        raise UsageError(f"Handlers({name}=...) is a function, and not {given!r}")


def _check_methods(name: str, given: Any, methods: tuple[str, ...], enough: Callable[[Iterable[bool]], bool]) -> None:
    has = enough(callable(getattr(given, method, None)) for method in methods)
    if given is not None and (isinstance(given, type) or not has):
        raise UsageError(f"Handlers({name}=...) is an object with the methods {', '.join(methods)}, and not {given!r}")


@dataclass(frozen=True, kw_only=True)
class Handlers:
    """What the agent may ask of this program. What is not given is not announced, and refused if it is asked for.

    Each function runs in a scope of its own, which is cancelled when the agent withdraws its request or the connection
    ends. A function that raises an `RpcError` answers with it; any other exception answers -32603, a `TimeoutError`
    -32800, and is logged.
    """

    permission: AskPermission = reject_once
    """May this tool run? Without it nothing may. It is cancelled, and answered for, when the turn is cancelled."""
    files: ReadsFiles | WritesFiles | None = None
    """Files: reading, writing, or both, whichever methods the object has."""
    terminals: Terminals | None = None
    """Commands to run."""
    form: Callable[[ElicitationFormMode], Awaitable[CreateElicitationResponse]] | None = None
    """Ask the user for something, with a form."""
    url: Callable[[ElicitationUrlMode], Awaitable[CreateElicitationResponse]] | None = None
    """Send the user to a URL."""
    url_done: Callable[[CompleteElicitationNotification], Awaitable[None] | None] | None = None
    """What happened at a URL is over. The id may be unknown; then it has to be ignored."""
    methods: Mapping[str, Callable[[dict[str, Any]], Awaitable[Any]]] = field(default_factory=dict[str, Any])
    """Requests of one's own, by name: named parameters in, a JSON value or a model out (ACP, Extensibility)."""
    notifications: Mapping[str, Callable[[dict[str, Any]], Awaitable[None] | None]] = field(
        default_factory=dict[str, Any]
    )
    """Notifications by name, in the order of arrival. Also those of the protocol, for programs that want them raw."""

    def __post_init__(self) -> None:
        """Raises UsageError for what cannot answer: the agent would be refused, and the program never learn why."""
        for name in ("permission", "form", "url", "url_done"):
            _check_function(name, getattr(self, name), may_be_none=name != "permission")
        for name in ("methods", "notifications"):
            given: Any = getattr(self, name)
            if not isinstance(given, Mapping):
                raise UsageError(f"Handlers({name}=...) has functions by the names of methods, and not {given!r}")
            for method, function in cast("Mapping[Any, Any]", given).items():
                _check_function(f"{name}[{method!r}]", function)
        _check_methods("files", self.files, ("read_text_file", "write_text_file"), any)
        calls = ("create", "output", "wait_for_exit", "kill", "release", "aclose")
        _check_methods("terminals", self.terminals, calls, all)

    def capabilities(self, base: ClientCapabilities | None = None) -> ClientCapabilities:
        """What to announce in `initialize`: `base`, with everything in it that follows from what is here."""
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
