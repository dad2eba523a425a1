"""Agents that use the ids of their sessions again: in a later run, or for two sessions at once.

First the sessions of one run, with a scripted agent; then whole gateways.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from acp_server.apps.gateway.sessions import Sessions
from acp_server.client import RemoteSession, SessionTaken
from tests.client.talking import EVERYTHING, Scripted, talking

from .inside import Api, Counting, begin, ended, ids, say
from .serving import OTHER_TOKEN, PATIENCE, TOKEN
from .test_trust import Wayward, wayward

__all__ = ["wayward"]

pytestmark = pytest.mark.anyio

Opened = tuple[RemoteSession, str]


@asynccontextmanager
async def sessions(capabilities: dict[str, Any] = EVERYTHING) -> AsyncIterator[tuple[Sessions, Scripted]]:
    """The sessions of a run of an agent that gives them the ids 1, 2, ..."""
    async with talking(capabilities=capabilities) as (agent, peer):
        numbers = iter(range(1, 100))
        peer.answer("session/new", lambda _request: {"sessionId": str(next(numbers))})
        peer.answer("session/close", {})
        peer.answer("session/delete", {})
        peer.answer("session/resume", {})
        yield Sessions("bot", agent, "/project"), peer


class Running:
    """A call in a task of its own."""

    def __init__(self, call: Callable[..., Awaitable[Any]], *args: Any) -> None:
        self.result: Any = None
        self._over = anyio.Event()
        self._call = call
        self._args = args

    async def run(self) -> None:
        try:
            self.result = await self._call(*self._args)
        except SessionTaken as error:
            self.result = error
        self._over.set()

    async def wait(self) -> Any:
        await self._over.wait()
        return self.result


def asked(peer: Scripted) -> list[str]:
    """What the agent was asked for, and for which session."""
    sent = [message for message in peer.received if "method" in message][1:]
    return [
        f"{message['method'].removeprefix('session/')} {message['params'].get('sessionId', '')}" for message in sent
    ]


@pytest.mark.parametrize("agrees", [True, False])
async def test_a_new_session_with_the_id_of_one_that_is_being_taken_up_is_not_used(agrees: bool) -> None:
    async with sessions() as (mine, peer), anyio.create_task_group() as group:
        peer.leave_unanswered("session/resume")
        ada = Running(mine.find, "ada", "1")
        group.start_soon(ada.run)
        request = await peer.expect_request("session/resume")
        with pytest.raises(SessionTaken):
            await mine.open()
        assert asked(peer) == ["resume 1", "new ", "close 1"]
        bob, key = await mine.open()
        await (peer.respond(request, {}) if agrees else peer.refuse(request, -32002))
        assert await ada.wait() is None
        assert await mine.find(key, "2") is bob
        assert (await mine.open())[0].id == "3"


async def test_a_session_that_is_opened_first_and_answered_last_is_not_one_that_was_taken_up_meanwhile() -> None:
    async with sessions() as (mine, peer), anyio.create_task_group() as group:
        peer.leave_unanswered("session/new")
        bob = Running(mine.open)
        group.start_soon(bob.run)
        request = await peer.expect_request("session/new")
        assert await mine.find("ada", "1") is not None
        await peer.respond(request, {"sessionId": "1"})
        assert isinstance(await bob.wait(), SessionTaken)
        assert "close 1" not in asked(peer)
        # What the agent has of it may be another one by now, so it is told everything anew.
        assert await mine.find("ada", "1") is None


async def test_an_id_that_the_agent_gives_again_behind_the_close_of_its_session_means_none_any_more() -> None:
    async with sessions() as (mine, peer):
        old, key = await mine.open()
        assert mine.release(key) is old
        await mine.end(old, delete=False)
        peer.answer("session/new", {"sessionId": "1"})
        with pytest.raises(SessionTaken):
            await mine.open()
        assert await mine.find(key, "1") is None
        assert asked(peer) == ["new ", "close 1", "new ", "close 1"]


@pytest.mark.parametrize("first", ["deletion", "opening"])
async def test_a_new_session_with_the_id_of_one_that_is_being_deleted_is_not_used(first: str) -> None:
    async with sessions() as (mine, peer), anyio.create_task_group() as group:
        peer.leave_unanswered("session/delete")
        peer.leave_unanswered("session/new")
        deleting, opening = Running(mine.forget, "ada", "1"), Running(mine.open)
        if first == "deletion":
            group.start_soon(deleting.run)
            deletion = await peer.expect_request("session/delete")
            group.start_soon(opening.run)
            new = await peer.expect_request("session/new")
        else:
            group.start_soon(opening.run)
            new = await peer.expect_request("session/new")
            group.start_soon(deleting.run)
            deletion = await peer.expect_request("session/delete")
            await peer.respond(deletion, {})
            await deleting.wait()
        await peer.respond(new, {"sessionId": "1"})
        if first == "deletion":
            await peer.respond(deletion, {})
        assert isinstance(await opening.wait(), SessionTaken)


async def test_a_new_session_with_the_id_of_one_that_was_closed_to_be_deleted_is_not_used() -> None:
    async with sessions() as (mine, peer), anyio.create_task_group() as group:
        peer.leave_unanswered("session/delete")
        old, key = await mine.open()
        assert mine.release(key) is old
        ending = Running(mine.end, old)
        group.start_soon(ending.run)
        deletion = await peer.expect_request("session/delete")
        peer.answer("session/new", {"sessionId": "1"})
        with pytest.raises(SessionTaken):
            await mine.open()
        await peer.respond(deletion, {})
        await ending.wait()
        assert await mine.find(key, "1") is None


async def test_the_id_of_a_session_that_is_used_is_neither_taken_up_nor_deleted_for_somebody_else() -> None:
    async with sessions() as (mine, peer), anyio.create_task_group() as group:
        await mine.open()
        peer.leave_unanswered("session/resume")
        taking = Running(mine.find, "cleo", "7")
        group.start_soon(taking.run)
        request = await peer.expect_request("session/resume")
        for id in ("1", "7"):
            assert await mine.find("ada", id) is None
            await mine.forget("ada", id)
        await peer.respond(request, {})
        session = await taking.wait()
        assert await mine.find("cleo", "7") is session
        assert asked(peer) == ["new ", "resume 7"]


@pytest.mark.parametrize("capabilities", [{}, {"sessionCapabilities": {"delete": {}}}], ids=str)
async def test_an_agent_that_keeps_no_sessions_is_not_asked_for_those_of_earlier_runs(
    capabilities: dict[str, Any],
) -> None:
    async with sessions(capabilities) as (mine, peer):
        assert await mine.find("ada", "1") is None
        await mine.forget("ada", "1")
        assert asked(peer) == []


@pytest.mark.parametrize("what", ["resume", "delete"])
async def test_an_id_that_the_agent_has_never_answered_for_is_not_used(what: str) -> None:
    async with sessions() as (mine, peer):
        peer.leave_unanswered(f"session/{what}")
        async with anyio.create_task_group() as group:
            group.start_soon(mine.find if what == "resume" else mine.forget, "ada", "1")
            await peer.expect_request(f"session/{what}")
            group.cancel_scope.cancel()
        with pytest.raises(SessionTaken):
            await mine.open()


async def test_an_id_that_the_agent_does_not_know_may_be_given_to_a_new_session() -> None:
    async with sessions() as (mine, peer), anyio.create_task_group() as group:
        peer.leave_unanswered("session/resume")
        taking = Running(mine.find, "ada", "1")
        group.start_soon(taking.run)
        await peer.refuse(await peer.expect_request("session/resume"), -32002)
        assert await taking.wait() is None
        assert (await mine.open())[0].id == "1"


async def test_a_session_that_was_closed_while_it_was_idle_is_taken_up_again_in_the_same_run() -> None:
    async with sessions() as (mine, _peer):
        session, key = await mine.open()
        assert mine.release(key) is session
        await mine.end(session, delete=False)
        again = await mine.find(key, session.id)
        assert again is not None
        assert again is not session
        await mine.forget(key, session.id)
        assert await mine.find("ada", session.id) is None


async def test_only_so_many_ids_of_a_run_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_server.apps.gateway.sessions._USED", 2)
    async with sessions() as (mine, _peer):
        for _ in range(3):
            await mine.open()
        assert list(mine._used) == ["2", "3"]


async def test_a_session_that_cannot_be_ended_in_time_is_one_no_more() -> None:
    async with sessions() as (mine, peer):
        session, key = await mine.open()
        peer.leave_unanswered("session/close")
        mine.release(key)
        with anyio.move_on_after(0.01):
            await mine.end(session)
        assert session.agent.sessions == {}


async def test_an_agent_that_knows_one_id_only_gets_one_session() -> None:
    async with sessions() as (mine, peer):
        peer.answer("session/new", {"sessionId": "main"})
        session, key = await mine.open()
        with pytest.raises(SessionTaken):
            await mine.open()
        assert session.agent.sessions == {"main": session}
        assert await mine.find(key, "main") is None
        await mine.end(session)
        with pytest.raises(SessionTaken):
            await mine.open()


# Whole gateways


async def later(http: Any, agent: Wayward, text: str, token: str, line: str, **params: str) -> dict[str, Any]:
    """A chat that is begun, when the agent has been asked for this."""
    http.headers["Authorization"] = f"Bearer {token}"
    chat = (await begin(http, text, "1", None, **params))["data"]
    with anyio.fail_after(PATIENCE):
        while line not in agent.asked():  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.01)
    return chat


async def answer(http: Any, chat: dict[str, Any], token: str) -> str:
    http.headers["Authorization"] = f"Bearer {token}"
    chat = await ended(http, chat)
    assert chat["status"] == "completed"
    found = (await http.get("/v3/chat/message/list", params=ids(chat))).json()["data"]
    return next((message["content"] for message in found if message["type"] == "answer"), "")


@pytest.mark.parametrize("method", ["load", "resume"])
@pytest.mark.parametrize("agrees", [True, False])
async def test_nobody_loses_or_hears_anything_by_a_session_that_is_taken_up_when_its_id_is_given_to_another(
    api: Api, wayward: Wayward, method: str, agrees: bool
) -> None:
    capabilities = [method, "hold", *([] if agrees else ["refuse"])]
    async with api(agent=wayward.command(*capabilities)) as http:
        ada, _ = await say(http, "I am ada")
        await say(http, "die", OTHER_TOKEN)
        waiting = await later(http, wayward, "what is known?", TOKEN, f"session/{method} 1", conversation_id=ada)
        bob, heard = await say(http, "a secret", OTHER_TOKEN)
        # In another process: the first gave one id twice.
        assert heard == "[1] a secret"
        assert len(wayward.processes()) == 3
        wayward.answer_held()
        known = await answer(http, waiting, TOKEN)
        assert known.startswith("[2] Earlier in this conversation:\n\nuser: I am ada")
        assert "secret" not in known
        assert (await say(http, "more", OTHER_TOKEN, conversation_id=bob))[1] == "[1] a secret | more"
        waiting = await later(http, wayward, "more", TOKEN, f"session/{method} 2", conversation_id=ada)
        wayward.answer_held()
        again = await answer(http, waiting, TOKEN)
        assert again.startswith("[2] Earlier in this conversation:\n\nuser: I am ada")
        assert ("secret" in again, again == f"{known} | more") == (False, agrees)


async def test_nobody_loses_a_session_by_one_that_is_deleted_when_its_id_is_given_to_another(
    api: Api, wayward: Wayward
) -> None:
    async with api(agent=wayward.command("load", "delete", "hold")) as http:
        ada, _ = await say(http, "I am ada")
        await say(http, "die", OTHER_TOKEN)
        http.headers["Authorization"] = f"Bearer {TOKEN}"
        await http.delete(f"/v1/conversations/{ada}")
        with anyio.fail_after(PATIENCE):
            while "session/delete 1" not in wayward.asked():  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(0.01)
        bob, heard = await say(http, "a secret", OTHER_TOKEN)
        assert heard == "[1] a secret"
        wayward.answer_held()
        assert (await say(http, "go", OTHER_TOKEN, conversation_id=bob))[1] == "[1] a secret | go"
        assert (await say(http, "more", OTHER_TOKEN, conversation_id=bob))[1] == "[1] a secret | go | more"


@pytest.mark.parametrize("what", ["chats", "deletes"])
async def test_a_session_is_not_mistaken_for_one_of_two_runs_later(api: Api, agent: Counting, what: str) -> None:
    async with api(agent=agent.command("load", "delete")) as http:
        ada, _ = await say(http, "I am ada")
        await say(http, "die", OTHER_TOKEN)
        bob, _ = await say(http, "a secret", OTHER_TOKEN)
        await say(http, "die", OTHER_TOKEN)
        if what == "chats":
            _, known = await say(http, "what is known?", TOKEN, conversation_id=ada)
            assert known.startswith("[1] Earlier in this conversation:\n\nuser: I am ada")
        else:
            http.headers["Authorization"] = f"Bearer {TOKEN}"
            await http.delete(f"/v1/conversations/{ada}")
            await say(http, "more", OTHER_TOKEN, conversation_id=bob)
            assert "session/load 1" in agent.asked()
            assert agent.asked("session/delete") == []


async def test_an_agent_whose_sessions_are_all_one_has_one_for_each_conversation_all_the_same(
    api: Api, wayward: Wayward
) -> None:
    async with api(agent=wayward.command("one")) as http:
        ada, _ = await say(http, "I am ada")
        bob, heard = await say(http, "a secret", OTHER_TOKEN)
        assert heard == "[1] a secret"
        _, known = await say(http, "what is known?", TOKEN, conversation_id=ada)
        assert known.startswith("[1] Earlier in this conversation:\n\nuser: I am ada")
        assert "secret" not in known
        _, known = await say(http, "go on", OTHER_TOKEN, conversation_id=bob)
        assert "ada" not in known
        assert "user: a secret" in known
