"""The agent's questions as the official Python client sees them: tool calls, and outputs that answer them."""

import json
from typing import Any

import pytest

from .heard import Event, Status, calls, code, last, listed, output, said, types, waiting
from .serving import Server, ask, cozepy, until

CHOSEN = '{"outcome": {"outcome": "selected", "optionId": "yes"}}'


@pytest.mark.parametrize(
    ("answer", "result"), [("yes", "yes"), ("reject_once", "no"), (CHOSEN, "yes"), ("cancel", "None")]
)
def test_a_permission_is_asked_for_and_answered_in_streams(coze: Any, answer: str, result: str) -> None:
    events = list(coze.chat.stream(**ask("ask files")))
    assert [e.event for e in events[2:]] == [
        Event.CONVERSATION_MESSAGE_COMPLETED,
        Event.CONVERSATION_MESSAGE_COMPLETED,
        Event.CONVERSATION_CHAT_REQUIRES_ACTION,
    ]
    assert types(events) == ["function_call", "verbose"]
    chat = last(events)
    (call,) = calls(chat)
    assert call.function.name == "request_permission"
    arguments = json.loads(call.function.arguments)
    assert arguments["title"] == "Delete files"
    assert [option["option_id"] for option in arguments["options"]] == ["yes", "no"]
    ids = {"conversation_id": chat.conversation_id, "chat_id": chat.id}
    events = list(coze.chat.submit_tool_outputs(**ids, tool_outputs=output(chat, answer), stream=True))
    assert events[0].event == Event.CONVERSATION_CHAT_IN_PROGRESS
    assert types(events) == ["tool_response", "answer", "verbose"]
    assert said(events) == f"files: {result}. "
    assert last(events).status == Status.COMPLETED


def test_a_permission_is_asked_for_and_answered_by_polling(coze: Any) -> None:
    poll = coze.chat.create_and_poll(**ask("ask files"))
    assert poll.chat.status == Status.REQUIRES_ACTION
    ids = {"conversation_id": poll.chat.conversation_id, "chat_id": poll.chat.id}
    chat = coze.chat.submit_tool_outputs(**ids, tool_outputs=output(poll.chat, "no"), stream=False)
    assert isinstance(chat, cozepy.Chat)
    assert (chat.status, chat.required_action) == (Status.IN_PROGRESS, None)
    until(lambda: coze.chat.retrieve(**ids).status == Status.COMPLETED)
    assert "files: no. " in listed(coze, chat.conversation_id)


def test_a_chat_that_is_not_saved_dismisses_questions_and_takes_no_outputs(coze: Any, server: Server) -> None:
    events = list(coze.chat.stream(**ask("ask files"), auto_save_history=False))
    assert last(events).status == Status.COMPLETED
    assert said(events) == "files: None. "
    chat: Any = None
    for event in coze.chat.stream(**ask("hang unsaved"), auto_save_history=False):
        chat = chat or event.chat
        if event.event == Event.CONVERSATION_MESSAGE_DELTA:
            ids = {"conversation_id": chat.conversation_id, "chat_id": chat.id}
            outputs = [cozepy.ToolOutput(tool_call_id="1", output="yes")]
            with pytest.raises(cozepy.CozeAPIError) as error:
                coze.chat.submit_tool_outputs(**ids, tool_outputs=outputs, stream=False)
            assert code(error) == 5000
            assert coze.chat.cancel(**ids).status == Status.CANCELED


def test_outputs_that_do_not_fit_are_refused_and_the_chat_goes_on_waiting(coze: Any) -> None:
    chat = waiting(coze, "ask files")
    ids = {"conversation_id": chat.conversation_id, "chat_id": chat.id}
    (good,) = output(chat, "yes")
    for wrong in (
        [cozepy.ToolOutput(tool_call_id="1", output="yes")],
        [good, good],
        [good, cozepy.ToolOutput(tool_call_id="1", output="yes")],
        output(chat, "perhaps"),
        output(chat, ""),
        output(chat, '{"outcome": "selected"}'),
        [],
    ):
        with pytest.raises(cozepy.CozeAPIError) as error:
            coze.chat.submit_tool_outputs(**ids, tool_outputs=wrong, stream=False)
        assert code(error) == 4000
        assert coze.chat.retrieve(**ids).status == Status.REQUIRES_ACTION
    coze.chat.submit_tool_outputs(**ids, tool_outputs=[good], stream=False)
    with pytest.raises(cozepy.CozeAPIError) as error:
        coze.chat.submit_tool_outputs(**ids, tool_outputs=[good], stream=False)
    assert code(error) == 4000


def test_two_questions_at_once_are_answered_one_way_or_the_other(coze: Any) -> None:
    chat = waiting(coze, "ask-twice")
    text = ""
    while chat.status == Status.REQUIRES_ACTION:
        ids = {"conversation_id": chat.conversation_id, "chat_id": chat.id}
        outputs = output(chat, *["yes"] * len(calls(chat)))
        events = list(coze.chat.submit_tool_outputs(**ids, tool_outputs=outputs, stream=True))
        text += said(events)
        chat = last(events)
    assert chat.status == Status.COMPLETED
    assert sorted(text.split(". ")) == ["", "first: yes", "second: yes"]


def test_a_form_is_filled_in_by_a_tool_output(coze: Any) -> None:
    chat = waiting(coze, "form")
    (call,) = calls(chat)
    assert call.function.name == "elicit_form"
    assert list(json.loads(call.function.arguments)["schema"]["properties"]) == ["city", "sure"]
    ids = {"conversation_id": chat.conversation_id, "chat_id": chat.id}
    for wrong in ('{"sure": true}', '{"city": {}}', '{"city": "x", "other": 1}', "Rome", '{"city": NaN}', ""):
        with pytest.raises(cozepy.CozeAPIError) as error:
            coze.chat.submit_tool_outputs(**ids, tool_outputs=output(chat, wrong), stream=False)
        assert code(error) == 4000
    filled = output(chat, '{"city": "Rome", "sure": true}')
    events = list(coze.chat.submit_tool_outputs(**ids, tool_outputs=filled, stream=True))
    assert said(events) == "accept {'city': 'Rome', 'sure': True}"


@pytest.mark.parametrize("answer", ["accept", "decline", "cancel"])
def test_a_url_is_visited_or_not(coze: Any, answer: str) -> None:
    chat = waiting(coze, "url")
    assert json.loads(calls(chat)[0].function.arguments)["url"] == "https://example.org/login"
    ids = {"conversation_id": chat.conversation_id, "chat_id": chat.id}
    assert said(list(coze.chat.submit_tool_outputs(**ids, tool_outputs=output(chat, answer), stream=True))) == answer


def test_a_question_that_the_agent_takes_back_lets_the_chat_go_on(coze: Any) -> None:
    chat = waiting(coze, "impatient")
    ids = {"conversation_id": chat.conversation_id, "chat_id": chat.id}
    until(lambda: coze.chat.retrieve(**ids).status == Status.COMPLETED)
    assert "never mind" in listed(coze, chat.conversation_id)


def test_a_chat_whose_question_is_taken_back_is_at_work_again_and_can_be_cancelled(coze: Any) -> None:
    chat = waiting(coze, "impatient and busy")
    ids = {"conversation_id": chat.conversation_id, "chat_id": chat.id}
    until(lambda: coze.chat.retrieve(**ids).status == Status.IN_PROGRESS)
    with pytest.raises(cozepy.CozeAPIError) as error:
        coze.chat.submit_tool_outputs(**ids, tool_outputs=output(chat, "yes"), stream=False)
    assert code(error) == 4000
    assert coze.chat.cancel(**ids).status == Status.CANCELED


def test_a_chat_that_waits_does_not_occupy_its_conversation(coze: Any, server: Server) -> None:
    chat = waiting(coze, "ask files")
    other = coze.chat.create(**ask("hang meanwhile"), conversation_id=chat.conversation_id)
    ids = {"conversation_id": chat.conversation_id, "chat_id": chat.id}
    with pytest.raises(cozepy.CozeAPIError) as error:
        coze.chat.submit_tool_outputs(**ids, tool_outputs=output(chat, "yes"), stream=False)
    assert code(error) == 4016
    coze.chat.cancel(conversation_id=chat.conversation_id, chat_id=other.id)
    coze.chat.submit_tool_outputs(**ids, tool_outputs=output(chat, "yes"), stream=False)
    until(lambda: coze.chat.retrieve(**ids).status == Status.COMPLETED)


@pytest.mark.one_gateway("the agent's sessions")
def test_the_session_of_a_chat_that_waited_takes_the_place_of_a_later_one_which_is_closed(
    server: Server, coze: Any
) -> None:
    chat = waiting(coze, "ask patiently")
    conversation = {"conversation_id": chat.conversation_id}
    coze.chat.create_and_poll(**ask("echo meanwhile"), **conversation)
    ids = {**conversation, "chat_id": chat.id}
    coze.chat.submit_tool_outputs(**ids, tool_outputs=output(chat, "yes"), stream=False)
    server.ear.wait("closed echo meanwhile")
    poll: Any = coze.chat.create_and_poll(**ask("recall"), **conversation)
    assert poll.messages[0].content.startswith("ask patiently | Earlier in this conversation:\n\nuser: echo meanwhile")
