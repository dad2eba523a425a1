"""What is left when the gateway, or an agent, is killed at any moment."""

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from .heard import Event, last, output, types
from .serving import TOKEN, Server, ask, client, cozepy, serving, until

Status = cozepy.ChatStatus
TERMINAL = {Status.COMPLETED, Status.FAILED, Status.CANCELED}
LEFT = {*TERMINAL, Status.REQUIRES_ACTION}


class Told:
    """What a gateway has answered for."""

    def __init__(self) -> None:
        self.messages: dict[str, str] = {}
        """Inserted messages, with their conversations."""
        self.chats: dict[str, tuple[str, Status]] = {}
        """Chats, with their conversations and the last status that was seen."""
        self.queries: dict[str, str] = {}
        """What was said in them."""

    def see(self, chat: cozepy.Chat) -> None:
        self.chats[chat.id] = (chat.conversation_id, chat.status)


def visit(server: Server, told: Told, seed: int) -> None:
    """Use the gateway, in one of many ways at each step, until it is gone."""
    rng = random.Random(seed)
    with client(server) as coze:
        try:
            conversation = coze.conversations.create().id
            while True:
                message = coze.conversations.messages.create(
                    conversation_id=conversation,
                    role=cozepy.MessageRole.USER,
                    content=f"note {rng.random()}",
                    content_type=cozepy.MessageContentType.TEXT,
                )
                told.messages[str(message.id)] = conversation
                text = rng.choice(["echo x", "slowly 3", "slowly 30", "hang", "ask files", "use gold"])
                chat = coze.chat.create(**ask(text), conversation_id=conversation)
                told.see(chat)
                told.queries[chat.id] = text
                for _ in range(rng.randint(0, 3)):
                    told.see(coze.chat.retrieve(conversation_id=conversation, chat_id=chat.id))
                    time.sleep(rng.random() * 0.02)
                try:
                    told.see(coze.chat.cancel(conversation_id=conversation, chat_id=chat.id))
                except cozepy.CozeAPIError as error:
                    if error.code != 4104:
                        raise
        except (httpx.TransportError, ConnectionError):
            pass


def test_a_gateway_that_is_killed_has_kept_what_it_answered_for(tmp_path: Path) -> None:
    rng = random.Random(20)
    store = str(tmp_path / "store")
    told = Told()
    for run in range(3):
        with serving(tmp_path / str(run), "--store", store) as server:
            check(server, told)
            visitors = [threading.Thread(target=visit, args=(server, told, run * 10 + n)) for n in range(3)]
            for visitor in visitors:
                visitor.start()
            until(lambda: len(told.messages) > 7 * (run + 1))  # noqa: B023 - called at once
            time.sleep(rng.random() / 2)
            server.kill()
            for visitor in visitors:
                visitor.join()
    assert len(told.messages) > 20
    with serving(tmp_path / "last", "--store", store) as server:
        check(server, told)
        with client(server) as coze:
            message, conversation = next(iter(told.messages.items()))
            poll = coze.chat.create_and_poll(**ask("recall"), conversation_id=conversation)
            kept = coze.conversations.messages.retrieve(conversation_id=conversation, message_id=message).content
            assert poll.messages is not None
            assert kept in poll.messages[0].content


def check(server: Server, told: Told) -> None:
    with client(server) as coze:
        for conversation in set(told.messages.values()):
            listed = [m.id for m in coze.conversations.messages.list(conversation_id=conversation, order="asc")]
            assert [id for id in listed if id in told.messages] == [
                id for id, where in told.messages.items() if where == conversation
            ]
        for id, (conversation, status) in told.chats.items():
            chat = coze.chat.retrieve(conversation_id=conversation, chat_id=id)
            assert chat.status in LEFT
            if status in TERMINAL:
                assert chat.status == status
            elif chat.status == Status.FAILED:
                assert chat.last_error is not None
                assert chat.last_error.msg == "the gateway ended before the chat did"
                assert chat.failed_at
            told.see(chat)
            found = coze.conversations.messages.list(conversation_id=conversation, chat_id=id, order="asc")
            # A cancelled chat is in no list, nor is one that waits; what else was accepted is there, however it ended.
            expected = [told.queries[id]] if chat.status in (Status.COMPLETED, Status.FAILED) else []
            assert [message.content for message in found][:1] == expected


def test_chats_fail_when_their_agent_is_killed_and_the_next_one_works(server: Server, coze: Any) -> None:
    rng = random.Random(21)
    for run in range(3):
        chats = [coze.chat.create(**ask(f"slowly {rng.randint(20, 60)} {run}{n}")) for n in range(6)]
        until(lambda: server.agents())
        time.sleep(rng.random() * 0.3)
        (agent,) = server.agents()
        os.kill(agent.pid, signal.SIGKILL)
        for chat in chats:
            ids = {"conversation_id": chat.conversation_id, "chat_id": chat.id}
            until(lambda ids=ids: coze.chat.retrieve(**ids).status in TERMINAL)
            ended = coze.chat.retrieve(**ids)
            if ended.status == Status.FAILED:
                assert ended.last_error is not None
                assert "signal 9" in ended.last_error.msg
            else:
                assert ended.status == Status.COMPLETED
        assert coze.chat.create_and_poll(**ask("echo again")).chat.status == Status.COMPLETED


def test_a_kill_of_one_process_of_a_pool_fails_its_chats_alone_and_another_takes_its_place(tmp_path: Path) -> None:
    (scratch := tmp_path / "scratch").mkdir()
    with serving(tmp_path, "--agents", "3:3", env={"TMPDIR": str(scratch)}) as server, client(server) as coze:
        gateway = psutil.Process(server.process.pid)
        until(lambda: len(server.agents()) == 3)
        assert coze.chat.create_and_poll(**ask("echo warm")).chat.status == Status.COMPLETED
        before = gateway.num_fds()
        chats = [coze.chat.create(**ask(f"hang {number}")) for number in range(6)]
        for number in range(6):
            server.ear.wait(f"begin hang {number}")
        killed, *others = server.agents()
        killed.kill()

        def found(status: Status) -> list[cozepy.Chat]:
            now = [coze.chat.retrieve(conversation_id=chat.conversation_id, chat_id=chat.id) for chat in chats]
            return [chat for chat in now if chat.status == status]

        until(lambda: len(found(Status.FAILED)) == 2)
        assert {chat.last_error.msg for chat in found(Status.FAILED) if chat.last_error} == {
            "the agent was ended by signal 9"
        }
        until(lambda: len(server.agents()) == 3)
        assert set(others) < set(server.agents())
        assert coze.chat.create_and_poll(**ask("echo again")).chat.status == Status.COMPLETED
        going_on = found(Status.IN_PROGRESS)
        assert len(going_on) == 4
        numbers = [number for number, chat in enumerate(chats) if chat.id in {each.id for each in going_on}]
        for number in numbers:
            coze.chat.cancel(conversation_id=chats[number].conversation_id, chat_id=chats[number].id)
            server.ear.wait(f"cut hang {number}")
        assert set(others) < set(server.agents())
        until(lambda: gateway.num_fds() == before)
        assert os.listdir(scratch) == []
        metrics = httpx.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).text.splitlines()
        bot = 'bot="every other"'
        assert f"acp_gateway_agents{{{bot}}} 3.0" in metrics
        assert f"acp_gateway_agent_starts_total{{{bot}}} 4.0" in metrics
        assert [line for line in metrics if line.startswith("acp_gateway_agent_ends_total{")] == [
            f'acp_gateway_agent_ends_total{{{bot},reason="crashed"}} 1.0'
        ]


def test_a_chat_that_waits_fails_with_its_agent(server: Server, coze: Any) -> None:
    chat = coze.chat.create_and_poll(**ask("ask files")).chat
    assert chat.status == Status.REQUIRES_ACTION
    (agent,) = server.agents()
    os.kill(agent.pid, signal.SIGKILL)
    ids = {"conversation_id": chat.conversation_id, "chat_id": chat.id}
    until(lambda: coze.chat.retrieve(**ids).status == Status.FAILED)


def test_streams_end_with_the_failed_chat_when_the_gateway_is_told_to_leave(tmp_path: Path) -> None:
    with serving(tmp_path) as server, client(server) as coze:
        events: list[cozepy.ChatEvent] = []
        for event in coze.chat.stream(**ask("hang until the end")):
            events.append(event)
            if event.event == cozepy.ChatEventType.CONVERSATION_MESSAGE_DELTA:
                server.process.send_signal(signal.SIGTERM)
        assert events[-1].chat is not None
        assert events[-1].chat.status == Status.FAILED
        assert events[-1].chat.last_error == cozepy.ChatError(code=5000, msg="the gateway was stopped")


def test_a_gateway_goes_on_with_a_conversation_of_the_one_before(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    with serving(tmp_path / "1", "--store", store) as server, client(server) as coze:
        first = coze.chat.create_and_poll(**ask("echo one")).chat
        stuck = coze.chat.create_and_poll(**ask("ask files"), conversation_id=first.conversation_id).chat
    with serving(tmp_path / "2", "--store", store) as server, client(server) as coze:
        ids = {"conversation_id": stuck.conversation_id, "chat_id": stuck.id}
        assert coze.chat.retrieve(**ids).status == Status.REQUIRES_ACTION
        poll: Any = coze.chat.create_and_poll(**ask("recall"), conversation_id=first.conversation_id)
        assert "user: echo one\n\nassistant: one" in poll.messages[0].content
        assert "ask files" not in poll.messages[0].content
        with pytest.raises(cozepy.CozeAPIError, match="exactly one output"):
            coze.chat.submit_tool_outputs(
                **ids, tool_outputs=[cozepy.ToolOutput(tool_call_id="x", output="yes")], stream=False
            )
        events: list[Any] = list(coze.chat.submit_tool_outputs(**ids, tool_outputs=output(stuck, "yes"), stream=True))
        assert (events[0].event, last(events).status) == (Event.CONVERSATION_CHAT_IN_PROGRESS, Status.COMPLETED)
        assert types(events) == ["tool_response", "verbose"]
        poll = coze.chat.create_and_poll(**ask("recall"), conversation_id=first.conversation_id)
        (_, told) = poll.messages[0].content.split("You were interrupted")
        assert "user: echo one\n\nassistant: one" in poll.messages[0].content
        assert "user: ask files" in poll.messages[0].content
        assert "You asked (request_permission)" in told
        assert "The answer: yes" in told
