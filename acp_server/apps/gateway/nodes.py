"""The nodes: gateways that share a store. Each node has a row with a lease, which it renews.

The number of the row is the fencing token. The row of a chat has the number of the node that works for it. A node
changes a chat only if it finds its own number there. When a lease has expired, any other node removes the row, and
removes its number from the chats. If a node was only slow, it finds that its row was removed. It then stops its agents
and joins again, with another number. Only the store's clock decides when a lease has expired.

Without a shared store, there is one node and no lease.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import anyio

from acp_server.apps.gateway.errors import Code, log_fault
from acp_server.apps.gateway.records import SLOTS, Failure, Ids, KnownSession
from acp_server.apps.gateway.rows import Rows
from acp_server.apps.gateway.store import Store

logger: logging.Logger = logging.getLogger("acp_server.apps.gateway")

ENDED: Final = Failure(Code.INTERNAL, "the gateway ended before the chat did")
_LONGEST: Final = 1e9
"""The seconds of a lease that has no limit."""
_PARTS: Final = 4
"""How often a lease is renewed before it would expire."""


class Node:
    """Manages the row of this gateway in the store, and renews its lease."""

    def __init__(
        self, store: Store, ids: Ids, *, shared: bool, url: str, lease_seconds: float, shared_sessions: bool = False
    ) -> None:
        """`url`: the URL of this node for other nodes. `shared_sessions`: whether another node's agent can load the
        sessions of this node's agent."""
        self._is_apart = shared and not shared_sessions
        self.channel: str = f"acp_{secrets.token_hex(8)}"
        """The channel on which other nodes notify this node."""
        self.id: int = 0
        """The number of this node's row in the database. It changes after a lost lease, and is never reused."""
        self._store = store
        self._ids = ids
        self._shared = shared
        self._url = url
        self._lease = lease_seconds if shared else math.inf
        self._renewed = -math.inf

    def join(self, rows: Rows) -> tuple[int, int]:
        """Create a row for this node. Returns the row's number, and the slot for the node's ids. Before that, rows with
        expired leases are removed; without a shared store, all other rows are removed."""
        over = f"ends < {rows.clock}" if self._shared else "TRUE"
        for id in _ids(rows, f"SELECT id FROM nodes WHERE {over} OR id = ?", self.id):
            _remove(rows, id)
        for chat in rows.chats_without_node():
            rows.overwrite_chat(chat.failed(ENDED))
        _purge_deleted(rows)
        taken = set(_ids(rows, "SELECT slot FROM nodes"))
        slot = next(slot for slot in range(SLOTS) if slot not in taken)
        sql = f"INSERT INTO nodes (slot, url, channel, ends) VALUES (?, ?, ?, {rows.clock} + ?) RETURNING id"
        (id,) = rows.execute(sql, (slot, self._url, self.channel, min(self._lease, _LONGEST))).fetchone()
        return id, slot

    def joined(self, id: int, slot: int) -> None:
        """Use the result of `join` after it was committed."""
        self.id = id
        self._ids.slot = slot

    def home(self, bot: str) -> str:
        """Return the name of this node's bot in conversations. It includes the node, because other nodes cannot use the
        sessions of its agents unless the agents share their store."""
        return f"{bot}@{self.id}" if self._is_apart else bot

    def own(self, known: KnownSession) -> KnownSession | None:
        """Return the session with this node's name of the bot; None if the session belongs to another node."""
        if not self._is_apart:
            return known
        bot, _, node = known.bot.rpartition("@")
        return replace(known, bot=bot) if node == str(self.id) else None

    async def run(
        self,
        stop_work: Callable[[], None],
        work_stopped: Callable[[], Awaitable[None]],
        on_tick: Callable[[], Awaitable[None]],
    ) -> None:
        """Renew the lease, and remove nodes whose leases have expired. Joins again after a lost lease.

        `stop_work` is called when the lease is lost, and must not wait; `work_stopped` waits until the work has ended.
        `on_tick` is awaited at each renewal.
        """
        if not self._shared:
            return
        while True:
            self._renewed = anyio.current_time()
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch, stop_work)
                await self._renew(on_tick)
                group.cancel_scope.cancel()
            logger.error("node %d has lost its lease, so its chats are stopped", self.id)
            stop_work()
            await work_stopped()
            await self._join_again()

    async def leave(self) -> None:
        """Remove the row of this node. Its chats end as if the lease had expired."""
        try:
            await self._store.do(_remove, self.id)
        except Exception as error:
            logger.warning(
                "cannot remove node %d from the database, so its row stays until its lease expires: %s", self.id, error
            )

    async def _renew(self, on_tick: Callable[[], Awaitable[None]]) -> None:
        """Renew the lease regularly. Returns when the row is gone."""
        while True:
            began = anyio.current_time()
            try:
                if not await self._store.do(_renew, self.id, self._lease):
                    return
                self._renewed = began
                for other in await self._store.do(_over):
                    await self._store.do(_remove_if_over, other)
                await on_tick()
            except Exception as error:
                log_fault(error, "node %d: its lease could not be renewed", self.id)
            await anyio.sleep(self._lease / _PARTS)

    async def _watch(self, stop_work: Callable[[], None]) -> None:
        """Stop the work when the lease was not renewed in time, even if the store cannot be reached."""
        while True:
            renewed = self._renewed
            await anyio.sleep_until(renewed + self._lease)
            if self._renewed == renewed:
                stop_work()
            while self._renewed == renewed:  # noqa: ASYNC110 - the renewal has its own clock
                await anyio.sleep(self._lease / _PARTS)

    async def _join_again(self) -> None:
        while True:
            try:
                self.joined(*await self._store.do(self.join))
                logger.info("this gateway is now node %d", self.id)
                return
            except Exception as error:
                log_fault(error, "node %d: it cannot join again", self.id)
            await anyio.sleep(self._lease / _PARTS)


def url_of(rows: Rows, node: int) -> str | None:
    """Return the URL of a node; None if there is no such node."""
    row = rows.execute("SELECT url FROM nodes WHERE id = ?", (node,)).fetchone()
    return None if row is None else row[0]


def _ids(rows: Rows, sql: str, *values: int) -> list[int]:
    return [id for (id,) in rows.execute(sql, values)]


def _renew(rows: Rows, node: int, seconds: float) -> bool:
    sql = f"UPDATE nodes SET ends = {rows.clock} + ? WHERE id = ? RETURNING id"
    return rows.execute(sql, (seconds, node)).fetchone() is not None


def _over(rows: Rows) -> list[int]:
    return _ids(rows, f"SELECT id FROM nodes WHERE ends < {rows.clock}")


def _remove_if_over(rows: Rows, node: int) -> None:
    # The update keeps the node from renewing meanwhile.
    sql = f"UPDATE nodes SET ends = 0 WHERE id = ? AND ends < {rows.clock} RETURNING id"
    if rows.execute(sql, (node,)).fetchone():
        logger.warning("the lease of node %d has expired, so the node is removed and its chats have ended", node)
        _remove(rows, node)
        _purge_deleted(rows)


def _purge_deleted(rows: Rows) -> None:
    for conversation in rows.deleted_conversations():
        rows.purge(conversation.id)


def _remove(rows: Rows, node: int) -> None:
    rows.leave_chats(node, ENDED)
    rows.execute("DELETE FROM commands WHERE node = ? OR asker = ?", (node, node))
    rows.execute("DELETE FROM nodes WHERE id = ?", (node,))
