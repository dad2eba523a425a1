"""Ending a turn early: by `cancel`, by leaving its block, by a cancel of the task, by the loss of the agent."""

import errno

import anyio
import pytest

import acp_server.client.session
import acp_server.client.turn
from acp_server.client import RemoteTurn
from acp_server.errors import ConnectionClosed, InternalError, RequestCancelled
from acp_server.testing import FaultyStream
from tests.client.talking import SESSION, prompted, said, talking, text

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


async def test_an_agent_that_fails_at_being_cancelled_is_reported_to_who_waits_for_the_answer() -> None:
    async with prompted() as (_, peer, turn, prompt):
        turn.cancel()
        await peer.refuse(prompt, -32603, "AbortError")
        with pytest.raises(InternalError, match="AbortError"):
            await turn.wait()


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


async def test_an_agent_that_never_confirms_a_cancel_holds_up_nobody_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acp_server.client.turn, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(acp_server.client.session, "SETTLE_SECONDS", 0.01)
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")
        async with session.prompt("hello"):
            prompt = await peer.expect_request("session/prompt")
        await peer.expect("session/cancel")
        withdrawn = await peer.expect("$/cancel_request")
        assert withdrawn["params"] == {"requestId": prompt["id"]}
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


async def test_a_time_limit_around_run_withdraws_it() -> None:
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")
        with pytest.raises(TimeoutError):
            with anyio.fail_after(0.01):
                await session.run("hello")
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


# The agent is lost


@pytest.mark.behaviour("G1", "G16")
async def test_the_end_of_the_input_fails_every_turn_and_request_at_once() -> None:
    async with talking() as (agent, peer):
        one = await agent.new_session("/project")
        peer.answer("session/new", {"sessionId": "sess_2"})
        two = await agent.new_session("/project")
        lost: list[str | None] = []

        async def turn(turn: RemoteTurn) -> None:
            with pytest.raises(ConnectionClosed) as closed:
                async with turn:
                    await turn.wait()
            lost.append(closed.value.method)

        async def request() -> None:
            with pytest.raises(ConnectionClosed) as closed:
                await agent.request("_slow")
            lost.append(closed.value.method)

        with anyio.fail_after(1):
            async with anyio.create_task_group() as group:
                group.start_soon(turn, one.prompt("a"))
                group.start_soon(turn, two.prompt("b"))
                group.start_soon(request)
                await peer.expect("_slow")
                peer.stream.send_eof()
        assert sorted(map(str, lost)) == ["_slow", "session/prompt", "session/prompt"]


@pytest.mark.behaviour("G4")
async def test_updates_and_an_answer_right_before_the_end_are_not_lost() -> None:
    async with prompted() as (_, peer, turn, prompt):
        await peer.update(said("one"))
        await peer.finish(prompt)
        peer.stream.send_eof()
        assert [text(update) async for update in turn] == ["one"]
        assert turn.stop_reason == "end_turn"


async def test_updates_before_the_loss_are_seen_before_the_error() -> None:
    async with prompted() as (_, peer, turn, _prompt):
        await peer.update(said("one"))
        peer.stream.send_eof()
        assert text(await anext(turn)) == "one"
        with pytest.raises(ConnectionClosed):
            await anext(turn)


@pytest.mark.behaviour("G2")
async def test_a_lost_agent_refuses_whatever_is_asked_of_it_at_once() -> None:
    async with prompted() as (session, peer, turn, _prompt):
        peer.stream.send_eof()
        with pytest.raises(ConnectionClosed):
            await turn.wait()
        with anyio.fail_after(1):
            with pytest.raises(ConnectionClosed):
                await session.run("again")
            with pytest.raises(ConnectionClosed):
                await session.agent.request("_anything")
            with pytest.raises(ConnectionClosed):
                session.agent.notify("_anything")


async def test_a_withdrawn_turn_whose_agent_is_lost_holds_up_nobody() -> None:
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")
        with anyio.CancelScope() as scope:
            async with session.prompt("hello") as turn:
                await peer.expect_request("session/prompt")
                scope.cancel()
                await turn.wait()
        assert session.turn is turn
        peer.stream.send_eof()
        await agent.link.connection.wait_closed()
        with anyio.fail_after(1), pytest.raises(ConnectionClosed):
            await session.run("again")


@pytest.mark.behaviour("G13")
async def test_cancelling_a_turn_of_a_lost_agent_does_nothing() -> None:
    async with prompted() as (_, peer, turn, _prompt):
        peer.stream.send_eof()
        await turn.over.wait()
        turn.cancel()
        turn.session.cancel()
        with pytest.raises(ConnectionClosed):
            await turn.wait()
        assert not peer.all("session/cancel")


@pytest.mark.behaviour("G10")
async def test_a_read_error_is_told_apart_from_a_clean_end() -> None:
    faulty: list[FaultyStream] = []

    def wrap(stream: object) -> FaultyStream:
        faulty.append(FaultyStream(stream))  # pyright: ignore[reportArgumentType]
        return faulty[0]

    async with prompted(wrap=wrap) as (_, _peer, turn, _prompt):
        faulty[0].fail_reading(OSError(errno.EIO, "the disk is on fire"))
        with pytest.raises(ConnectionClosed) as closed:
            await turn.wait()
        assert isinstance(closed.value.__cause__, OSError)


@pytest.mark.behaviour("G8")
async def test_an_agent_that_no_longer_reads_its_input_is_lost() -> None:
    faulty: list[FaultyStream] = []

    def wrap(stream: object) -> FaultyStream:
        faulty.append(FaultyStream(stream))  # pyright: ignore[reportArgumentType]
        return faulty[0]

    async with prompted(wrap=wrap) as (session, _peer, turn, _prompt):
        faulty[0].break_sending(after=10)
        with pytest.raises(ConnectionClosed):
            await session.agent.request("_anything")
        with pytest.raises(ConnectionClosed):
            await turn.wait()


@pytest.mark.behaviour("G15")
async def test_a_full_pipe_to_the_agent_holds_up_neither_reading_nor_closing() -> None:
    faulty: list[FaultyStream] = []

    def wrap(stream: object) -> FaultyStream:
        faulty.append(FaultyStream(stream))  # pyright: ignore[reportArgumentType]
        return faulty[0]

    with anyio.fail_after(5):
        async with talking(wrap=wrap) as (agent, peer):
            session = await agent.new_session("/project")
            faulty[0].stall_sending(after=20)
            with anyio.move_on_after(0.01):
                await agent.request("_big", {"data": "x" * 100_000})
            await faulty[0].stalled.wait()
            heard = anyio.Event()
            session.on_update = lambda _update: heard.set()
            await peer.update(said("still heard"))
            await heard.wait()
