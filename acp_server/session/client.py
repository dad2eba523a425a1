"""What an agent can ask its client for: files, terminals, permission, information (ACP, the client's methods).

Every call is checked against what the client announced before anything is sent. Being cancelled while a call is awaited
withdraws it. What to do with the answers is the agent's matter.
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
"""Seconds for a `session/cancel` behind the outcome `cancelled`. Clients send it some milliseconds later."""


@dataclass(frozen=True, slots=True, eq=False)
class PermissionAnswer:
    """What the user chose. It is true if the user allows it: anything but an offered option that allows is not an
    approval."""

    option_id: str | None
    """The chosen option, or None if the question was dismissed or cancelled."""
    kind: str | None
    """Its kind: `allow_once`, `allow_always`, `reject_once`, `reject_always`; None if dismissed or not offered."""
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The `_meta` of the client's answer."""
    cancelled: bool = False
    """The client answered `cancelled`: the turn is being cancelled (ACP, Cancellation)."""

    @property
    def allowed(self) -> bool:
        """Whether the user allows it."""
        return self.kind in ("allow_once", "allow_always")

    def __bool__(self) -> bool:
        return self.allowed

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            raise UsageError(f"an answer is not a text: compare answer.option_id or answer.kind with {other!r}")
        return isinstance(other, PermissionAnswer) and self._said() == other._said()

    def __hash__(self) -> int:
        return hash((self.option_id, self.kind))

    def _said(self) -> tuple[Any, ...]:
        return self.option_id, self.kind, self.meta


class Client:
    """The client, as one session sees it.

    All methods raise RpcError for the client's error answers, MalformedResponse for answers that are not what the
    method promises, ConnectionClosed, and CapabilityMissing if the client did not announce the method; nothing is sent
    then.
    """

    def __init__(self, session: Session, connection: Peer, profile: ClientProfile) -> None:
        self.connection = connection
        self.profile = profile
        self._session = session
        self.session_id: str = session.id
        """The session that its requests name."""

    @property
    def capabilities(self) -> ClientCapabilities:
        """What the client announced."""
        return self.profile.capabilities

    async def read_text_file(self, path: str, *, line: int | None = None, limit: int | None = None) -> str:
        """The text of a file as the editor has it, unsaved changes included (ACP, File System).

        `path` is absolute; `line` is the first line, counted from 1; `limit` is the number of lines. Raises UsageError
        for anything else, and EncodeError for a path that is not UTF-8.
        """
        self._need(self.capabilities.fs.read_text_file, "fs/read_text_file", "fs.readTextFile")
        _need_whole("fs/read_text_file", path)
        _check_read(path, line, limit)
        # By hand and not by the types of the schema, since agents read many files at once: it is a third of the cost.
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
        """Write a file through the editor, which makes it if need be (ACP, File System). `path` is absolute."""
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

        Anything but an offered option that allows counts as not allowed: a choice that was never offered, the outcome
        `cancelled`, and also an error or a malformed answer of the client's. Raises only ConnectionClosed, and
        UsageError for options that no answer can choose from: none, or two with one id. `on_late`: takes the result
        that comes when the caller waits for it no more; it must not wait.

        A client answers `cancelled` because it cancels the turn. Its `session/cancel` has a moment to arrive before
        that is returned.
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
        """`request_permission` with a call and options in their wire form, which are not checked."""

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
        """Start a command in a terminal of the client's (ACP, Terminals). Use the result in an `async with` block.

        `command` is the program, and `args` are its arguments: a line for a shell raises UsageError. `cwd` is absolute,
        else that raises ValueError. If this call is cancelled and the terminal comes into being all the same, it is
        released.
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
        """What keeps the terminals that are made now."""
        turns = self._session.turns
        return turns[0].record if turns else None

    async def elicit_form(
        self, message: str, form: ElicitationSchema, *, tool_call_id: str | None = None
    ) -> CreateElicitationResponse:
        """Ask the user to fill in a form (ACP, Elicitation), never for secrets: what the user did.

        `message`: what is asked. `form`: its fields. In the answer, `action` is `accept` (then `content` has the values
        by the names of the fields; check them), `decline` or `cancel`. The answer is true for `accept` alone. That the
        user chose `cancel` cancels nothing.
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
        """Ask the user to go to a URL (ACP, Elicitation): the answer `accept` means that the user agreed, not that what
        happens there is done. When it is, call `elicitation_complete` with the same id."""
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
        """Tell the client that what `elicit_url` sent the user for is done."""
        self.notify("elicitation/complete", {"elicitationId": elicitation_id})

    async def _elicit(self, params: Model, tool_call_id: str | None) -> CreateElicitationResponse:
        from acp_server.schema.elicitation import CreateElicitationResponse

        result = await self._ask_user("elicitation/create", params, tool_call_id)
        return read_result(CreateElicitationResponse, "elicitation/create", result)

    async def request(self, method: str, params: Any = None, *, timeout: float | None = None) -> Any:
        """Ask for anything else, an extension of the client's for example. See `Connection.request`."""
        return await self.connection.request(method, params, timeout=timeout)

    def notify(self, method: str, params: Any = None) -> None:
        """Tell the client anything else. See `Connection.notify`."""
        self.connection.notify(method, params)

    async def _ask_user(
        self, method: str, params: Any, tool_call_id: str | None, on_late: Callable[[Any], None] | None = None
    ) -> Any:
        # The turn that runs asks, also where its handler asks by its session.
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
            # What some clients answer to a request that was withdrawn: it created nothing.
            logger.info("no terminal to release: %s", error)
            return
        terminal = Terminal(self.connection, self.session_id, created.terminal_id)
        # In one message, which also ends the command: the connection may be about to close.
        self.connection.background(terminal.release_quietly)


def _check_read(path: str, line: int | None, limit: int | None) -> None:
    if not path.startswith("/") and not PureWindowsPath(path).is_absolute():
        raise UsageError(f"fs/read_text_file takes an absolute path, as os.path.join(session.cwd, {path!r})")
    if (line is not None and line < 1) or (limit is not None and limit < 0):
        raise UsageError(f"lines are counted from 1, and their limit from 0: line={line}, limit={limit}")


def _need_whole(method: str, *texts: str) -> None:
    """What names a file or a program is sent as it is, or not at all. Raises EncodeError."""
    for text in texts:
        if whole(text) != text:
            raise EncodeError(f"{method}: {text!r} is not UTF-8, and cannot be sent")


def _offered(options: Iterable[PermissionOption]) -> list[PermissionOption]:
    """The options of a question. Raises UsageError where there are none, and where an id is there twice: the answer
    names an option by its id, and a no could be taken for a yes."""
    listed = list(options)
    if not listed:
        raise UsageError("a permission request needs options to choose from, as one of kind allow_once")
    ids = [getattr(option, "option_id", None) for option in listed]
    twice = next((id for id in ids if id is not None and ids.count(id) > 1), None)
    if twice is not None:
        raise UsageError(f"there are two options with the option_id {twice!r}, which is what the answer names")
    return listed


def _permission(options: Sequence[dict[str, Any]], result: Any) -> PermissionAnswer:
    match result:
        case {"outcome": {"outcome": "selected", "optionId": str(id)}}:
            # Nearly all answers. The types of the schema would read it as this does.
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
    """The chosen option and the `_meta` of an answer; or what it is, if none was chosen."""
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
    logger.warning("the client did not answer a permission request, so it is not granted: %s", error)
    return PermissionAnswer(None, None)
