"""Cancelling a chat with the official client: in each state, with both kinds of cancel, and what comes after it."""

import threading
from typing import Any

import pytest

from .serving import Server, ask, client, cozepy, until

Event = cozepy.ChatEventType
Status = cozepy.ChatStatus


def ids(chat: cozepy.Chat) -> dict[str, str]:
    return {"conversation_id": chat.conversation_id, "chat_id": chat.id}


def refused(call: object, **arguments: object) -> int | None:
    with pytest.raises(cozepy.CozeAPIError) as error:
        call(**arguments)  # pyright: ignore[reportCallIssue]
    return error.value.code


def listed(coze: Any, chat: cozepy.Chat) -> list[str]:
    messages = coze.conversations.messages.list(conversation_id=chat.conversation_id, order="asc")
    return [message.content for message in messages]


def running(server: Server, coze: Any, text: str, conversation_id: str | None = None) -> cozepy.Chat:
    chat = coze.chat.create(**ask(text), conversation_id=conversation_id)
    server.ear.wait(f"begin {text}")
    return chat


# Both kinds


def test_cancelled_is_for_good_and_frees_the_conversation(either: Server) -> None:
    server = either
    with client(server) as coze:
        kept = coze.chat.create_and_poll(**ask("echo kept")).chat
        chat = running(server, coze, "slowly 300", kept.conversation_id)
        assert refused(coze.chat.create, **ask("echo no"), conversation_id=kept.conversation_id) == 4016
        cancelled = coze.chat.cancel(**ids(chat))
        assert (cancelled.id, cancelled.status) == (chat.id, Status.CANCELED)
        after = coze.chat.create_and_poll(**ask("recall"), conversation_id=kept.conversation_id)
        assert after.chat.status == Status.COMPLETED
        assert after.messages is not None
        assert "echo kept" in after.messages[0].content
        assert "slowly" not in after.messages[0].content
        assert coze.chat.retrieve(**ids(chat)).status == Status.CANCELED
        server.ear.wait(f"{'end' if server.drains else 'cut'} slowly 300")
        until(lambda: coze.chat.retrieve(**ids(chat)).usage is not None)
        assert coze.chat.retrieve(**ids(chat)).status == Status.CANCELED
        assert listed(coze, chat)[:3] == ["echo kept", "kept", "recall"]
        assert len(listed(coze, chat)) == 4
        coze.chat.messages.list(**ids(chat))


def test_what_has_ended_or_waits_cannot_be_cancelled(either: Server) -> None:
    with client(either) as coze:
        for text, status in (
            ("echo x", Status.COMPLETED),
            ("refuse", Status.FAILED),
            ("ask files", Status.REQUIRES_ACTION),
        ):
            chat = coze.chat.create_and_poll(**ask(text)).chat
            assert chat.status == status
            assert refused(coze.chat.cancel, **ids(chat)) == 4104
            assert coze.chat.retrieve(**ids(chat)).status == status
        chat = coze.chat.create(**ask("hang"))
        coze.chat.cancel(**ids(chat))
        assert refused(coze.chat.cancel, **ids(chat)) == 4104


def test_a_stream_of_a_cancelled_chat_ends_with_the_chat_as_it_is(either: Server) -> None:
    server = either
    with client(server) as coze:
        events: list[cozepy.ChatEvent] = []
        for event in coze.chat.stream(**ask("slowly 100")):
            events.append(event)
            if event.event == Event.CONVERSATION_MESSAGE_DELTA and len(events) == 5:
                assert event.message is not None
                chat_id, conversation_id = str(event.message.chat_id), str(event.message.conversation_id)
                cancelled = coze.chat.cancel(conversation_id=conversation_id, chat_id=chat_id)
                assert cancelled.status == Status.CANCELED
        names = [event.event for event in events]
        assert names[-1] == Event.CONVERSATION_CHAT_COMPLETED
        assert names.count(Event.CONVERSATION_CHAT_COMPLETED) == 1
        assert events[-1].chat is not None
        assert events[-1].chat.status == Status.CANCELED
        assert events[-1].chat.usage is not None
        # What came while the cancel was stored is told as one piece.
        deltas = [e.message.content for e in events if e.event == Event.CONVERSATION_MESSAGE_DELTA and e.message]
        said = "".join(deltas).split()
        assert said == [str(number) for number in range(len(said))]
        assert len(said) == 100 if server.drains else len(said) < 100
        (answer,) = [e.message for e in events if e.event == Event.CONVERSATION_MESSAGE_COMPLETED and e.message][:1]
        assert answer.content == "".join(deltas)


def test_somebody_who_polls_learns_that_somebody_else_has_cancelled(either: Server) -> None:
    server = either
    polls: list[cozepy.ChatPoll] = []
    with client(server) as coze, client(server) as other:
        conversation = coze.conversations.create()
        text = "slowly 300 polled"

        def poll() -> None:
            polls.append(coze.chat.create_and_poll(**ask(text), conversation_id=conversation.id))

        thread = threading.Thread(target=poll)
        thread.start()
        server.ear.wait(f"begin {text}")
        chat_id = server.ear.after(f"begin {text}").removeprefix("chat ")
        other.chat.cancel(conversation_id=conversation.id, chat_id=chat_id)
        thread.join()
    assert polls[0].chat.status == Status.CANCELED


# What each kind does


def test_a_cancel_has_stopped_the_agent_when_it_is_answered_and_knows_the_usage(server: Server, coze: Any) -> None:
    chat = running(server, coze, "hang on")
    server.ear.wait("hangs on")
    usage = coze.chat.cancel(**ids(chat)).usage
    assert usage is not None
    assert (usage.input_count, usage.output_count, usage.token_count) == (10, 5, 15)
    server.ear.listen(0)
    assert "cut hang on" in server.ear.heard


@pytest.mark.one_gateway("the agent's session")
def test_the_session_of_a_cancelled_chat_is_closed_and_that_of_a_completed_one_kept(server: Server, coze: Any) -> None:
    kept = coze.chat.create_and_poll(**ask("echo this stays")).chat
    chat = coze.chat.create(**ask("hang shortly"), conversation_id=kept.conversation_id)
    server.ear.wait("hangs shortly")
    other = coze.chat.create_and_poll(**ask("echo that stays")).chat
    coze.chat.cancel(**ids(chat))
    server.ear.wait("closed echo this stays")
    assert "closed echo that stays" not in server.ear.heard
    coze.conversations.delete(conversation_id=other.conversation_id)


def test_a_drained_chat_goes_on_and_its_usage_is_that_of_the_whole_reply(draining: Server) -> None:
    with client(draining) as coze:
        chat = running(draining, coze, "slowly 150 drained")
        cancelled = coze.chat.cancel(**ids(chat))
        # It is answered before the agent is through.
        assert "end slowly 150 drained" not in draining.ear.heard
        assert (cancelled.status, cancelled.usage) == (Status.CANCELED, None)
        draining.ear.wait("end slowly 150 drained")
        until(lambda: coze.chat.retrieve(**ids(chat)).usage is not None)
        answer = coze.chat.messages.list(**ids(chat))[0]
        assert answer.content.endswith("149 ")


def test_a_drained_chat_whose_agent_asks_something_dismisses_it(draining: Server) -> None:
    with client(draining) as coze:
        chat = running(draining, coze, "slowly-ask 10")
        coze.chat.cancel(**ids(chat))
        draining.ear.wait("end slowly-ask 10")
        until(lambda: coze.chat.retrieve(**ids(chat)).usage is not None)
        assert coze.chat.retrieve(**ids(chat)).status == Status.CANCELED


def test_polling_that_runs_out_of_time_cancels(server: Server, coze: Any) -> None:
    poll = coze.chat.create_and_poll(**ask("hang polled"), poll_timeout=1)
    assert poll.messages is None
    server.ear.wait("cut hang polled")
    assert coze.chat.retrieve(**ids(poll.chat)).status == Status.CANCELED


def test_a_client_that_leaves_its_stream_cancels_nothing(server: Server, coze: Any) -> None:
    for event in coze.chat.stream(**ask("slowly 30 left")):
        if event.event == Event.CONVERSATION_MESSAGE_DELTA:
            break
    assert event.message is not None
    chat = {"conversation_id": str(event.message.conversation_id), "chat_id": str(event.message.chat_id)}
    server.ear.wait("end slowly 30 left")
    until(lambda: coze.chat.retrieve(**chat).status == Status.COMPLETED)


def test_a_deleted_conversation_takes_its_chats_with_it(server: Server, coze: Any) -> None:
    chat = running(server, coze, "hang deleted")
    coze.conversations.delete(conversation_id=chat.conversation_id)
    server.ear.wait("cut hang deleted")
    assert refused(coze.chat.retrieve, **ids(chat)) == 4001
    assert refused(coze.conversations.retrieve, conversation_id=chat.conversation_id) == 4002
