"""The SQL of conversations and messages, beside that of chats: rows in, rows out, in one transaction.

The statements are the same for every engine of `acp_server.gateway.store`. Whose things are is not looked at here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from acp_server.gateway.chat_rows import ChatRows, doc_of
from acp_server.gateway.messages import ANSWER, QUESTION, Message, as_context
from acp_server.gateway.records import Chat, Conversation, Status


def _said(*statuses: Status) -> str:
    """Messages of a conversation: what was inserted, and the questions and answers of chats with these statuses. What
    was inserted and became the query of a chat that was cancelled is not among them. All this is looked up and never
    copied, so a chat's status decides at once, and for good. An answer that is thoughts alone is not among them either.
    No text can look like the field that is searched for: quotes in texts are escaped."""
    ended = ", ".join(f"'{status.value}'" for status in statuses)
    return f"""
    messages.conversation_id = ? AND messages.type IN ('{QUESTION}', '{ANSWER}') AND
    messages.doc NOT LIKE '%"content":""%' AND (messages.chat_id IS NULL OR EXISTS
    (SELECT 1 FROM chats WHERE chats.id = messages.chat_id AND chats.status IN ({ended}))) AND NOT EXISTS
    (SELECT 1 FROM chats WHERE chats.query_id = messages.id AND chats.status = '{Status.CANCELED.value}')
"""


_READ_AT_ONCE: Final = 32
"""Messages of a context that are read with one statement."""
_LISTED: Final = _said(Status.COMPLETED, Status.FAILED)
_CONTEXT: Final = _said(Status.COMPLETED)


class Rows(ChatRows):
    """The rows, inside of one transaction. Used by one thread at a time, and never after the transaction."""

    # -- ids

    def highest_id(self) -> int:
        """The highest id that a row has, or had until it was purged; 0 if there is none."""
        return max(self._highest(table) for table in ("purged", "conversations", "chats", "messages"))

    def _highest(self, table: str, where: str = "TRUE", *values: str) -> int:
        # Decimal digits without leading zeros: the longer one is the higher one.
        sql = f"SELECT id FROM {table} WHERE {where} ORDER BY length(id) DESC, id DESC LIMIT 1"
        row = self.execute(sql, values).fetchone()
        return 0 if row is None else int(row[0])

    # -- conversations

    def add_conversation(self, conversation: Conversation) -> None:
        """Add it. Raises the engine's error if there is one with its id."""
        self.execute(
            "INSERT INTO conversations (id, owner, bot_id, deleted, doc) VALUES (?, ?, ?, ?, ?)",
            (conversation.id, conversation.owner, conversation.bot_id, int(conversation.deleted), doc_of(conversation)),
        )

    def change_conversation(self, conversation: Conversation) -> None:
        """Keep it as it is now."""
        self.execute(
            "UPDATE conversations SET bot_id = ?, deleted = ?, doc = ? WHERE id = ?",
            (conversation.bot_id, int(conversation.deleted), doc_of(conversation), conversation.id),
        )

    def conversation(self, id: str) -> Conversation | None:
        """One of them, deleted or not."""
        return self.one(Conversation, "SELECT doc FROM conversations WHERE id = ?", id)

    def conversations(self, owner: str, bot_id: str | None, offset: int, limit: int) -> list[Conversation]:
        """Those of one owner, the newest first."""
        where, values = ("", ()) if bot_id is None else (" AND bot_id = ?", (bot_id,))
        return self.all(
            Conversation,
            f"SELECT doc FROM conversations WHERE owner = ? AND deleted = 0{where}"
            " ORDER BY length(id) DESC, id DESC LIMIT ? OFFSET ?",
            *(owner, *values, limit, offset),
        )

    def deleted_conversations(self) -> list[Conversation]:
        """Those that are deleted and still there."""
        return self.all(Conversation, "SELECT doc FROM conversations WHERE deleted = 1")

    def find_chat(self, id: str) -> tuple[Chat | None, int | None]:
        """A chat, unless its conversation is deleted, and the node that works for it; None for what there is not."""
        chat = self.chat(id)
        conversation = None if chat is None else self.conversation(chat.conversation_id)
        if conversation is None or conversation.deleted:
            return None, None
        return chat, self.node_of(id)

    def purge(self, conversation_id: str) -> None:
        """Remove a conversation with everything in it, unless a node works in it. Its ids are not given again."""
        if self.chats_of(conversation_id):
            return
        highest = self._highest("purged")
        for table, column in (("messages", "conversation_id"), ("chats", "conversation_id"), ("conversations", "id")):
            highest = max(highest, self._highest(table, f"{column} = ?", conversation_id))
            self.execute(f"DELETE FROM {table} WHERE {column} = ?", (conversation_id,))
        self.execute("UPDATE purged SET id = ?", (str(highest),))

    # -- messages

    def add_message(self, message: Message) -> None:
        """Add it at the end."""
        self.execute(
            "INSERT INTO messages (id, conversation_id, section_id, chat_id, type, doc) VALUES (?, ?, ?, ?, ?, ?)",
            (message.id, message.conversation_id, message.section_id, message.chat_id, message.type, doc_of(message)),
        )

    def change_message(self, message: Message) -> None:
        """Keep it as it is now."""
        self.execute("UPDATE messages SET doc = ? WHERE id = ?", (doc_of(message), message.id))

    def delete_message(self, id: str) -> None:
        """Remove it. Its place stays, for a client that pages may go on from there."""
        self.execute("UPDATE messages SET type = '', chat_id = NULL, doc = '' WHERE id = ?", (id,))

    def has_place(self, conversation_id: str, id: str) -> bool:
        """Whether a message with this id is in the conversation, or was until it was deleted."""
        sql = "SELECT EXISTS (SELECT 1 FROM messages WHERE conversation_id = ? AND id = ?)"
        return bool(self.execute(sql, (conversation_id, id)).fetchone()[0])

    def message(self, conversation_id: str, id: str) -> Message | None:
        """One of those that are listed."""
        return self.one(Message, f"SELECT doc FROM messages WHERE {_LISTED} AND id = ?", conversation_id, id)

    def messages_of(self, chat_id: str) -> list[Message]:
        """What a chat's client brought with it and what came of it, in order."""
        return self.all(Message, "SELECT doc FROM messages WHERE chat_id = ? ORDER BY seq", chat_id)

    def produced(self, chat_id: str) -> list[Message]:
        """What came of a chat, in order; not what its client brought."""
        return [message for message in self.messages_of(chat_id) if not message.given]

    def listed(
        self, conversation_id: str, *, descending: bool, chat_id: str, before: str, after: str, limit: int, most: int
    ) -> tuple[list[Message], bool]:
        """A page of a conversation, and whether there are more in its direction. `before` and `after` are ids that have
        a place, in the order of the page. It has `limit` messages and `most` bytes, but one message in any case."""
        where, values = _LISTED, [conversation_id]
        if chat_id:
            where, values = f"{where} AND chat_id = ?", [*values, chat_id]
        for id, sign in ((before, ">" if descending else "<"), (after, "<" if descending else ">")):
            if id:
                where, values = f"{where} AND seq {sign} (SELECT seq FROM messages WHERE id = ?)", [*values, id]
        # What stands before a message is the page next to it, and not the first of all.
        backwards = bool(before) and not after
        order = "DESC" if descending != backwards else "ASC"
        sql = f"SELECT doc FROM messages WHERE {where} ORDER BY seq {order} LIMIT ?"
        messages: list[Message] = []
        size, more = 0, False
        for (doc,) in self.execute(sql, (*values, limit + 1)):
            size += len(doc)
            more = len(messages) == limit or (size > most and bool(messages))
            if more:
                break
            messages.append(Message(**json.loads(doc)))
        return messages[::-1] if backwards else messages, more

    def context(
        self, conversation_id: str, section_id: str, unknown_to: str | None = None, *, but: str | None = None, most: int
    ) -> tuple[list[str], list[Message]]:
        """What a chat in this section builds on, without the message `but`. Given `unknown_to`, only what that session
        has not heard. Returns the newest messages that together have `most` bytes, in order, and the ids of those
        before."""
        where, values = f"{_CONTEXT} AND section_id = ?", [conversation_id, section_id]
        if unknown_to is not None:
            where, values = f"{where} AND (known_to IS NULL OR known_to <> ?)", [*values, unknown_to]
        if but is not None:
            where, values = f"{where} AND id <> ?", [*values, but]
        # Not the documents of all of them, for an engine may hand out everything that it has found at once.
        found = self.execute(f"SELECT id FROM messages WHERE {where} ORDER BY seq DESC", tuple(values))
        ids: list[str] = [id for (id,) in found]
        messages: list[Message] = []
        for first in range(0, len(ids), _READ_AT_ONCE):
            for message in self._newest(ids[first : first + _READ_AT_ONCE]):
                most -= len(as_context(message).encode())
                if most < 0:
                    return ids[len(messages) :], messages[::-1]
                messages.append(message)
        return [], messages[::-1]

    def _newest(self, ids: list[str]) -> list[Message]:
        places = ", ".join("?" * len(ids))
        return self.all(Message, f"SELECT doc FROM messages WHERE id IN ({places}) ORDER BY seq DESC", *ids)

    def last_said(self, conversation_id: str, section_id: str) -> Message | None:
        """The last message that a chat in this section builds on."""
        sql = f"SELECT doc FROM messages WHERE {_CONTEXT} AND section_id = ? ORDER BY seq DESC LIMIT 1"
        return self.one(Message, sql, conversation_id, section_id)

    def mark_known(self, session: str, ids: Iterable[str]) -> None:
        """The agent's session with this key has heard these messages."""
        for id in ids:
            self.execute("UPDATE messages SET known_to = ? WHERE id = ?", (session, id))
