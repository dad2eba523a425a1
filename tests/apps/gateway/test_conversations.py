"""Conversations and their messages with the official client, and that nobody sees those of others."""

from typing import Any

import pytest

from .serving import Server, ask, client, cozepy, until

USER = cozepy.MessageRole.USER
TEXT = cozepy.MessageContentType.TEXT
question = cozepy.Message.build_user_question_text


def refused(call: object, **arguments: object) -> int | None:
    with pytest.raises(cozepy.CozeAPIError) as error:
        call(**arguments)  # pyright: ignore[reportCallIssue]
    return error.value.code


def test_a_conversation_is_created_found_renamed_and_deleted(coze: Any) -> None:
    made = coze.conversations.create(bot_id="77", meta_data={"a": "b"}, messages=[question("hello")])
    assert (made.meta_data, made.name, made.connector_id) == ({"a": "b"}, "hello", "1024")
    found = coze.conversations.retrieve(conversation_id=made.id)
    assert (found.id, found.last_section_id, found.created_at) == (made.id, made.last_section_id, made.created_at)
    assert coze.conversations.update(conversation_id=made.id, name="other").name == "other"
    coze.conversations.delete(conversation_id=made.id)
    assert refused(coze.conversations.retrieve, conversation_id=made.id) == 4002
    assert refused(coze.conversations.delete, conversation_id=made.id) == 4002


def test_conversations_are_listed_by_bot_in_pages_the_newest_first(coze: Any) -> None:
    made = [coze.conversations.create(bot_id="list-bot").id for _ in range(5)]
    page = coze.conversations.list(bot_id="list-bot", page_size=2)
    assert [c.id for c in page.items] == made[:2:-1]
    assert page.has_more
    assert [c.id for c in page] == made[::-1]
    assert [c.id for c in coze.conversations.list(bot_id="no-bot")] == []


def test_a_conversation_that_a_chat_began_is_listed_with_its_bot(coze: Any) -> None:
    chat = coze.chat.create(**{**ask("echo x"), "bot_id": "chat-bot"})
    assert [c.id for c in coze.conversations.list(bot_id="chat-bot")] == [chat.conversation_id]


def test_messages_are_inserted_read_changed_and_deleted(coze: Any) -> None:
    conversation = coze.conversations.create()
    messages = coze.conversations.messages
    ids = {"conversation_id": conversation.id}
    made = messages.create(**ids, role=USER, content="one", content_type=TEXT, meta_data={"a": "b"})
    assert (made.content, made.type.value, made.meta_data) == ("one", "question", {"a": "b"})
    assert messages.retrieve(**ids, message_id=str(made.id)).content == "one"
    changed = messages.update(**ids, message_id=str(made.id), content="two")
    assert (changed.id, changed.content) == (made.id, "two")
    assert messages.retrieve(**ids, message_id=str(made.id)).content == "two"
    assert messages.delete(**ids, message_id=str(made.id)).content == "two"
    assert refused(messages.retrieve, **ids, message_id=str(made.id)) == 4005
    assert messages.list(**ids).items == []


def test_a_changed_message_is_what_the_agent_hears(coze: Any) -> None:
    chat = coze.chat.create_and_poll(**ask("echo bad")).chat
    ids = {"conversation_id": chat.conversation_id}
    (answer, query) = coze.conversations.messages.list(**ids).items
    coze.conversations.messages.update(**ids, message_id=str(query.id), content="echo good")
    coze.conversations.messages.delete(**ids, message_id=str(answer.id))
    poll = coze.chat.create_and_poll(**ask("recall"), **ids)
    assert poll.messages is not None
    assert "user: echo good" in poll.messages[0].content
    assert "bad" not in poll.messages[0].content


@pytest.mark.parametrize("change", ["update", "delete", "clear"])
def test_what_is_changed_while_a_chat_runs_is_known_to_the_next_one(server: Server, coze: Any, change: str) -> None:
    conversation = coze.conversations.create(messages=[question("the old word")])
    ids = {"conversation_id": conversation.id}
    (old,) = coze.conversations.messages.list(**ids).items
    text = f"slowly 20 {change}"
    chat = coze.chat.create(**ask(text), **ids)
    server.ear.wait(f"begin {text}")
    if change == "update":
        coze.conversations.messages.update(**ids, message_id=str(old.id), content="the new word")
    elif change == "delete":
        coze.conversations.messages.delete(**ids, message_id=str(old.id))
    else:
        coze.conversations.clear(**ids)
    until(lambda: coze.chat.retrieve(**ids, chat_id=chat.id).status == cozepy.ChatStatus.COMPLETED)
    poll = coze.chat.create_and_poll(**ask("recall"), **ids)
    assert poll.messages is not None
    heard = poll.messages[0].content
    assert "the old word" not in heard
    assert ("the new word" in heard) == (change == "update")
    assert (text in heard) == (change != "clear")


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_message_pages_follow_each_other_in_either_order(coze: Any, order: str) -> None:
    texts = [str(number) for number in range(7)]
    conversation = coze.conversations.create(messages=[question(text) for text in texts])
    wanted = texts if order == "asc" else texts[::-1]
    listing = coze.conversations.messages.list
    page = listing(conversation_id=conversation.id, order=order, limit=3)
    assert [message.content for message in page.items] == wanted[:3]
    assert page.has_more
    assert [message.content for message in page] == wanted
    fifth = listing(conversation_id=conversation.id, order=order, limit=5).items[-1]
    before = listing(conversation_id=conversation.id, order=order, limit=3, before_id=fifth.id)
    assert [message.content for message in before.items] == wanted[1:4]
    assert before.has_more


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_messages_can_be_deleted_while_they_are_paged_through(coze: Any, order: str) -> None:
    texts = [str(number) for number in range(7)]
    conversation = coze.conversations.create(messages=[question(text) for text in texts])
    messages = coze.conversations.messages
    deleted: list[str] = []
    for message in messages.list(conversation_id=conversation.id, order=order, limit=3):
        deleted.append(message.content)
        messages.delete(conversation_id=conversation.id, message_id=message.id)
    assert deleted == (texts if order == "asc" else texts[::-1])
    assert list(messages.list(conversation_id=conversation.id)) == []


def test_a_page_goes_on_from_where_a_deleted_message_stood(coze: Any) -> None:
    conversation = coze.conversations.create(messages=[question(str(number)) for number in range(5)])
    messages = coze.conversations.messages
    ids = {"conversation_id": conversation.id}
    middle = list(messages.list(**ids, order="asc"))[2]
    messages.delete(**ids, message_id=middle.id)
    assert [m.content for m in messages.list(**ids, order="asc", after_id=middle.id)] == ["3", "4"]
    assert [m.content for m in messages.list(**ids, order="desc", after_id=middle.id)] == ["1", "0"]
    assert [m.content for m in messages.list(**ids, order="asc", before_id=middle.id, limit=1).items] == ["1"]
    assert [m.content for m in messages.list(**ids, order="desc", before_id=middle.id, limit=1).items] == ["3"]
    assert refused(messages.retrieve, **ids, message_id=middle.id) == 4005
    assert refused(messages.delete, **ids, message_id=middle.id) == 4005
    other = {"conversation_id": coze.conversations.create().id}
    assert refused(messages.list, **other, after_id=middle.id) == 4005


def test_messages_can_be_listed_by_chat(coze: Any) -> None:
    first = coze.chat.create_and_poll(**ask("echo 1")).chat
    ids = {"conversation_id": first.conversation_id}
    coze.chat.create_and_poll(**ask("echo 2"), **ids)
    found = coze.conversations.messages.list(**ids, chat_id=first.id, order="asc")
    assert [message.content for message in found] == ["echo 1", "1"]


def test_nobody_sees_or_touches_what_is_another_s(coze: Any, bob: Any) -> None:
    chat = coze.chat.create(**ask("hang private"))
    ids = {"conversation_id": chat.conversation_id, "chat_id": chat.id}
    mine = {"conversation_id": chat.conversation_id}
    made = coze.conversations.messages.create(**mine, role=USER, content="secret", content_type=TEXT)
    for call, arguments, code in (
        (bob.chat.retrieve, ids, 4001),
        (bob.chat.cancel, ids, 4001),
        (bob.chat.messages.list, ids, 4001),
        (
            bob.chat.submit_tool_outputs,
            {**ids, "tool_outputs": [cozepy.ToolOutput(tool_call_id="1", output="x")], "stream": False},
            4001,
        ),
        (bob.chat.create, {**ask("echo x"), **mine}, 4002),
        (bob.conversations.retrieve, mine, 4002),
        (bob.conversations.clear, mine, 4002),
        (bob.conversations.delete, mine, 4002),
        (bob.conversations.update, {**mine, "name": "x"}, 4002),
        (bob.conversations.messages.list, mine, 4002),
        (bob.conversations.messages.retrieve, {**mine, "message_id": made.id}, 4002),
        (bob.conversations.messages.update, {**mine, "message_id": made.id, "content": "x"}, 4002),
        (bob.conversations.messages.delete, {**mine, "message_id": made.id}, 4002),
        (bob.conversations.messages.create, {**mine, "role": USER, "content": "x", "content_type": TEXT}, 4002),
    ):
        assert refused(call, **arguments) == code
    own = bob.conversations.create()
    theirs = {"conversation_id": own.id}
    assert refused(bob.conversations.messages.retrieve, **theirs, message_id=made.id) == 4005
    assert refused(bob.conversations.messages.list, **theirs, after_id=made.id) == 4005
    assert refused(bob.conversations.messages.update, **theirs, message_id=made.id, content="x") == 4005
    assert refused(bob.conversations.messages.delete, **theirs, message_id=made.id) == 4005
    assert refused(bob.chat.retrieve, **theirs, chat_id=chat.id) == 4001
    assert coze.conversations.messages.retrieve(**mine, message_id=made.id).content == "secret"
    assert chat.conversation_id not in [c.id for c in bob.conversations.list(bot_id="1")]
    coze.chat.cancel(**ids)
    until(lambda: coze.chat.retrieve(**ids).status == cozepy.ChatStatus.CANCELED)


def test_a_token_does_only_what_it_is_permitted(server: Server) -> None:
    with client(server, "pat_of_reader") as reader:
        assert refused(reader.chat.create, **ask("echo x")) == 4101
        assert refused(reader.conversations.create) == 4101
        assert refused(reader.chat.retrieve, conversation_id="1", chat_id="1") == 4001
