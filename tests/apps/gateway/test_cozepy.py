"""The official Python client drives the gateway unchanged: chats, their streams and states, their context."""

import json
from typing import Any

import pytest

from .heard import Event, Status, code, last, listed, said, types
from .serving import Server, ask, client, cozepy, until

OPENING = [Event.CONVERSATION_CHAT_CREATED, Event.CONVERSATION_CHAT_IN_PROGRESS]
ENDING = [Event.CONVERSATION_MESSAGE_COMPLETED, Event.CONVERSATION_MESSAGE_COMPLETED, Event.CONVERSATION_CHAT_COMPLETED]


# Chats


def test_a_stream_has_its_events_in_the_documented_order(coze: Any) -> None:
    events = list(coze.chat.stream(**ask("count 3"), meta_data={"a": "b"}))
    deltas = [Event.CONVERSATION_MESSAGE_DELTA] * 3
    assert [event.event for event in events] == [*OPENING, *deltas, *ENDING]
    created, running = events[0].chat, events[1].chat
    assert created is not None
    assert running is not None
    assert (created.status, running.status, last(events).status) == (
        Status.CREATED,
        Status.IN_PROGRESS,
        Status.COMPLETED,
    )
    assert said(events) == "0 1 2 "
    assert types(events) == ["answer", "verbose"]
    assert len({event.message.id for event in events[2:6] if event.message}) == 1
    assert last(events).meta_data == {"a": "b"}
    assert last(events).completed_at


def test_a_chat_that_is_polled_has_its_messages_at_the_end(coze: Any) -> None:
    poll = coze.chat.create_and_poll(**ask("echo hello"))
    assert poll.chat.status == Status.COMPLETED
    assert poll.messages is not None
    assert [(m.type.value, m.role.value) for m in poll.messages] == [("answer", "assistant"), ("verbose", "assistant")]
    answer = poll.messages[0]
    assert (answer.content, answer.chat_id, answer.bot_id) == ("hello", poll.chat.id, "1")


def test_a_new_chat_is_in_progress_and_can_be_looked_at(server: Server, coze: Any) -> None:
    chat = coze.chat.create(**ask("hang new"), meta_data={"k": "v"})
    assert chat.status == Status.IN_PROGRESS
    server.ear.wait("begin hang new")
    again = coze.chat.retrieve(conversation_id=chat.conversation_id, chat_id=chat.id)
    assert (again.id, again.status, again.meta_data) == (chat.id, Status.IN_PROGRESS, {"k": "v"})
    coze.chat.cancel(conversation_id=chat.conversation_id, chat_id=chat.id)


def test_text_with_any_line_break_of_unicode_arrives_as_it_is(coze: Any) -> None:
    text = 'a\u2028b\u2029c\x85d\x0be\x0cf\x1cg \N{GRINNING FACE}\r"\\'
    assert said(list(coze.chat.stream(**ask(f"echo {text}")))) == text
    poll = coze.chat.create_and_poll(**ask(f"echo {text}"))
    assert poll.messages is not None
    assert poll.messages[0].content == text


def test_half_of_an_emoji_that_the_agent_says_is_replaced(coze: Any) -> None:
    events = list(coze.chat.stream(**ask("half")))
    assert last(events).status == Status.COMPLETED
    assert said(events).startswith("one \N{REPLACEMENT CHARACTER}")
    (response,) = [e.message for e in events if e.message and e.message.type.value == "tool_response"]
    assert response.content == "found two \N{REPLACEMENT CHARACTER}"


def test_what_the_agent_thinks_is_reasoning(coze: Any) -> None:
    events = list(coze.chat.stream(**ask("think yes")))
    assert said(events) == "yes"
    answer = events[-3].message
    assert answer is not None
    assert (answer.content, answer.reasoning_content) == ("yes", "hm")


def test_a_tool_of_the_agent_is_a_call_and_a_response_between_two_answers(coze: Any) -> None:
    events = list(coze.chat.stream(**ask("use gold")))
    messages = [e.message for e in events if e.event == Event.CONVERSATION_MESSAGE_COMPLETED and e.message]
    assert [m.type.value for m in messages] == ["answer", "function_call", "tool_response", "answer", "verbose"]
    assert json.loads(messages[1].content) == {"name": "look", "arguments": {"for": "gold"}}
    assert messages[2].content == "found gold"
    shown = coze.chat.messages.list(conversation_id=last(events).conversation_id, chat_id=last(events).id)
    assert [(m.id, m.content) for m in shown] == [(m.id, m.content) for m in messages]


def test_usage_is_what_the_agent_reports(coze: Any) -> None:
    usage = last(list(coze.chat.stream(**ask("usage 42")))).usage
    assert usage is not None
    assert usage.token_count == 42


def test_tokens_of_the_turn_count_more_than_what_is_in_the_context(coze: Any) -> None:
    usage = last(list(coze.chat.stream(**ask("spend 30 12")))).usage
    assert usage is not None
    assert (usage.input_count, usage.output_count, usage.token_count) == (30, 12, 42)


def test_an_agent_that_fails_fails_the_chat_and_says_why(coze: Any) -> None:
    events = list(coze.chat.stream(**ask("fail a secret")))
    assert [event.event for event in events] == [*OPENING, Event.CONVERSATION_CHAT_FAILED]
    chat = last(events)
    assert chat.status == Status.FAILED
    assert chat.failed_at
    assert chat.last_error is not None
    assert chat.last_error.code == 5000
    assert "secret" not in chat.last_error.msg
    assert listed(coze, chat.conversation_id) == ["fail a secret"]


def test_an_agent_whose_own_time_is_up_fails_the_chat_which_nobody_has_cancelled(coze: Any) -> None:
    chat = last(list(coze.chat.stream(**ask("tire"))))
    assert chat.status == Status.FAILED
    assert chat.last_error is not None
    assert (chat.last_error.code, chat.last_error.msg) == (5000, "the agent has given up")


def test_an_agent_that_refuses_fails_the_chat(coze: Any) -> None:
    chat = last(list(coze.chat.stream(**ask("refuse"))))
    assert chat.last_error is not None
    assert "refused" in chat.last_error.msg


@pytest.mark.one_gateway("the agent that dies")
def test_an_agent_that_dies_fails_its_chats_and_is_started_anew(coze: Any, server: Server) -> None:
    kept = coze.chat.create_and_poll(**ask("echo before")).chat
    bystander = coze.chat.create(**ask("hang beside"))
    server.ear.wait("begin hang beside")
    events = list(coze.chat.stream(**ask("die")))
    chat = last(events)
    assert (chat.status, said(events)) == (Status.FAILED, "last words")
    assert chat.last_error is not None
    assert "signal 9" in chat.last_error.msg
    ids = {"conversation_id": bystander.conversation_id, "chat_id": bystander.id}
    until(lambda: coze.chat.retrieve(**ids).status == Status.FAILED)
    poll = coze.chat.create_and_poll(**ask("recall"), conversation_id=kept.conversation_id)
    assert poll.messages is not None
    assert "user: echo before" in poll.messages[0].content


def test_what_the_client_says_of_a_chat_reaches_the_agent(coze: Any) -> None:
    poll = coze.chat.create_and_poll(**ask("meta"), custom_variables={"x": "y"})
    assert poll.messages is not None
    told = poll.messages[0].content
    for text in ("'user_id': 'u'", "'custom_variables': {'x': 'y'}", f"'chat_id': '{poll.chat.id}'"):
        assert text in told


# Context


@pytest.mark.one_gateway("the agent's session")
def test_the_agent_hears_each_message_of_a_conversation_once(coze: Any) -> None:
    chat = coze.chat.create_and_poll(**ask("echo one")).chat
    coze.conversations.messages.create(
        conversation_id=chat.conversation_id,
        role=cozepy.MessageRole.USER,
        content="inserted",
        content_type=cozepy.MessageContentType.TEXT,
    )
    coze.chat.create_and_poll(**ask("echo two"), conversation_id=chat.conversation_id)
    poll = coze.chat.create_and_poll(**ask("recall"), conversation_id=chat.conversation_id)
    assert poll.messages is not None
    first, second, third = poll.messages[0].content.split(" | ")
    assert (first, third) == ("echo one", "recall")
    assert "user: inserted" in second
    assert "one" not in second
    assert second.endswith("echo two")


def test_earlier_additional_messages_are_context(coze: Any) -> None:
    messages = [
        cozepy.Message.build_user_question_text("my name is Ada"),
        cozepy.Message.build_assistant_answer("hello Ada"),
        cozepy.Message.build_user_question_text("recall"),
    ]
    poll = coze.chat.create_and_poll(bot_id="1", user_id="u", additional_messages=messages)
    assert poll.messages is not None
    assert "user: my name is Ada\n\nassistant: hello Ada" in poll.messages[0].content
    assert listed(coze, poll.chat.conversation_id)[:3] == ["my name is Ada", "hello Ada", "recall"]


def test_a_cleared_conversation_begins_anew_and_still_lists_what_was_said(coze: Any) -> None:
    chat = coze.chat.create_and_poll(**ask("echo old")).chat
    section = coze.conversations.clear(conversation_id=chat.conversation_id)
    assert section.conversation_id == chat.conversation_id
    poll = coze.chat.create_and_poll(**ask("recall"), conversation_id=chat.conversation_id)
    assert poll.messages is not None
    assert poll.messages[0].content == "recall"
    assert poll.messages[0].section_id == section.id
    assert listed(coze, chat.conversation_id) == ["echo old", "old", "recall", "recall"]


def test_without_a_message_the_last_saved_one_is_the_query(coze: Any) -> None:
    question = cozepy.Message.build_user_question_text("recall")
    conversation = coze.conversations.create(messages=[cozepy.Message.build_user_question_text("hi"), question])
    poll = coze.chat.create_and_poll(bot_id="1", user_id="u", conversation_id=conversation.id)
    assert poll.messages is not None
    assert "user: hi" in poll.messages[0].content
    assert poll.messages[0].content.count("recall") == 1
    with pytest.raises(cozepy.CozeAPIError) as error:
        coze.chat.create(bot_id="1", user_id="u", conversation_id=conversation.id)
    assert code(error) == 4000


@pytest.mark.one_gateway("the agent's session")
def test_a_chat_that_is_not_saved_leaves_nothing(coze: Any) -> None:
    chat = coze.chat.create_and_poll(**ask("echo kept")).chat
    ids = {"conversation_id": chat.conversation_id}
    unsaved = last(list(coze.chat.stream(**ask("recall"), **ids, auto_save_history=False)))
    assert unsaved.status == Status.COMPLETED
    assert listed(coze, chat.conversation_id) == ["echo kept", "kept"]
    with pytest.raises(cozepy.CozeAPIError) as error:
        coze.chat.retrieve(**ids, chat_id=unsaved.id)
    assert code(error) == 4001
    with pytest.raises(cozepy.CozeAPIError) as error:
        coze.chat.create(**ask("echo no"), auto_save_history=False)
    assert code(error) == 4007
    poll = coze.chat.create_and_poll(**ask("recall"), **ids)
    assert poll.messages is not None
    assert poll.messages[0].content == "echo kept | recall"


@pytest.mark.parametrize("saved", [True, False])
def test_an_inserted_query_whose_chat_was_cancelled_is_no_context_and_not_listed(coze: Any, saved: bool) -> None:
    insert = {"role": cozepy.MessageRole.USER, "content_type": cozepy.MessageContentType.TEXT}
    conversation = coze.conversations.create(messages=[cozepy.Message.build_user_question_text("kept")])
    ids = {"conversation_id": conversation.id}
    query = coze.conversations.messages.create(**ids, content="hang inserted", **insert)
    chat: Any = None
    for event in coze.chat.stream(bot_id="1", user_id="u", **ids, auto_save_history=saved):
        chat = event.chat or chat
        if event.event == Event.CONVERSATION_MESSAGE_DELTA:
            assert listed(coze, conversation.id) == ["kept", "hang inserted"]
            assert coze.chat.cancel(**ids, chat_id=chat.id).status == Status.CANCELED
    assert chat.status == Status.CANCELED
    assert listed(coze, conversation.id) == ["kept"]
    with pytest.raises(cozepy.CozeAPIError) as error:
        coze.conversations.messages.retrieve(**ids, message_id=str(query.id))
    assert code(error) == 4005
    poll = coze.chat.create_and_poll(**ask("recall"), **ids)
    assert poll.messages is not None
    assert "kept" in poll.messages[0].content
    assert "inserted" not in poll.messages[0].content


def test_the_client_says_what_logid_the_log_has(coze: Any, server: Server) -> None:
    with pytest.raises(cozepy.CozeAPIError) as error:
        coze.chat.retrieve(conversation_id="1", chat_id="2")
    assert code(error) == 4001
    logid = str(error.value.logid)
    (line,) = until(lambda: [line for line in server.log.read_text().splitlines() if logid in line])
    assert "POST /v3/chat/retrieve by ada" in line
    assert "code 4001" in line


def test_nobody_is_let_in_with_a_wrong_token(server: Server) -> None:
    with client(server, "pat_wrong") as stranger:
        with pytest.raises(cozepy.CozeAPIError) as error:
            stranger.chat.create(**ask("echo hi"))
        assert code(error) == 4100
        with pytest.raises(cozepy.CozeAPIError) as error:
            list(stranger.chat.stream(**ask("echo hi")))
        assert code(error) == 4100
