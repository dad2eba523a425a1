"""Prompts: updates in their order, and the answer behind them."""

import itertools
from typing import Any

import anyio
import pytest

from acp_server.client import RemoteSession
from acp_server.errors import CapabilityMissing, InternalError, UsageError
from acp_server.schema import (
    AgentMessageChunk,
    ImageContent,
    SessionUpdate,
    TextContent,
    ToolCall,
    UnknownSessionUpdate,
)
from acp_server.testing import FaultyStream
from tests.client.talking import EVERYTHING, prompted, said, shown, talking, text

pytestmark = pytest.mark.anyio


async def test_the_updates_of_a_turn_come_in_their_order_and_end_with_its_answer() -> None:
    async with prompted() as (session, peer, turn, prompt):
        assert prompt["params"] == {"sessionId": session.id, "prompt": [{"type": "text", "text": "hello"}]}
        await peer.update(said("one"), said("two"))
        assert text(await anext(turn)) == "one"
        await peer.update(said("three"))
        await peer.finish(prompt, "max_tokens")
        assert [text(update) async for update in turn] == ["two", "three"]
        assert turn.stop_reason == "max_tokens"
        assert turn.result.stop_reason == "max_tokens"
        with pytest.raises(StopAsyncIteration):
            await anext(turn)


async def test_ask_is_a_turn_of_which_only_the_text_is_wanted() -> None:
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")
        async with anyio.create_task_group() as group:
            answers: list[str] = []

            async def ask() -> None:
                answers.append(await session.ask("hello"))

            group.start_soon(ask)
            prompt = await peer.expect("session/prompt")
            await peer.update(said("one "), said("two"))
            await peer.finish(prompt, "end_turn")
        assert answers == ["one two"]


@pytest.mark.parametrize("sizes", [(), itertools.repeat(1)], ids=["one chunk", "one byte at a time"])
async def test_updates_and_answer_in_one_chunk_or_byte_by_byte_are_the_same(sizes: Any) -> None:
    async with prompted(wrap=lambda stream: FaultyStream(stream, sizes=iter(sizes))) as (_, peer, turn, prompt):
        updates = [shown(said(str(n))) for n in range(20)]
        await peer.send(*updates, {"jsonrpc": "2.0", "id": prompt["id"], "result": {"stopReason": "end_turn"}})
        assert [text(update) async for update in turn] == [str(n) for n in range(20)]
        assert turn.stop_reason == "end_turn"


@pytest.mark.behaviour("I2", "I3")
async def test_an_answer_is_seen_only_after_the_slow_handlers_of_the_updates_before_it() -> None:
    handled: list[str] = []
    entered, go_on = anyio.Event(), anyio.Event()

    async def slowly(update: SessionUpdate) -> None:
        entered.set()
        await go_on.wait()
        handled.append(text(update))

    async with talking() as (agent, peer):
        session = await agent.new_session("/project", on_update=slowly)
        async with anyio.create_task_group() as group, session.prompt("hello") as turn:
            prompt = await peer.expect_request("session/prompt")
            await peer.update(said("one"), said("two"))
            await peer.finish(prompt)
            await entered.wait()
            # Everything is read by now, the answer included; nobody may act on it before both updates are handled.
            barrier = anyio.Event()

            async def sees_the_answer() -> None:
                await turn.wait()
                assert handled == ["one", "two"]
                barrier.set()

            group.start_soon(sees_the_answer)
            await anyio.wait_all_tasks_blocked()
            assert not turn.over.is_set()
            go_on.set()
            await barrier.wait()


@pytest.mark.behaviour("I4", "I5")
async def test_an_update_handler_that_asks_the_agent_something_gets_its_answer() -> None:
    answers: list[Any] = []

    async with talking() as (agent, peer):
        peer.answer("_ask", {"n": 1})

        async def asks(_update: SessionUpdate) -> None:
            answers.append(await agent.request("_ask"))

        session = await agent.new_session("/project", on_update=asks)
        async with session.prompt("hello") as turn:
            prompt = await peer.expect_request("session/prompt")
            await peer.update(said("one"), said("two"))
            await peer.finish(prompt)
            assert len([update async for update in turn]) == 2
        assert answers == [{"n": 1}, {"n": 1}]


async def test_an_update_handler_that_fails_costs_neither_the_update_nor_the_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(_update: SessionUpdate) -> None:
        raise ValueError("no")

    async with prompted() as (session, peer, turn, prompt):
        session.on_update = fails
        await peer.update(said("one"))
        await peer.finish(prompt)
        assert [text(update) async for update in turn] == ["one"]
    assert "session/update failed" in caplog.text


async def test_what_a_newer_agent_sends_never_breaks_the_turn(caplog: pytest.LogCaptureFixture) -> None:
    async with prompted() as (_, peer, turn, prompt):
        await peer.update(
            {"sessionUpdate": "hologram", "depth": 3},
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "smell", "ppm": 4}, "mood": "fine"},
            {"sessionUpdate": "agent_message_chunk", "content": 5},
            {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "kind": "dream", "locations": [7]},
        )
        await peer.notify("session/update", {"sessionId": "sess_1", "update": {"no": "kind"}})
        await peer.notify("session/update", [1, 2])
        await peer.notify("session/telepathy", {})
        await peer.finish(prompt, "bored")
        unknown, smell, broken, tool = [update async for update in turn]
        assert isinstance(unknown, UnknownSessionUpdate)
        assert unknown.fields == {"depth": 3}
        assert isinstance(smell, AgentMessageChunk)
        assert smell.content.to_wire() == {"type": "smell", "ppm": 4}
        assert isinstance(broken, UnknownSessionUpdate)
        assert broken.fields == {"content": 5}
        assert isinstance(tool, ToolCall)
        assert tool.kind == "dream"
        assert turn.stop_reason == "bored"
    assert [record.message for record in caplog.records if record.levelname != "DEBUG"] == [
        "dropped a session/update that has no session or no kind of update"
    ] * 2


async def test_an_error_answer_comes_out_behind_the_updates_before_it() -> None:
    async with prompted() as (_, peer, turn, prompt):
        await peer.update(said("one"))
        await peer.refuse(prompt, -32603, "it broke")
        assert text(await anext(turn)) == "one"
        with pytest.raises(InternalError, match="it broke"):
            await anext(turn)
        with pytest.raises(InternalError):
            assert turn.stop_reason


async def test_leaving_a_turn_that_failed_unseen_raises_its_error() -> None:
    async def leave() -> None:
        async with prompted() as (_, peer, turn, prompt):
            await peer.refuse(prompt, -32603, "it broke")
            await turn.over.wait()

    with pytest.raises(InternalError, match="it broke"):
        await leave()


async def test_run_gives_the_answer_of_a_whole_turn_and_its_updates_to_a_function() -> None:
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")
        seen: list[str] = []

        async def later(update: SessionUpdate) -> None:
            await anyio.lowlevel.checkpoint()
            seen.append(text(update))

        async def serve() -> None:
            for on in ("sync", "async"):
                prompt = await peer.expect_request("session/prompt")
                await peer.update(said(on))
                await peer.finish(prompt)

        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            assert (
                await session.run("a", on_update=lambda update: seen.append(text(update)))
            ).stop_reason == "end_turn"
            assert (await session.run("b", on_update=later)).stop_reason == "end_turn"
        assert seen == ["sync", "async"]


async def test_a_prompt_may_be_blocks_and_carries_its_meta() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer):
        session = await agent.new_session("/project")
        image = ImageContent(data="aGk=", mime_type="image/png")
        async with session.prompt(["look", TextContent(text="here"), image], meta={"trace": "x"}) as turn:
            prompt = await peer.expect_request("session/prompt")
            assert [block["type"] for block in prompt["params"]["prompt"]] == ["text", "text", "image"]
            assert prompt["params"]["_meta"] == {"trace": "x"}
            await peer.finish(prompt)
            await turn.wait()


async def test_content_that_the_agent_does_not_take_is_not_sent() -> None:
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")
        with pytest.raises(CapabilityMissing, match="image"):
            await session.run([ImageContent(data="aGk=", mime_type="image/png")])
        await peer.barrier()
        assert not peer.all("session/prompt")


async def test_a_session_has_one_turn_at_a_time() -> None:
    async with prompted() as (session, peer, turn, prompt):
        assert session.turn is turn
        with pytest.raises(UsageError, match="still running"):
            await session.run("too early")
        with pytest.raises(UsageError, match="has no response yet"):
            assert turn.result
        await peer.finish(prompt)
        await turn.wait()
        assert session.turn is None
        with pytest.raises(UsageError, match="only once"):
            await turn.__aenter__()
        await _one_more(session, peer)


async def test_a_turn_that_was_not_begun_says_so_to_whoever_waits_for_it() -> None:
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")
        turn = session.prompt("hello")
        with anyio.fail_after(5):
            with pytest.raises(UsageError, match="begin the turn first: async with"):
                await anext(turn)
            with pytest.raises(UsageError, match="begin the turn first: async with"):
                await turn.wait()
        await peer.barrier()
        assert not peer.all("session/prompt")
        # It can still be begun.
        async with turn:
            await peer.finish(await peer.expect_request("session/prompt"))
            assert (await turn.wait()).stop_reason == "end_turn"


async def test_updates_that_nobody_takes_hold_up_nothing() -> None:
    async with prompted() as (_, peer, turn, prompt):
        count = 5000
        await peer.send(*(shown(said(str(n))) for n in range(count)))
        # While they lie there, the agent's requests are answered and ours are, too.
        await peer.barrier()
        peer.answer("_ask", {})
        assert await turn.session.agent.request("_ask") == {}
        await peer.finish(prompt)
        assert [text(update) async for update in turn] == [str(n) for n in range(count)]


async def _one_more(session: RemoteSession, peer: Any) -> None:
    async with session.prompt("again") as turn:
        await peer.finish(await peer.expect_request("session/prompt"))
        assert [update async for update in turn] == []
