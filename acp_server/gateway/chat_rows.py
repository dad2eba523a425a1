"""The SQL of chats: which node has them, and what they are, in one transaction.

A node changes a chat only where its own number is (`acp_server.gateway.nodes`), and only from the status that it knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import fields
from typing import Any, Final, Protocol

from acp_server.gateway.records import RUNNING, Chat, Failure, Status, Usage


class Cursor(Protocol):
    """What a statement has found."""

    def __iter__(self) -> Iterator[Any]: ...

    def fetchone(self) -> Any:
        """The next row; None if there is none."""


Execute = Callable[[str, tuple[Any, ...]], Cursor]
"""Runs a statement, whose values stand for `?`. Raises what the engine does."""


_RUNNING: Final = f"('{Status.CREATED.value}', '{Status.IN_PROGRESS.value}')"


class NotOurs(Exception):
    """Another node has the chat by now, or no node has."""


class Elsewhere(Exception):
    """Another node works for the chat."""

    def __init__(self, chat: Chat, node: int) -> None:
        super().__init__(f"chat {chat.id} is at node {node}")
        self.chat = chat
        self.node = node


class Occupied(Exception):
    """Another chat of the conversation is running."""


class ChatRows:
    """The rows of chats."""

    def __init__(self, execute: Execute, clock: str) -> None:
        """`clock`: SQL for the time in Unix seconds, by the one clock that all nodes go by."""
        self.execute = execute
        self.clock = clock
        self.afterwards: list[Callable[[], object]] = []
        """What is called when the transaction is committed, in the event loop, if one runs. It must not wait."""

    def add_chat(self, chat: Chat, node: int | None = None) -> None:
        """Add it, with the node that works for it. Raises NotOurs if there is no such node any more, Occupied, and the
        engine's error if there is a chat with its id."""
        if node is not None and not self.execute("SELECT 1 FROM nodes WHERE id = ?", (node,)).fetchone():
            raise NotOurs
        if chat.status in RUNNING and node is not None:
            self.check_free(chat.conversation_id, chat.id)
        self.execute(
            "INSERT INTO chats (id, conversation_id, query_id, status, owner, node, doc) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (chat.id, chat.conversation_id, chat.query_id, chat.status.value, chat.owner, node, doc_of(chat)),
        )

    def move_chat(self, before: Chat, after: Chat, node: int, *, done: bool = False) -> None:
        """Keep it as it is now, if it is as it was before and this node has it. `done`: the node works for it no more.

        Raises NotOurs, and Occupied if it would be the second one that runs. No effect if it is done already, so a
        caller that does not know whether it has been may do it again.
        """
        if before.status is Status.REQUIRES_ACTION and after.status in RUNNING:
            self.check_free(after.conversation_id, after.id)
        if not self.execute(
            "UPDATE chats SET status = ?, doc = ?, node = ? WHERE id = ? AND node = ? AND status = ? RETURNING id",
            (after.status.value, doc_of(after), None if done else node, after.id, node, before.status.value),
        ).fetchone():
            row = self.execute("SELECT doc, node FROM chats WHERE id = ?", (after.id,)).fetchone()
            if row is None or tuple(row) != (doc_of(after), None if done else node):
                raise NotOurs

    def adopt_chat(self, before: Chat, after: Chat, node: int) -> None:
        """Let this node work for a chat that waits and has no node. Raises NotOurs, Occupied."""
        self.check_free(after.conversation_id, after.id)
        if not self.execute(
            "UPDATE chats SET status = ?, doc = ?, node = nodes.id FROM nodes"
            " WHERE chats.id = ? AND chats.node IS NULL AND chats.status = ? AND nodes.id = ? RETURNING chats.id",
            (after.status.value, doc_of(after), after.id, before.status.value, node),
        ).fetchone():
            raise NotOurs

    def remove_chat(self, id: str, node: int) -> None:
        """Remove a chat of which nothing is kept. No effect if this node does not have it."""
        self.execute("DELETE FROM chats WHERE id = ? AND node = ?", (id, node))

    def check_free(self, conversation_id: str, chat_id: str = "") -> None:
        """Raise Occupied if another chat than this one runs in the conversation."""
        # The index `running_in` holds it against what another node does at the same time.
        sql = f"SELECT 1 FROM chats WHERE conversation_id = ? AND id <> ? AND node IS NOT NULL AND status IN {_RUNNING}"
        if self.execute(sql, (conversation_id, chat_id)).fetchone():
            raise Occupied

    def chat(self, id: str) -> Chat | None:
        """One of them."""
        return self.one(_chat, "SELECT doc FROM chats WHERE id = ?", id)

    def node_of(self, chat_id: str) -> int | None:
        """The node that works for a chat; None if none does."""
        row = self.execute("SELECT node FROM chats WHERE id = ?", (chat_id,)).fetchone()
        return None if row is None else row[0]

    def chats_at(self, node: int) -> list[Chat]:
        """Those that a node works for."""
        return self.all(_chat, "SELECT doc FROM chats WHERE node = ?", node)

    def chats_of(self, conversation_id: str) -> list[tuple[str, int]]:
        """Those of a conversation that a node works for, with the node."""
        sql = "SELECT id, node FROM chats WHERE conversation_id = ? AND node IS NOT NULL"
        return [(id, node) for id, node in self.execute(sql, (conversation_id,))]

    def busy(self, owner: str) -> int:
        """For how many chats of this owner nodes work. Nothing is done for one that waits for tool outputs."""
        sql = "SELECT count(*) FROM chats WHERE owner = ? AND node IS NOT NULL AND status <> 'requires_action'"
        return self.execute(sql, (owner,)).fetchone()[0]

    def leave_chats(self, node: int, why: Failure, *, but: Collection[str] = ()) -> None:
        """The node works for none of its chats any more, `but` these: those that ran have failed, those that wait go on
        waiting."""
        left = {id for (id,) in self.execute("SELECT id FROM chats WHERE node = ?", (node,))} - set(but)
        for chat in self.chats_at(node) if left else []:
            if chat.id not in left:
                continue
            if not chat.saved:
                self.remove_chat(chat.id, node)
            elif chat.status in RUNNING:
                self.move_chat(chat, chat.failed(why), node, done=True)
            else:
                self.move_chat(chat, chat, node, done=True)

    def end_late(self, chat: Chat, node: int) -> None:
        """Keep the end of a chat, which could not be kept in time. No effect if the node does not have it any more."""
        if not chat.saved:
            self.remove_chat(chat.id, node)
            return
        sql = "UPDATE chats SET status = ?, doc = ?, node = NULL WHERE id = ? AND node = ?"
        self.execute(sql, (chat.status.value, doc_of(chat), chat.id, node))

    def chats_without_node(self) -> list[Chat]:
        """Those that run and have no node: of a version of this program that knew no nodes."""
        return self.all(_chat, f"SELECT doc FROM chats WHERE status IN {_RUNNING} AND node IS NULL")

    def overwrite_chat(self, chat: Chat) -> None:
        """Keep it as it is now, whatever it was, and without a node."""
        sql = "UPDATE chats SET status = ?, doc = ?, node = NULL WHERE id = ?"
        self.execute(sql, (chat.status.value, doc_of(chat), chat.id))

    # -- rows

    def one(self, make: Any, sql: str, *values: Any) -> Any:
        """The record that a statement finds; None if it finds nothing."""
        row = self.execute(sql, values).fetchone()
        return None if row is None else make(**json.loads(row[0]))

    def all(self, make: Any, sql: str, *values: Any) -> list[Any]:
        """The records that a statement finds."""
        return [make(**json.loads(doc)) for (doc,) in self.execute(sql, values)]


def doc_of(record: Any) -> str:
    """A record as its row has it."""
    # Escaped, for a text may hold half of a surrogate pair, which no engine takes.
    return json.dumps(record, default=_fields, separators=(",", ":"))


def _fields(record: Any) -> dict[str, Any]:
    return {each.name: getattr(record, each.name) for each in fields(record)}


def _chat(**doc: Any) -> Chat:
    doc["status"] = Status(doc["status"])
    doc["usage"] = None if doc["usage"] is None else Usage(**doc["usage"])
    doc["last_error"] = None if doc["last_error"] is None else Failure(**doc["last_error"])
    return Chat(**doc)
