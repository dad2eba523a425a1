"""The client's methods that an agent can call: files, terminals, permission, elicitation (ACP, the client's methods).

Each call is checked against the client's capabilities before it is sent. If the calling task is cancelled, the request
is withdrawn.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from acp_server.errors import CapabilityMissing, EncodeError, MalformedResponse, RpcError, UsageError
from acp_server.peer.peer import Peer
from acp_server.safe_text import whole
from acp_server.schema.reading import read_result
from acp_server.session.negotiation import ClientProfile
from acp_server.session.terminal import Terminal, words_of

if TYPE_CHECKING:
    from acp_server.schema.base import Model
    from acp_server.schema.elicitation import CreateElicitationResponse, ElicitationSchema
    from acp_server.schema.initialization import ClientCapabilities
    from acp_server.schema.tool_call import PermissionOption, ToolCallUpdate
    from acp_server.session.session import Session
    from acp_server.store.records import TurnRecord

logger: logging.Logger = logging.getLogger("acp_server.session")

MOMENT: Final = 0.1
"""Seconds to wait for `session/cancel` after the outcome `cancelled`. Clients send it some milliseconds later."""


@dataclass(frozen=True, slots=True, eq=False)
class PermissionAnswer:
    """The user's choice. In a condition, it is true only if the user chose an offered option that allows the call."""

    option_id: str | None
    """The id of the chosen option, or None if the question was dismissed or cancelled."""
    kind: str | None
    """The kind of the option: `allow_once`, `allow_always`, `reject_once`, `reject_always`; None if the question was
    dismissed, or if the option was not offered."""
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The `_meta` of the client's answer."""
    cancelled: bool = False
    """Whether the client answered `cancelled`, which means that the turn is being cancelled (ACP, Cancellation)."""

    @property
    def allowed(self) -> bool:
        """Whether the user chose an option whose kind allows the call."""
        return self.kind in ("allow_once", "allow_always")

    def __bool__(self) -> bool:
        return self.allowed

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            raise UsageError(
                f"a permission answer is not a string; compare answer.option_id or answer.kind with {other!r}"
            )
        return isinstance(other, PermissionAnswer) and self._said() == other._said()

    def __hash__(self) -> int:
        return hash((self.option_id, self.kind))

    def _said(self) -> tuple[Any, ...]:
        return self.option_id, self.kind, self.meta


class Client:
    """The calls to the client in one session.

    All methods raise RpcError if the client answers with an error, MalformedResponse for a result that the schema does
    not allow, and ConnectionClosed. If the client did not announce the method, they send nothing and raise
    CapabilityMissing.
    """

    def __init__(self, session: Session, connection: Peer, profile: ClientProfile) -> None:
        self.connection = connection
        self.profile = profile
        self._session = session
        self.session_id: str = session.id
        """The `sessionId` of the requests."""

    @property
    def capabilities(self) -> ClientCapabilities:
        """The capabilities that the client announced."""
        return self.profile.capabilities

    async def read_text_file(self, path: str, *, line: int | None = None, limit: int | None = None) -> str:
        """Return the text of a file in the editor, including unsaved changes (ACP, File System).

        `path` is absolute; `line` is the first line, counted from 1; `limit` is the maximum number of lines. Raises
        UsageError for other values, and EncodeError for a path that is not UTF-8.
        """
        self._need(self.capabilities.fs.read_text_file, "fs/read_text_file", "fs.readTextFile")
        _need_whole("fs/read_text_file", path)
        _check_read(path, line, limit)
        # Built without the schema's types at a third of the cost, because agents read many files at once.
        params: dict[str, str | int] = {"sessionId": self.session_id, "path": path}
        if line is not None:
            params["line"] = line
        if limit is not None:
            params["limit"] = limit
        result = await self.connection.request("fs/read_text_file", params)
        if isinstance(result, dict):
            content = cast("dict[str, Any]", result).get("content")
            if isinstance(content, str):
                return content
        raise MalformedResponse("fs/read_text_file", "no content")

    async def write_text_file(self, path: str, content: str) -> None:
        """Write a file through the editor (ACP, File System). The editor creates the file if it is missing. `path` is
        absolute."""
        from acp_server.schema.client_methods import WriteTextFileRequest

        self._need(self.capabilities.fs.write_text_file, "fs/write_text_file", "fs.writeTextFile")
        _need_whole("fs/write_text_file", path)
        params = WriteTextFileRequest(session_id=self.session_id, path=path, content=content)
        await self.connection.request("fs/write_text_file", params)

    async def request_permission(
        self,
        tool_call: ToolCallUpdate,
        options: Sequence[PermissionOption],
        *,
        on_late: Callable[[PermissionAnswer], None] | None = None,
    ) -> PermissionAnswer:
        """Ask the user whether a tool may run (ACP, Tool Calls).

        The call is allowed only if the user chooses an offered option that allows it. It is not allowed after any other
        choice, after the outcome `cancelled`, and after an error or a malformed response. Raises ConnectionClosed,
        EncodeError, and UsageError if there are no options or two options with one id. `on_late` gets an answer that
        arrives after the caller was cancelled. The function must not wait.

        A client answers `cancelled` because it is cancelling the turn. During a turn that answer is returned `MOMENT`
        seconds later, so that `session/cancel` can arrive first.
        """
        from acp_server.schema.tool_call import RequestPermissionRequest

        options = _offered(options)
        request = RequestPermissionRequest(session_id=self.session_id, tool_call=tool_call, options=options)
        try:
            asked = request.to_wire()
        except ValueError as error:
            raise EncodeError(f"session/request_permission: {error}") from error
        return await self.ask_permission(asked["toolCall"], asked["options"], on_late=on_late)

    async def ask_permission(
        self,
        tool_call: dict[str, Any],
        options: Sequence[dict[str, Any]],
        *,
        on_late: Callable[[PermissionAnswer], None] | None = None,
    ) -> PermissionAnswer:
        """Do the same as `request_permission`, with a call and options that are in their wire form and are not
        checked."""

        def late(result: Any) -> None:
            assert on_late is not None
            on_late(_permission(options, result))

        params = self._question(tool_call, options)
        try:
            result = await self._ask_user(
                "session/request_permission", params, tool_call["toolCallId"], late if on_late is not None else None
            )
        except (RpcError, MalformedResponse) as error:
            return _no_permission(error)
        answer = _permission(options, result)
        if answer.cancelled and self._session.turns:
            try:
                await anyio.sleep(MOMENT)
            except anyio.get_cancelled_exc_class():
                if on_late is not None:
                    on_late(answer)
                raise
        return answer

    def _question(self, tool_call: dict[str, Any], options: Sequence[dict[str, Any]]) -> Any:
        return {"sessionId": self.session_id, "toolCall": tool_call, "options": options}

    async def create_terminal(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
    ) -> Terminal:
        """Start a command in a terminal of the client (ACP, Terminals). Use the result in an `async with` block.

        `command` is the program, and `args` its arguments. Raises UsageError if `command` is a shell command line, and
        ValueError if `cwd` is not absolute. If this call is cancelled but the client creates the terminal nevertheless,
        the terminal is released.
        """
        from acp_server.schema.client_methods import CreateTerminalRequest, CreateTerminalResponse
        from acp_server.schema.session import EnvVariable

        self._need(self.capabilities.terminal, "terminal/create", "terminal")
        words = words_of(command, args)
        _need_whole("terminal/create", *words, *(env or {}).values(), cwd or "")
        params = CreateTerminalRequest(session_id=self.session_id, command=command)
        if args:
            params.args = list(args)
        if env:
            params.env = [EnvVariable(name=name, value=value) for name, value in env.items()]
        if cwd is not None:
            params.cwd = cwd
        if output_byte_limit is not None:
            params.output_byte_limit = output_byte_limit
        turn = self._turn()
        result = await self.connection.request("terminal/create", params, on_late=self._release_late)
        created = read_result(CreateTerminalResponse, "terminal/create", result)
        about = {"command": shlex.join(words), "cwd": cwd or self._session.cwd}
        return Terminal(self.connection, self.session_id, created.terminal_id, turn, about)

    def _turn(self) -> TurnRecord | None:
        """Return the record of the first turn, which stores the terminals that are created now; None without a turn."""
        turns = self._session.turns
        return turns[0].record if turns else None

    async def elicit_form(
        self, message: str, form: ElicitationSchema, *, tool_call_id: str | None = None
    ) -> CreateElicitationResponse:
        """Ask the user to fill in a form (ACP, Elicitation). Do not ask for secrets.

        `message`: the question. `form`: its fields. The `action` of the response is `accept`, `decline` or `cancel`.
        With `accept`, `content` has the values by field name; check them. In a condition, the response is true only for
        `accept`. The action `cancel` does not cancel the turn.
        """
        from acp_server.schema.elicitation import ElicitationFormMode

        announced = self.capabilities.elicitation
        self._need(announced is not None and announced.form is not None, "elicitation/create", "elicitation.form")
        params = ElicitationFormMode(
            message=message, requested_schema=form, session_id=self.session_id, tool_call_id=tool_call_id
        )
        return await self._elicit(params, tool_call_id)

    async def elicit_url(
        self, message: str, url: str, *, elicitation_id: str, tool_call_id: str | None = None
    ) -> CreateElicitationResponse:
        """Ask the user to open a URL (ACP, Elicitation). `accept` means that the user agreed, not that the work at the
        URL is done. When it is done, call `elicitation_complete` with the same id."""
        from acp_server.schema.elicitation import ElicitationUrlMode

        announced = self.capabilities.elicitation
        self._need(announced is not None and announced.url is not None, "elicitation/create", "elicitation.url")
        params = ElicitationUrlMode(
            message=message,
            url=url,
            elicitation_id=elicitation_id,
            session_id=self.session_id,
            tool_call_id=tool_call_id,
        )
        return await self._elicit(params, tool_call_id)

    def elicitation_complete(self, elicitation_id: str) -> None:
        """Notify the client that the work at the URL of `elicit_url` is done."""
        self.notify("elicitation/complete", {"elicitationId": elicitation_id})

    async def _elicit(self, params: Model, tool_call_id: str | None) -> CreateElicitationResponse:
        from acp_server.schema.elicitation import CreateElicitationResponse

        result = await self._ask_user("elicitation/create", params, tool_call_id)
        return read_result(CreateElicitationResponse, "elicitation/create", result)

    async def request(self, method: str, params: Any = None, *, timeout: float | None = None) -> Any:
        """Send any other request, for example a client's extension method. See `Connection.request`."""
        return await self.connection.request(method, params, timeout=timeout)

    def notify(self, method: str, params: Any = None) -> None:
        """Send any other notification. See `Connection.notify`."""
        self.connection.notify(method, params)

    async def _ask_user(
        self, method: str, params: Any, tool_call_id: str | None, on_late: Callable[[Any], None] | None = None
    ) -> Any:
        # The question belongs to the running turn, also if its handler calls `session.client`.
        turns = self._session.turns
        if not turns:
            return await self.connection.request(method, params, on_late=on_late)
        turn = turns[0]
        turn.question_asked(tool_call_id)
        try:
            return await self.connection.request(method, params, on_late=on_late)
        finally:
            turn.question_over(tool_call_id)

    def _need(self, announced: bool, method: str, capability: str) -> None:
        if not announced:
            raise CapabilityMissing(method, f"clientCapabilities.{capability}")

    def _release_late(self, result: Any) -> None:
        from acp_server.schema.client_methods import CreateTerminalResponse

        try:
            created = read_result(CreateTerminalResponse, "terminal/create", result)
        except MalformedResponse as error:
            # Some clients answer a withdrawn request without a terminal id: they created nothing.
            logger.info("the client created no terminal, so there is nothing to release: %s", error)
            return
        terminal = Terminal(self.connection, self.session_id, created.terminal_id)
        # One message releases the terminal and ends its command, because the connection may be about to close.
        self.connection.background(terminal.release_quietly)


def _check_read(path: str, line: int | None, limit: int | None) -> None:
    if not path.startswith("/") and not PureWindowsPath(path).is_absolute():
        raise UsageError(f"fs/read_text_file needs an absolute path, such as os.path.join(session.cwd, {path!r})")
    if (line is not None and line < 1) or (limit is not None and limit < 0):
        raise UsageError(f"line must be at least 1 and limit at least 0; got line={line}, limit={limit}")


def _need_whole(method: str, *texts: str) -> None:
    """Raise EncodeError if a path or an argument cannot be encoded as UTF-8, since a replaced character would name
    another file."""
    for text in texts:
        if whole(text) != text:
            raise EncodeError(f"{method}: {text!r} cannot be encoded in UTF-8")


def _offered(options: Iterable[PermissionOption]) -> list[PermissionOption]:
    """Return the options as a list. Raises UsageError if there are no options or an id occurs twice. The response names
    an option by its id, so with two equal ids a rejection could count as an approval."""
    listed = list(options)
    if not listed:
        raise UsageError("a permission request needs at least one option, such as an option of the kind allow_once")
    ids = [getattr(option, "option_id", None) for option in listed]
    twice = next((id for id in ids if id is not None and ids.count(id) > 1), None)
    if twice is not None:
        raise UsageError(
            f"there are two options with the option_id {twice!r}; the client's answer could not tell them apart"
        )
    return listed


def _permission(options: Sequence[dict[str, Any]], result: Any) -> PermissionAnswer:
    match result:
        case {"outcome": {"outcome": "selected", "optionId": str(id)}}:
            # The fast path of nearly all answers; the schema's types read them equally.
            meta: Any = result.get("_meta")
        case _:
            response = _read_permission(result)
            if not isinstance(response, tuple):
                return response
            id, meta = response
    kind = None
    for option in options:
        if option["optionId"] == id:
            kind = option["kind"]
    return PermissionAnswer(id, kind, cast("dict[str, Any]", meta) if isinstance(meta, dict) else {})


def _read_permission(result: Any) -> PermissionAnswer | tuple[str, dict[str, Any]]:
    """Return the chosen option and the `_meta` of a result; or the final answer, if no option was chosen."""
    from acp_server.schema.tool_call import (
        CancelledPermissionOutcome,
        RequestPermissionResponse,
        SelectedPermissionOutcome,
    )

    try:
        response = read_result(RequestPermissionResponse, "session/request_permission", result)
    except MalformedResponse as error:
        return _no_permission(error)
    outcome = response.outcome
    meta: dict[str, Any] = response.meta or {}
    if not isinstance(outcome, SelectedPermissionOutcome):
        cancelled = isinstance(outcome, CancelledPermissionOutcome)
        return PermissionAnswer(None, None, meta, cancelled)
    return outcome.option_id, meta


def _no_permission(error: Exception) -> PermissionAnswer:
    logger.warning("the client did not answer a permission request, so the permission is not granted: %s", error)
    return PermissionAnswer(None, None)
