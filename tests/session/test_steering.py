"""What the user says while a turn runs (`_session/steering`), on version 1."""

from typing import Any

import anyio
import pytest

from acp_server import Agent, Message, RpcError, Turn
from acp_server.errors import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND
from tests.session.editor import CANCELLED, END_TURN, Editor, editing

pytestmark = pytest.mark.anyio

METHOD = "_session/steering"
PROMPT_REQUIRED = {"_meta": {"steering": {"idleBehavior": "promptRequired"}}}


class Listener:
    """An agent whose turns repeat what they are told meanwhile, until they are told to stop."""

    def __init__(self, **options: Any) -> None:
        self.agent = Agent("listener", **options)
        self.turns: list[Turn] = []
        self.heard: list[Message] = []
        self.taking = anyio.Event()
        """Set when a slow message is being taken."""
        self.go_on = anyio.Event()
        """Lets it be taken."""
        self._news = anyio.Event()
        self.agent.prompt(self.prompt)
        self.agent.steer(self.steer)

    async def prompt(self, turn: Turn) -> None:
        self.turns.append(turn)
        if turn.text != "listen":
            await turn.say(f"re: {turn.text}")
            return
        await turn.say("listening")
        told = ""
        while told != "stop":
            await self._news.wait()
            self._news = anyio.Event()
            told = self.heard[-1].text
            await turn.say(f"heard {told}")

    async def steer(self, turn: Turn, message: Message) -> None:
        assert turn is self.turns[-1]
        if message.text == "slow":
            self.taking.set()
            await self.go_on.wait()
        if message.text == "bad":
            raise RpcError("not that", code=-31000)
        self.heard.append(message)
        self._news.set()


def saying(session: str, text: str, **more: Any) -> dict[str, Any]:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}], **more}


async def listening(editor: Editor) -> tuple[str, Any]:
    session = await editor.open()
    prompt = await editor.prompt(session, "listen")
    await editor.client.expect("session/update")
    return session, prompt


async def test_a_message_goes_to_the_turn_that_runs_and_is_part_of_its_conversation() -> None:
    listener = Listener()
    async with editing(listener.agent) as editor:
        session, prompt = await listening(editor)
        for text in ("left", "stop"):
            assert await editor.client.result(METHOD, saying(session, text)) == {"outcome": "injected"}
        assert await editor.answer(prompt) == END_TURN
        # The client has shown what its user has said.
        assert editor.said(kind="user_message_chunk") == []
        (turn,) = listener.turns
        assert [(message.role, message.text) for message in turn.record.messages()][:3] == [
            ("user", "listen"),
            ("assistant", "listening"),
            ("user", "left"),
        ]


async def test_a_conversation_with_such_messages_is_replayed_in_its_order() -> None:
    listener = Listener()
    async with editing(listener.agent) as editor:
        session, prompt = await listening(editor)
        await editor.client.result(METHOD, saying(session, "stop"))
        await editor.answer(prompt)
        seen = len(editor.client.updates())
        await editor.client.result("session/load", {"sessionId": session, "cwd": "/p", "mcpServers": []})
        told = [(one["sessionUpdate"], one["content"]["text"]) for one in editor.client.updates()[seen:]]
        assert told == [
            ("user_message_chunk", "listen"),
            ("agent_message_chunk", "listening"),
            ("user_message_chunk", "stop"),
            ("agent_message_chunk", "heard stop"),
        ]
        turns = listener.turns[0].session.record.turns
        assert [message.role for message in turns[0].messages()] == ["user", "assistant"] * 2


async def test_without_a_turn_the_client_is_told_to_send_a_prompt() -> None:
    listener = Listener()
    async with editing(listener.agent) as editor:
        session = await editor.open()
        answer = await editor.client.result(METHOD, saying(session, "left", **PROMPT_REQUIRED))
        assert answer == {"outcome": "promptRequired", "reason": "noRunningTurn"}
        refused = await editor.refusal(METHOD, saying(session, "left"))
        assert (refused["code"], refused["data"]) == (INVALID_REQUEST, {"reason": "noRunningTurn"})
        assert not listener.heard


async def test_a_turn_that_ends_while_the_message_is_taken_does_not_have_it() -> None:
    listener = Listener()
    async with editing(listener.agent) as editor:
        session, prompt = await listening(editor)
        steering = await editor.client.request(METHOD, saying(session, "slow", **PROMPT_REQUIRED))
        await listener.taking.wait()
        await editor.cancel(session)
        assert await editor.answer(prompt) == CANCELLED
        listener.go_on.set()
        assert (await editor.answer(steering))["outcome"] == "promptRequired"
        assert [message.role for message in listener.turns[0].record.messages()] == ["user", "assistant"]


async def test_what_the_author_raises_is_the_answer_and_the_turn_goes_on() -> None:
    listener = Listener()
    async with editing(listener.agent) as editor:
        session, prompt = await listening(editor)
        assert (await editor.refusal(METHOD, saying(session, "bad")))["code"] == -31000
        await editor.client.result(METHOD, saying(session, "stop"))
        assert await editor.answer(prompt) == END_TURN
        # As it stands in JSON; ids may have these letters.
        assert "'bad'" not in str(listener.turns[0].record.events)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"sessionId": "unknown"}, RESOURCE_NOT_FOUND),
        ({"prompt": []}, INVALID_PARAMS),
        ({"prompt": [None]}, INVALID_PARAMS),
        ({"prompt": [{"type": "image", "data": "", "mimeType": "image/png"}]}, INVALID_PARAMS),
    ],
)
async def test_what_is_no_message_is_refused(change: Any, code: int) -> None:
    listener = Listener()
    async with editing(listener.agent) as editor:
        session, _ = await listening(editor)
        assert (await editor.refusal(METHOD, {**saying(session, "left"), **change}))["code"] == code
        assert not listener.heard


async def test_only_an_agent_that_can_be_steered_says_so() -> None:
    async with editing(Listener().agent, initialize=False) as editor:
        assert (await editor.initialize())["_meta"] == {"steering": {"supported": True}}
    plain = Agent("plain")

    @plain.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(plain, initialize=False) as editor:
        assert "_meta" not in await editor.initialize()
        assert (await editor.refusal(METHOD, saying(await editor.open(), "left")))["code"] == METHOD_NOT_FOUND
