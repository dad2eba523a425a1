"""Ending a turn early: by `cancel`, by leaving its block, by a cancel of the task, by the loss of the agent."""

import asyncio
import math
from collections.abc import Awaitable, Callable

import anyio
import pytest

from acp_server.client import CancelUnanswered, connect_agent
from acp_server.errors import RequestCancelled
from acp_server.testing import memory_pair
from tests.client.talking import SESSION, Scripted, prompted, said, talking, text

pytestmark = pytest.mark.anyio


async def test_cancel_is_sent_once_and_updates_come_until_the_answer() -> None:
    async with prompted() as (_, peer, turn, prompt):
        turn.cancel()
        turn.cancel()
        assert turn.cancelled
        cancel = await peer.expect("session/cancel")
        assert cancel["params"] == {"sessionId": SESSION}
        assert "id" not in cancel
        await peer.update(said("last words"))
        await peer.finish(prompt, "cancelled")
        assert [text(update) async for update in turn] == ["last words"]
        assert turn.stop_reason == "cancelled"
        turn.cancel()
        await peer.barrier()
        assert len(peer.all("session/cancel")) == 1
        assert not peer.all("$/cancel_request")


async def test_a_turn_that_has_not_begun_cannot_be_cancelled() -> None:
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")
        turn = session.prompt("hello")
        turn.cancel()
        async with turn:
            await peer.finish(await peer.expect_request("session/prompt"))
            assert (await turn.wait()).stop_reason == "end_turn"
        assert not peer.all("session/cancel")


async def test_a_session_cancels_its_turn_and_nothing_when_it_has_none() -> None:
    async with prompted() as (session, peer, turn, prompt):
        session.cancel()
        await peer.expect("session/cancel")
        await peer.finish(prompt, "cancelled")
        await turn.wait()
        session.cancel()
        await peer.barrier()
        assert len(peer.all("session/cancel")) == 1


async def test_a_cancelled_prompt_that_is_answered_as_a_cancelled_request_counts_as_cancelled() -> None:
    async with prompted() as (_, peer, turn, prompt):
        turn.cancel()
        await peer.refuse(prompt, -32800)
        assert (await turn.wait()).stop_reason == "cancelled"


@pytest.mark.behaviour("C12")
async def test_a_prompt_that_the_agent_gave_up_by_itself_is_an_ordinary_error() -> None:
    async with prompted() as (_, peer, turn, prompt):
        await peer.refuse(prompt, -32800)
        with pytest.raises(RequestCancelled):
            await turn.wait()


@pytest.mark.parametrize("code", [-32603, -32000, 429])
async def test_a_turn_that_was_cancelled_is_cancelled_whatever_error_its_agent_answers(code: int) -> None:
    async with prompted() as (_, peer, turn, prompt):
        turn.cancel()
        await peer.refuse(prompt, code, "AbortError")
        assert (await turn.wait()).stop_reason == "cancelled"


async def test_leaving_a_turn_early_cancels_it_and_waits_for_the_confirmation() -> None:
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")
        left = anyio.Event()

        async def leave() -> None:
            async with session.prompt("hello") as turn:
                async for _ in turn:
                    break
            assert turn.stop_reason == "cancelled"
            assert [update async for update in turn] == []
            left.set()

        async with anyio.create_task_group() as group:
            group.start_soon(leave)
            prompt = await peer.expect_request("session/prompt")
            await peer.update(said("one"), said("left lying"))
            await peer.expect("session/cancel")
            await peer.update(said("dropped"))
            await peer.barrier()
            assert not left.is_set()
            await peer.finish(prompt, "cancelled")
        assert not peer.all("$/cancel_request")


async def test_an_error_in_the_block_cancels_the_turn_and_comes_out() -> None:
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")

        async def serve() -> None:
            prompt = await peer.expect_request("session/prompt")
            await peer.expect("session/cancel")
            await peer.refuse(prompt, -32603, "also broken")

        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            with pytest.raises(ZeroDivisionError):
                async with session.prompt("hello"):
                    raise ZeroDivisionError


async def test_an_agent_that_never_confirms_a_cancel_holds_up_nobody_for_long() -> None:
    async with talking() as (agent, peer):
        agent.cancel_timeout = 0.01
        session = await agent.new_session("/project")
        async with session.prompt("hello") as first:
            prompt = await peer.expect_request("session/prompt")
        await peer.expect("session/cancel")
        withdrawn = await peer.expect("$/cancel_request")
        assert withdrawn["params"] == {"requestId": prompt["id"]}
        with pytest.raises(CancelUnanswered):
            assert first.result
        async with session.prompt("again") as turn:
            await peer.finish(await peer.expect_request("session/prompt"))
            assert (await turn.wait()).stop_reason == "end_turn"


async def test_the_iteration_of_a_cancelled_turn_ends_though_the_agent_never_answers() -> None:
    async with prompted() as (session, peer, turn, prompt):
        session.agent.cancel_timeout = 0.01
        await peer.update(said("before"))
        await peer.barrier()
        turn.cancel()
        assert text(await anext(turn)) == "before"
        with pytest.raises(CancelUnanswered):
            await anext(turn)
        assert (await peer.expect("$/cancel_request"))["params"] == {"requestId": prompt["id"]}
        # What it goes on to say belongs to no turn, and leaving waits no second time.
        await peer.update(said("after"))
        await peer.barrier()
        for again in (anext(turn), turn.wait()):
            with pytest.raises(CancelUnanswered):
                await again
        assert not turn.over.is_set()
        await peer.finish(prompt, "cancelled")
        await turn.over.wait()
        assert session.turn is None


async def test_all_who_wait_for_a_turn_are_told_that_it_was_withdrawn() -> None:
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")
        turn = session.prompt("hello")
        told: list[str] = []

        async def wait() -> None:
            with pytest.raises(CancelUnanswered):
                await turn.wait()
            told.append("told")

        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                with anyio.CancelScope() as scope:
                    async with turn:
                        await peer.expect_request("session/prompt")
                        group.start_soon(wait)
                        await anyio.wait_all_tasks_blocked()
                        scope.cancel()
                        await anyio.sleep_forever()
        assert told == ["told"]


async def test_without_a_limit_a_cancelled_prompt_is_waited_for_until_it_is_answered() -> None:
    async with talking() as (agent, peer):
        agent.cancel_timeout = None
        session = await agent.new_session("/project")
        async with session.prompt("hello") as turn:
            prompt = await peer.expect_request("session/prompt")
            turn.cancel()
            assert turn.patience == math.inf
            await peer.expect("session/cancel")
            await peer.update(said("last"))
            await peer.finish(prompt, "cancelled")
            assert [text(update) async for update in turn] == ["last"]
        assert turn.stop_reason == "cancelled"
        assert not peer.all("$/cancel_request")


async def test_the_error_of_an_unanswered_cancel_tells_how_long_was_waited() -> None:
    here, there = memory_pair()
    async with Scripted(there) as peer, connect_agent(here, cancel_timeout=0.05) as agent:
        peer.answer("session/new", {"sessionId": SESSION})
        session = await agent.new_session("/project")
        async with session.prompt("hello") as turn:
            await peer.expect_request("session/prompt")
            turn.cancel()
            with pytest.raises(CancelUnanswered) as caught:
                await turn.wait()
        assert caught.value.seconds >= 0.05


@pytest.mark.behaviour("C4")
async def test_an_agent_that_answers_a_withdrawn_prompt_with_an_error_gets_the_next_one_at_once() -> None:
    async with talking() as (agent, peer):
        agent.cancel_timeout = 60.0
        session = await agent.new_session("/project")
        with anyio.CancelScope() as scope:
            async with session.prompt("hello") as turn:
                prompt = await peer.expect_request("session/prompt")
                scope.cancel()
                await turn.wait()
        await peer.expect("$/cancel_request")
        await peer.refuse(prompt, -32800, "Request cancelled")
        with anyio.fail_after(8):
            async with session.prompt("again") as turn:
                await peer.finish(await peer.expect_request("session/prompt"))
                assert (await turn.wait()).stop_reason == "end_turn"


@pytest.mark.behaviour("C1")
async def test_cancelling_the_task_cancels_the_turn_and_withdraws_the_prompt_without_waiting() -> None:
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")
        with anyio.CancelScope() as scope:
            async with session.prompt("hello") as turn:
                prompt = await peer.expect_request("session/prompt")
                await peer.update(said("one"))
                assert text(await anext(turn)) == "one"
                scope.cancel()
                await anext(turn)
        assert scope.cancelled_caught
        await peer.expect("session/cancel")
        withdrawn = await peer.expect("$/cancel_request")
        assert withdrawn["params"] == {"requestId": prompt["id"]}
        # Its late end belongs to it, and not to the next turn.
        async with anyio.create_task_group() as group:
            began = anyio.Event()

            async def again() -> None:
                began.set()
                async with session.prompt("again") as turn:
                    assert [text(update) async for update in turn] == ["new"]

            group.start_soon(again)
            await began.wait()
            await peer.barrier()
            assert len(peer.all("session/prompt")) == 1
            await peer.update(said("old"))
            await peer.finish(prompt, "cancelled")
            prompt = await peer.expect_request("session/prompt")
            await peer.update(said("new"))
            await peer.finish(prompt)


@pytest.mark.behaviour("C1")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_cancel_of_run_waits_for_nothing() -> None:
    async with talking() as (agent, peer):
        agent.cancel_timeout = 60.0
        session = await agent.new_session("/project")
        running = asyncio.ensure_future(session.run("hello"))
        prompt = await peer.expect_request("session/prompt")
        running.cancel()
        await asyncio.wait([running], timeout=5)
        assert running.cancelled()
        await peer.expect("session/cancel")
        withdrawn = await peer.expect("$/cancel_request")
        assert withdrawn["params"] == {"requestId": prompt["id"]}


async def test_a_time_limit_around_run_withdraws_it() -> None:
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")

        async def expire(limit: anyio.CancelScope) -> None:
            await peer.expect_request("session/prompt")
            limit.deadline = -math.inf

        async def run() -> None:
            with anyio.fail_after(60) as limit:
                group.start_soon(expire, limit)
                await session.run("hello")

        async with anyio.create_task_group() as group:
            with pytest.raises(TimeoutError):
                await run()
        await peer.expect("session/cancel")
        await peer.expect("$/cancel_request")


@pytest.mark.behaviour("C8")
async def test_a_prompt_in_a_cancelled_scope_is_not_sent() -> None:
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")
        with anyio.CancelScope() as scope:
            scope.cancel()
            async with session.prompt("hello") as turn:
                await turn.wait()
        await peer.barrier()
        assert not peer.all("session/prompt")
        assert not peer.all("$/cancel_request")


@pytest.mark.behaviour("F6")
async def test_a_cancel_leaves_the_turns_of_other_sessions_alone() -> None:
    async with talking() as (agent, peer):
        one = await agent.new_session("/project")
        peer.answer("session/new", {"sessionId": "sess_2"})
        two = await agent.new_session("/project")
        async with one.prompt("a") as first, two.prompt("b") as second:
            prompts = {}
            for _ in range(2):
                request = await peer.expect_request("session/prompt")
                prompts[request["params"]["sessionId"]] = request
            first.cancel()
            await peer.expect("session/cancel")
            await peer.finish(prompts["sess_1"], "cancelled")
            await first.wait()
            assert not second.cancelled
            await peer.update(said("still here"), session="sess_2")
            await peer.finish(prompts["sess_2"])
            assert [text(update) async for update in second] == ["still here"]


@pytest.mark.behaviour("C1", "C2", "C7")
@pytest.mark.parametrize("ticks", range(12))
async def test_a_turn_cut_at_any_step_leaves_nothing_running_at_the_agent(ticks: int) -> None:
    async def cut() -> None:
        for _ in range(ticks):
            await anyio.lowlevel.checkpoint()
        scope.cancel()

    async with talking() as (agent, peer):
        session = await agent.new_session("/project")
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:
                group.start_soon(cut)
                await session.run("hello")
        assert scope.cancelled_caught
        await peer.barrier()
        sent = [message["method"] for message in peer.received if "method" in message][2:]
        # Either the agent has never heard of it, or it has been told to stop, once in each way.
        assert sent in ([], ["session/cancel"], ["session/prompt", "session/cancel", "$/cancel_request"])


async def test_a_session_goes_on_at_once_behind_a_turn_that_was_cut_before_its_prompt_could_be_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")
        waiting: list[Callable[[], Awaitable[None]]] = []
        with monkeypatch.context() as patch:
            patch.setattr(agent.link, "spawn", waiting.append)
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(session.run, "hello")
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()
        async with session.prompt("again") as turn:
            await waiting[0]()
            await peer.finish(await peer.expect_request("session/prompt"))
            assert (await turn.wait()).stop_reason == "end_turn"
        assert len(peer.all("session/prompt")) == 1
