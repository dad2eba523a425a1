"""The gateway: its parts, put together, and its life."""

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
"""Seconds for which an idle gateway stays: clients poll every second for the end of their chats, and proxies look as
often whether the gateway is ready."""


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """What a gateway serves, and how."""

    bots: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Commands of agents, by the ids of the bots they are."""
    agent: Sequence[str] | None = None
    """The command of the agent that is every other bot; None: there are no others."""
    cwd: str
    """The folder that the agents work in, an absolute path."""
    agents: Size = ONE
    """How many processes the agent of a bot has."""
    isolation: Isolation | None = None
    """Where agents of their own, one for each name of tokens, work; None: all share the same agents."""
    store: Location | None = None
    """Where conversations are kept; None: in memory."""
    url: str = ""
    """Where other gateways that share the store reach this one."""
    shared_sessions: bool = False
    """Whether the agents of all those gateways keep their sessions in one place."""
    cancel: Cancel = "stop"
    """What a cancel does to the agent."""
    elicitation: CallType = "function"
    """The type of the tool call that an elicitation is."""
    file_urls: bool = False
    """Whether messages may link to files by any URL, and not only by those of the web."""
    limits: GatewayLimits = field(default_factory=GatewayLimits)
    allow_origins: Sequence[str] = ()
    """The origins whose pages may read answers in a browser (CORS); `*` for all."""
    patience: Patience = PATIENCE
    """How long agents may take to end."""
    protocol: Literal[1, 2] = 2
    """The highest version of the protocol that agents are asked for."""


class Gateway:
    """Everything that the routes work with."""

    def __init__(self, settings: GatewaySettings, tokens: Tokens) -> None:
        """Raises UsageError if the store cannot be used."""
        self.tokens: Tokens = tokens
        self.limits: GatewayLimits = settings.limits
        self.allow_origins: Sequence[str] = settings.allow_origins
        self._engine = engine = open_engine(settings.store)
        store = Store(engine)
        self.store: Store = store
        self._drain: Drain | None = None
        """Set when it is to end."""
        self.forwarded: set[Forwarded] = set()
        """The streams of chats of other nodes that this one hands on now."""
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
        """Until the block is left: then chats fail, agents are ended, and the store is closed."""
        try:
            async with anyio.create_task_group() as outer:
                # A group of its own, so that stopping the work does not cancel the task that waits in the block.
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
        """Go on with these. Chats that have begun are not touched: each keeps its agent. Never waits."""
        self.tokens = tokens
        self.bots.set(bots, agent, tokens.names)

    def drain(self) -> None:
        """Take no new chats from now on, and end when those that run have ended. Never waits.

        Where there is nothing to wait for, it ends at once. With a shared store there are proxies to wait for: what
        they send until they see that this gateway is not ready would be lost.
        """
        is_awaited = self._engine.shared or self._is_working
        self._drain = Drain(self.limits.drain if is_awaited else 0)
        self.chats.refusal = self._drain.refusal

    @property
    def is_draining(self) -> bool:
        """Whether there are no new chats any more."""
        return self._drain is not None

    def has_drained(self) -> bool:
        """Whether it is to end. Asked again and again."""
        return self._drain is not None and self._drain.is_over(self._is_working)

    @property
    def _is_working(self) -> bool:
        return self.chats.is_working or bool(self.forwarded)

    def stop(self) -> None:
        """End the chats now, so that no client's stream holds up the end. Never waits."""
        self.chats.stop()

    def hurry(self) -> None:
        """End now: the agents get no time for it. Never waits."""
        self.stop()
        self.bots.kill()


class Drain:
    """The time from SIGTERM to the end: what runs comes to its end, and proxies see that the gateway is not ready."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """It lasts for so many seconds at most."""
        self._clock = clock
        self._ends = clock() + seconds
        self._idle_until = math.inf

    @property
    def left(self) -> float:
        """Seconds until its end at the latest."""
        return self._ends - self._clock()

    def refusal(self) -> ApiError:
        """What a new chat is told, with HTTP status 503: a proxy gives it to another gateway."""
        retry_after = max(1, math.ceil(self.left))
        return ApiError(Code.BUSY, "the gateway is ending; try again later", retry_after=retry_after)

    def is_over(self, is_working: bool) -> bool:
        """Whether the gateway is to end. Asked again and again, with whether the gateway still works for a client."""
        now = self._clock()
        self._idle_until = math.inf if is_working else min(self._idle_until, now + LAST_LOOK)
        return now >= min(self._ends, self._idle_until)


def _place(isolation: Isolation | None, cwd: str, owner: str | None) -> Place:
    return Place(cwd) if isolation is None or owner is None else isolation.place(owner)


async def _hold(*, task_status: TaskStatus[TaskGroup]) -> None:
    async with anyio.create_task_group() as group:
        task_status.started(group)
        await anyio.sleep_forever()
