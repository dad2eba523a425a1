"""One session on one connection (ACP, Session Setup): its directories, its settings and its turns.

A session outlives its turns, and its record outlives the connection. `lifecycle` creates, loads and closes sessions.
The runtime's own methods are in `live_session`, so that help and completion do not offer them to authors.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from threading import get_ident
from time import time
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, overload

import anyio

from acp_server.errors import SessionClosed, UsageError
from acp_server.peer.outcome import report
from acp_server.safe_text import meant
from acp_server.session.client import Client
from acp_server.session.negotiation import ClientProfile
from acp_server.session.sayable import is_command, several, wire_of
from acp_server.session.settings import Option, Settings, settings_of
from acp_server.session.state import SessionState
from acp_server.session.updates import Updates
from acp_server.store.records import SessionRecord, iso
from acp_server.store.session_store import TurnJournal
from acp_server.tasks.cause import Cause
from acp_server.tasks.grace import grace
from acp_server.tasks.threads import Threads

if TYPE_CHECKING:
    from acp_server.peer.answer import Answer
    from acp_server.peer.call import Call
    from acp_server.peer.peer import Peer
    from acp_server.schema.config_options import SessionMode
    from acp_server.schema.session import McpServer, SystemPrompt
    from acp_server.schema.updates import AvailableCommand, SessionUpdate
    from acp_server.session.definition import AgentDefinition, McpHost, Origin, ToolHost
    from acp_server.session.turn import Turn
    from acp_server.session.updates import LiveTurn

logger: logging.Logger = logging.getLogger("acp_server.session")

T = TypeVar("T")
_RAISE: Final[Any] = object()


class Session:
    """One conversation with a client. All handlers of the session share it.

    `data` may hold any value of the agent's author. `record` is the part that is stored. `tools` has the tools for a
    model, `client` the calls to the client, and `settings` the modes and config options on offer.
    """

    # Without a `__dict__`, setting a misspelt attribute raises AttributeError instead of having no effect.
    __slots__ = (
        *("__weakref__", "_are_servers_unused", "_awaited", "_changing", "_closers", "_definition", "_journal"),
        *("_mcp", "_mcp_host", "_mcp_servers", "_patience", "_saved", "_saves", "_store", "_threads", "approvals"),
        *("call", "client", "data", "origin", "record", "settings", "state", "system_prompt", "tools", "turns"),
        "updates",
    )

    record: SessionRecord
    """The stored part of the session: its turns, and the user's settings. `record.context()` has the turns that a
    model should see."""
    client: Client
    """The client, for calls that belong to this session."""
    tools: Final[ToolHost]
    """The tools for a model in this session: the agent's tools, and the tools added here."""
    data: Any
    """A value of the agent's author: the value that the session handler yielded, or any other. None at first."""
    settings: Settings
    """The modes and config options on offer. A session handler may change them."""

    call: Call | None
    """The request that opens or closes the session or changes a setting, while that request is answered; None at other
    times. `call.params` holds the client's parameters, and `call.answer` the additions to the response."""
    origin: Origin
    """How the session was opened on this connection: `new`, `load`, `resume`, or `fork` if `Agent.open_session` opened
    it from another session."""

    system_prompt: SystemPrompt | None
    """The client's instructions, from the request that opened the session on this connection (ACP, Client System
    Prompt). None if the client sent none, or if the agent has no `Agent(system_prompt=...)`."""

    _UPDATES: ClassVar[type[Updates]] = Updates
    _CLIENT: ClassVar[type[Client]] = Client

    def __init__(
        self,
        record: SessionRecord,
        connection: Peer,
        profile: ClientProfile,
        definition: AgentDefinition,
        mcp_servers: Sequence[McpServer] = (),
    ) -> None:
        self.record = record
        self.call = None
        self.origin = "new"
        self.system_prompt = None
        self._mcp: McpHost | None = None
        self._mcp_servers = mcp_servers
        self._are_servers_unused = bool(mcp_servers)
        """Whether the client named MCP servers that the agent never read."""
        self._definition = definition
        self.updates: Updates = self._UPDATES(connection, profile, record.id)
        if record.turns:
            self.updates.calls = None
        self.turns: list[LiveTurn] = []
        """The turns that have not finished, in order. The first one runs or cleans up, the others wait."""
        self.client = self._CLIENT(self, connection, profile)
        self.settings = settings_of(record, profile, definition)
        self.approvals: dict[str, bool] = {}
        """The user's decision for all calls of a tool in this session, by the tool's `approval_key`."""
        self.tools = definition.tools(self)
        self._mcp_host = definition.mcp_host
        self.data = None
        self.state = SessionState.OPENING
        """The state of the session on this connection."""
        self._saves = 0
        self._saved = 0
        self._store = definition.store
        self._journal = definition.store if isinstance(definition.store, TurnJournal) else None
        self._patience = connection.limits.end_grace
        self._closers: AsyncExitStack | None = AsyncExitStack()
        """Callbacks to call when the session closes; None after they were called."""
        self._threads = Threads.current()
        # The event of a turn is set when that turn is the first; the event of None, when no turn is left. So a waiting
        # turn wakes once, however many turns before it end.
        self._awaited: dict[LiveTurn | None, anyio.Event] = {}
        self._changing = anyio.Lock()

    @property
    def answer(self) -> Answer:
        """Additions to the response to `call`. In a session handler, `session.answer.meta[...]` is added to the
        response to `session/new`, `load` or `resume`. Raises UsageError if `call` is None."""
        if self.call is None:
            raise UsageError("session.answer exists only while a request about this session waits for its response")
        return self.call.answer

    def _share(self, above: Session) -> None:
        """Share the settings, approvals, data, system prompt and origin of the session `above`."""
        self.settings, self.approvals = above.settings, above.approvals
        self.data, self.system_prompt, self.origin = above.data, above.system_prompt, above.origin

    @contextmanager
    def _answering(self, call: Call) -> Generator[None]:
        before, self.call = self.call, call
        try:
            yield
        finally:
            self.call = before

    @property
    def id(self) -> str:
        """The id of the session in the protocol, `sessionId`."""
        return self.record.id

    @property
    def cwd(self) -> str:
        """The absolute path of the working directory. Relative paths in this session start from it."""
        return self.record.folder

    @property
    def roots(self) -> list[str]:
        """The directories that the session should work in: first `cwd`, then the additional directories."""
        return [self.record.folder, *self.record.additional_directories]

    @property
    def mcp_servers(self) -> Sequence[McpServer]:
        """The MCP servers that the client named (ACP, MCP Servers). They have only the transports that the agent
        announced."""
        self._are_servers_unused = False
        return self._mcp_servers

    @property
    def mcp(self) -> McpHost:
        """The MCP servers that the client named (extra `mcp`). The servers are connected, and their tools added to
        `tools`, by `await session.mcp.connect()` in a session handler, by `session.mcp.ready(turn)` in a turn, or by
        `Agent(mcp=True)`. Without any of these no server is started. Raises UsageError if the session does not belong
        to an `Agent`."""
        if self._mcp_host is None:
            raise UsageError("only the sessions of an `Agent` can connect to MCP servers")
        self._are_servers_unused = False
        if self._mcp is None:
            self._mcp = self._mcp_host(self)
        return self._mcp

    def instructions(self, own: str = "") -> str:
        """Return the instructions for a model: `own`, the agent's built-in instructions, followed by the client's. If
        the mode of the client's instructions is `override`, return only the client's."""
        prompt = self.system_prompt
        if prompt is None:
            return own
        told = "\n\n".join(block.text for block in prompt.content if block.type == "text")
        return told if prompt.mode == "override" or not own else f"{own}\n\n{told}"

    @property
    def mode(self) -> str | None:
        """The id of the current mode (ACP, Session Modes), or None for an agent without modes."""
        return self.settings.mode

    @overload
    def config(self, config_id: str) -> str | bool: ...

    @overload
    def config(self, config_id: str, default: T) -> str | bool | T: ...

    def config(self, config_id: str, default: Any = _RAISE) -> Any:
        """Return the current value of a config option (ACP, Session Config Options), a string or a bool. If the session
        has no such option, return `default`, or raise UsageError without a `default`. Sessions may differ in their
        options."""
        value = self.settings.value(config_id)
        if value is not None or default is not _RAISE:
            return default if value is None else value
        ids = [option.id for option in self.settings.options]
        raise UsageError(f"the session has no config option {config_id!r}; {meant(config_id, ids)}")

    # -- what the agent tells the client outside of a turn

    async def update(self, update: SessionUpdate, *, meta: dict[str, Any] | None = None) -> None:
        """Send any session update of `schema` to the client. Waits while the client reads too slowly. `meta`: the
        `_meta` of the notification, which is not the `_meta` of the update.

        Raises SessionClosed and ConnectionClosed.
        """
        if self.updates.flooded:
            await self.updates.room()
        self.updates.send(wire_of(update), meta)
        self.updates.spoken |= bool(self.turns)
        if self.updates.crowded:
            await self.updates.room()

    async def set_title(self, title: str | None) -> None:
        """Set the title that clients show in their lists of sessions. Has no effect if the user has named the session.
        During a turn the title is saved with that turn, otherwise at once. Raises ValueError if the title is not
        text."""
        from acp_server.schema.base import NULL
        from acp_server.schema.updates import SessionInfoUpdate

        told = SessionInfoUpdate(title=NULL if title is None else title)
        if self.record.named:
            return
        # The record gets the title as the schema checked it, because a store cannot encode other types.
        self.record.title = told.title
        self.record.updated_at = time()
        if not self.turns:
            await self.save()
        told.updated_at = iso(self.record.updated_at)
        await self.update(told)

    async def set_mode(self, mode_id: str) -> None:
        """Change the mode from the agent's side. If the mode changes, an update is sent. Raises ValueError for a mode
        that is not on offer."""
        from acp_server.schema.updates import CurrentModeUpdate

        before = self.mode
        await self._change(lambda: self.settings.set_mode(mode_id))
        if self.mode == before:
            return
        for update in (*self._in_step(None), CurrentModeUpdate(current_mode_id=mode_id)):
            await self.update(update)

    async def set_config(self, config_id: str, value: str | bool) -> None:
        """Change a config option from the agent's side. If its value changes, an update is sent. Raises ValueError for
        an option or a value that is not on offer."""
        from acp_server.schema.updates import ConfigOptionUpdate

        before = self.settings.value(config_id)
        await self._change(lambda: self.settings.choose(config_id, value))
        if self.settings.value(config_id) == before:
            return
        await self.update(ConfigOptionUpdate(config_options=self.settings.shown()))
        for update in self._in_step(config_id):
            await self.update(update)

    async def set_modes(self, *modes: SessionMode, current: str | None = None, as_option: bool | None = None) -> None:
        """Replace the modes on offer. `current`: the id of the new current mode. By default the chosen mode stays
        current. If the chosen mode is not offered, the first mode becomes current. `as_option`: see `Agent.modes`; None
        leaves it unchanged. Clients receive the list of modes only when the session opens, but the current mode at any
        time.

        Raises UsageError for the same reasons as `Agent.modes`, and ValueError if `current` is not among the modes.
        """
        from acp_server.schema.updates import CurrentModeUpdate

        before = self.mode
        self.settings.offer_modes(modes)
        if as_option is not None:
            self.settings.modes_as_option = as_option
        if current is not None:
            await self._change(lambda: self.settings.set_mode(current))
        if self.call is None and self.mode is not None and self.mode != before:
            await self.update(CurrentModeUpdate(current_mode_id=self.mode))
            for update in self._in_step(None):
                await self.update(update)

    async def set_options(self, *options: Option, keep: bool = True) -> None:
        """Replace the config options on offer, and send an update. Use it, for example, if one option depends on
        another. While `call` is answered, the options are part of its response instead, and no update is sent.

        `keep`: whether an option keeps its chosen value if it still offers that value. With False each option gets its
        `current_value`, for an agent that stores the values itself. Raises UsageError for the same reasons as
        `Agent.config_options`.
        """
        from acp_server.schema.updates import ConfigOptionUpdate

        self.settings.replace(options, keep=keep)
        if not keep:
            await self.save()
        if self.call is None:
            await self.update(ConfigOptionUpdate(config_options=self.settings.shown()))

    def _in_step(self, changed: str | None) -> list[SessionUpdate]:
        return self.settings.in_step(changed)

    def opening(self) -> dict[str, Any]:
        """Return the result of `session/new` in its wire form: the session's id, modes and config options. Use it as
        the result of a custom method that opens a session, such as `session/fork`."""
        return {"sessionId": self.id, **self._offered()}

    def _offered(self) -> dict[str, Any]:
        """Return the members of `opening` except the id."""
        state = self.settings.state()
        if not state:
            return state
        from acp_server.schema.session import ResumeSessionResponse

        return ResumeSessionResponse(**state).to_wire()

    async def set_commands(self, commands: Sequence[AvailableCommand]) -> None:
        """Replace the slash commands on offer (ACP, Slash Commands). Raises UsageError if a name occurs twice, is not
        one word, or begins with a slash. Clients add the slash."""
        from acp_server.schema.updates import AvailableCommand, AvailableCommandsUpdate

        commands = several("the commands", commands, AvailableCommand)
        names = [command.name for command in commands]
        for name in names:
            if not is_command(name):
                raise UsageError(
                    f"the name of a command must be one word without a slash, such as 'notes', not {name!r}"
                )
            if names.count(name) > 1:
                raise UsageError(f"there are two commands with the name {name!r}")
        await self.update(AvailableCommandsUpdate(available_commands=commands))

    # -- its turns

    @property
    def turn(self) -> Turn | None:
        """The turn that runs, or that cleans up after a cancel; None if there is no such turn."""
        return self.turns[0].face if self.turns else None

    def cancel(self, cause: Cause = Cause.SESSION) -> bool:
        """Cancel every turn that runs or waits now. Later turns are not affected. May be called from any thread.
        Returns whether a turn was cancelled. In another thread, it returns whether there was a turn to cancel."""
        turns = list(self.turns)
        if get_ident() != self._threads.home:
            turns = [turn for turn in turns if turn.record.ended_at is None and turn.node.cause is None]
            self._threads.soon(lambda: [turn.node.cancel(cause) for turn in turns])
            return bool(turns)
        cancelled = False
        for turn in turns:
            if turn.record.ended_at is None and turn.node.cancel(cause):
                cancelled = True
        return cancelled

    # -- its life

    @property
    def closed(self) -> bool:
        """Whether the session is closed, or is releasing its resources."""
        return self.state is SessionState.CLOSED

    async def save(self) -> None:
        """Save the session to the store, shielded from cancels. Has no effect before the session is open or after it is
        closed.

        Raises TimeoutError after `Limits.end_grace` seconds, and the exceptions of the store.
        """
        saving = self._saving()
        if saving is not None:
            await saving

    async def _change(self, choose: Callable[[], Callable[[], None]]) -> None:
        # Changes run one after the other: the undo of a failed change could restore the value of another failed one.
        async with self._changing:
            if self.closed:
                raise SessionClosed
            undo = choose()
            try:
                await self.save()
            except BaseException:
                undo()
                # The store may have saved the change all the same, so the session counts as unsaved.
                self._saves += 1
                raise

    def _saving(self) -> Awaitable[None] | None:
        if not self.state.saves:
            return None
        self._saves = number = self._saves + 1
        pending = self._store.save(self.record)
        if pending is None:
            self._saved = number
            return None
        return self._wait_saved(pending, number)

    async def _wait_saved(self, pending: Awaitable[None], number: int) -> None:
        with grace(self._patience) as scope:
            await pending
            # This save has the state of its beginning, so an earlier save that fails later changes nothing.
            self._saved = max(self._saved, number)
        if scope.cancelled_caught:
            raise TimeoutError(f"the session store took more than {self._patience:g} s")

    def on_close(self, closer: Callable[[], Awaitable[None] | None]) -> None:
        """Register `closer`, which is called when the session is closed or its connection ends. Closers are called in
        reverse order of registration. If one function raises, the others are still called. An async closer is cancelled
        after the grace period. Raises SessionClosed if the closers have been called already."""
        if self._closers is None:
            raise SessionClosed
        self._closers.push_async_callback(_call, closer, self.id)

    async def enter(self, manager: AbstractAsyncContextManager[T]) -> T:
        """Enter an async context manager (a connection, a server, a task group) and return its value. The manager is
        left when the session is closed or its connection ends. A separate task enters and leaves it, whichever task
        calls this method.

        If the caller is cancelled while entering, the entering is cancelled too, and the call waits for its cleanup.
        Leaving has the grace period of `on_close`. Raises the exceptions of entering, SessionClosed and
        ConnectionClosed. Later exceptions are logged.
        """
        from acp_server.session.resource import Resource

        if self.closed:
            raise SessionClosed
        resource = Resource(manager, f"a context manager of session {self.id}", self.client.connection)
        value: T = await resource.open()
        if self.closed:
            await resource.close()
            raise SessionClosed
        self.on_close(resource.close)
        return value


async def _call(closer: Callable[[], Awaitable[None] | None], session_id: str) -> None:
    try:
        pending = closer()
        if inspect.isawaitable(pending):
            await pending
    except Exception as error:
        report(f"a closer of session {session_id}", error)
