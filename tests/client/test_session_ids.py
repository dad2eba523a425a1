"""Agents that use an id twice: what it means at each moment, and that nothing reaches the wrong session by it."""

import anyio
import pytest

from acp_server.client import RemoteAgent, RemoteSession, SessionTaken
from acp_server.client.session import LiveSession
from acp_server.client.turn import LiveTurn
from acp_server.errors import RpcError
from acp_server.schema import SessionUpdate
from tests.client.talking import EVERYTHING, SESSION, Scripted, said, talking, text

pytestmark = pytest.mark.anyio


class TakingUp:
    """A session that somebody takes up, in a task of its own."""

    def __init__(self, agent: RemoteAgent, method: str, id: str = SESSION) -> None:
        self.seen: list[SessionUpdate] = []
        self.session: RemoteSession | None = None
        self.error: Exception | None = None
        self.over = anyio.Event()
        self._call = getattr(agent, f"{method}_session")
        self._id = id

    async def run(self) -> None:
        try:
            self.session = await self._call(self._id, "/project", on_update=self.seen.append)
        except (RpcError, SessionTaken) as error:
            self.error = error
        self.over.set()


async def test_a_session_whose_id_is_given_away_while_its_first_updates_are_handled_is_not_opened() -> None:
    async with talking() as (agent, peer):
        peer.leave_unanswered("session/new")
        hearing, go_on = anyio.Event(), anyio.Event()

        async def hear(_update: SessionUpdate) -> None:
            hearing.set()
            await go_on.wait()

        async def open_first() -> None:
            with pytest.raises(SessionTaken):
                await agent.new_session("/first", on_update=hear)

        async with anyio.create_task_group() as group:
            group.start_soon(open_first)
            request = await peer.expect_request("session/new")
            await peer.update(said("early"))
            await peer.respond(request, {"sessionId": SESSION})
            await hearing.wait()
            peer.answer("session/new", {"sessionId": SESSION})
            second = await agent.new_session("/second")
            go_on.set()
        assert agent.sessions == {SESSION: second}


async def prompted(session: RemoteSession, peer: Scripted, word: str) -> list[str]:
    """What a turn of the session hears."""
    async with session.prompt("hello") as turn:
        prompt = await peer.expect_request("session/prompt")
        await peer.update(said(word))
        await peer.finish(prompt)
        return [text(update) async for update in turn]


@pytest.mark.parametrize("method", ["load", "resume"])
@pytest.mark.parametrize("agrees", [True, False])
async def test_an_id_that_is_given_to_a_new_session_is_not_that_of_one_being_taken_up(
    method: str, agrees: bool
) -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer), anyio.create_task_group() as group:
        old = TakingUp(agent, method)
        group.start_soon(old.run)
        request = await peer.expect_request(f"session/{method}")
        new = await agent.new_session("/project")
        await peer.update(said("of the new one"))
        await (peer.respond(request, {}) if agrees else peer.refuse(request, -32050))
        await old.over.wait()
        assert (type(old.error), old.session) == (SessionTaken if agrees else RpcError, None)
        assert old.seen == []
        assert agent.sessions == {SESSION: new}
        assert await prompted(new, peer, "still heard") == ["still heard"]


async def test_a_session_gets_its_history_while_another_is_being_opened() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer), anyio.create_task_group() as group:
        peer.leave_unanswered("session/new")
        old = TakingUp(agent, "load", "old")
        group.start_soon(agent.new_session, "/project")
        new = await peer.expect_request("session/new")
        group.start_soon(old.run)
        request = await peer.expect_request("session/load")
        await peer.update(said("one"), session="old")
        await peer.respond(request, {})
        await peer.respond(new, {"sessionId": SESSION})
        await old.over.wait()
        assert [text(update) for update in old.seen] == ["one"]


@pytest.mark.parametrize("agrees", [True, False])
async def test_of_two_who_take_up_one_session_the_first_does_not_get_it(agrees: bool) -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer), anyio.create_task_group() as group:
        both = [TakingUp(agent, "load"), TakingUp(agent, "load")]
        requests = []
        for one in both:
            group.start_soon(one.run)
            requests.append(await peer.expect_request("session/load"))
        await peer.update(said("history"))
        await (peer.respond(requests[0], {}) if agrees else peer.refuse(requests[0], -32050))
        await both[0].over.wait()
        assert agent.knows(SESSION)
        await peer.respond(requests[1], {})
        await both[1].over.wait()
        assert type(both[0].error) is (SessionTaken if agrees else RpcError)
        assert agent.sessions == {SESSION: both[1].session}
        assert [len(one.seen) for one in both] == [0, 1]
    assert not agent.knows("other")


async def test_the_id_of_an_open_session_is_refused_for_a_new_one() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer):
        session = await agent.new_session("/project")
        with pytest.raises(SessionTaken):
            await agent.new_session("/project")
        assert agent.sessions == {SESSION: session}
        assert await prompted(session, peer, "mine") == ["mine"]


@pytest.mark.parametrize("method", ["close", "delete"])
@pytest.mark.parametrize("answered", ["before", "after", "refused"])
async def test_a_new_session_may_have_the_id_of_one_that_is_being_ended(method: str, answered: str) -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer), anyio.create_task_group() as group:
        old = await agent.new_session("/project")

        async def end() -> None:
            try:
                await getattr(old, method)()
            except RpcError:
                assert answered == "refused"

        group.start_soon(end)
        request = await peer.expect_request(f"session/{method}")
        if answered == "before":
            await peer.respond(request, {})
        new = await agent.new_session("/project")
        if answered == "after":
            await peer.respond(request, {})
        elif answered == "refused":
            await peer.refuse(request, -32050)
        await peer.barrier()
        assert agent.sessions == {SESSION: new}
        assert await prompted(new, peer, "still heard") == ["still heard"]


async def test_the_deletion_of_an_id_from_earlier_does_not_remove_the_session_that_has_it_by_then() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer), anyio.create_task_group() as group:
        for method in ("close", "delete"):
            group.start_soon(getattr(agent, f"{method}_session"), "old")
            request = await peer.expect_request(f"session/{method}")
            peer.answer("session/new", {"sessionId": "old"})
            new = await agent.new_session("/project")
            await peer.respond(request, {})
            await peer.barrier()
            assert agent.sessions == {"old": new}
            new.ending = True  # So that the agent may use it once more.


async def test_a_session_that_cannot_be_ended_keeps_its_id() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer):
        session = await agent.new_session("/project")
        for method in ("close", "delete"):
            async with anyio.create_task_group() as group:

                async def end(method: str = method) -> None:
                    with pytest.raises(RpcError):
                        await getattr(session, method)()

                group.start_soon(end)
                await peer.refuse(await peer.expect_request(f"session/{method}"), -32050)
        with pytest.raises(SessionTaken):
            await agent.new_session("/project")
        assert agent.sessions == {SESSION: session}


async def test_nothing_is_sent_for_a_session_whose_id_means_another_one() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer):
        peer.answer("session/close", {})
        old = await agent.new_session("/project")
        async with old.prompt("hello") as turn:
            await peer.expect_request("session/prompt")
            old.ending = True
            new = await agent.new_session("/project")
            asked = [message for message in peer.received if "method" in message]
            turn.cancel()
            await old.close()
            await old.delete()
            for call in (lambda: old.set_mode("code"), lambda: old.set_config_option("a", "b")):
                with pytest.raises(SessionTaken):
                    await call()
            turn.over.set()
            with pytest.raises(SessionTaken):
                await old.run("hello")
            await peer.barrier()
            assert [message for message in peer.received if "method" in message] == asked
        assert agent.sessions == {SESSION: new}


async def test_a_late_session_that_has_the_id_of_an_open_one_is_not_closed() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer):
        session = await agent.new_session("/project")
        peer.leave_unanswered("session/new")
        await peer.expect_request("session/new")
        async with anyio.create_task_group() as group:
            group.start_soon(agent.new_session, "/project")
            late = await peer.expect_request("session/new")
            group.cancel_scope.cancel()
        await peer.respond(late, {"sessionId": SESSION})
        assert await prompted(session, peer, "still heard") == ["still heard"]
        assert not peer.all("session/close")


async def test_a_late_session_that_has_the_id_of_one_being_taken_up_is_closed_and_the_other_refused() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer), anyio.create_task_group() as group:
        peer.leave_unanswered("session/new")
        async with anyio.create_task_group() as unwanted:
            unwanted.start_soon(agent.new_session, "/project")
            late = await peer.expect_request("session/new")
            unwanted.cancel_scope.cancel()
        old = TakingUp(agent, "resume")
        group.start_soon(old.run)
        request = await peer.expect_request("session/resume")
        await peer.respond(late, {"sessionId": SESSION})
        await peer.respond(await peer.expect_request("session/close"), {})
        await peer.respond(request, {})
        await old.over.wait()
        assert type(old.error) is SessionTaken
        assert agent.sessions == {}


async def test_a_turn_that_is_withdrawn_before_its_prompt_was_sent_is_over() -> None:
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")
        with anyio.CancelScope() as scope:
            turn = session.prompt("hello")
            assert isinstance(session, LiveSession)
            assert isinstance(turn, LiveTurn)
            await session.begin(turn)
            turn._withdraw()
            scope.cancel()
        with anyio.fail_after(1):
            await turn.over.wait()
        assert session.turn is None
        assert not peer.all("session/prompt")
