"""Makes several gateways act as one. A request about a chat is handled here, or sent as a command to the node that
works for the chat.

A command and its answer share a row. The node that works for the chat executes the command and writes the answer. If
that node disappears first, there is no answer, and the asking node looks the chat up again. Only streams are handled
differently (`acp_server.apps.gateway.events`).
"""

from __future__ import annotations

import json
import logging
from contextlib import aclosing
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from pydantic import ValidationError

from acp_server.apps.gateway.auth import Caller
from acp_server.apps.gateway.bodies import SubmitBody
from acp_server.apps.gateway.chats import Begun, Chats, Elsewhere
from acp_server.apps.gateway.errors import ApiError, Code, outline
from acp_server.apps.gateway.nodes import Node
from acp_server.apps.gateway.records import Status
from acp_server.apps.gateway.rows import Rows
from acp_server.apps.gateway.store import Engine, Store

logger: logging.Logger = logging.getLogger("acp_server.apps.gateway")

Doc = dict[str, Any]
"""A command or an answer, as JSON."""

_LOOK: Final = 1.0
"""Seconds between two polls for commands and answers. Polling is necessary because a notification may be lost."""

_PAUSE: Final = 0.1
"""Seconds before a chat is looked up again if its node is gone or cannot be reached by a command."""

_OTHER_VERSION: Final = {"code": Code.INTERNAL.value, "msg": "the gateway that has this chat is of another version"}


class Cluster:
    """Handles requests about the chats of all nodes. It sends this node's commands to other nodes, and executes the
    commands of other nodes.

    A row is announced by a notification and handled at once. If notifications are lost, rows are found by a poll every
    second.
    """

    def __init__(self, store: Store, engine: Engine, node: Node, chats: Chats) -> None:
        self._store = store
        self._engine = engine
        self._node = node
        self._chats = chats
        self._asked: dict[str, anyio.Event] = {}
        """The commands of this node that wait for an answer, each with an event that is set when the answer arrives."""
        self._unheard: set[int] = set()
        """The commands of this node whose answers are no longer needed, because the client has disconnected or the
        store has failed."""
        self._applying: set[int] = set()
        self._done: dict[int, Doc] = {}
        """The answers to commands of other nodes that could not be stored yet."""
        self._came = anyio.Event()

    # -- what clients want

    async def cancel(self, caller: Caller, conversation_id: str | None, chat_id: str | None) -> dict[str, Any]:
        """See `Chats.cancel`."""
        while True:
            try:
                return (await self._chats.cancel(caller, conversation_id, chat_id)).to_wire()
            except Elsewhere as elsewhere:
                answer = await self._ask_holder(elsewhere, "cancel", caller)
            if answer is not None:
                return answer
            # The node is gone, perhaps right after this command.
            chat = await self._chats.retrieve(caller, conversation_id, chat_id)
            if chat.status is Status.CANCELED:
                return chat.to_wire()

    async def submit(self, caller: Caller, conversation_id: str | None, chat_id: str | None, body: SubmitBody) -> Begun:
        """Submit tool outputs, see `Chats.submit`. Raises Elsewhere for a stream, which only the node that works for
        the chat can send."""
        while True:
            try:
                return await self._chats.submit(caller, conversation_id, chat_id, body)
            except Elsewhere as elsewhere:
                if body.stream:
                    raise
                answer = await self._ask_holder(elsewhere, "submit", caller, body=body.model_dump())
            if answer is not None:
                return answer, None

    async def delete_conversation(self, caller: Caller, id: str) -> None:
        """See `Chats.delete_conversation`."""
        for chat_id, node in await self._chats.delete_conversation(caller, id):
            await self._ask(node, {"what": "discard", "chat_id": chat_id})
        # The last chat may have ended by itself meanwhile.
        await self._chats.purge(id)

    async def _ask_holder(self, elsewhere: Elsewhere, what: str, caller: Caller, **more: Any) -> Doc | None:
        """Return the answer of the node that works for the chat; None if that node is gone. Raises ApiError."""
        chat = elsewhere.chat
        place = {"conversation_id": chat.conversation_id, "chat_id": chat.id}
        answer = await self._ask(elsewhere.node, {"what": what, "caller": caller.name, **place, **more})
        if answer is not None and "code" in answer:
            known = answer["code"] in set(Code)
            raise ApiError(Code(answer["code"]) if known else Code.INTERNAL, answer["msg"])
        return None if answer is None else answer.get("chat")

    async def _ask(self, node: int, command: Doc) -> Doc | None:
        """Return the answer of another node to a command; None if that node is gone, or this node has lost its lease.
        Raises the store's errors."""
        id = await self._store.do(_add, node, self._node.id, command)
        if id is None:
            await anyio.sleep(_PAUSE)
            return None
        try:
            while True:
                self._asked[str(id)] = woken = anyio.Event()
                there, answer = await self._store.do(_take_answer, id)
                if answer is not None or not there:
                    return answer
                with anyio.move_on_after(_LOOK):
                    await woken.wait()
        except BaseException:
            self._unheard.add(id)
            raise
        finally:
            self._asked.pop(str(id), None)

    # -- what other nodes want

    async def run(self) -> None:
        """Execute the commands of other nodes. Runs until cancelled."""
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
            logger.warning("cannot read the commands of other nodes from the database: %s", outline(error))
            return
        wanted = self._applying.union(id for id, _ in found)
        self._done = {id: answer for id, answer in self._done.items() if id in wanted}
        for id, command in found:
            if id not in self._applying:
                self._applying.add(id)
                group.start_soon(self._do, id, command)

    async def _do(self, id: int, command: Doc) -> None:
        try:
            # Only once, even if the answer cannot be stored: a second cancel of a chat would be refused.
            if id not in self._done:
                self._done[id] = await self._apply(command)
            await self._store.do(_answer, id, self._done[id])
            del self._done[id]
        except Exception as error:
            # The next poll finds it again.
            logger.warning("command %d of another node failed: %s", id, outline(error))
        finally:
            self._applying.discard(id)

    async def _apply(self, command: Doc) -> Doc:
        chats = self._chats
        try:
            match command:
                case {"what": "discard", "chat_id": str(id)}:
                    await chats.discard(id)
                    return {}
                case {"what": "cancel", "caller": caller, "conversation_id": conversation, "chat_id": id}:
                    return {"chat": (await chats.cancel(Caller(caller), conversation, id)).to_wire()}
                case {"what": "submit", "caller": caller, "conversation_id": conversation, "chat_id": id, "body": body}:
                    outputs = SubmitBody.model_validate(body)
                    return {"chat": (await chats.submit(Caller(caller), conversation, id, outputs))[0]}
                case _:
                    return _OTHER_VERSION
        except ValidationError:
            return _OTHER_VERSION
        except ApiError as error:
            return {"code": error.code.value, "msg": error.msg}
        except Elsewhere:
            # Another node has it by now: the asking node looks it up again.
            return {"chat": None}

    async def _listen(self) -> None:
        while True:
            try:
                async with aclosing(self._engine.notices(self._node.channel)) as notices:
                    async for told in notices:
                        self._asked.get(told, self._came).set()
            except Exception as error:
                logger.warning("lost the notifications of other nodes: %s", outline(error))
            await anyio.sleep(_LOOK)


def _add(rows: Rows, node: int, asker: int, command: Doc) -> int | None:
    """Add a command. Returns its id; None if one of the two nodes is gone."""
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
    """Return whether the command exists, and its answer if it has one. An answered command is removed."""
    taken = rows.execute("DELETE FROM commands WHERE id = ? AND answer IS NOT NULL RETURNING answer", (id,)).fetchone()
    if taken is not None:
        return True, json.loads(taken[0])
    there = rows.execute("SELECT 1 FROM commands, nodes WHERE commands.id = ? AND nodes.id = commands.node", (id,))
    return there.fetchone() is not None, None


def _look(rows: Rows, node: int, unheard: frozenset[int]) -> tuple[list[tuple[int, Doc]], set[int]]:
    """Return the commands of other nodes, and the ids in `unheard` that no longer exist. Answers to commands in
    `unheard` are removed."""
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
