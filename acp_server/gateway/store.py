"""Where conversations, chats and messages are kept: one SQLite file, or memory.

What was answered for is in the file, whatever then becomes of the process: every change is committed before a client
is told of it. One gateway at a time has a file. Whose things are is not looked at here.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from acp_server.errors import UsageError
from acp_server.gateway.messages import ANSWER, QUESTION, Message, as_context
from acp_server.gateway.records import Chat, Conversation, Failure, Status, Usage
from acp_server.store.sqlite_file import PROBLEMS, Format, make_private, migrate, reason, transaction

_FORMAT: Final = Format(
    0x41435047,  # "ACPG"
    (
        (
            """CREATE TABLE conversations (
                id TEXT PRIMARY KEY, owner TEXT NOT NULL, bot_id TEXT, deleted INTEGER NOT NULL, doc TEXT NOT NULL
            ) WITHOUT ROWID""",
            "CREATE INDEX conversations_of ON conversations (owner, id)",
            """CREATE TABLE chats (
                id TEXT PRIMARY KEY, conversation_id TEXT NOT NULL, query_id TEXT, status TEXT NOT NULL,
                doc TEXT NOT NULL
            ) WITHOUT ROWID""",
            "CREATE INDEX chats_of ON chats (conversation_id)",
            "CREATE INDEX cancelled_for ON chats (query_id) WHERE status = 'canceled'",
            "CREATE INDEX chats_in ON chats (status) WHERE status IN ('created', 'in_progress', 'requires_action')",
            """CREATE TABLE messages (
                seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, conversation_id TEXT NOT NULL,
                section_id TEXT NOT NULL, chat_id TEXT, type TEXT NOT NULL, known_to TEXT, doc TEXT NOT NULL
            )""",
            "CREATE INDEX messages_of ON messages (conversation_id, seq)",
            "CREATE INDEX messages_in ON messages (chat_id, seq) WHERE chat_id IS NOT NULL",
        ),
        (
            "CREATE TABLE purged (id TEXT NOT NULL)",
            "INSERT INTO purged VALUES ('0')",
        ),
    ),
)


def _said(*statuses: Status) -> str:
    """Messages of a conversation: what was inserted, and the questions and answers of chats with these statuses. What
    was inserted and became the query of a chat that was cancelled is not among them. All this is looked up and never
    copied, so a chat's status decides at once, and for good. An answer that is thoughts alone is not among them either.
    No text can look like the field that is searched for: quotes in texts are escaped."""
    ended = ", ".join(f"'{status.value}'" for status in statuses)
    return f"""
    messages.conversation_id = ? AND messages.type IN ('{QUESTION}', '{ANSWER}') AND
    NOT instr(messages.doc, '"content":""') AND (messages.chat_id IS NULL OR EXISTS
    (SELECT 1 FROM chats WHERE chats.id = messages.chat_id AND chats.status IN ({ended}))) AND NOT EXISTS
    (SELECT 1 FROM chats WHERE chats.query_id = messages.id AND chats.status = '{Status.CANCELED.value}')
"""


_LISTED: Final = _said(Status.COMPLETED, Status.FAILED)
_CONTEXT: Final = _said(Status.COMPLETED)


class Store:
    """Rows in, rows out. Nothing here waits for longer than a disk takes."""

    def __init__(self, path: Path | None = None) -> None:
        """Open the file, or memory for None. Raises UsageError if it cannot be used."""
        self._path = path
        with ExitStack() as opened, self.explained():
            if path is not None:
                make_private(path)
            # What waits for another process would hold up every chat, so nothing does.
            self._db = sqlite3.connect(":memory:" if path is None else path, timeout=0, isolation_level=None)
            opened.callback(self.close)
            self._prepare()
            opened.pop_all()

    def _prepare(self) -> None:
        db = self._db
        _FORMAT.check(db)
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = WAL")
        # The end of the process loses nothing then; the machine's may lose the last moment.
        db.execute("PRAGMA synchronous = NORMAL")
        with self.transaction():  # takes the lock of the file, also if its tables are new enough
            migrate(db, _FORMAT)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    @contextmanager
    def explained(self) -> Generator[None]:
        """Raise UsageError for a file that fails."""
        try:
            yield
        except PROBLEMS as error:
            raise UsageError(f"{self._path} cannot be used: {reason(error) or error}") from None

    def transaction(self) -> AbstractContextManager[object]:
        """What is done inside is kept as a whole, or not at all. May be nested."""
        return transaction(self._db)

    # -- ids

    def highest_id(self) -> int:
        """The highest id that a row has, or had until it was purged; 0 if there is none."""
        return max(self._highest(table) for table in ("purged", "conversations", "chats", "messages"))

    def _highest(self, table: str, where: str = "TRUE", *values: str) -> int:
        # Decimal digits without leading zeros: the longer one is the higher one.
        sql = f"SELECT id FROM {table} WHERE {where} ORDER BY length(id) DESC, id DESC LIMIT 1"
        row = self._db.execute(sql, values).fetchone()
        return 0 if row is None else int(row[0])

    # -- conversations

    def add_conversation(self, conversation: Conversation) -> None:
        """Add it. Raises sqlite3.IntegrityError if there is one with its id."""
        self._db.execute(
            "INSERT INTO conversations VALUES (:id, :owner, :bot_id, :deleted, :doc)",
            {**_columns(conversation, "id", "owner", "bot_id"), "deleted": int(conversation.deleted)},
        )

    def change_conversation(self, conversation: Conversation) -> None:
        """Keep it as it is now."""
        self._db.execute(
            "UPDATE conversations SET bot_id = :bot_id, deleted = :deleted, doc = :doc WHERE id = :id",
            {**_columns(conversation, "id", "bot_id"), "deleted": int(conversation.deleted)},
        )

    def conversation(self, id: str) -> Conversation | None:
        """One of them, deleted or not."""
        return self._one(Conversation, "SELECT doc FROM conversations WHERE id = ?", id)

    def conversations(self, owner: str, bot_id: str | None, offset: int, limit: int) -> list[Conversation]:
        """Those of one owner, the newest first."""
        where, values = ("", ()) if bot_id is None else (" AND bot_id = ?", (bot_id,))
        return self._all(
            Conversation,
            f"SELECT doc FROM conversations WHERE owner = ? AND NOT deleted{where}"
            " ORDER BY length(id) DESC, id DESC LIMIT ? OFFSET ?",
            *(owner, *values, limit, offset),
        )

    def deleted_conversations(self) -> list[Conversation]:
        """Those that are deleted and still there."""
        return self._all(Conversation, "SELECT doc FROM conversations WHERE deleted")

    def purge(self, conversation_id: str) -> None:
        """Remove a conversation with everything in it. Its ids are not given again."""
        with self.transaction():
            highest = self._highest("purged")
            for table, column in (
                ("messages", "conversation_id"),
                ("chats", "conversation_id"),
                ("conversations", "id"),
            ):
                highest = max(highest, self._highest(table, f"{column} = ?", conversation_id))
                self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", (conversation_id,))
            self._db.execute("UPDATE purged SET id = ?", (str(highest),))

    # -- chats

    def add_chat(self, chat: Chat) -> None:
        """Add it. Raises sqlite3.IntegrityError if there is one with its id."""
        self._db.execute(
            "INSERT INTO chats VALUES (:id, :conversation_id, :query_id, :status, :doc)",
            _columns(chat, "id", "conversation_id", "query_id", "status"),
        )

    def change_chat(self, chat: Chat) -> None:
        """Keep it as it is now."""
        sql = "UPDATE chats SET status = :status, doc = :doc WHERE id = :id"
        self._db.execute(sql, _columns(chat, "id", "status"))

    def chat(self, id: str) -> Chat | None:
        """One of them."""
        return self._one(_chat, "SELECT doc FROM chats WHERE id = ?", id)

    def chats_that_live(self) -> list[Chat]:
        """Those whose status is not final."""
        return self._all(_chat, "SELECT doc FROM chats WHERE status IN ('created', 'in_progress', 'requires_action')")

    # -- messages

    def add_message(self, message: Message) -> None:
        """Add it at the end."""
        self._db.execute(
            "INSERT INTO messages (id, conversation_id, section_id, chat_id, type, doc)"
            " VALUES (:id, :conversation_id, :section_id, :chat_id, :type, :doc)",
            _columns(message, "id", "conversation_id", "section_id", "chat_id", "type"),
        )

    def change_message(self, message: Message) -> None:
        """Keep it as it is now."""
        self._db.execute("UPDATE messages SET doc = :doc WHERE id = :id", _columns(message, "id"))

    def delete_message(self, id: str) -> None:
        """Remove it. Its place stays, for a client that pages may go on from there."""
        self._db.execute("UPDATE messages SET type = '', chat_id = NULL, doc = '' WHERE id = ?", (id,))

    def has_place(self, conversation_id: str, id: str) -> bool:
        """Whether a message with this id is in the conversation, or was until it was deleted."""
        sql = "SELECT EXISTS (SELECT 1 FROM messages WHERE conversation_id = ? AND id = ?)"
        return bool(self._db.execute(sql, (conversation_id, id)).fetchone()[0])

    def message(self, conversation_id: str, id: str) -> Message | None:
        """One of those that are listed."""
        return self._one(Message, f"SELECT doc FROM messages WHERE {_LISTED} AND id = ?", conversation_id, id)

    def produced(self, chat_id: str) -> list[Message]:
        """What came of a chat, in order; not what its client brought."""
        messages = self._all(Message, "SELECT doc FROM messages WHERE chat_id = ? ORDER BY seq", chat_id)
        return [message for message in messages if not message.given]

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
        for (doc,) in self._db.execute(sql, (*values, limit + 1)):
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
        left_out: list[str] = []
        messages: list[Message] = []
        rows = self._db.execute(
            f"SELECT id, doc FROM messages WHERE {_CONTEXT} AND section_id = ? AND (? IS NULL OR known_to IS NOT ?)"
            " AND id IS NOT ? ORDER BY seq DESC",
            (conversation_id, section_id, unknown_to, unknown_to, but),
        )
        for id, doc in rows:
            message: Message | None = None if left_out else Message(**json.loads(doc))
            most -= 0 if message is None else len(as_context(message).encode())
            if message is None or most < 0:
                left_out.append(id)
            else:
                messages.append(message)
        return left_out, messages[::-1]

    def last_said(self, conversation_id: str, section_id: str) -> Message | None:
        """The last message that a chat in this section builds on."""
        sql = f"SELECT doc FROM messages WHERE {_CONTEXT} AND section_id = ? ORDER BY seq DESC LIMIT 1"
        return self._one(Message, sql, conversation_id, section_id)

    def mark_known(self, session: str, ids: Iterable[str]) -> None:
        """The agent's session with this key has heard these messages."""
        self._db.executemany("UPDATE messages SET known_to = ? WHERE id = ?", [(session, id) for id in ids])

    # -- rows

    def _one(self, make: Any, sql: str, *values: Any) -> Any:
        row = self._db.execute(sql, values).fetchone()
        return None if row is None else make(**json.loads(row[0]))

    def _all(self, make: Any, sql: str, *values: Any) -> list[Any]:
        return [make(**json.loads(doc)) for (doc,) in self._db.execute(sql, values)]


def _columns(record: Any, *names: str) -> dict[str, Any]:
    # Escaped, for a text may hold half of a surrogate pair, which SQLite does not take.
    doc = json.dumps(record, default=_fields, separators=(",", ":"))
    return {**{name: getattr(record, name) for name in names}, "doc": doc}


def _fields(record: Any) -> dict[str, Any]:
    return {each.name: getattr(record, each.name) for each in fields(record) if each.name != "keep"}


def _chat(**doc: Any) -> Chat:
    doc["status"] = Status(doc["status"])
    doc["usage"] = None if doc["usage"] is None else Usage(**doc["usage"])
    doc["last_error"] = None if doc["last_error"] is None else Failure(**doc["last_error"])
    return Chat(**doc)
