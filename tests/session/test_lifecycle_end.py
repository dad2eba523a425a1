"""Listing, closing and deleting sessions."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server import Limits, Session, SessionClosed, schema
from acp_server.errors import INVALID_PARAMS, REQUEST_CANCELLED, RESOURCE_NOT_FOUND
from tests.session.agents import talker
from tests.session.editor import CANCELLED, QUICK, editing
from tests.store.stores import TestStore

pytestmark = pytest.mark.anyio


async def test_sessions_are_listed_with_the_one_used_last_first_and_page_by_page() -> None:
    agent, sessions = talker(TestStore(page_size=2))
    async with editing(agent) as editor:
        ids = [await editor.open(cwd) for cwd in ("/a", "/b", "/a", "/b", "/a")]
        await sessions[0].set_title("the first")
        page = await editor.client.result("session/list", {})
        assert page["sessions"][0]["title"] == "the first"
        assert page["sessions"][0]["updatedAt"].endswith("Z")
        found = [entry["sessionId"] for entry in page["sessions"]]
        while "nextCursor" in page:
            assert len(page["sessions"]) == 2
            page = await editor.client.result("session/list", {"cursor": page["nextCursor"]})
            found += [entry["sessionId"] for entry in page["sessions"]]
        assert found == [ids[0], *reversed(ids[1:])]
        page = await editor.client.result("session/list", {"cwd": "/b"})
        assert [entry["sessionId"] for entry in page["sessions"]] == [ids[3], ids[1]]
        assert "nextCursor" not in page
        assert (await editor.client.result("session/list", {"cwd": "/nowhere"})) == {"sessions": []}


async def test_a_title_that_is_taken_away_is_cleared_for_the_client() -> None:
    agent, sessions = talker()
    async with editing(agent) as editor:
        await editor.open()
        await sessions[0].set_title("a")
        await sessions[0].set_title(None)
        page = await editor.client.result("session/list", {})
        assert "title" not in page["sessions"][0]
        assert [update["title"] for update in editor.client.updates() if "title" in update] == ["a", None]


@pytest.mark.parametrize("cursor", ["", "x", "!!!!", "ä", "YQ==", "YQpi", "bmFuCng=", 7, {}])
async def test_a_cursor_that_we_never_gave_is_refused(cursor: Any) -> None:
    agent, _ = talker()
    async with editing(agent) as editor:
        await editor.open()
        assert (await editor.refusal("session/list", {"cursor": cursor}))["code"] == INVALID_PARAMS


# session/close and delete


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
@pytest.mark.behaviour("F18", "F19", "K6")
async def test_ending_a_session_cancels_its_turn_frees_it_and_then_answers(method: str) -> None:
    store = TestStore()
    agent, sessions = talker(store)
    async with editing(agent) as editor:
        session = await editor.open()
        order: list[str] = []
        sessions[0].on_close(lambda: order.append("first opened"))
        sessions[0].on_close(lambda: order.append("last opened"))
        id = await editor.prompt(session, "hang")
        await editor.client.expect(lambda message: "re: hang" in str(message))
        ended = await editor.client.request(method, {"sessionId": session})
        assert await editor.answer(ended) == {}
        assert await editor.answer(id) == CANCELLED
        assert [message["id"] for message in editor.client.received[-2:]] == [id, ended]
        assert order == ["last opened", "first opened"]
        assert (session in store.ids) is (method == "session/close")
        # Nothing more of it, in either direction.
        with pytest.raises(SessionClosed):
            await sessions[0].set_commands([])
        for refused in (
            await editor.ask(session),
            await editor.answer(await editor.client.request("session/prompt", {"sessionId": session, "prompt": []})),
        ):
            assert refused["code"] == RESOURCE_NOT_FOUND
        await editor.cancel(session)
        assert await editor.client.result(method, {"sessionId": session}) == {}
        assert not editor.connection.tree.size


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
@pytest.mark.behaviour("F19", "F20")
async def test_ending_an_unknown_session_succeeds_and_malformed_parameters_do_not(method: str) -> None:
    agent, _ = talker()
    async with editing(agent) as editor:
        assert await editor.client.result(method, {"sessionId": "nobody"}) == {}
        assert (await editor.refusal(method, {"sessionId": 7}))["code"] == INVALID_PARAMS
        assert (await editor.refusal(method))["code"] == INVALID_PARAMS


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
@pytest.mark.behaviour("F18", "F22")
async def test_a_turn_that_outstays_and_one_that_waits_behind_it_are_answered_before_the_close(method: str) -> None:
    store = TestStore()
    agent, sessions = talker(store)
    async with editing(agent, QUICK) as editor:
        session = await editor.open()
        sessions[0].data = through = anyio.Event()
        first = await editor.prompt(session, "outstay")
        await editor.client.expect(lambda message: "re: outstay" in str(message))
        await editor.cancel(session)
        waiting = await editor.prompt(session, "waits")
        await editor.settled()
        ended = await editor.client.request(method, {"sessionId": session})
        assert await editor.answer(ended) == {}
        assert [message["id"] for message in editor.client.received[-3:]] == [waiting, first, ended]
        assert await editor.answer(first) == await editor.answer(waiting) == CANCELLED
        through.set()
        await anyio.wait_all_tasks_blocked()
        # What came of it late does not bring a deleted session back.
        assert (session in store.ids) is (method == "session/close")


@pytest.mark.behaviour("F18", "F22")
async def test_the_turn_is_answered_before_the_close_also_if_the_time_of_both_is_over_at_once() -> None:
    agent, sessions = talker()
    async with editing(agent, Limits(grace=0, drain=0.05)) as editor:
        for _ in range(10):
            session = await editor.open()
            sessions[-1].data = through = anyio.Event()
            id = await editor.prompt(session, "outstay")
            await editor.client.expect(lambda message: "re: outstay" in str(message))
            ended = await editor.client.request("session/close", {"sessionId": session})
            assert await editor.answer(ended) == {}
            assert [message["id"] for message in editor.client.received[-2:]] == [id, ended]
            through.set()


@pytest.mark.behaviour("K6", "D6")
async def test_every_closer_is_called_whatever_the_others_do(caplog: pytest.LogCaptureFixture) -> None:
    agent, sessions = talker()
    called: list[str] = []

    async def waits() -> None:
        await anyio.lowlevel.checkpoint()
        called.append("waits")

    def fails() -> None:
        called.append("fails")
        raise ValueError("of the closer")

    async def hangs() -> None:
        called.append("hangs")
        await anyio.sleep_forever()

    async with editing(agent, QUICK) as editor:
        session = await editor.open()
        sessions[0].on_close(lambda: called.append("plain"))
        for closer in (hangs, fails, waits):
            sessions[0].on_close(closer)
        assert await editor.client.result("session/close", {"sessionId": session}) == {}
        assert called == ["waits", "fails", "hangs", "plain"]
    assert "ValueError: of the closer" in caplog.text
    assert "was cut short" in caplog.text


@pytest.mark.behaviour("K6")
async def test_the_end_of_the_connection_closes_all_sessions_at_once() -> None:
    agent, sessions = talker()
    closed: list[str] = []

    async def hangs() -> None:
        await anyio.sleep_forever()

    with anyio.fail_after(2):
        async with editing(agent, Limits(grace=0.3, drain=0.05)) as editor:
            for _ in range(10):
                await editor.open()
            for session in sessions:
                session.on_close(lambda: closed.append("closed"))
                session.on_close(hangs)
    assert len(closed) == 10


@pytest.mark.behaviour("K6")
async def test_a_closed_session_is_forgotten_by_its_connection() -> None:
    agent, sessions = talker()
    async with editing(agent) as editor:
        for _ in range(3):
            session = await editor.open()
            await editor.ask(session)
            await editor.client.ask("session/close", {"sessionId": session})
        await editor.client.ask("session/delete", {"sessionId": "one that never was"})
        (side,) = agent._sides.values()
        assert not side.lifecycle.sessions
        assert not side.lifecycle._locks
        assert not side.lifecycle._pending
        assert not any(session.turns for session in sessions)
    assert not agent._sides


@pytest.mark.parametrize("by", ["session/close", "session/delete", "session/list", "session/set_mode"])
@pytest.mark.behaviour("B18")
async def test_the_other_session_methods_can_be_cancelled_too(by: str) -> None:
    hung = anyio.Event()

    class Hangs(TestStore):
        async def list(self, cwd: str | None, cursor: str | None) -> Any:
            hung.set()
            await anyio.sleep_forever()

        async def delete(self, session_id: str) -> None:
            hung.set()
            await anyio.sleep_forever()

    agent, sessions = talker(Hangs())
    agent.modes(schema.SessionMode(id="a", name="A"))

    @agent.set_mode
    async def set_mode(session: Session, mode: str) -> None:
        hung.set()
        await anyio.sleep_forever()

    async def hangs() -> None:
        hung.set()
        await released.wait()

    released = anyio.Event()
    async with editing(agent) as editor:
        session = await editor.open()
        sessions[0].on_close(hangs)
        id = await editor.client.request(by, {"sessionId": session, "modeId": "a"})
        await hung.wait()
        await editor.withdraw(id)
        await editor.settled()
        released.set()
        # Half a closed session would be none, so closing goes on to its end.
        assert await editor.answer(id) == (
            {} if by == "session/close" else {"code": REQUEST_CANCELLED, "message": "Request cancelled"}
        )
        if by == "session/set_mode":
            assert sessions[0].mode == "a"


async def test_what_a_handler_leaves_to_a_session_that_has_let_go_of_all_is_refused() -> None:
    agent, sessions = talker()
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.client.ask("session/close", {"sessionId": session})
        with pytest.raises(SessionClosed):
            sessions[0].on_close(lambda: None)
