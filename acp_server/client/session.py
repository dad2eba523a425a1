"""A session of the agent as the client sees it. Updates of the agent keep its state up to date.

The session sends nothing by itself. Turns are in `acp_server.client.turn`. Methods that are not for the program are in
`LiveSession`, so that neither help nor completion offers them.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import anyio

from acp_server.client.turn import LiveTurn, RemoteTurn
from acp_server.errors import CapabilityMissing, SessionTaken, UsageError
from acp_server.schema import (
    AgentMessageChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    CloseSessionResponse,
    ConfigOptionUpdate,
    ContentBlock,
    CurrentModeUpdate,
    DeleteSessionResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptRequest,
    PromptResponse,
    ResumeSessionResponse,
    SessionConfigOption,
    SessionInfoUpdate,
    SessionModeState,
    SessionUpdate,
    SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse,
    SetSessionModeRequest,
    SetSessionModeResponse,
    SubagentUpdate,
    TextContent,
    UsageUpdate,
)
from acp_server.schema.methods import MEMBER_CAPABILITIES
from acp_server.signatures import signature_of

if TYPE_CHECKING:
    from acp_server.client.remote import RemoteAgent
    from acp_server.client.subagents import RemoteSubagent

_Handled: TypeAlias = Awaitable[None] | None

OnUpdate: TypeAlias = "Callable[[SessionUpdate], _Handled] | Callable[[RemoteSession, SessionUpdate], _Handled]"
"""Called with each update, or with the session and each update, one at a time. If it awaits, later updates and
responses wait."""

Opening: TypeAlias = NewSessionResponse | LoadSessionResponse | ResumeSessionResponse
"""The result of a request that created, loaded or resumed a session."""

Prompt: TypeAlias = str | Sequence[ContentBlock | str]
"""The user's message: a text, or a sequence of content blocks. A string in the sequence is a text block."""

_CANCEL_TOOL_CALL: Final = "_tool_call/cancel"
"""A method that agents of this package announce in `_meta` (see `acp_server.agent.handlers`)."""


class RemoteSession:
    """One session, as `RemoteAgent.new_session`, `load_session` and `resume_session` return it.

    Updates of the agent keep these attributes up to date: `modes`, `config_options`, `available_commands`, `title`,
    `updated_at` and `usage`. `on_update` gets every update. `response` is the agent's whole result that opened the
    session.
    """

    modes: SessionModeState | None
    """The modes on offer and the current mode; None if the session has no modes."""
    config_options: list[SessionConfigOption]
    """The config options with their current values."""
    available_commands: list[AvailableCommand]
    """The slash commands."""
    title: str | None
    """The title for the user; None until the agent has set one."""
    updated_at: str | None
    """The time of the last activity, ISO 8601, as the agent reports it."""
    usage: UsageUpdate | None
    """The last report of context usage and cost."""

    def __init__(
        self, agent: RemoteAgent, id: str, cwd: str, on_update: OnUpdate | None, send_cancel: Callable[[str], None]
    ) -> None:
        self.agent = agent
        self.id = id
        self.cwd = cwd
        self.on_update = on_update
        self._response: Opening | None = None
        self.modes = self.title = self.updated_at = self.usage = None
        self.config_options = []
        self.available_commands = []
        self.ending = False
        """Whether the agent was requested to close or delete the session. The agent may then give the id to another
        session."""
        self.subagents: dict[str, RemoteSubagent] = {}
        """The child sessions that the agent has announced below this session, by id (ACP, Subagents)."""
        self._send_cancel = send_cancel
        self._turn: LiveTurn | None = None

    @property
    def response(self) -> Opening:
        """The agent's result that opened the session, as received. It has `meta`, and in `model_extra` the members that
        this package does not know, such as `models`. During a replay, before the result has arrived, it raises
        UsageError."""
        if self._response is None:
            raise UsageError("the session is not open yet")
        return self._response

    @property
    def on_update(self) -> OnUpdate | None:
        """A function that gets every update, during turns and between them. Its exceptions are logged. It takes the
        update, or the session and the update. If it takes the session, it can also handle updates that arrive before
        `new_session` returns. Setting anything else raises UsageError."""
        return self._on_update

    @on_update.setter
    def on_update(self, on_update: OnUpdate | None) -> None:
        self._tell = None if on_update is None else self._taking_updates(on_update)
        self._on_update = on_update

    # -- turns

    def prompt(self, prompt: Prompt, *, meta: dict[str, Any] | None = None) -> RemoteTurn:
        """Return a turn (ACP, Prompt Turn). Enter it with `async with`; see `RemoteTurn`.

        A session has one turn at a time. If another turn runs, entering raises UsageError; if another turn is being
        cancelled, entering waits for its end. Entering also raises UsageError if the session is closed or deleted, or
        is about to be, since its updates would not be delivered. It raises CapabilityMissing for content that the agent
        does not accept, and SessionTaken if the agent has given the session's id to another session.
        """
        blocks = [prompt] if isinstance(prompt, str) else prompt
        content = [TextContent(text=block) if isinstance(block, str) else block for block in blocks]
        request = PromptRequest(session_id=self.id, prompt=content, meta=meta)
        return LiveTurn(cast("LiveSession", self), request)

    async def run(
        self, prompt: Prompt, *, on_update: OnUpdate | None = None, meta: dict[str, Any] | None = None
    ) -> PromptResponse:
        """Run a whole turn and return the response. `on_update` gets the updates of the turn. Raises like the iteration
        of a turn."""
        tell = None if on_update is None else self._taking_updates(on_update)
        async with self.prompt(prompt, meta=meta) as turn:
            async for update in turn:
                if tell is not None:
                    pending = tell(update)
                    if inspect.isawaitable(pending):
                        await pending
            return turn.result

    async def ask(self, prompt: Prompt) -> str:
        """Run a whole turn. Returns the text of all agent messages, whatever the stop reason is. Raises like the
        iteration of a turn."""
        said: list[str] = []

        def heard(update: SessionUpdate) -> None:
            if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent):
                said.append(update.content.text)

        await self.run(prompt, on_update=heard)
        return "".join(said)

    @property
    def turn(self) -> RemoteTurn | None:
        """The running turn, even if it is cancelled and the agent has not confirmed that yet; None if no turn runs."""
        return None if self._turn is None or self._turn.over.is_set() else self._turn

    def cancel(self) -> None:
        """Cancel the running turn, if any; see `RemoteTurn.cancel`."""
        if (turn := self.turn) is not None:
            turn.cancel()

    async def cancel_tool_call(self, tool_call_id: str) -> None:
        """Request the agent to cancel one tool call and continue the turn (ACP v2, Cancellation).

        This call returns when the agent has accepted the request. The tool call has ended when an update gives it a
        final status. That status is not `cancelled` if the tool call ended first. Raises InvalidParams for a tool call
        that has ended or cannot be cancelled; an agent may show in the tool call's `capabilities` that it cannot be
        cancelled. Version 1 has no such method. Agents of this package offer it as an extension; for other agents with
        version 1 this raises CapabilityMissing.
        """
        what = {"toolCallId": tool_call_id}
        told = self.agent.link.capabilities
        if self.agent.link.dialect is None and told is not None and _CANCEL_TOOL_CALL in (told.meta or {}):
            self._check_id()
            await self.agent.link.request(_CANCEL_TOOL_CALL, {"sessionId": self.id, **what})
        else:
            await self._cancel_one("tool_call/cancel", what)

    async def cancel_terminal(self, terminal_id: str) -> None:
        """Request the agent to end the command in one of the agent's terminals and continue the turn (ACP v2,
        Cancellation).

        This call returns when the agent has accepted the request. The command has ended when an update has its exit
        status. Raises CapabilityMissing in version 1, and InvalidParams for a command that has ended or cannot be
        cancelled.
        """
        await self._cancel_one("terminal/cancel", {"terminalId": terminal_id})

    # -- settings

    async def set_mode(self, mode_id: str, *, meta: dict[str, Any] | None = None) -> SetSessionModeResponse:
        """Enter a mode (ACP, Session Modes)."""
        self._check_id()
        request = SetSessionModeRequest(session_id=self.id, mode_id=mode_id, meta=meta)
        result = await self.agent.link.call("session/set_mode", request)
        self._entered(mode_id)
        if isinstance(result, SetSessionModeResponse):
            return result
        # In version 2 a mode is a config option, and the response has all options.
        others = {name: value for name, value in result.to_wire().items() if name not in ("configOptions", "modes")}
        return SetSessionModeResponse.from_wire(others)

    async def set_config_option(
        self, config_id: str, value: str | bool, *, meta: dict[str, Any] | None = None
    ) -> SetSessionConfigOptionResponse:
        """Set a config option (ACP, Session Config Options). Returns the response with all options and their new
        values, which also become the session's `config_options`."""
        self._check_id()
        request = SetSessionConfigOptionRequest(session_id=self.id, config_id=config_id, value=value, meta=meta)
        result: SetSessionConfigOptionResponse = await self.agent.link.call("session/set_config_option", request)
        self.config_options = result.config_options
        return result

    async def close(self, *, meta: dict[str, Any] | None = None) -> CloseSessionResponse:
        """See `RemoteAgent.close_session`. Nothing is sent if the id now belongs to another session."""
        return await self.agent.close_session(self.id, meta=meta) if self._has_id() else CloseSessionResponse()

    async def delete(self, *, meta: dict[str, Any] | None = None) -> DeleteSessionResponse:
        """See `RemoteAgent.delete_session`. Nothing is sent if the id now belongs to another session."""
        return await self.agent.delete_session(self.id, meta=meta) if self._has_id() else DeleteSessionResponse()

    def _taking_updates(self, on_update: OnUpdate) -> Callable[[SessionUpdate], _Handled]:
        function: Any = on_update
        try:
            signature = signature_of(function)
        except ValueError:
            return function  # not written in Python, and without a signature
        for arguments, taking in (((0,), function), ((0, 0), partial(function, self))):
            try:
                signature.bind(*arguments)
            except TypeError:
                continue
            return taking
        raise UsageError(f"on_update must take an update, or a session and an update; {function!r:.100} takes neither")

    def _has_id(self) -> bool:
        # Whether the id belongs to no other session that is open here.
        return self.agent.sessions.get(self.id) in (None, self)

    async def _cancel_one(self, method: str, what: dict[str, str]) -> None:
        self._check_id()
        dialect = self.agent.link.dialect
        if dialect is None:
            raise CapabilityMissing(method, "version 2 of the protocol")
        await dialect.request(method, {"sessionId": self.id, **what})

    def _check_id(self) -> None:
        if not self._has_id():
            raise SessionTaken(self.id)

    def _entered(self, mode_id: str) -> None:
        if self.modes is not None:
            self.modes.current_mode_id = mode_id


class LiveSession(RemoteSession):
    """The methods that the client's other modules call. Every session is a `LiveSession`."""

    async def begin(self, turn: LiveTurn) -> None:
        """Make `turn` the running turn, and send its prompt."""
        needed = MEMBER_CAPABILITIES["ContentBlock"]
        for block in turn.request.prompt:
            self.agent.link.need("session/prompt", needed.get(block.type or ""))
        if self._turn is turn:
            raise UsageError("a turn can be begun only once")
        while (before := self._turn) is not None and not before.over.is_set():
            if not before.cancelled:
                raise UsageError("a turn of this session is still running")
            with anyio.CancelScope(deadline=before.patience):
                await before.over.wait()
            # An agent that never answers a cancelled prompt must not block the session for ever.
            before.finish()
        self._check_id()
        if self.ending:
            raise UsageError("the session is closed, or is being closed")
        self._turn = turn
        self.agent.link.spawn(turn.ask)

    def send_cancel(self) -> None:
        """Send `session/cancel`, and answer the open permission requests."""
        if self._has_id():
            self._send_cancel(self.id)

    def opened(self, response: Opening) -> None:
        """Store the agent's result that created, loaded or resumed the session."""
        self._response = response
        self.modes: SessionModeState | None = response.modes
        self.config_options: list[SessionConfigOption] = response.config_options or []

    def changed(self, told: ResumeSessionResponse) -> None:
        """Store the settings after a change: the agent has changed the requested setting, and perhaps others with
        it."""
        self.config_options = told.config_options or []
        if told.modes is not None:
            self._entered(told.modes.current_mode_id)

    def receive(self, update: SessionUpdate, params: Any) -> Awaitable[None] | None:
        """Handle an update for this session. `params`: the parameters of its notification."""
        if isinstance(update, CurrentModeUpdate):
            self._entered(update.current_mode_id)
        elif isinstance(update, ConfigOptionUpdate):
            self.config_options = update.config_options
        elif isinstance(update, AvailableCommandsUpdate):
            self.available_commands: list[AvailableCommand] = update.available_commands
        elif isinstance(update, SubagentUpdate):
            self.agent.subagents.tell(self, update)
        elif isinstance(update, UsageUpdate):
            self.usage: UsageUpdate | None = update
        elif isinstance(update, SessionInfoUpdate):
            if "title" in update.model_fields_set:
                self.title: str | None = update.title
            if "updated_at" in update.model_fields_set:
                self.updated_at: str | None = update.updated_at
        if self._turn is not None and not self._turn.over.is_set():
            self._turn.put(update, params)
        return None if self._tell is None else self._tell(update)

    def miss(self, what: str) -> None:
        """Mark the running turn as incomplete, because an update was lost or later updates will be lost."""
        if self._turn is not None and not self._turn.over.is_set():
            self._turn.miss(what)

    def lost(self) -> None:
        """Record that the connection has ended."""
        if self._turn is not None and not self._turn.over.is_set() and self._turn.cancelled:
            self._turn.finish()


def absolute(path: str | os.PathLike[str]) -> str:
    """Return the path of a directory, which must be absolute in the protocol. Raises UsageError for a relative path."""
    path = os.fspath(path)
    if not os.path.isabs(path):
        raise UsageError(f"the protocol requires an absolute path, but {path!r} is relative")
    return path
