"""The whole of what an agent answers, and sessions that are opened by other requests than the protocol's."""

from typing import Any

import anyio
import pytest

from acp_server.client import RemoteSession
from acp_server.errors import MalformedResponse, SessionTaken, UsageError
from acp_server.schema import SessionUpdate
from tests.client.talking import EVERYTHING, SESSION, said, talking, text
from tests.client.test_sessions import MODES

pytestmark = pytest.mark.anyio

MORE = {"_meta": {"trust": "full"}, "models": {"currentModelId": "m"}}


async def test_a_session_keeps_the_whole_answer_that_opened_it() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer):
        peer.answer("session/new", {"sessionId": SESSION, **MORE})
        peer.answer("session/load", MORE)
        peer.answer("session/resume", MORE)
        sessions = [
            await agent.new_session("/project"),
            await agent.load_session("a", "/project"),
            await agent.resume_session("b", "/project"),
        ]
        for session in sessions:
            assert session.response.meta == {"trust": "full"}
            assert session.response.model_extra == {"models": {"currentModelId": "m"}}


async def test_while_a_history_is_told_there_is_no_answer_yet() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer):
        heard: list[str] = []

        def on_update(session: RemoteSession, _update: SessionUpdate) -> None:
            with pytest.raises(UsageError, match="not open yet"):
                assert session.response
            heard.append(session.id)

        async def serve() -> None:
            request = await peer.expect_request("session/load")
            await peer.update(said("history"), session="old")
            await peer.respond(request, {})

        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            await agent.load_session("old", "/project", on_update=on_update)
        assert heard == ["old"]


async def test_every_answer_comes_back_with_its_meta_and_every_request_may_carry_some() -> None:
    meta = {"asked": 1}
    async with talking(capabilities=EVERYTHING) as (agent, peer):
        methods = ["authenticate", "logout", "session/list", "session/set_mode", "session/close", "session/delete"]
        for method in methods:
            peer.answer(method, {"sessions": [], **MORE} if method == "session/list" else MORE)
        session = await agent.new_session("/project", meta=meta)
        answers: list[Any] = [
            await agent.authenticate("key", meta=meta),
            await agent.logout(meta=meta),
            await agent.list_sessions(meta=meta),
            await session.set_mode("ask", meta=meta),
            await session.close(meta=meta),
            await session.delete(meta=meta),
        ]
        for method, answer in zip(methods, answers, strict=True):
            assert (answer.meta, answer.model_extra) == (MORE["_meta"], {"models": MORE["models"]})
            assert peer.all(method)[0]["params"]["_meta"] == meta


async def test_a_turn_keeps_what_its_prompt_is_answered_with() -> None:
    async with talking() as (agent, peer):
        usage = {"totalTokens": 5, "inputTokens": 4, "outputTokens": 1}
        peer.answer("session/prompt", {"stopReason": "end_turn", "usage": usage, "model": "m", "_meta": {"steps": 1}})
        result = await (await agent.new_session("/project")).run("hello")
        assert result.model_extra == {"model": "m"}
        assert result.usage is not None
        assert result.usage.to_wire() == usage
        assert result.meta == {"steps": 1}


async def test_a_request_of_ones_own_opens_a_session_with_the_updates_that_came_before() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer):
        heard: list[tuple[str, str]] = []

        def on_update(session: RemoteSession, update: SessionUpdate) -> None:
            heard.append((session.id, text(update)))

        async def serve() -> None:
            request = await peer.expect_request("session/fork")
            assert request["params"] == {"sessionId": SESSION, "cwd": "/project", "_meta": {"messageId": "m"}}
            await peer.update(said("before"), session="child")
            await peer.respond(request, {"sessionId": "child", "modes": MODES, **MORE})
            await peer.update(said("behind"), session="child")

        parent = await agent.new_session("/project")
        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            child = await agent.open_session(
                "session/fork",
                {"sessionId": parent.id, "cwd": "/project", "_meta": {"messageId": "m"}},
                on_update=on_update,
            )
        await peer.barrier()
        assert heard == [("child", "before"), ("child", "behind")]
        assert (child.id, child.cwd, child.response.model_extra) == ("child", "/project", {"models": MORE["models"]})
        assert child.modes is not None
        assert agent.sessions == {SESSION: parent, "child": child}
        peer.answer("session/prompt", {"stopReason": "end_turn"})
        assert (await child.run("hello")).stop_reason == "end_turn"


async def test_a_request_of_ones_own_takes_up_a_session_with_its_history() -> None:
    async with talking() as (agent, peer):
        history: list[str] = []

        async def serve() -> None:
            request = await peer.expect_request("_session/attach")
            await peer.update(said("history"), session="old")
            await peer.respond(request, {})

        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            session = await agent.open_session(
                "_session/attach",
                {"id": "old"},
                session_id="old",
                cwd="/project",
                on_update=lambda update: history.append(text(update)),
            )
        assert history == ["history"]
        assert (session.id, session.cwd) == ("old", "/project")
        assert agent.sessions == {"old": session}


@pytest.mark.parametrize("answer", [None, {}, {"sessionId": 5}, [], "s"])
async def test_an_answer_that_opens_no_session_is_refused(answer: Any) -> None:
    async with talking() as (agent, peer):
        peer.answer("_session/open", answer)
        with pytest.raises(MalformedResponse):
            await agent.open_session("_session/open", {})
        assert agent.sessions == {}


async def test_an_answer_about_another_session_than_the_one_that_is_taken_up_is_refused() -> None:
    async with talking() as (agent, peer):
        peer.answer("_session/open", {"sessionId": "other"})
        with pytest.raises(MalformedResponse, match="another session"):
            await agent.open_session("_session/open", {}, session_id="mine")
        assert agent.sessions == {}


async def test_the_id_of_an_open_session_is_not_opened_once_more() -> None:
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")
        peer.answer("session/fork", {"sessionId": SESSION})
        with pytest.raises(SessionTaken):
            await agent.open_session("session/fork", {"sessionId": SESSION})
        assert agent.sessions == {SESSION: session}
