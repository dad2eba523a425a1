"""Conversations and the messages in them: whose they are, their sections, and which agent's session knows them.

A conversation is read from the store whenever it is needed, so there is never a stale one to be kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from acp_server.gateway.auth import Caller
from acp_server.gateway.bodies import ConversationBody, EnterMessage, ListBody, ModifyBody, known_id
from acp_server.gateway.errors import ApiError, Code
from acp_server.gateway.ids import Ids, is_id
from acp_server.gateway.limits import NAME, Limits
from acp_server.gateway.messages import Message, check_content, check_links, check_said
from acp_server.gateway.records import Conversation, KnownSession
from acp_server.gateway.store import Store

_UNKNOWN = "the conversation does not exist"
_UNKNOWN_MESSAGE = "the message does not exist"


@dataclass(frozen=True, slots=True)
class Lease:
    """An agent's session that a chat has to itself, and what the conversation was like when it took it."""

    conversation_id: str
    section_id: str
    bot: str
    revision: int
    known: KnownSession | None
    """None if the chat has to open one."""
    left: KnownSession | None = None
    """The one of another bot, see `Conversations.release`."""


class Conversations:
    """All conversations."""

    def __init__(
        self,
        store: Store,
        ids: Ids,
        on_release: Callable[[KnownSession], None],
        limits: Limits,
        file_urls: bool = False,
    ) -> None:
        """`on_release` is told of each session that will not be taken up again; it must not wait. `file_urls`: whether
        messages may link to files by any URL."""
        self._store = store
        self._ids = ids
        self._on_release = on_release
        self._limits = limits
        self._file_urls = file_urls

    def create(self, caller: Caller, body: ConversationBody) -> Conversation:
        """A new one, with the messages that it begins with."""
        now = int(time.time())
        conversation = Conversation(
            id=self._ids.new(),
            owner=caller.name,
            section_id=self._ids.new(),
            created_at=now,
            updated_at=now,
            bot_id=body.bot_id,
            name=body.name or next((message.content[:NAME] for message in body.messages), ""),
            connector_id=body.connector_id,
            meta_data=body.meta_data,
        )
        with self._store.transaction():
            self._store.add_conversation(conversation)
            for message in body.messages:
                self._store.add_message(self.message(conversation, message))
        return conversation

    def find(self, caller: Caller, id: str | None) -> Conversation:
        """One of the caller's. Raises ApiError 4002, for those of others as well."""
        conversation = self._store.conversation(known_id(id, "conversation_id", Code.BAD_CONVERSATION, _UNKNOWN))
        if conversation is None or conversation.deleted or conversation.owner != caller.name:
            raise ApiError(Code.BAD_CONVERSATION, _UNKNOWN)
        return conversation

    def page(self, caller: Caller, bot_id: str | None, number: int, size: int) -> tuple[list[Conversation], bool]:
        """A page of the caller's, the newest first, and whether there are more."""
        found = self._store.conversations(caller.name, bot_id or None, (number - 1) * size, size + 1)
        return found[:size], len(found) > size

    def rename(self, caller: Caller, id: str, name: str | None) -> Conversation:
        """Give it another name; None keeps the one it has."""
        return self._change(self.find(caller, id), name=name)

    def clear(self, caller: Caller, id: str) -> Conversation:
        """Begin a new section: what was said stays listed, and is not context any more."""
        conversation = self.find(caller, id)
        self.release(self._said_otherwise(conversation, section_id=self._ids.new()))
        return conversation

    def delete(self, caller: Caller, id: str) -> KnownSession | None:
        """It is not found any more. `Store.purge` removes what is left when no chat of it lives.

        The session that it had, to be released as soon as the deletion is committed.
        """
        conversation = self.find(caller, id)
        before = conversation.know(None)
        self._change(conversation, deleted=True)
        return before

    # -- messages

    def message(self, conversation: Conversation, entered: EnterMessage) -> Message:
        """A message that a client brings; it is not kept yet. Raises ApiError 4005 for links that are not allowed."""
        self._check_links(entered.content, entered.content_type)
        return Message(
            id=self._ids.new(),
            conversation_id=conversation.id,
            section_id=conversation.section_id,
            role=entered.role,
            type=entered.kind,
            content=entered.content,
            content_type=entered.content_type,
            meta_data=entered.meta_data,
            given=True,
        )

    def add_message(self, caller: Caller, conversation_id: str | None, entered: EnterMessage) -> Message:
        """Insert a message."""
        conversation = self.find(caller, conversation_id)
        message = self.message(conversation, entered)
        with self._store.transaction():
            self._store.add_message(message)
            self._change(conversation)
        return message

    def find_message(self, caller: Caller, conversation_id: str | None, message_id: str | None) -> Message:
        """One of the messages that are listed. Raises ApiError 4002 and 4005."""
        conversation = self.find(caller, conversation_id)
        id = known_id(message_id, "message_id", Code.BAD_MESSAGE, _UNKNOWN_MESSAGE)
        message = self._store.message(conversation.id, id)
        if message is None:
            raise ApiError(Code.BAD_MESSAGE, _UNKNOWN_MESSAGE)
        return message

    def modify_message(
        self, caller: Caller, conversation_id: str | None, message_id: str | None, body: ModifyBody
    ) -> Message:
        """Change what a message says."""
        message = self.find_message(caller, conversation_id, message_id)
        message.content = message.content if body.content is None else body.content
        message.content_type = body.content_type or message.content_type
        message.meta_data = message.meta_data if body.meta_data is None else body.meta_data
        check_content(message.content, message.content_type)
        self._check_links(message.content, message.content_type)
        check_said(message.content)
        message.updated_at = int(time.time())
        with self._store.transaction():
            self._store.change_message(message)
            session = self._said_otherwise(self.find(caller, conversation_id))
        self.release(session)
        return message

    def delete_message(self, caller: Caller, conversation_id: str | None, message_id: str | None) -> Message:
        """Remove a message."""
        message = self.find_message(caller, conversation_id, message_id)
        self.forget_message(message)
        return message

    def forget_message(self, message: Message) -> None:
        """Remove a message. No effect if it is removed, or its conversation is."""
        conversation = self._store.conversation(message.conversation_id)
        if conversation is not None and not conversation.deleted and self._store.message(conversation.id, message.id):
            with self._store.transaction():
                self._store.delete_message(message.id)
                session = self._said_otherwise(conversation)
            self.release(session)

    def list_messages(self, caller: Caller, conversation_id: str | None, body: ListBody) -> tuple[list[Message], bool]:
        """A page of messages, and whether there are more in its direction. Raises ApiError 4002 and 4005."""
        conversation = self.find(caller, conversation_id)
        for id in (body.before_id, body.after_id):
            # Also of one that is not listed any more: a client may delete what it has read.
            if id and not (is_id(id) and self._store.has_place(conversation.id, id)):
                raise ApiError(Code.BAD_MESSAGE, _UNKNOWN_MESSAGE)
        return self._store.listed(
            conversation.id,
            descending=body.order == "desc",
            chat_id=body.chat_id if body.chat_id.isascii() else "-",
            before=body.before_id,
            after=body.after_id,
            limit=body.limit,
            most=self._limits.page_bytes,
        )

    # -- the agent's sessions

    def take_session(self, conversation: Conversation, bot: str) -> Lease:
        """Let a chat have the conversation's session to itself. No other chat finds it until it is given back."""
        known, left = conversation.know(None), None
        if known is not None:
            self._store.change_conversation(conversation)
            if known.bot != bot:
                known, left = None, known
        return Lease(conversation.id, conversation.section_id, bot, conversation.revision, known, left)

    def give_back(self, lease: Lease, known: KnownSession, heard: Iterable[str], chat_id: str) -> bool:
        """The chat was completed, so the session knows what the conversation has become: what of it was `heard`, by
        the ids of the messages, and all that came of the chat.

        False if it does not: what was said was changed meanwhile. Then the next chat opens a new session, which is told
        what was said, as after a chat that was cancelled or has failed.
        """
        with self._store.transaction():
            conversation = self._store.conversation(lease.conversation_id)
            if conversation is None or conversation.deleted or conversation.revision != lease.revision:
                return False
            before = conversation.know(known)
            self._store.change_conversation(conversation)
            self._store.mark_known(known.key, [*heard, *(message.id for message in self._store.produced(chat_id))])
        # Of another chat, which began while this one waited.
        self.release(before)
        return True

    def release(self, session: KnownSession | None) -> None:
        """No chat will take up this session again. Only for what is committed: an agent takes nothing back."""
        if session is not None:
            self._on_release(session)

    # -- changes

    def _check_links(self, content: str, content_type: str) -> None:
        if not self._file_urls:
            check_links(content, content_type)

    def _said_otherwise(self, conversation: Conversation, section_id: str | None = None) -> KnownSession | None:
        """No session knows the conversation as it is from now on: the one that did until now, see `release`."""
        conversation.revision += 1
        conversation.section_id = section_id or conversation.section_id
        before = conversation.know(None)
        self._change(conversation)
        return before

    def _change(self, conversation: Conversation, name: str | None = None, deleted: bool = False) -> Conversation:
        conversation.updated_at = int(time.time())
        conversation.name = conversation.name if name is None else name
        conversation.deleted = deleted
        self._store.change_conversation(conversation)
        return conversation
