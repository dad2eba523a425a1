"""A pool of agent processes, shared by the chats of a bot. It decides how many processes run, which process serves a
chat, and when a process is ended.

`acp_server.apps.gateway.process` handles one process and its sessions. `acp_server.apps.gateway.conversations` handles
the sessions of chats.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from acp_server import AcpError, ConnectionClosed, RequestTimeout
from acp_server.apps.gateway.errors import agent_of
from acp_server.apps.gateway.limits import ONE, Size
from acp_server.apps.gateway.process import Changes, OpenSession, Process
from acp_server.apps.gateway.program import Program, Trust
from acp_server.apps.gateway.records import Ids, KnownSession
from acp_server.apps.gateway.sessions import SessionKeys
from acp_server.client import SessionTaken

logger: logging.Logger = logging.getLogger("acp_server.apps.gateway")

_PAUSE: Final = 1.0
"""Seconds until an agent without a waiting chat is started again after a failed start. They are doubled after each
failure."""
_LONGEST_PAUSE: Final = 60.0


class NoRoom(AcpError):
    """Raised if all allowed processes have as many chats as they may have."""


@dataclass(frozen=True, slots=True)
class Lives:
    """Counts starts and ends of processes."""

    starts: Counter[str] = field(default_factory=Counter[str])
    """The number of starts, by bot."""
    ends: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """The number of ends, by bot and reason."""


class Pool:
    """The processes that the chats of one bot share. If tokens are isolated, a pool belongs to one bot and one token
    name."""

    def __init__(self, program: Program, ids: Ids, size: Size = ONE, lives: Lives | None = None) -> None:
        self.name: str = program.bot
        self.command: Sequence[str] = program.command
        self.waiting: int = 0
        """The number of chats that wait for a session."""
        self._program = program
        self._ids = ids
        self._limits = program.limits
        self._size = size
        self._lives = lives or Lives()
        self._members: list[Process] = []
        """The processes that may get new chats."""
        self._running: list[Process] = []
        """All processes that have not ended, including those without new chats."""
        self._group: TaskGroup | None = None
        self._is_retired = False
        self._queue = anyio.Lock()
        """A lock that is held by the chat that gets a process next."""
        self._changes = Changes()
        """Notifies when a process may have capacity for a chat, or `_keep` may have something to do."""
        self._pause = _PAUSE
        self._next_start = -math.inf
        self._keys = SessionKeys()
        self._trust = Trust(program.limits, self.distrust)

    def use(self, group: TaskGroup) -> None:
        """Watch the processes in tasks of this group. When the group is cancelled, the processes are ended."""
        self._group = group
        group.start_soon(self._keep)

    def kill(self) -> None:
        """Kill all processes of the pool now, even if their grace period has not expired."""
        for process in self._running:
            process.kill()

    @property
    def running(self) -> int:
        """The number of processes of the pool that have not ended."""
        return sum(process.spawned is not None for process in self._running)

    def retire(self) -> None:
        """Give this bot no new chats. Running chats keep their processes, which are ended when their chats have
        ended."""
        self._is_retired = True
        for process in self._members:
            self._start_soon(self._drain, process, math.inf, "reload")
        self._changes.tell()

    async def open(self, known: KnownSession | None) -> OpenSession:
        """Return a session to prompt: the known session if an agent still has it, else a new one. Raises AcpError or
        OSError if no session can be opened."""
        self.waiting += 1
        try:
            with ExitStack() as place:
                return await self._open(known, place)
        finally:
            self.waiting -= 1

    async def _open(self, known: KnownSession | None, place: ExitStack) -> OpenSession:
        process, known = await self._find_place(known, place)
        limits = self._limits
        held: OpenSession | None = None
        began = anyio.current_time()
        try:
            with anyio.move_on_after(limits.start_seconds):
                try:
                    held = await process.open(known)
                except (ConnectionClosed, SessionTaken) as error:
                    # Nothing was sent for this chat yet, so it is retried once.
                    if isinstance(error, SessionTaken):
                        # No process can tell any more which session the id means.
                        self._keys.add(error.session_id, "")
                        self.distrust(process, "gives one session id twice")
                    else:
                        # It has died between two chats, or just now.
                        logger.info("%s has exited; restarting it", agent_of(self.name))
                        self._forget(process)
                    place.close()
                    process, known = await self._find_place(known, place)
                    held = await process.open(known)
        finally:
            # Also if the chat was cancelled: some clients only wait for half a minute, again and again.
            if held is None and anyio.current_time() - began >= min(limits.settle_seconds, limits.start_seconds):
                self._start_soon(self._trust.check_start, process)
        if held is None:
            raise RequestTimeout("session/new", limits.start_seconds)
        id, key = held.session.id, held.key
        # While two processes have sessions with one id, a stored one may be either's.
        others = any(other is not process and other.means_otherwise(id, key) for other in self._running)
        self._keys.add(id, "" if others else key)
        return held

    def discard(self, held: OpenSession) -> None:
        """Close a session that no chat will prompt again."""
        self._keys.remove(held.session.id, held.key)
        held.process.release(held.key)
        self._start_soon(held.process.end, held.session, self._limits.start_seconds)
        if (turn := held.session.turn) is not None:
            self._start_soon(self._trust.check, held.process, self._limits.settle_seconds, turn)

    def release(self, known: KnownSession, *, start: bool = True) -> None:
        """Forget a session that no chat will use again, also on the agent. If necessary, and if `start`, an agent is
        started for that."""
        is_last = self._keys.is_last(known)
        self._keys.remove(known.id, known.key)
        self._forget_lost()
        holder = self._holder(known)
        if holder is not None:
            self._end_session(holder, known.key)
        elif is_last and self._is_running and (self._members or start):
            process = min(self._members, key=_load, default=None) or self._start()
            self._start_soon(process.forget, known, self._limits.start_seconds)

    # -- which process a chat gets

    async def _find_place(self, known: KnownSession | None, place: ExitStack) -> tuple[Process, KnownSession | None]:
        """Wait for a process with capacity, which `place` reserves for the chat. Returns it, and the session if that
        process may have it. Waiting chats are served one after the other. Raises NoRoom."""
        while True:
            try:
                with anyio.fail_after(self._limits.queue_seconds):
                    found = await self._reserve(known, place)
            except TimeoutError:
                raise NoRoom("each process of the agent has the largest allowed number of chats") from None
            # A chat waits for the result of a running probe of the agent.
            await found[0].when_probed()
            if found[0] in self._members:
                return found
            place.close()

    async def _reserve(self, known: KnownSession | None, place: ExitStack) -> tuple[Process, KnownSession | None]:
        async with self._queue:
            while (found := self._choose(known)) is None:
                await self._changes.next.wait()
            place.enter_context(found[0].reserved())
            return found

    def _choose(self, known: KnownSession | None) -> tuple[Process, KnownSession | None] | None:
        """Choose a process: the process that has the session, else a process without a chat, else a new one, else the
        process with the fewest chats."""
        self._forget_lost()
        holder = None if known is None else self._holder(known)
        if holder is not None and self._has_room(holder):
            return holder, known
        best = min(self._members, key=_load, default=None)
        if (best is None or best.load or best.is_probed) and len(self._members) < self._size.most:
            best = self._start()
        if best is None or not self._has_room(best):
            return None
        if known is None:
            return best, None
        if holder is not None:
            # It is full. A session of another process gets the earlier messages.
            self._keys.remove(known.id, known.key)
            self._end_session(holder, known.key)
            return best, None
        is_free = self._keys.is_last(known) and not any(each.knows(known.id) for each in self._members)
        return best, known if is_free else None

    def _holder(self, known: KnownSession) -> Process | None:
        return next((process for process in self._members if process.holds(known.key)), None)

    def _has_room(self, process: Process) -> bool:
        return process.load < (self._limits.agent_sessions or math.inf)

    def _end_session(self, process: Process, key: str) -> None:
        if (session := process.release(key)) is not None:
            self._start_soon(process.end, session, self._limits.start_seconds)

    def distrust(self, process: Process, why: str, *, at_once: bool = False) -> None:
        """See `acp_server.apps.gateway.program.Distrust`."""
        if at_once:
            logger.warning("%s %s, so its process is stopped", agent_of(self.name), why)
            self._end(process, "distrusted")
        elif process in self._members:
            logger.warning(
                "%s %s, so its process is stopped when its remaining chats have ended", agent_of(self.name), why
            )
            self._forget(process)
            self._start_soon(self._drain, process, self._limits.linger_seconds, "distrusted")

    # -- how many processes there are

    async def _keep(self) -> None:
        """Start processes up to the least number, and end processes that are old or not needed."""
        while not self._is_retired:
            next_change = self._changes.next
            self._forget_lost()
            now = anyio.current_time()
            next_look = math.inf
            for process in list(self._members):
                old, idle = self._ends(process)
                # At most as many end for their age as there are others.
                if old <= now and len(self._running) - len(self._members) < self._size.most:
                    self._forget(process)
                    self._start_soon(self._drain, process, math.inf, "age")
                elif idle <= now and len(self._members) > self._size.least:
                    self._end(process, "idle")
                else:
                    next_look = min([next_look, *(end for end in (old, idle) if end > now)])
            if len(self._members) < self._size.least:
                if self._next_start > now:
                    next_look = min(next_look, self._next_start)
                else:
                    while len(self._members) < self._size.least:
                        self._start()
            with anyio.CancelScope(deadline=next_look):
                await next_change.wait()

    def _ends(self, process: Process) -> tuple[float, float]:
        """Return the time when the process becomes old, and the time when it has been without a chat for too long."""
        age = self._limits.agent_age_seconds or math.inf
        idle = math.inf if process.load else process.changed_at + self._limits.agent_idle_seconds
        return process.began_at + age, idle

    def _start_soon(self, function: Callable[..., Coroutine[Any, Any, object]], *args: Any) -> None:
        """Start a task, unless the gateway is not running."""
        if self._group is not None and self._is_running:
            self._group.start_soon(function, *args)

    @property
    def _is_running(self) -> bool:
        """Whether the gateway runs and is not shutting down."""
        return self._group is not None and not self._group.cancel_scope.cancel_called

    def _start(self) -> Process:
        assert self._group is not None, "the gateway does not run"
        process = Process(self.name, self._ids, self._changes)
        self._members.append(process)
        self._running.append(process)
        self._lives.starts[self.name] += 1
        self._group.start_soon(self._run, process)
        if self._is_retired:
            # For a chat that had the bot already.
            self._group.start_soon(self._drain, process, math.inf, "reload")
        return process

    async def _run(self, process: Process) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._trust.watch, process)
                await self._program.run(process)
                group.cancel_scope.cancel()
        finally:
            self._running.remove(process)
            self._forget(process)
            if process.why is None and self._is_running:
                process.why = "unusable" if process.agent is None else "crashed"
            self._lives.ends[self.name, process.why or "gateway"] += 1

    async def _drain(self, process: Process, seconds: float, why: str) -> None:
        with anyio.move_on_after(seconds):
            await process.when_idle()
        self._end(process, why)

    def _end(self, process: Process, why: str) -> None:
        self._forget(process)
        process.why = process.why or why
        process.scope.cancel()

    def _forget_lost(self) -> None:
        for process in list(self._members):
            if process.is_lost:
                # Its `run` may take a second to end, while a known session would be used without asking the agent.
                self._forget(process)

    def _forget(self, process: Process) -> None:
        if process in self._members:
            self._members.remove(process)
            if process.is_lost and process.why is None:
                now = anyio.current_time()
                lived_long = now - process.began_at > _LONGEST_PAUSE
                self._pause = _PAUSE if lived_long else min(2 * self._pause, _LONGEST_PAUSE)
                self._next_start = now + self._pause
        self._changes.tell()


def _load(process: Process) -> tuple[bool, int]:
    return process.is_probed, process.load
