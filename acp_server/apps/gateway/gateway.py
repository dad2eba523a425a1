"""The gateway. It assembles its parts, and starts and ends them."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

import anyio
from anyio.abc import TaskGroup, TaskStatus

from acp_server.apps.gateway.auth import Tokens
from acp_server.apps.gateway.bots import Bots, Isolation
from acp_server.apps.gateway.chats import Cancel, Chats
from acp_server.apps.gateway.cluster import Cluster
from acp_server.apps.gateway.conversations import Conversations
from acp_server.apps.gateway.errors import ApiError, Code
from acp_server.apps.gateway.events import Forwarded
from acp_server.apps.gateway.limits import ONE, GatewayLimits, Size
from acp_server.apps.gateway.nodes import Node
from acp_server.apps.gateway.pool import Lives, Pool
from acp_server.apps.gateway.program import PATIENCE, Place, Program
from acp_server.apps.gateway.questions import CallType
from acp_server.apps.gateway.records import Ids, KnownSession
from acp_server.apps.gateway.rows import Rows
from acp_server.apps.gateway.store import Location, Store, open_engine
from acp_server.client import Patience

LAST_LOOK: Final = 2.0
"""Seconds for which an idle gateway stays after SIGTERM. Clients poll every second for the end of their chats, and
proxies poll as often whether the gateway is ready."""


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """The settings of a gateway."""

    bots: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Commands of agents, by bot id."""
    agent: Sequence[str] | None = None
    """The command of the agent for every other bot id; None if there is no such agent."""
    cwd: str
    """The folder in which the agents work, an absolute path."""
    agents: Size = ONE
    """The number of processes of a bot's agent."""
    isolation: Isolation | None = None
    """The folders and users of separate agents, one for each token name; None if all tokens share the agents."""
    store: Location | None = None
    """Where conversations are stored; None for in memory."""
    url: str = ""
    """The URL of this gateway for other gateways with the same store."""
    shared_sessions: bool = False
    """Whether the agents of all these gateways share one store of sessions."""
    cancel: Cancel = "stop"
    """The effect of a cancel on the agent."""
    elicitation: CallType = "function"
    """The type of the tool call for an elicitation."""
    file_urls: bool = False
    """Whether messages may link to files by any URL. By default only http and https are allowed."""
    limits: GatewayLimits = field(default_factory=GatewayLimits)
    allow_origins: Sequence[str] = ()
    """The origins whose pages may read responses in a browser (CORS); `*` for all."""
    patience: Patience = PATIENCE
    """How long agents may take to end."""
    protocol: Literal[1, 2] = 2
    """The highest protocol version that is offered to agents."""


class Gateway:
    """The parts that the routes use."""

    def __init__(self, settings: GatewaySettings, tokens: Tokens) -> None:
        """Raises UsageError if the store cannot be used."""
        self.tokens: Tokens = tokens
        self.limits: GatewayLimits = settings.limits
        self.allow_origins: Sequence[str] = settings.allow_origins
        self._engine = engine = open_engine(settings.store)
        store = Store(engine)
        self.store: Store = store
        self._drain: Drain | None = None
        """Set when the gateway is ending."""
        self.forwarded: set[Forwarded] = set()
        """The streams of other nodes' chats that this node forwards now."""
        with ExitStack() as opened, engine.explained():
            opened.callback(engine.close)
            ids = Ids(engine.transact(Rows.highest_id))
            self.node: Node
            self.node = node = Node(
                store,
                ids,
                shared=engine.shared,
                url=settings.url,
                lease_seconds=settings.limits.lease_seconds,
                shared_sessions=settings.shared_sessions,
            )
            node.joined(*engine.transact(node.join))
            lives = Lives()
            self.lives: Lives = lives

            def pool(name: str, command: Sequence[str], owner: str | None) -> Pool:
                place = partial(_place, settings.isolation, settings.cwd, owner)
                program = Program(
                    bot=name,
                    command=command,
                    place=place,
                    limits=settings.limits,
                    patience=settings.patience,
                    protocol=settings.protocol,
                )
                return Pool(program, ids, settings.agents, lives)

            self.bots: Bots = Bots(pool, isolated=settings.isolation is not None)
            self.bots.set(settings.bots, settings.agent)
            self.conversations: Conversations = Conversations(ids, self._release, self.limits, settings.file_urls)
            self.chats: Chats = Chats(
                store,
                ids,
                node,
                self.conversations,
                self.bots,
                self.limits,
                cancel=settings.cancel,
                elicitation=settings.elicitation,
            )
            self.cluster: Cluster = Cluster(store, engine, node, self.chats)
            opened.pop_all()

    def _release(self, owner: str, session: KnownSession) -> None:
        own = self.node.own(session)
        if own is not None:
            self.bots.release(owner, own)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run the gateway until the block is left. Then chats fail, agents are ended, and the store is closed."""
        try:
            async with anyio.create_task_group() as outer:
                # A separate group, so that stopping the work does not cancel the task that waits in the block.
                group = await outer.start(_hold)
                self.bots.use(group)
                self.chats.use(group)
                outer.start_soon(self.node.run, self.chats.abandon, self.chats.abandoned, self.chats.tidy)
                outer.start_soon(self.cluster.run)
                try:
                    yield
                finally:
                    self.stop()
                    await self.chats.ended()
                    outer.cancel_scope.cancel()
            await self.node.leave()
        finally:
            self._engine.close()

    def reload(self, tokens: Tokens, bots: Mapping[str, Sequence[str]], agent: Sequence[str] | None) -> None:
        """Replace these settings. Running chats are not affected, because each keeps its agent. Never waits."""
        self.tokens = tokens
        self.bots.set(bots, agent, tokens.names)

    def drain(self) -> None:
        """Stop accepting new chats, and end when the running chats have ended. Never waits.

        If there is nothing to wait for, the gateway ends at once. With a shared store it waits for the proxies, because
        requests that they send before they notice that this gateway is not ready would be lost.
        """
        is_awaited = self._engine.shared or self._is_working
        self._drain = Drain(self.limits.drain if is_awaited else 0)
        self.chats.refusal = self._drain.refusal

    @property
    def is_draining(self) -> bool:
        """Whether new chats are refused."""
        return self._drain is not None

    def has_drained(self) -> bool:
        """Return whether the gateway must end now. It is polled."""
        return self._drain is not None and self._drain.is_over(self._is_working)

    @property
    def _is_working(self) -> bool:
        return self.chats.is_working or bool(self.forwarded)

    def stop(self) -> None:
        """End the chats now, so that no client's stream delays the shutdown. Never waits."""
        self.chats.stop()

    def hurry(self) -> None:
        """End now, and kill the agents. Never waits."""
        self.stop()
        self.bots.kill()


class Drain:
    """The time from SIGTERM to the end of the gateway. Meanwhile running chats end, and proxies notice that the gateway
    is not ready."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`seconds`: how long the drain lasts at most."""
        self._clock = clock
        self._ends = clock() + seconds
        self._idle_until = math.inf

    @property
    def left(self) -> float:
        """Seconds until the latest end of the drain."""
        return self._ends - self._clock()

    def refusal(self) -> ApiError:
        """Return the error for a new chat, with HTTP status 503, so that a proxy sends the chat to another gateway."""
        retry_after = max(1, math.ceil(self.left))
        return ApiError(Code.BUSY, "the gateway is ending; try again later", retry_after=retry_after)

    def is_over(self, is_working: bool) -> bool:
        """Return whether the gateway must end now. It is polled. `is_working`: whether the gateway still works for a
        client."""
        now = self._clock()
        self._idle_until = math.inf if is_working else min(self._idle_until, now + LAST_LOOK)
        return now >= min(self._ends, self._idle_until)


def _place(isolation: Isolation | None, cwd: str, owner: str | None) -> Place:
    return Place(cwd) if isolation is None or owner is None else isolation.place(owner)


async def _hold(*, task_status: TaskStatus[TaskGroup]) -> None:
    async with anyio.create_task_group() as group:
        task_status.started(group)
        await anyio.sleep_forever()
