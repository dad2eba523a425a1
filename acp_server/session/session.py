"""One session on one connection (ACP, Session Setup): where it works, its settings, its turns.

It outlives its turns; its record outlives the connection. How clients make, load and close sessions is in `lifecycle`.
What is not for authors is in `live_session`, so that no help and no completion offers it to them.
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
from acp_server.session.settings import Option, Settings
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
    from acp_server.session.turn import LiveTurn, Turn

logger: logging.Logger = logging.getLogger("acp_server.session")

T = TypeVar("T")
_RAISE: Final[Any] = object()


class Session:
    """What a session's handlers share.

    `data` is the agent author's own place to keep things, and `record` what is kept of the session. `tools` is what the
    agent can do for a model in it, `client` the client, `settings` the modes and config options that it offers.
    """

    # Without a `__dict__`, an attribute that there is not is an error, and not one of the author's that has no effect.
    __slots__ = (
        *("__weakref__", "_are_servers_unused", "_awaited", "_changing", "_closers", "_definition", "_journal"),
        *("_mcp", "_mcp_host", "_mcp_servers", "_patience", "_saved", "_saves", "_store", "_threads", "approvals"),
        *("admit", "call", "choosing", "client", "data", "keeps_history", "origin", "record", "settings", "state"),
        *("system_prompt", "tells_usage", "tools", "turns", "updates"),
    )

    record: SessionRecord
    """What is kept of it, in the agent's store: its turns, and what the user has set. `record.context()` is the part
    that a model should see."""
    client: Client
    """The client, for calls that belong to this session."""
    tools: Final[ToolHost]
    """What the agent can do for a model in this session: its own tools, and those that are added here."""
    data: Any
    """The agent author's own: what the session handler has yielded, or whatever is put here; None at first."""
    settings: Settings
    """The modes and config options that it offers; a session handler may change what is in them."""

    call: Call | None
    """The request that opens it, changes a setting of it or closes it, while that is answered. It has what the client
    sent (`call.params`), and what is added to the answer (`answer`). None at any other time."""
    origin: Origin
    """How it came to be open on this connection: `new`, `load`, `resume`, or `fork` for a
    session that `Agent.open_session` has opened from another."""

    system_prompt: SystemPrompt | None
    """The client's instructions for the session, as it was opened this time (ACP, Client System Prompt). None without
    any, as always without `Agent(system_prompt=...)`."""

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
        """Whether the client has named MCP servers that the agent has not looked at."""
        self._definition = definition
        self.updates: Updates = self._UPDATES(connection, profile, record.id)
        if record.turns:
            self.updates.calls = None
        self.turns: list[LiveTurn] = []
        """The turns that are not through: the running one, and those that are being cancelled or wait behind it."""
        self.client = self._CLIENT(self, connection, profile)
        self.settings = Settings(
            record,
            profile,
            definition.modes,
            definition.config_options,
            auto_approve=definition.auto_approve,
            modes_as_option=definition.modes_as_option,
        )
        self.approvals: dict[str, bool] = {}
        """By the tool's `approval_key`: what the user decided once and for all calls of it in this session."""
        self.tools = definition.tools(self)
        self._mcp_host = definition.mcp_host
        self.keeps_history: bool = definition.history
        """Whether its turns are kept, see `Agent`."""
        self.admit: Callable[[Turn], Awaitable[None]] | None = definition.admit
        """Looks at each prompt before it is part of the session; None if nothing does."""
        self.tells_usage: bool = definition.has("end_turn_usage")
        """Whether the end of a turn has a member `usage`, which is unstable."""
        self.data = None
        self.state = SessionState.OPENING
        """Where it is in its life on this connection."""
        self._saves = 0
        self._saved = 0
        self._store = definition.store
        self._journal = definition.store if isinstance(definition.store, TurnJournal) else None
        self._patience = connection.limits.end_grace
        self._closers: AsyncExitStack | None = AsyncExitStack()
        """What is to be done when it is closed; None when that is done."""
        self._threads = Threads.current()
        # Set when this turn comes first; for None, when there is no turn. So a turn that waits wakes once, however many
        # leave before it.
        self._awaited: dict[LiveTurn | None, anyio.Event] = {}
        self._changing = anyio.Lock()
        self.choosing: Final = anyio.Lock()
        """Held by the client's choices, which are made one after the other, with what the agent does about them."""

    @property
    def answer(self) -> Answer:
        """What is added to the answer to `call`: `session.answer.meta[...]` in a session handler is part of the answer
        to `session/new`, `load` or `resume`. Raises UsageError while no request is about the session."""
        if self.call is None:
            raise UsageError("no request that is about this session is being answered")
        return self.call.answer

    def _share(self, above: Session) -> None:
        """Work with what another session has set."""
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
        """The session's id, as clients name it."""
        return self.record.id

    @property
    def cwd(self) -> str:
        """The absolute path that relative paths of this session start from."""
        return self.record.folder

    @property
    def roots(self) -> list[str]:
        """The directories that the session's work should stay in: `cwd` and the additional ones."""
        return [self.record.folder, *self.record.additional_directories]

    @property
    def mcp_servers(self) -> Sequence[McpServer]:
        """What the client wants the agent to connect to (ACP, MCP Servers), of the kinds that the agent announced."""
        self._are_servers_unused = False
        return self._mcp_servers

    @property
    def mcp(self) -> McpHost:
        """The MCP servers that the client named for it (extra `mcp`): `await session.mcp.connect()` in a session
        handler, or `Agent(mcp=True)`, makes their tools `tools` of the session. So does `session.mcp.ready(turn)` in a
        turn. No server is started for an agent that does not look at them."""
        if self._mcp_host is None:
            raise UsageError("only the sessions of an `Agent` connect to MCP servers")
        self._are_servers_unused = False
        if self._mcp is None:
            self._mcp = self._mcp_host(self)
        return self._mcp

    def instructions(self, own: str = "") -> str:
        """What to tell a model that it is to do: your `own` built-in instructions and the client's behind them, or the
        client's alone where it replaces yours."""
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
        """The current value of a config option (ACP, Session Config Options), text or a bool. `default`: where the
        session has no such option, since sessions may differ in theirs; without it that raises UsageError."""
        value = self.settings.value(config_id)
        if value is not None or default is not _RAISE:
            return default if value is None else value
        ids = [option.id for option in self.settings.options]
        raise UsageError(f"the session has no config option {config_id!r}; {meant(config_id, ids)}")

    # -- what the agent tells the client outside of a turn

    async def update(self, update: SessionUpdate, *, meta: dict[str, Any] | None = None) -> None:
        """Tell the client anything about this session: a `schema` session update. Waits if the client is behind.
        `meta`: the `_meta` of the notification, beside the update.

        Raises SessionClosed and ConnectionClosed.
        """
        if self.updates.flooded:
            await self.updates.room()
        self.updates.send(wire_of(update), meta)
        self.updates.spoken |= bool(self.turns)
        if self.updates.crowded:
            await self.updates.room()

    async def set_title(self, title: str | None) -> None:
        """Name the session; clients show it in their lists. While a turn runs it is saved with that turn. A title that
        the user gave it stays. Raises ValueError for anything but text."""
        from acp_server.schema.base import NULL
        from acp_server.schema.updates import SessionInfoUpdate

        told = SessionInfoUpdate(title=NULL if title is None else title)
        if self.record.named:
            return
        # The record has what was read of it, for a store could not keep a session with something else.
        self.record.title = told.title
        self.record.updated_at = time()
        if not self.turns:
            await self.save()
        told.updated_at = iso(self.record.updated_at)
        await self.update(told)

    async def set_mode(self, mode_id: str) -> None:
        """Change the mode from the agent's side and tell the client, if it was another. Raises ValueError for a mode
        that was not offered."""
        from acp_server.schema.updates import CurrentModeUpdate

        before = self.mode
        await self._change(lambda: self.settings.set_mode(mode_id))
        if self.mode == before:
            return
        for update in (*self._in_step(None), CurrentModeUpdate(current_mode_id=mode_id)):
            await self.update(update)

    async def set_config(self, config_id: str, value: str | bool) -> None:
        """Change a config option from the agent's side and tell the client, if it was another value. Raises ValueError
        for an option or a value that was not offered."""
        from acp_server.schema.updates import ConfigOptionUpdate

        before = self.settings.value(config_id)
        await self._change(lambda: self.settings.choose(config_id, value))
        if self.settings.value(config_id) == before:
            return
        await self.update(ConfigOptionUpdate(config_options=self.settings.shown()))
        for update in self._in_step(config_id):
            await self.update(update)

    async def set_modes(self, *modes: SessionMode, current: str | None = None, as_option: bool | None = None) -> None:
        """Offer these modes in place of those before. `current`: the id of the current one; without it, the mode that
        was chosen, or the first. `as_option`: see `Agent.modes`; without it, as before. A client learns of modes when
        the session opens, and of the current mode at any time. Raises UsageError as `Agent.modes`, and ValueError for a
        `current` that is not among them."""
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
        """Offer these config options in place of those before, as where one depends on another, and tell the client.
        Those that stay keep the values that were chosen, if they still have them. `keep`: False if they have their
        `current_value` instead, for an agent that keeps the values itself. In a handler of a changed option, or of the
        session's opening, the answer tells the client. Raises UsageError as `Agent.config_options`."""
        from acp_server.schema.updates import ConfigOptionUpdate

        self.settings.replace(options, keep=keep)
        if not keep:
            await self.save()
        if self.call is None:
            await self.update(ConfigOptionUpdate(config_options=self.settings.shown()))

    def _in_step(self, changed: str | None) -> list[SessionUpdate]:
        return self.settings.in_step(changed)

    def opening(self) -> dict[str, Any]:
        """What the answer to `session/new` says of it, in its wire form: its id, the modes and the config options. For
        the answer of a method of yours that opens it, such as `session/fork`."""
        return {"sessionId": self.id, **self._offered()}

    def _offered(self) -> dict[str, Any]:
        """What of it is not its id."""
        state = self.settings.state()
        if not state:
            return state
        from acp_server.schema.session import ResumeSessionResponse

        return ResumeSessionResponse(**state).to_wire()

    async def set_commands(self, commands: Sequence[AvailableCommand]) -> None:
        """Offer slash commands to the client (ACP, Slash Commands); they replace those offered before. Raises
        UsageError for a name that is there twice, or not one word, or has the slash, which clients put before it."""
        from acp_server.schema.updates import AvailableCommand, AvailableCommandsUpdate

        commands = several("the commands", commands, AvailableCommand)
        names = [command.name for command in commands]
        for name in names:
            if not is_command(name):
                raise UsageError(f"a command has a name of one word without the slash, as in 'notes', and not {name!r}")
            if names.count(name) > 1:
                raise UsageError(f"there are two commands with the name {name!r}")
        await self.update(AvailableCommandsUpdate(available_commands=commands))

    # -- its turns

    @property
    def turn(self) -> Turn | None:
        """The turn that runs, or cleans up after a cancel; None while there is none."""
        return self.turns[0] if self.turns else None

    def cancel(self, cause: Cause = Cause.SESSION) -> bool:
        """Cancel every turn that is running or waiting now, from any thread. A later one is not affected. Returns
        whether there was such a turn."""
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
        """Whether it is closed, or lets go of what it holds at this time."""
        return self.state is SessionState.CLOSED

    async def save(self) -> None:
        """Keep the session in the store as it is now. No cancel reaches that. Before the session has been opened, and
        from its close on, this does nothing.

        Raises TimeoutError if that takes too long, and what the store raises.
        """
        saving = self._saving()
        if saving is not None:
            await saving

    async def _change(self, choose: Callable[[], Callable[[], None]]) -> None:
        # One after the other, or a change that fails could bring back what another has failed with.
        async with self._changing:
            if self.closed:
                raise SessionClosed
            undo = choose()
            try:
                await self.save()
            except BaseException:
                undo()
                # The store may have taken it all the same, or will.
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
            # It was of the session as it was when it began, so an earlier save that fails behind it changes nothing.
            self._saved = max(self._saved, number)
        if scope.cancelled_caught:
            raise TimeoutError(f"the store took more than {self._patience:g} s")

    def on_close(self, closer: Callable[[], Awaitable[None] | None]) -> None:
        """Have `closer` called when the session is closed or its connection ends; the last one first. All are called,
        whatever the others raise; those that wait are cancelled when the time for cleaning up is over. Raises
        SessionClosed when that has happened."""
        if self._closers is None:
            raise SessionClosed
        self._closers.push_async_callback(_call, closer, self.id)

    async def enter(self, manager: AbstractAsyncContextManager[T]) -> T:
        """Enter an async context manager (a connection, a server, a task group) and leave it when the session is closed
        or its connection ends: its value. Both happen in one task of its own, whichever task asks.

        If the caller is cancelled meanwhile, it is, too, and its cleanup is waited for. At the end of the session it
        has the time that `on_close` has. Raises what it raises on entering; what it raises later is logged. Raises
        SessionClosed and ConnectionClosed.
        """
        from acp_server.session.resource import Resource

        if self.closed:
            raise SessionClosed
        resource = Resource(manager, f"what session {self.id} holds", self.client.connection)
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
        report(f"what is done at the end of session {session_id}", error)
