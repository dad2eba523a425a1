"""The loss of the agent, and a stream to it that misbehaves, in the middle of turns."""

import errno

import anyio
import pytest

from acp_server.client import RemoteTurn
from acp_server.errors import ConnectionClosed
from acp_server.testing import FaultyStream
from tests.client.talking import prompted, said, talking, text

pytestmark = pytest.mark.anyio


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
            async with anyio.create_task_group() as group:
                group.start_soon(agent.request, "_big", {"data": "x" * 100_000})
                await faulty[0].stalled.wait()
                group.cancel_scope.cancel()
            heard = anyio.Event()
            session.on_update = lambda _update: heard.set()
            await peer.update(said("still heard"))
            await heard.wait()
