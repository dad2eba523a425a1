"""Sessions that no chat uses: so many are kept open and no more, and nobody notices.

First the sessions of one run, with a scripted agent; then whole gateways.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server.apps.gateway.records import KnownSession
from acp_server.apps.gateway.sessions import SessionKeys, Sessions
from acp_server.client import RemoteSession
from tests.client.talking import EVERYTHING, Scripted, talking

from .inside import Api, Counting, begin, ended, say
from .serving import OTHER_TOKEN, PATIENCE, TOKEN
from .test_session_ids import asked

pytestmark = pytest.mark.anyio

HOUR = 3600.0
CLOSES = {"sessionCapabilities": {"close": {}, "delete": {}}}


@asynccontextmanager
async def tended(
    most: int = 100, idle_seconds: float = HOUR, capabilities: dict[str, Any] = EVERYTHING
) -> AsyncIterator[tuple[Sessions, Scripted]]:
    """The sessions of a run of an agent that gives them the ids 1, 2, ..."""
    async with talking(capabilities=capabilities) as (agent, peer), anyio.create_task_group() as group:
        numbers = iter(range(1, 100))
        peer.answer("session/new", lambda _request: {"sessionId": str(next(numbers))})
        for method in ("close", "delete", "resume"):
            peer.answer(f"session/{method}", {})
        mine = Sessions("bot", agent, "/project")
        group.start_soon(mine.tend, most, idle_seconds, HOUR)
        yield mine, peer
        group.cancel_scope.cancel()


async def rested(mine: Sessions, number: int) -> list[tuple[RemoteSession, str]]:
    """So many sessions, used one after the other."""
    opened = [await mine.open() for _ in range(number)]
    for _, key in opened:
        mine.rest(key)
    return opened


async def until(peer: Scripted, *lines: str) -> None:
    """Until this is all that the agent was asked for besides new sessions, in whichever order."""
    with anyio.fail_after(PATIENCE):
        while sorted(line for line in asked(peer) if line != "new ") != list(lines):
            await anyio.lowlevel.checkpoint()


async def known(session: RemoteSession, *ids: str) -> None:
    """Until these are the sessions that the client knows."""
    with anyio.fail_after(PATIENCE):
        while set(session.agent.sessions) != set(ids):
            await anyio.lowlevel.checkpoint()


async def test_the_sessions_used_least_lately_are_closed_when_there_are_too_many() -> None:
    async with tended(most=2) as (mine, peer):
        one, two, *_ = await rested(mine, 2)
        assert await mine.find(one[1], "1") is one[0]
        mine.rest(one[1])
        await rested(mine, 1)
        await until(peer, "close 2")
        await known(one[0], "1", "3")
        assert await mine.find(one[1], "1") is one[0]
        assert (await mine.find(two[1], "2")) is not two[0]
        await until(peer, "close 2", "resume 2")


async def test_a_session_that_no_chat_has_used_for_a_time_is_closed() -> None:
    async with tended(idle_seconds=0.01) as (mine, peer):
        await rested(mine, 2)
        await until(peer, "close 1", "close 2")


async def test_a_session_that_a_chat_uses_is_not_closed() -> None:
    async with tended(most=0) as (mine, peer):
        used, key = await mine.open()
        await rested(mine, 1)
        await until(peer, "close 2")
        assert await mine.find(key, "1") is used


async def test_what_an_agent_cannot_take_up_again_is_deleted_too() -> None:
    async with tended(most=0, capabilities=CLOSES) as (mine, peer):
        ((session, key),) = await rested(mine, 1)
        await until(peer, "close 1", "delete 1")
        assert await mine.find(key, "1") is None
        await known(session)


async def test_a_session_that_is_wanted_while_it_is_being_closed_is_opened_anew() -> None:
    async with tended(most=0) as (mine, peer):
        peer.leave_unanswered("session/close")
        ((_, key),) = await rested(mine, 1)
        await peer.expect_request("session/close")
        assert await mine.find(key, "1") is None
        assert (await mine.open())[0].id == "2"


# Whole gateways


@pytest.mark.parametrize(
    ("capabilities", "again"),
    [
        (["close", "load"], "[1] one | two"),
        (["close"], "[2] Earlier in this conversation:\n\nuser: one\n\nassistant: [1] one\n\n"),
        ([], "[2] Earlier in this conversation:\n\nuser: one\n\nassistant: [1] one\n\n"),
    ],
    ids=str,
)
async def test_a_conversation_goes_on_when_its_session_was_let_go(
    api: Api, agent: Counting, capabilities: list[str], again: str
) -> None:
    async with api(agent=agent.command(*capabilities), idle_sessions=0) as http:
        conversation, _ = await say(http, "one")
        if "close" in capabilities:
            await agent.until("session/close 1")
        assert (await say(http, "two", conversation_id=conversation))[1].startswith(again)


async def test_a_chat_that_waits_for_tool_outputs_keeps_its_session(api: Api) -> None:
    async with api(idle_sessions=0) as http:
        chat = await ended(http, (await begin(http, "ask files"))["data"])
        for _ in range(3):
            await say(http, "echo x")
        (call,) = chat["required_action"]["submit_tool_outputs"]["tool_calls"]
        params = {"conversation_id": chat["conversation_id"], "chat_id": chat["id"]}
        body = {"tool_outputs": [{"tool_call_id": call["id"], "output": "yes"}]}
        await http.post("/v3/chat/submit_tool_outputs", params=params, json=body)
        again = (await http.get("/v3/chat/retrieve", params=params)).json()["data"]
        assert (await ended(http, again))["status"] == "completed"


async def test_nobody_gets_a_session_that_was_let_go_by_the_id_that_another_had_before(
    api: Api, agent: Counting, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"agent": agent.command("load", "close"), "store": tmp_path / "store", "idle_sessions": 0}
    async with api(**options) as http:
        ada, _ = await say(http, "I am ada")
    async with api(**options) as http:
        bob, heard = await say(http, "a secret", OTHER_TOKEN)
        assert heard == "[1] a secret"
        await agent.until("session/prompt 1", "session/close 1")
        _, known = await say(http, "what is known?", TOKEN, conversation_id=ada)
        assert "secret" not in known
        assert (await say(http, "go on", OTHER_TOKEN, conversation_id=bob))[1] == "[1] a secret | go on"


def test_a_bot_that_cannot_remember_whose_an_id_was_believes_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_server.apps.gateway.sessions._KEYS", 2)
    keys = SessionKeys()
    earlier = KnownSession("1", "1", "of an earlier run")
    assert keys.is_last(earlier)
    for id in ("1", "2", "3"):
        keys.add(id, f"key {id}")
    assert not keys.is_last(earlier)
    assert not keys.is_last(KnownSession("1", "1", "key 1"))
    assert keys.is_last(KnownSession("1", "3", "key 3"))
    assert len(keys._keys) == 2


def test_an_id_stays_that_of_the_session_that_had_it_last_when_an_earlier_one_is_given_up() -> None:
    keys = SessionKeys()
    earlier, later = KnownSession("1", "1", "earlier"), KnownSession("1", "1", "later")
    for known in (earlier, later):
        keys.add(known.id, known.key)
    keys.remove(earlier.id, earlier.key)
    assert not keys.is_last(earlier)
    assert keys.is_last(later)
