"""What a prompt handler can say, until when, and how much."""

import time
from collections.abc import AsyncIterator
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from acp_server import Agent, Turn, TurnEnded, schema
from acp_server.errors import UsageError
from tests.session.editor import CANCELLED, END_TURN, editing

pytestmark = pytest.mark.anyio


@pytest.mark.odd_shapes
async def test_everything_that_can_be_yielded_is_shown_in_order() -> None:
    agent = Agent("speaker")

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[Any]:
        yield "text"
        yield ""
        yield schema.TextContent(text="content")
        yield schema.ImageContent(data="aGk=", mime_type="image/png")
        yield schema.TextContent(text="marked", annotations=schema.Annotations(priority=1))
        yield schema.TextContent.from_wire({"type": "text", "text": "more", "_mine": 1})
        yield schema.UnknownContentBlock.from_wire({"type": "later", "mood": 1})
        yield schema.AgentThoughtChunk(content=schema.TextContent(text="hm"))
        await turn.think("thought")
        await turn.plan([schema.PlanEntry(content="do it", priority="high", status="pending")])
        await turn.update(schema.ToolCall(tool_call_id="c1", title="look"))
        await turn.update(schema.UnknownSessionUpdate.from_wire({"sessionUpdate": "later", "mood": 1}))
        await turn.say("ein 😀 und \u2028 und \ud800")

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        assert [(u["sessionUpdate"], u.get("content", {})) for u in editor.client.updates() if "content" in u] == [
            ("agent_message_chunk", {"type": "text", "text": "text"}),
            ("agent_message_chunk", {"type": "text", "text": "content"}),
            ("agent_message_chunk", {"type": "image", "data": "aGk=", "mimeType": "image/png"}),
            ("agent_message_chunk", {"type": "text", "text": "marked", "annotations": {"priority": 1.0}}),
            ("agent_message_chunk", {"type": "text", "text": "more", "_mine": 1}),
            ("agent_message_chunk", {"type": "later", "mood": 1}),
            ("agent_thought_chunk", {"type": "text", "text": "hm"}),
            ("agent_thought_chunk", {"type": "text", "text": "thought"}),
            ("agent_message_chunk", {"type": "text", "text": "ein 😀 und \u2028 und \ufffd"}),
        ]
        assert [u["sessionUpdate"] for u in editor.client.updates() if "content" not in u] == [
            "plan",
            "tool_call",
            "later",
        ]


@pytest.mark.parametrize("result", [None, "said", schema.TextContent(text="said")])
async def test_what_an_async_function_returns_is_shown_too(result: Any) -> None:
    agent = Agent("speaker")

    @agent.prompt
    async def prompt(turn: Turn) -> Any:
        return result

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        assert editor.said() == ([] if result is None else ["said"])


async def test_a_turn_knows_the_message_its_meta_and_its_session() -> None:
    agent = Agent("reader")
    turns: list[Turn] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turns.append(turn)

    async with editing(agent) as editor:
        session = await editor.open("/here", additionalDirectories=["/there"])
        link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
        blocks = [{"type": "text", "text": "one"}, link, {"type": "text", "text": "two", "_meta": {"x": 1}}]
        assert await editor.ask(session, prompt=blocks, _meta={"session_id": "OTHER"}) == END_TURN
        assert await editor.ask(session, "plain", _meta=7) == END_TURN
        first, second = turns
        assert first.text == "one\ntwo"
        assert [block.to_wire() for block in first.prompt] == blocks
        assert first.prompt is first.prompt  # read once
        assert first.meta == {"session_id": "OTHER"}
        assert first.session.id == session
        assert first.session.roots == ["/here", "/there"]
        assert first.id != second.id == second.id
        assert (second.text, second.meta) == ("plain", {})
        assert [block.to_wire() for block in second.prompt] == [{"type": "text", "text": "plain"}]
        assert first.ended_at is not None
        assert first.created_at <= first.ended_at <= second.created_at


@pytest.mark.parametrize("reason", ["max_tokens", "max_turn_requests", "refusal"])
async def test_the_handler_sets_the_stop_reason(reason: Any) -> None:
    agent = Agent("stops")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turn.stop_reason = reason

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == {"stopReason": reason}


@pytest.mark.parametrize("reason", ["bogus", "cancelled", None, ["end_turn"]])
async def test_what_is_no_reason_of_its_own_to_stop_is_refused(reason: Any) -> None:
    agent = Agent("stops")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        with pytest.raises(UsageError, match=r"must be one of end_turn, .+, refusal, not .+; session\.cancel"):
            turn.stop_reason = reason

    async with editing(agent) as editor:
        assert await editor.ask(await editor.open()) == END_TURN


@pytest.mark.parametrize("capabilities", [{}, {"session": {"notices": {}, "compaction": {}}}])
async def test_updates_that_only_some_clients_understand_are_sent_to_those_only(capabilities: dict[str, Any]) -> None:
    agent = Agent("notices")

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[Any]:
        yield schema.Notice(severity="info", title="by the way")
        yield schema.CompactionUpdate(compaction_id="k", status="in_progress")
        yield "and"

    async with editing(agent, capabilities=capabilities) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
        kinds = [update["sessionUpdate"] for update in editor.client.updates()]
        assert kinds == (["notice", "compaction_update"] if capabilities else []) + ["agent_message_chunk"]


@pytest.mark.behaviour("B16", "F5")
async def test_what_a_cancelled_handler_says_while_it_unwinds_comes_before_the_answer() -> None:
    agent = Agent("last words")

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[str]:
        yield "working"
        try:
            await anyio.sleep_forever()
        finally:
            await turn.say("stopped")

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect("session/update")
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        assert editor.said() == ["working", "stopped"]
        assert "stopReason" in editor.client.received[-1]["result"]


@pytest.mark.parametrize("how", ["end", "cancel", "fail"])
@pytest.mark.behaviour("F4", "F5")
async def test_a_turn_that_is_kept_says_nothing_after_its_answer(how: str) -> None:
    agent = Agent("keeps")
    kept: list[Turn] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        kept.append(turn)
        if turn.text == "cancel":
            await anyio.sleep_forever()
        if turn.text == "fail":
            raise ValueError

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session, how)
        await editor.settled()
        await editor.cancel(session)
        await editor.answer(id)
        before = len(editor.client.received)
        for late in (kept[0].say("late"), kept[0].think("late"), kept[0].plan([]), kept[0].say("")):
            with pytest.raises(TurnEnded):
                await late
        await editor.settled()
        assert len(editor.client.received) == before + 1


async def test_a_handler_that_talks_on_after_its_turn_lets_others_work() -> None:
    agent = Agent("talks on")
    kept: list[Turn] = []

    @agent.tool
    async def look() -> None: ...

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        kept.append(turn)

    async with editing(agent) as editor:
        await editor.ask(await editor.open())
        (turn,) = kept
        chunk = schema.AgentMessageChunk(content=schema.TextContent(text="late"))
        for late in (lambda: turn.say("late"), lambda: turn.update(chunk), lambda: turn.run_tool("look")):
            others_work = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_set, others_work)
                for _ in range(10):
                    with pytest.raises(TurnEnded):
                        await late()
                assert others_work.is_set()


async def _set(event: anyio.Event) -> None:
    event.set()


@pytest.mark.behaviour("C11", "B17")
async def test_what_a_turn_started_is_stopped_before_its_answer() -> None:
    agent = Agent("many tasks")
    stopped: list[str] = []

    async def talk(turn: Turn, name: str) -> None:
        try:
            await turn.say(name)
            await anyio.sleep_forever()
        finally:
            stopped.append(name)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        async with anyio.create_task_group() as outer:
            outer.start_soon(talk, turn, "a")
            async with anyio.create_task_group() as inner:
                inner.start_soon(talk, turn, "b")
                inner.start_soon(turn.client.read_text_file, "/a")

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        asked = await editor.client.expect("fs/read_text_file")
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        assert sorted(editor.said()) == sorted(stopped) == ["a", "b"]
        assert editor.withdrawn() == [asked["id"]]


# Talking without end


@pytest.mark.parametrize("piece", ["x" * 20, ""])
@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.behaviour("K7", "B6")
async def test_a_generator_that_never_waits_is_cancelled_soon_and_lets_others_work(piece: str, reads: bool) -> None:
    agent = Agent("floods")
    count = 0

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[str]:
        nonlocal count
        if turn.text == "short":
            return
        for _ in range(10_000_000):
            count += 1
            yield piece

    async with editing(agent) as editor:
        session, other = await editor.open(), await editor.open()
        if not reads:
            editor.stream.stall_sending()
        id = await editor.prompt(session)
        short = await editor.prompt(other, "short")
        await editor.cancel(session)
        if not reads:
            await editor.stream.stalled.wait()
            editor.stream.release()
        assert await editor.answer(short) == END_TURN
        assert await editor.answer(id) == CANCELLED
        assert count < 10_000


@pytest.mark.parametrize(
    "piece", ["word ", schema.AgentMessageChunk(content=schema.TextContent(text="word "), message_id="m")]
)
@pytest.mark.behaviour("B6")
async def test_a_handler_that_blocks_between_its_words_still_lets_them_out_and_can_be_cancelled(piece: Any) -> None:
    agent = Agent("blocks")
    written: list[int] = []

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[Any]:
        for _ in range(100):
            # Work that never waits, as with a model's blocking client.
            end = time.monotonic() + 0.01
            while time.monotonic() < end:
                pass
            yield piece
            written.append(len(editor.said()))

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        await editor.client.expect("session/update")
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        assert len(written) < 50
        assert written[-1] > 0


@pytest.mark.behaviour("K7")
async def test_a_client_that_does_not_read_bounds_the_memory_of_a_flood() -> None:
    agent = Agent("floods")
    count = 0

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[str]:
        nonlocal count
        while True:
            count += 1
            yield "x" * 100

    async with editing(agent) as editor:
        session = await editor.open()
        editor.stream.stall_sending()
        id = await editor.prompt(session)
        await anyio.wait_all_tasks_blocked()
        assert editor.connection.writer.size < 200_000
        assert 100 < count < 2000
        editor.stream.release()
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED


@pytest.mark.parametrize("piece", ["word", schema.AgentMessageChunk(content=schema.TextContent(text="word"))])
@pytest.mark.behaviour("K7")
async def test_each_piece_waits_for_a_client_that_is_behind_with_reading(piece: Any) -> None:
    agent = Agent("large")
    shown = 0

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[Any]:
        nonlocal shown
        turn.put(schema.AgentMessageChunk(content=schema.TextContent(text="x" * 1_000_000)))
        for _ in range(3):
            yield piece
            shown += 1

    async with editing(agent) as editor:
        session = await editor.open()
        editor.stream.stall_sending()
        id = await editor.prompt(session)
        await anyio.wait_all_tasks_blocked()
        assert shown == 0
        editor.stream.release()
        assert await editor.answer(id) == END_TURN
        assert shown == 3


async def test_a_text_of_many_pieces_is_one_message_in_the_history() -> None:
    agent = Agent("long")

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[str]:
        for number in range(20_000):
            yield f"{number:4}"

    async with editing(agent) as editor:
        session = await editor.open()
        records = cast("Any", agent)._definition.store._records
        assert await editor.ask(session) == END_TURN
        assert len(editor.said()) == 20_000
        turn = records[session].turns[0]
        assert turn.events == [
            {
                "sessionUpdate": "agent_message_chunk",
                "content": {"type": "text", "text": "".join(f"{number:4}" for number in range(20_000))},
            }
        ]
