"""A prompt on version 2: answered when its work begins, over at the `idle` that is behind its message."""

from typing import Any

import anyio
import pytest

from acp_server.client import AgentExited, RemoteTurn
from acp_server.client.v2 import foreground
from acp_server.errors import ConnectionClosed, MalformedResponse, RpcError
from tests.client.v2.talking import idle, prompted_2, said, state, talking_2, whole

pytestmark = pytest.mark.anyio

ECHO = whole("hello", message="u1", by="user_message")


async def shown(turn: RemoteTurn) -> list[Any]:
    return [update.to_wire() async for update in turn]


async def test_idle_ends_the_turn_with_its_reason_and_the_echo_is_not_shown() -> None:
    async with prompted_2() as (_, peer, turn, prompt):
        await peer.update(ECHO)
        await peer.respond(prompt, {"messageId": "u1"})
        await peer.update(state("running"), said("hi"), idle("max_tokens"))
        assert await shown(turn) == [state("running"), said("hi"), idle("max_tokens")]
        assert turn.result.to_wire() == {"stopReason": "max_tokens", "messageId": "u1"}


async def test_an_answer_behind_the_end_of_its_work_is_enough() -> None:
    async with prompted_2() as (_, peer, turn, prompt):
        await peer.update(state("running"), ECHO, said("hi"), idle())
        await peer.respond(prompt, {"messageId": "u1"})
        assert (await turn.wait()).stop_reason == "end_turn"


async def test_an_agent_that_does_not_echo_is_understood() -> None:
    async with prompted_2() as (_, peer, turn, prompt):
        await peer.update(state("running"), said("hi"), idle())
        await peer.respond(prompt, {"messageId": "u1"})
        assert (await turn.wait()).stop_reason == "end_turn"


async def test_the_end_of_earlier_work_does_not_end_the_turn() -> None:
    async with talking_2() as (agent, peer):
        session = await agent.new_session("/project")
        await peer.update(state("running"))
        await peer.barrier()
        async with session.prompt("hello") as turn:
            prompt = await peer.expect_request("session/prompt")
            await peer.update(idle("refusal"), ECHO)
            await peer.respond(prompt, {"messageId": "u1"})
            await peer.update(idle("refusal", background=[]), state("running"))
            await peer.barrier()
            with pytest.raises(Exception, match="has no response yet"):
                _ = turn.result
            await peer.update(idle())
            assert (await turn.wait()).stop_reason == "end_turn"


async def test_work_that_began_by_itself_while_the_prompt_was_held_does_not_end_it() -> None:
    async with prompted_2() as (_, peer, turn, prompt):
        await peer.update(state("running"), idle("refusal"), ECHO)
        await peer.respond(prompt, {"messageId": "u1"})
        await peer.update(state("running"), idle())
        assert (await turn.wait()).stop_reason == "end_turn"


@pytest.mark.parametrize("is_answered", [True, False])
async def test_an_agent_that_only_ever_says_idle_has_some_time_to_begin_and_then_the_turn_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_answered: bool
) -> None:
    monkeypatch.setattr(foreground, "BEGIN_SECONDS", 0.01)
    async with prompted_2() as (_, peer, turn, prompt):
        if is_answered:
            await peer.respond(prompt, {"messageId": "u1"})
        await peer.update(said("hi"), idle("max_tokens"))
        if not is_answered:
            await peer.respond(prompt, {"messageId": "u1"})
        with anyio.fail_after(5):
            assert await shown(turn) == [said("hi"), idle("max_tokens")]
        assert turn.stop_reason == "max_tokens"
    assert "without having reported running" in caplog.text


async def test_an_agent_that_begins_in_time_may_work_for_as_long_as_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreground, "BEGIN_SECONDS", 0.0)
    async with prompted_2() as (_, peer, turn, prompt):
        await peer.update(idle("refusal"), state("running"))
        await peer.respond(prompt, {"messageId": "u1"})
        await peer.barrier()
        await anyio.wait_all_tasks_blocked()
        await peer.update(said("hi"), idle())
        assert (await turn.wait()).stop_reason == "end_turn"


async def test_an_agent_that_reports_no_state_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreground, "BEGIN_SECONDS", 0.0)
    async with prompted_2() as (session, peer, turn, prompt):
        await peer.respond(prompt, {"messageId": "u1"})
        await peer.update(said("hi"))
        await peer.barrier()
        await anyio.wait_all_tasks_blocked()
        assert session.turn is turn
        turn.cancel()
        await peer.update(idle("cancelled"))
        assert (await turn.wait()).stop_reason == "cancelled"


@pytest.mark.parametrize(("name", "is_over"), [("requires_action", False), ("_dreaming", False), ("idle", True)])
async def test_only_idle_is_idle(name: str, is_over: bool) -> None:
    async with prompted_2() as (session, peer, turn, prompt):
        await peer.respond(prompt, {"messageId": "u1"})
        await peer.update(state("running"), state(name))
        await peer.barrier()
        await anyio.wait_all_tasks_blocked()
        assert (session.turn is None) == is_over
        await peer.update(idle())
        await turn.wait()


async def test_work_that_fails_raises_as_an_error_answer_does() -> None:
    async with prompted_2() as (_, peer, turn, prompt):
        await peer.respond(prompt, {"messageId": "u1"})
        error = {"code": -32000, "message": "log in", "data": {"a": 1}}
        await peer.update(state("running"), idle("error", error=error))
        with pytest.raises(RpcError, match="log in") as raised:
            await turn.wait()
        assert (raised.value.code, raised.value.data, raised.value.received) == (-32000, {"a": 1}, True)


async def test_a_prompt_that_is_refused_raises_its_error_and_the_next_one_is_sent() -> None:
    async with prompted_2() as (session, peer, turn, prompt):
        await peer.refuse(prompt, -32602, "no")
        with pytest.raises(RpcError, match="no"):
            await turn.wait()
        async with session.prompt("again") as turn:
            await peer.respond(await peer.expect_request("session/prompt"), {"messageId": "u2"})
            await peer.update(state("running"), idle())
            assert (await turn.wait()).stop_reason == "end_turn"


async def test_behind_an_answer_that_cannot_be_read_what_the_user_says_elsewhere_is_shown() -> None:
    shown: list[Any] = []
    async with prompted_2() as (session, peer, turn, prompt):
        session.on_update = lambda update: shown.append(update.to_wire())
        await peer.respond(prompt, {"messageId": 5})
        with pytest.raises(MalformedResponse):
            await turn.wait()
        await peer.update(whole("from another client", message="u2", by="user_message"))
        await peer.barrier()
        assert [update["content"]["text"] for update in shown] == ["from another client"]


async def test_a_cancel_is_confirmed_by_idle_and_what_was_said_before_is_shown() -> None:
    async with prompted_2() as (_, peer, turn, prompt):
        await peer.respond(prompt, {"messageId": "u1"})
        await peer.update(state("running"), said("hi"))
        assert (await anext(turn)).to_wire() == state("running")
        turn.cancel()
        await peer.expect("session/cancel")
        await peer.update(said("bye"), idle("cancelled"))
        assert await shown(turn) == [said("hi"), said("bye"), idle("cancelled")]
        assert turn.stop_reason == "cancelled"
        assert peer.all("$/cancel_request") == []


async def test_a_cancelled_prompt_that_was_never_put_in_is_cancelled() -> None:
    async with prompted_2() as (_, peer, turn, prompt):
        turn.cancel()
        await peer.expect("session/cancel")
        await peer.refuse(prompt, -32800)
        assert (await turn.wait()).stop_reason == "cancelled"


@pytest.mark.parametrize("is_answered", [False, True])
async def test_a_caller_who_is_cancelled_goes_at_once_and_the_next_prompt_waits_for_idle(is_answered: bool) -> None:
    async with talking_2() as (agent, peer):
        session = await agent.new_session("/project")
        with anyio.CancelScope() as scope:
            async with session.prompt("hello") as turn:
                prompt = await peer.expect_request("session/prompt")
                if is_answered:
                    await peer.respond(prompt, {"messageId": "u1"})
                await peer.update(state("running"))
                await anext(turn)
                await peer.barrier()
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        await peer.expect("session/cancel")
        if not is_answered:
            await peer.expect("$/cancel_request")
            await peer.respond(prompt, {"messageId": "u1"})

        async def go_on() -> None:
            async with session.prompt("again") as again:
                assert again.session is session

        async with anyio.create_task_group() as group:
            group.start_soon(go_on)
            await peer.barrier()
            await anyio.wait_all_tasks_blocked()
            assert len(peer.all("session/prompt")) == 1
            await peer.update(idle("cancelled"))
            await peer.refuse(await peer.expect_request("session/prompt"), -32800)


async def test_the_loss_of_the_agent_between_the_answer_and_idle_is_raised() -> None:
    async with prompted_2() as (_, peer, turn, prompt):
        await peer.respond(prompt, {"messageId": "u1"})
        await peer.update(state("running"))
        await anext(turn)
        await peer.barrier()
        peer.stream.send_eof()
        with pytest.raises(ConnectionClosed, match="session/prompt") as lost:
            await turn.wait()
        assert not isinstance(lost.value, AgentExited)


async def test_closing_a_session_in_the_middle_of_its_work_ends_the_turn() -> None:
    async with prompted_2() as (session, peer, turn, prompt):
        await peer.respond(prompt, {"messageId": "u1"})
        await peer.update(state("running"))
        await anext(turn)

        async with anyio.create_task_group() as group:
            group.start_soon(session.close)
            close = await peer.expect_request("session/close")
            await peer.update(idle("cancelled"))
            await peer.respond(close, {})
        assert (await turn.wait()).stop_reason == "cancelled"


async def test_a_flood_of_messages_of_the_user_does_not_hide_the_echo_of_the_prompt() -> None:
    async with prompted_2() as (_, peer, turn, prompt):
        await peer.update(ECHO, *(said("x", f"m{number}", "user_message") for number in range(200)))
        await peer.update(state("running"), idle())
        await peer.respond(prompt, {"messageId": "u1"})
        assert (await turn.wait()).stop_reason == "end_turn"
