"""What is known of a turn: what it cost, the notes about it, and what the next one gets to see of it."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from acp_server import Agent, Turn, grace, schema
from acp_server.errors import UsageError
from acp_server.store.memory import MemoryStore
from acp_server.store.records import SessionRecord, TurnRecord, Usage
from tests.session.agents import keeping, setup
from tests.session.editor import CANCELLED, END_TURN, QUICK, editing
from tests.session.v2 import editor as v2
from tests.store.records import say
from tests.store.records import turn as made

pytestmark = pytest.mark.anyio


# What it cost, and what is noted about it


@pytest.mark.parametrize("how", ["ends", "session", "request"])
async def test_the_tokens_are_told_with_the_answer_also_of_a_cancelled_turn(how: str) -> None:
    async def work(turn: Turn) -> None:
        assert turn.usage is None
        turn.add_usage(input_tokens=100, output_tokens=7)
        turn.add_usage(input_tokens=10, output_tokens=3, total_tokens=20)
        await turn.say("said")
        if how != "ends":
            await anyio.sleep_forever()

    agent, turns = keeping(work)
    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect("session/update")
        if how == "session":
            await editor.cancel(session)
        elif how == "request":
            await editor.withdraw(id)
        tokens = {"inputTokens": 110, "outputTokens": 10, "totalTokens": 127}
        expected = END_TURN if how == "ends" else CANCELLED
        assert await editor.answer(id) == {**expected, "_meta": {"usage": tokens}}
        assert turns[0].usage == Usage(110, 10, 127)


async def test_the_tokens_of_a_turn_that_outstays_its_cancel_are_told_as_well() -> None:
    release = anyio.Event()

    async def outstay(turn: Turn) -> None:
        turn.add_usage(output_tokens=5)
        try:
            await turn.say("said")
            await anyio.sleep_forever()
        finally:
            with grace(30):
                await release.wait()

    agent, _ = keeping(outstay)
    async with editing(agent, QUICK) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect("session/update")
        await editor.cancel(session)
        assert (await editor.answer(id))["_meta"]["usage"]["outputTokens"] == 5
        release.set()


async def test_all_kinds_of_tokens_are_counted_and_told_in_a_place_of_their_own_where_that_is_named() -> None:
    agent = Agent("thrifty", unstable={"end_turn_usage"})

    @agent.prompt
    async def count(turn: Turn) -> None:
        turn.add_usage(input_tokens=5, output_tokens=4, thought_tokens=1)
        turn.add_usage(input_tokens=1, cached_read_tokens=3, cached_write_tokens=0)

    tokens = {"inputTokens": 6, "outputTokens": 4, "totalTokens": 10, "thoughtTokens": 1}
    tokens |= {"cachedReadTokens": 3, "cachedWriteTokens": 0}
    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == {**END_TURN, "usage": tokens, "_meta": {"usage": tokens}}
    async with v2.editing(agent) as editor:
        assert (await editor.ask(await editor.open()))["usage"] == tokens


async def test_how_full_the_context_is_and_what_the_session_has_cost_is_told_at_once() -> None:
    agent = Agent("thrifty")

    @agent.prompt
    async def count(turn: Turn) -> None:
        turn.add_usage(input_tokens=10, output_tokens=2, context_size=100)
        turn.add_usage(input_tokens=30, output_tokens=1, context_size=100, cost=0.25)
        turn.add_usage(input_tokens=1)
        with pytest.raises(UsageError, match="'USD'"):
            turn.add_usage(cost=1, currency="EUR")

    async with editing(agent) as editor:
        session = await editor.open()
        for _ in range(2):
            await editor.ask(session)
        told = [update for update in editor.client.updates(session) if update["sessionUpdate"] == "usage_update"]
        costs = [update.get("cost") for update in told]
        assert [(update["used"], update["size"]) for update in told] == [(12, 100), (31, 100)] * 2
        assert costs == [None, *({"amount": amount, "currency": "USD"} for amount in (0.25, 0.25, 0.5))]


@pytest.mark.parametrize(
    "tokens",
    [{name: -1} for name in ("input_tokens", "output_tokens", "total_tokens", "thought_tokens", "context_size")]
    + [{"input_tokens": 1.5}],
)
async def test_what_is_no_number_of_tokens_is_refused(tokens: dict[str, Any]) -> None:
    seen: list[Any] = []

    async def count(turn: Turn) -> None:
        with pytest.raises(UsageError, match="must be an int that is not negative"):
            turn.add_usage(**tokens)
        seen.append(turn.usage)

    agent, _ = keeping(count)
    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
    assert seen == [None]


WRONG: list[dict[Any, Any]] = [
    {str(number): "x" for number in range(17)},
    {"": "x"},
    {"k": ""},
    {"k" * 65: "x"},
    {"k": "x" * 513},
    {"k": 7},
    {7: "x"},
]


async def test_notes_about_a_turn_are_kept_within_their_bounds() -> None:
    most = {f"{number:064}": "x" * 512 for number in range(16)}

    async def note(turn: Turn) -> None:
        assert dict(turn.meta_data) == {}
        turn.meta_data = most
        for wrong in WRONG:
            with pytest.raises(UsageError, match="meta data"):
                turn.meta_data = wrong
        with pytest.raises(TypeError):
            turn.meta_data["k"] = "v"  # type: ignore[index]

    agent, turns = keeping(note)
    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
    assert turns[0].meta_data == turns[0].record.meta_data == most


# What the next turn sees


async def test_the_context_is_what_was_said_in_the_turns_that_count_and_this_message() -> None:
    contexts: list[Any] = []
    agent = Agent("remembers")

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[Any]:
        contexts.append([(role, content[0].get("text")) for role, content in turn.context()])
        await turn.think("hm")
        yield f"re: {turn.text}"
        if turn.text == "fail":
            raise ValueError
        if turn.text == "refuse":
            turn.stop_reason = "refusal"
        if turn.text == "hang":
            await anyio.sleep_forever()
        yield schema.ToolCall(tool_call_id="c", title="look", status="completed")

    async with editing(agent) as editor:
        session = await editor.open()
        await editor.ask(session, "one")
        await editor.ask(session, "fail")
        await editor.ask(session, "refuse")
        id = await editor.prompt(session, "hang")
        await editor.client.expect(lambda message: "re: hang" in str(message))
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        await editor.ask(session, "two")
        await editor.client.ask("session/close", {"sessionId": session})
        await editor.client.result("session/resume", setup(session))
        await editor.ask(session, "three")
    one = [("user", "one"), ("assistant", "re: one")]
    assert contexts[0] == [("user", "one")]
    assert contexts[1:5] == [[*one, ("user", text)] for text in ("fail", "refuse", "hang", "two")]
    assert contexts[5] == [*one, ("user", "two"), ("assistant", "re: two"), ("user", "three")]


async def test_the_context_of_a_turn_that_is_over_has_its_message_once_and_last() -> None:
    agent, turns = keeping(lambda turn: turn.say(f"re: {turn.text}"))
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.ask(session, "one")
        await editor.ask(session, "two")
    assert [message.role for message in turns[0].context()] == ["user", "assistant", "user"]
    assert [message.content for message in turns[0].context()][-1] == turns[0].record.prompt


def test_what_the_agent_said_to_the_user_is_its_message_in_whole_blocks() -> None:
    record = TurnRecord([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    link = {"type": "resource_link", "uri": "file:///x", "name": "x"}
    say(record, "agent_message_chunk", "one ")
    record.add({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "two"}})
    record.add({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "o"}, "messageId": "m"})
    record.add({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "k"}, "messageId": "m"})
    say(record, "agent_thought_chunk", "hm")
    record.add({"sessionUpdate": "agent_message_chunk", "content": link})
    record.add({"sessionUpdate": "tool_call", "toolCallId": "c"})
    say(record, "agent_message_chunk", "three")
    user, assistant = record.messages()
    assert (user.role, user.text) == ("user", "a\nb")
    assert assistant.role == "assistant"
    text = [{"type": "text", "text": text} for text in ("one two", "ok", "three")]
    assert assistant.content == [*text[:2], link, text[2]]
    assert assistant.text == "one two\nok\nthree"
    # The two pieces of the message "m" are one.
    assert len(record.events) == 6


def test_a_turn_without_words_is_a_message_of_the_user_alone() -> None:
    assert [message.role for message in made("x", answer="").messages()] == ["user", "assistant"]
    assert [message.role for message in TurnRecord([{"type": "text", "text": "x"}]).messages()] == ["user"]


# What is kept of one that is given up


@pytest.mark.parametrize("how", ["session", "request", "close"])
async def test_a_turn_that_outstays_its_cancel_is_kept_as_it_was_answered(how: str) -> None:
    release = anyio.Event()
    saved: list[list[str]] = []
    kept = anyio.Event()

    class Watched(MemoryStore):
        def save(self, record: SessionRecord) -> None:
            super().save(record)
            saved.append([turn.status for turn in record.turns])
            if saved[-1] == ["canceled"]:
                kept.set()

    async def outstay(turn: Turn) -> None:
        try:
            await turn.say("said")
            await anyio.sleep_forever()
        finally:
            with grace(30):
                await release.wait()

    agent, _ = keeping(outstay, Watched())
    async with editing(agent, QUICK) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect("session/update")
        if how == "session":
            await editor.cancel(session)
        elif how == "request":
            await editor.withdraw(id)
        else:
            await editor.client.ask("session/close", {"sessionId": session})
        assert await editor.answer(id) == CANCELLED
        # Before the handler has ended.
        await kept.wait()
        release.set()
