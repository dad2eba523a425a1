"""Conversations and their messages: owners, sections, and the agent sessions that know their messages.

A conversation is read from its row whenever it is needed, so no copy can be stale. Everything happens in the caller's
transaction (`acp_server.apps.gateway.store`), so rows do not change between a check and the change that depends on
it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from acp_server.apps.gateway.auth import Caller
from acp_server.apps.gateway.bodies import NAME, ConversationBody, EnterMessage, ListBody, ModifyBody, known_id
from acp_server.apps.gateway.errors import ApiError, Code
from acp_server.apps.gateway.limits import GatewayLimits
from acp_server.apps.gateway.messages import ChatMessage, check_content, check_links, check_said
from acp_server.apps.gateway.records import Conversation, Ids, KnownSession, is_id
from acp_server.apps.gateway.rows import Rows

_UNKNOWN = "the conversation does not exist"
_UNKNOWN_MESSAGE = "the message does not exist"


@dataclass(frozen=True, slots=True)
class ReservedSession:
    """An agent's session that is reserved for one chat, with the state of the conversation at that time."""

    conversation_id: str
    section_id: str
    bot: str
    revision: int
    known: KnownSession | None
    """The session to use; None if the chat must open a new session."""


class Conversations:
    """All conversations."""

    def __init__(
        self,
        ids: Ids,
        on_release: Callable[[str, KnownSession], None],
        limits: GatewayLimits,
        file_urls: bool = False,
    ) -> None:
        """`on_release` is called with the owner and each session that no chat will use again. It must not wait.
        `file_urls`: whether messages may link to files by any URL."""
        self._ids = ids
        self._on_release = on_release
        self._limits = limits
        self._file_urls = file_urls

    def create(self, rows: Rows, caller: Caller, body: ConversationBody) -> Conversation:
        """Create a conversation with its first messages."""
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
        rows.add_conversation(conversation)
        for message in body.messages:
            rows.add_message(self.message(conversation, message))
        return conversation

    def find(self, rows: Rows, caller: Caller, id: str | None) -> Conversation:
        """Return a conversation of the caller. Raises ApiError 4002 if it is unknown or another caller owns it."""
        conversation = rows.conversation(known_id(id, "conversation_id", Code.BAD_CONVERSATION, _UNKNOWN))
        if conversation is None or conversation.deleted or conversation.owner != caller.name:
            raise ApiError(Code.BAD_CONVERSATION, _UNKNOWN)
        return conversation

    def page(
        self, rows: Rows, caller: Caller, bot_id: str | None, number: int, size: int
    ) -> tuple[list[Conversation], bool]:
        """Return a page of the caller's conversations, newest first, and whether there are more."""
        found = rows.conversations(caller.name, bot_id or None, (number - 1) * size, size + 1)
        return found[:size], len(found) > size

    def rename(self, rows: Rows, caller: Caller, id: str, name: str | None) -> Conversation:
        """Rename a conversation. None keeps the name."""
        return self._change(rows, self.find(rows, caller, id), name=name)

    def clear(self, rows: Rows, caller: Caller, id: str) -> Conversation:
        """Begin a new section. Earlier messages stay listed, but are no longer context."""
        conversation = self.find(rows, caller, id)
        self._said_otherwise(rows, conversation, section_id=self._ids.new())
        return conversation

    def delete(self, rows: Rows, caller: Caller, id: str) -> None:
        """Mark a conversation as deleted, so that it is no longer found. `Rows.purge` removes the rest when no node
        works for its chats."""
        conversation = self.find(rows, caller, id)
        self._release(rows, conversation, conversation.know(None))
        self._change(rows, conversation, deleted=True)

    # -- messages

    def message(self, conversation: Conversation, entered: EnterMessage) -> ChatMessage:
        """Make a message from a client's input, without storing it. Raises ApiError 4005 for links that are not
        allowed."""
        self._check_links(entered.content, entered.content_type)
        return ChatMessage(
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

    def add_message(
        self, rows: Rows, caller: Caller, conversation_id: str | None, entered: EnterMessage
    ) -> ChatMessage:
        """Insert a message."""
        conversation = self.find(rows, caller, conversation_id)
        message = self.message(conversation, entered)
        rows.add_message(message)
        self._change(rows, conversation)
        return message

    def find_message(
        self, rows: Rows, caller: Caller, conversation_id: str | None, message_id: str | None
    ) -> ChatMessage:
        """Return one of the listed messages. Raises ApiError 4002 and 4005."""
        conversation = self.find(rows, caller, conversation_id)
        id = known_id(message_id, "message_id", Code.BAD_MESSAGE, _UNKNOWN_MESSAGE)
        message = rows.message(conversation.id, id)
        if message is None:
            raise ApiError(Code.BAD_MESSAGE, _UNKNOWN_MESSAGE)
        return message

    def modify_message(
        self, rows: Rows, caller: Caller, conversation_id: str | None, message_id: str | None, body: ModifyBody
    ) -> ChatMessage:
        """Change the content of a message."""
        message = self.find_message(rows, caller, conversation_id, message_id)
        message.content = message.content if body.content is None else body.content
        message.content_type = body.content_type or message.content_type
        message.meta_data = message.meta_data if body.meta_data is None else body.meta_data
        check_content(message.content, message.content_type)
        self._check_links(message.content, message.content_type)
        check_said(message.content)
        message.updated_at = int(time.time())
        rows.change_message(message)
        self._said_otherwise(rows, self.find(rows, caller, conversation_id))
        return message

    def delete_message(
        self, rows: Rows, caller: Caller, conversation_id: str | None, message_id: str | None
    ) -> ChatMessage:
        """Remove a message."""
        message = self.find_message(rows, caller, conversation_id, message_id)
        self.forget_message(rows, message)
        return message

    def forget_message(self, rows: Rows, message: ChatMessage) -> None:
        """Remove a message. Has no effect if the message or its conversation is already removed."""
        conversation = rows.conversation(message.conversation_id)
        if conversation is not None and not conversation.deleted and rows.message(conversation.id, message.id):
            rows.delete_message(message.id)
            self._said_otherwise(rows, conversation)

    def list_messages(
        self, rows: Rows, caller: Caller, conversation_id: str | None, body: ListBody
    ) -> tuple[list[ChatMessage], bool]:
        """Return a page of messages, and whether there are more in the direction of the page. Raises ApiError 4002 and
        4005."""
        conversation = self.find(rows, caller, conversation_id)
        for id in (body.before_id, body.after_id):
            # The id may be of a removed message, since a client may delete a message that it has read.
            if id and not (is_id(id) and rows.has_place(conversation.id, id)):
                raise ApiError(Code.BAD_MESSAGE, _UNKNOWN_MESSAGE)
        return rows.listed(
            conversation.id,
            descending=body.order == "desc",
            chat_id=body.chat_id if body.chat_id.isascii() else "-",
            before=body.before_id,
            after=body.after_id,
            limit=body.limit,
            most=self._limits.page_bytes,
        )

    # -- the agent's sessions

    def take_session(self, rows: Rows, conversation: Conversation, bot: str) -> ReservedSession:
        """Reserve the conversation's session for a chat. Until the session is given back, no other chat finds it."""
        known = conversation.know(None)
        if known is not None:
            rows.change_conversation(conversation)
            if known.bot != bot:
                self._release(rows, conversation, known)
                known = None
        return ReservedSession(conversation.id, conversation.section_id, bot, conversation.revision, known)

    def give_back(
        self, rows: Rows, reserved: ReservedSession, known: KnownSession, heard: Iterable[str], chat_id: str
    ) -> bool:
        """Give a session back after its chat was completed. The session then knows the messages in `heard`, by id, and
        all messages of the chat.

        Returns False if messages were changed meanwhile. The next chat then opens a new session and gets the earlier
        messages, as it does after a chat that was cancelled or failed.
        """
        conversation = rows.conversation(reserved.conversation_id)
        if conversation is None or conversation.deleted or conversation.revision != reserved.revision:
            return False
        # The previous session belongs to another chat, which began while this one waited.
        self._release(rows, conversation, conversation.know(known))
        rows.change_conversation(conversation)
        rows.mark_known(known.key, [*heard, *(message.id for message in rows.produced(chat_id))])
        return True

    def _release(self, rows: Rows, conversation: Conversation, session: KnownSession | None) -> None:
        """Release a session after the commit, so that no chat uses it again. An agent cannot forget a single
        message."""
        if session is not None:
            rows.afterwards.append(partial(self._on_release, conversation.owner, session))

    # -- changes

    def _check_links(self, content: str, content_type: str) -> None:
        if not self._file_urls:
            check_links(content, content_type)

    def _said_otherwise(self, rows: Rows, conversation: Conversation, section_id: str | None = None) -> None:
        """Record that the messages were changed, so that no session knows the conversation any longer."""
        conversation.revision += 1
        conversation.section_id = section_id or conversation.section_id
        self._release(rows, conversation, conversation.know(None))
        self._change(rows, conversation)

    def _change(
        self, rows: Rows, conversation: Conversation, name: str | None = None, deleted: bool = False
    ) -> Conversation:
        conversation.updated_at = int(time.time())
        conversation.name = conversation.name if name is None else name
        conversation.deleted = deleted
        rows.change_conversation(conversation)
        return conversation
