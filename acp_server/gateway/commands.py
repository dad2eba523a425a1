"""What one node wants of a chat that another one works for, as rows: a command, and its answer.

A row is told of by a notice, so that it is looked at once; where notices are lost, it is looked for every second. The
node that has the chat does what is wanted and writes the answer. If that node is gone first, there is no answer, and
who asked looks at the chat again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from acp_server.gateway.errors import outline
from acp_server.gateway.nodes import Node
from acp_server.gateway.rows import Rows
from acp_server.gateway.store import Engine, Store

logger = logging.getLogger("acp_server.gateway")

Doc = dict[str, Any]
"""A command or an answer, as JSON has it."""

_LOOK: Final = 1.0
"""Seconds after which it is looked for what no notice has told of."""


class Commands:
    """The commands of this node for others, and of others for it."""

    def __init__(self, store: Store, engine: Engine, node: Node, apply: Callable[[Doc], Awaitable[Doc]]) -> None:
        """`apply` does what is wanted, and returns the answer."""
        self._store = store
        self._engine = engine
        self._node = node
        self._apply = apply
        self._asked: dict[str, anyio.Event] = {}
        """Commands of this node, with what is set when there is an answer."""
        self._unheard: set[int] = set()
        """Commands of this node whose answers nothing waits for any more, because the store failed meanwhile."""
        self._applying: set[int] = set()
        self._came = anyio.Event()

    async def ask(self, node: int, command: Doc) -> Doc | None:
        """The answer; None if the node is gone. Raises what the store does."""
        id = await self._store.do(_add, node, self._node.id, command)
        try:
            while id is not None:
                self._asked[str(id)] = woken = anyio.Event()
                there, answer = await self._store.do(_take_answer, id)
                if answer is not None or not there:
                    return answer
                with anyio.move_on_after(_LOOK):
                    await woken.wait()
            return None
        except BaseException:
            if id is not None:
                self._unheard.add(id)
            raise
        finally:
            self._asked.pop(str(id), None)

    async def run(self) -> None:
        """Do what other nodes want."""
        if not self._engine.shared:
            return
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen)
            while True:
                self._came = came = anyio.Event()
                await self._begin(group)
                with anyio.move_on_after(_LOOK):
                    await came.wait()

    async def _begin(self, group: TaskGroup) -> None:
        try:
            found, gone = await self._store.do(_look, self._node.id, frozenset(self._unheard))
            self._unheard -= gone
        except Exception as error:
            logger.warning("commands of other nodes cannot be read: %s", outline(error))
            return
        for id, command in found:
            if id not in self._applying:
                self._applying.add(id)
                group.start_soon(self._do, id, command)

    async def _do(self, id: int, command: Doc) -> None:
        try:
            await self._store.do(_answer, id, await self._apply(command))
        except Exception as error:
            # It is done again: the first time may have changed nothing.
            logger.warning("command %d of another node: %s", id, outline(error))
        finally:
            self._applying.discard(id)

    async def _listen(self) -> None:
        while True:
            try:
                ear = await to_thread.run_sync(self._engine.listen, self._node.channel)
                try:
                    self._came.set()
                    while True:
                        await anyio.wait_readable(ear)
                        for told in ear.hear():
                            self._asked.get(told, self._came).set()
                finally:
                    ear.close()
            except Exception as error:
                logger.warning("notices of other nodes are not heard for a moment: %s", outline(error))
            await anyio.sleep(_LOOK)


def _add(rows: Rows, node: int, asker: int, command: Doc) -> int | None:
    """The id of the new command; None if one of the two nodes is gone."""
    there = "FROM nodes AS node, nodes AS asker WHERE node.id = ? AND asker.id = ?"
    row = rows.execute(
        f"INSERT INTO commands (node, asker, doc) SELECT node.id, asker.id, ? {there} RETURNING id",
        (json.dumps(command), node, asker),
    ).fetchone()
    if row is None:
        return None
    _tell(rows, node, "")
    return row[0]


def _take_answer(rows: Rows, id: int) -> tuple[bool, Doc | None]:
    """Whether the command is there, and its answer if it has one; then it is removed."""
    taken = rows.execute("DELETE FROM commands WHERE id = ? AND answer IS NOT NULL RETURNING answer", (id,)).fetchone()
    if taken is not None:
        return True, json.loads(taken[0])
    there = rows.execute("SELECT 1 FROM commands, nodes WHERE commands.id = ? AND nodes.id = commands.node", (id,))
    return there.fetchone() is not None, None


def _look(rows: Rows, node: int, unheard: frozenset[int]) -> tuple[list[tuple[int, Doc]], set[int]]:
    """What other nodes want, and those of `unheard` that are not there any more: what is answered is removed."""
    for id in unheard:
        rows.execute("DELETE FROM commands WHERE id = ? AND answer IS NOT NULL", (id,))
    there = [id for id in unheard if rows.execute("SELECT 1 FROM commands WHERE id = ?", (id,)).fetchone()]
    found = rows.execute("SELECT id, doc FROM commands WHERE node = ? AND answer IS NULL ORDER BY id", (node,))
    return [(id, json.loads(doc)) for id, doc in found], set(unheard.difference(there))


def _answer(rows: Rows, id: int, answer: Doc) -> None:
    sql = "UPDATE commands SET answer = ? WHERE id = ? RETURNING asker"
    row = rows.execute(sql, (json.dumps(answer), id)).fetchone()
    if row is not None:
        _tell(rows, row[0], str(id))


def _tell(rows: Rows, node: int, what: str) -> None:
    rows.execute("SELECT pg_notify(channel, ?) FROM nodes WHERE id = ?", (what, node))
