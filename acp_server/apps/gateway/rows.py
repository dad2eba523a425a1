"""The SQL statements for conversations, messages and chats, and for the nodes that work for chats. Their input and
output are rows, in one transaction.

The statements are the same for every engine of `acp_server.apps.gateway.store`. Owners are not checked here. A node
changes a chat only if the chat's row has the node's number (`acp_server.apps.gateway.nodes`), and only from the status
that the node knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, Protocol

from acp_server.apps.gateway.messages import ANSWER, QUESTION, ChatMessage, as_context
from acp_server.apps.gateway.records import RUNNING, Chat, Conversation, Failure, Status, TokenUsage


class Cursor(Protocol):
    """The result of a statement."""

    def __iter__(self) -> Iterator[Any]: ...

    def fetchone(self) -> Any:
        """Return the next row; None after the last."""


Execute = Callable[[str, tuple[Any, ...]], Cursor]
"""Runs a statement, with values for each `?`. Raises the engine's errors."""


class NotOurs(Exception):
    """Raised if another node now works for the chat, or no node does."""


class Occupied(Exception):
    """Raised if another chat of the conversation is running."""


def _said(*statuses: Status) -> str:
    """Return the SQL condition for the messages of a conversation: inserted messages, and the questions and answers of
    chats with these statuses. It excludes an inserted message that became the query of a cancelled chat, and answers
    that have only thoughts. Nothing is copied, so a chat's status takes effect at once. No text can look like the
    searched field, because quotes in texts are escaped."""
    ended = ", ".join(f"'{status.value}'" for status in statuses)
    return f"""
    messages.conversation_id = ? AND messages.type IN ('{QUESTION}', '{ANSWER}') AND
    messages.doc NOT LIKE '%"content":""%' AND (messages.chat_id IS NULL OR EXISTS
    (SELECT 1 FROM chats WHERE chats.id = messages.chat_id AND chats.status IN ({ended}))) AND NOT EXISTS
    (SELECT 1 FROM chats WHERE chats.query_id = messages.id AND chats.status = '{Status.CANCELED.value}')
"""


_READ_AT_ONCE: Final = 32
"""The number of context messages that are read with one statement."""
_LISTED: Final = _said(Status.COMPLETED, Status.FAILED)
_CONTEXT: Final = _said(Status.COMPLETED)
_RUNNING: Final = f"('{Status.CREATED.value}', '{Status.IN_PROGRESS.value}')"


class Rows:
    """The rows, within one transaction. The object is used by one thread at a time, and never after the transaction."""

    def __init__(self, execute: Execute, clock: str) -> None:
        """`clock`: the SQL expression for the time in Unix seconds. It uses the one clock that all nodes share."""
        self.execute = execute
        self.clock = clock
        self.afterwards: list[Callable[[], object]] = []
        """Functions that are called after the commit, in the event loop if one runs. They must not wait."""

    # -- ids

    def highest_id(self) -> int:
        """Return the highest id of a row, including purged rows; 0 in a new store."""
        return max(self._highest(table) for table in ("purged", "conversations", "chats", "messages"))

    def _highest(self, table: str, where: str = "TRUE", *values: str) -> int:
        # Decimal digits without leading zeros: the longer one is the higher one.
        sql = f"SELECT id FROM {table} WHERE {where} ORDER BY length(id) DESC, id DESC LIMIT 1"
        row = self.execute(sql, values).fetchone()
        return 0 if row is None else int(row[0])

    # -- conversations

    def add_conversation(self, conversation: Conversation) -> None:
        """Add a conversation. Raises the engine's error if its id exists."""
        self.execute(
            "INSERT INTO conversations (id, owner, bot_id, deleted, doc) VALUES (?, ?, ?, ?, ?)",
            (conversation.id, conversation.owner, conversation.bot_id, int(conversation.deleted), doc_of(conversation)),
        )

    def change_conversation(self, conversation: Conversation) -> None:
        """Store the conversation's present state."""
        self.execute(
            "UPDATE conversations SET bot_id = ?, deleted = ?, doc = ? WHERE id = ?",
            (conversation.bot_id, int(conversation.deleted), doc_of(conversation), conversation.id),
        )

    def conversation(self, id: str) -> Conversation | None:
        """Return a conversation, which may be deleted."""
        return self.one(Conversation, "SELECT doc FROM conversations WHERE id = ?", id)

    def conversations(self, owner: str, bot_id: str | None, offset: int, limit: int) -> list[Conversation]:
        """Return the conversations of one owner, the newest first."""
        where, values = ("", ()) if bot_id is None else (" AND bot_id = ?", (bot_id,))
        return self.all(
            Conversation,
            f"SELECT doc FROM conversations WHERE owner = ? AND deleted = 0{where}"
            " ORDER BY length(id) DESC, id DESC LIMIT ? OFFSET ?",
            *(owner, *values, limit, offset),
        )

    def deleted_conversations(self) -> list[Conversation]:
        """Return the conversations that are deleted but not purged."""
        return self.all(Conversation, "SELECT doc FROM conversations WHERE deleted = 1")

    def purge(self, conversation_id: str) -> None:
        """Remove a conversation with everything in it, unless a node works for one of its chats. Its ids are not used
        again."""
        if self.chats_of(conversation_id):
            return
        highest = self._highest("purged")
        for table, column in (("messages", "conversation_id"), ("chats", "conversation_id"), ("conversations", "id")):
            highest = max(highest, self._highest(table, f"{column} = ?", conversation_id))
            self.execute(f"DELETE FROM {table} WHERE {column} = ?", (conversation_id,))
        self.execute("UPDATE purged SET id = ?", (str(highest),))

    # -- messages

    def add_message(self, message: ChatMessage) -> None:
        """Append a message."""
        self.execute(
            "INSERT INTO messages (id, conversation_id, section_id, chat_id, type, doc) VALUES (?, ?, ?, ?, ?, ?)",
            (message.id, message.conversation_id, message.section_id, message.chat_id, message.type, doc_of(message)),
        )

    def change_message(self, message: ChatMessage) -> None:
        """Store the message's present state."""
        self.execute("UPDATE messages SET doc = ? WHERE id = ?", (doc_of(message), message.id))

    def delete_message(self, id: str) -> None:
        """Remove a message. Its position stays, because a client may continue paging from there."""
        self.execute("UPDATE messages SET type = '', chat_id = NULL, doc = '' WHERE id = ?", (id,))

    def has_place(self, conversation_id: str, id: str) -> bool:
        """Whether a message with this id is in the conversation, or was in it until it was deleted."""
        sql = "SELECT EXISTS (SELECT 1 FROM messages WHERE conversation_id = ? AND id = ?)"
        return bool(self.execute(sql, (conversation_id, id)).fetchone()[0])

    def message(self, conversation_id: str, id: str) -> ChatMessage | None:
        """Return one of the listed messages."""
        return self.one(ChatMessage, f"SELECT doc FROM messages WHERE {_LISTED} AND id = ?", conversation_id, id)

    def messages_of(self, chat_id: str) -> list[ChatMessage]:
        """Return all messages of a chat, from its client and its agent, in order."""
        return self.all(ChatMessage, "SELECT doc FROM messages WHERE chat_id = ? ORDER BY seq", chat_id)

    def produced(self, chat_id: str) -> list[ChatMessage]:
        """Return the messages of a chat that its agent produced, in order."""
        return [message for message in self.messages_of(chat_id) if not message.given]

    def listed(
        self, conversation_id: str, *, descending: bool, chat_id: str, before: str, after: str, limit: int, most: int
    ) -> tuple[list[ChatMessage], bool]:
        """Return a page of a conversation, and whether there are more messages in its direction. `before` and `after`
        are ids for which `has_place` is true, in the order of the page. The page has at most `limit` messages and
        `most` bytes, but at least one message."""
        where, values = _LISTED, [conversation_id]
        if chat_id:
            where, values = f"{where} AND chat_id = ?", [*values, chat_id]
        for id, sign in ((before, ">" if descending else "<"), (after, "<" if descending else ">")):
            if id:
                where, values = f"{where} AND seq {sign} (SELECT seq FROM messages WHERE id = ?)", [*values, id]
        # The page before a message is the one next to it, and not the first of all.
        backwards = bool(before) and not after
        order = "DESC" if descending != backwards else "ASC"
        sql = f"SELECT doc FROM messages WHERE {where} ORDER BY seq {order} LIMIT ?"
        messages: list[ChatMessage] = []
        size, more = 0, False
        for (doc,) in self.execute(sql, (*values, limit + 1)):
            size += len(doc)
            more = len(messages) == limit or (size > most and bool(messages))
            if more:
                break
            messages.append(ChatMessage(**json.loads(doc)))
        return messages[::-1] if backwards else messages, more

    def context(
        self, conversation_id: str, section_id: str, unknown_to: str | None = None, *, but: str | None = None, most: int
    ) -> tuple[list[str], list[ChatMessage]]:
        """Return the context of a chat in this section, without the message `but`. With `unknown_to`, only messages
        that this session does not know. The second value is the newest messages with at most `most` bytes in total, in
        order. The first value is the ids of the messages before them."""
        where, values = f"{_CONTEXT} AND section_id = ?", [conversation_id, section_id]
        if unknown_to is not None:
            where, values = f"{where} AND (known_to IS NULL OR known_to <> ?)", [*values, unknown_to]
        if but is not None:
            where, values = f"{where} AND id <> ?", [*values, but]
        # Not all documents, since an engine may return its whole result at once.
        found = self.execute(f"SELECT id FROM messages WHERE {where} ORDER BY seq DESC", tuple(values))
        ids: list[str] = [id for (id,) in found]
        messages: list[ChatMessage] = []
        for first in range(0, len(ids), _READ_AT_ONCE):
            for message in self._newest(ids[first : first + _READ_AT_ONCE]):
                most -= len(as_context(message).encode())
                if most < 0:
                    return ids[len(messages) :], messages[::-1]
                messages.append(message)
        return [], messages[::-1]

    def _newest(self, ids: list[str]) -> list[ChatMessage]:
        places = ", ".join("?" * len(ids))
        return self.all(ChatMessage, f"SELECT doc FROM messages WHERE id IN ({places}) ORDER BY seq DESC", *ids)

    def last_said(self, conversation_id: str, section_id: str) -> ChatMessage | None:
        """Return the last message of the context of a chat in this section."""
        sql = f"SELECT doc FROM messages WHERE {_CONTEXT} AND section_id = ? ORDER BY seq DESC LIMIT 1"
        return self.one(ChatMessage, sql, conversation_id, section_id)

    def mark_known(self, session: str, ids: Iterable[str]) -> None:
        """Record that the agent's session with this key knows these messages."""
        for id in ids:
            self.execute("UPDATE messages SET known_to = ? WHERE id = ?", (session, id))

    # -- chats

    def find_chat(self, id: str) -> tuple[Chat | None, int | None]:
        """Return a chat, unless its conversation is deleted, and the node that works for it. None for either that does
        not exist."""
        row = self.execute(
            "SELECT chats.doc, chats.node FROM chats JOIN conversations ON conversations.id = chats.conversation_id"
            " WHERE chats.id = ? AND conversations.deleted = 0",
            (id,),
        ).fetchone()
        return (None, None) if row is None else (_chat(**json.loads(row[0])), row[1])

    def add_chat(self, chat: Chat, node: int | None = None) -> None:
        """Add a chat, with the node that works for it. Raises NotOurs if the node no longer exists, Occupied if
        another chat of the conversation runs, and the engine's error if the chat's id exists already."""
        if node is not None and not self.execute("SELECT 1 FROM nodes WHERE id = ?", (node,)).fetchone():
            raise NotOurs
        if chat.status in RUNNING and node is not None:
            self.check_free(chat.conversation_id, chat.id)
        self.execute(
            "INSERT INTO chats (id, conversation_id, query_id, status, owner, node, doc) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (chat.id, chat.conversation_id, chat.query_id, chat.status.value, chat.owner, node, doc_of(chat)),
        )

    def move_chat(self, before: Chat, after: Chat, node: int, *, done: bool = False) -> None:
        """Store the chat's new state, if it is in the state `before` and this node works for it. `done`: whether the
        node stops working for it.

        Raises NotOurs, and Occupied if another chat runs. Has no effect if the change is already stored, so a caller
        may retry if it does not know the outcome.
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
        """Remove a chat that is not stored. No effect if this node does not have it."""
        self.execute("DELETE FROM chats WHERE id = ? AND node = ?", (id, node))

    def check_free(self, conversation_id: str, chat_id: str = "") -> None:
        """Raise Occupied if another chat runs in the conversation."""
        # The index `running_in` enforces it against concurrent nodes.
        sql = f"SELECT 1 FROM chats WHERE conversation_id = ? AND id <> ? AND node IS NOT NULL AND status IN {_RUNNING}"
        if self.execute(sql, (conversation_id, chat_id)).fetchone():
            raise Occupied

    def chat(self, id: str) -> Chat | None:
        """Return a chat, or None."""
        return self.one(_chat, "SELECT doc FROM chats WHERE id = ?", id)

    def chats_at(self, node: int) -> list[Chat]:
        """Return the chats that a node works for."""
        return self.all(_chat, "SELECT doc FROM chats WHERE node = ?", node)

    def chats_of(self, conversation_id: str) -> list[tuple[str, int]]:
        """Return the chats of a conversation that a node works for, with the node."""
        sql = "SELECT id, node FROM chats WHERE conversation_id = ? AND node IS NOT NULL"
        return [(id, node) for id, node in self.execute(sql, (conversation_id,))]

    def busy(self, owner: str) -> int:
        """Return the number of this owner's chats that nodes work for. A chat that waits for tool outputs does not
        count."""
        sql = "SELECT count(*) FROM chats WHERE owner = ? AND node IS NOT NULL AND status <> 'requires_action'"
        return self.execute(sql, (owner,)).fetchone()[0]

    def leave_chats(self, node: int, why: Failure, *, but: Collection[str] = ()) -> None:
        """Release the chats of a node, except `but`. Running chats fail, and waiting chats keep waiting."""
        left = {id for (id,) in self.execute("SELECT id FROM chats WHERE node = ?", (node,))} - set(but)
        for chat in self.chats_at(node) if left else []:
            if chat.id in left:
                self.leave_chat(chat.failed(why) if chat.status in RUNNING else chat, node)

    def leave_chat(self, chat: Chat, node: int) -> None:
        """Release a chat of a node and store the chat's present state. Has no effect if the node does not work for
        it."""
        if not chat.saved:
            self.remove_chat(chat.id, node)
            return
        sql = "UPDATE chats SET status = ?, doc = ?, node = NULL WHERE id = ? AND node = ?"
        self.execute(sql, (chat.status.value, doc_of(chat), chat.id, node))

    def chats_without_node(self) -> list[Chat]:
        """Return running chats without a node. They come from a version of this program without nodes."""
        return self.all(_chat, f"SELECT doc FROM chats WHERE status IN {_RUNNING} AND node IS NULL")

    def overwrite_chat(self, chat: Chat) -> None:
        """Store the chat's present state without a node, whatever its stored state was."""
        sql = "UPDATE chats SET status = ?, doc = ?, node = NULL WHERE id = ?"
        self.execute(sql, (chat.status.value, doc_of(chat), chat.id))

    # -- rows

    def one(self, make: Any, sql: str, *values: Any) -> Any:
        """Return the record that a statement finds; None if it finds none."""
        row = self.execute(sql, values).fetchone()
        return None if row is None else make(**json.loads(row[0]))

    def all(self, make: Any, sql: str, *values: Any) -> list[Any]:
        """Return the records that a statement finds."""
        return [make(**json.loads(doc)) for (doc,) in self.execute(sql, values)]


def doc_of(record: Any) -> str:
    """Return a record in the form that is stored in its row."""
    # Escaped, since a text may have half of a surrogate pair, which no engine accepts.
    return json.dumps(record, default=vars, separators=(",", ":"))


def _chat(**doc: Any) -> Chat:
    doc["status"] = Status(doc["status"])
    doc["usage"] = None if doc["usage"] is None else TokenUsage(**doc["usage"])
    doc["last_error"] = None if doc["last_error"] is None else Failure(**doc["last_error"])
    return Chat(**doc)
