"""Opening, keeping and closing sessions, and what they know of themselves."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server.client import RemoteAgent, connect_agent
from acp_server.errors import AuthRequired, ConnectionClosed, MalformedResponse, UsageError
from acp_server.schema import McpServerStdio, SessionUpdate
from acp_server.testing import ScriptedAgent, memory_pair
from tests.client.talking import EVERYTHING, SESSION, said, talking, text

pytestmark = pytest.mark.anyio

MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
OPTION = {
    "id": "model",
    "name": "Model",
    "type": "select",
    "currentValue": "a",
    "options": [{"value": "a", "name": "A"}],
}


async def test_a_new_session_is_asked_for_and_knows_its_state() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer):
        peer.answer("session/new", {"sessionId": SESSION, "modes": MODES, "configOptions": [OPTION]})
        session = await agent.new_session(
            Path("/project"),
            mcp_servers=[McpServerStdio(name="m", command="/bin/m")],
            additional_directories=["/more"],
            meta={"trace": "x"},
        )
        (request,) = peer.all("session/new")
        assert request["params"] == {
            "cwd": "/project",
            "mcpServers": [{"name": "m", "command": "/bin/m", "args": [], "env": []}],
            "additionalDirectories": ["/more"],
            "_meta": {"trace": "x"},
        }
        assert (session.id, session.cwd) == (SESSION, "/project")
        assert agent.sessions == {SESSION: session}
        assert session.modes is not None
        assert session.modes.current_mode_id == "ask"
        assert [option.to_wire()["id"] for option in session.config_options] == ["model"]


async def test_updates_keep_the_state_of_the_session() -> None:
    async with talking() as (agent, peer):
        peer.answer("session/new", {"sessionId": SESSION, "modes": MODES, "configOptions": [OPTION]})
        session = await agent.new_session("/project")
        await peer.update(
            {"sessionUpdate": "current_mode_update", "currentModeId": "code"},
            {"sessionUpdate": "config_option_update", "configOptions": []},
            {"sessionUpdate": "session_info_update", "title": "Fix it", "updatedAt": "2026-01-01T00:00:00Z"},
            {"sessionUpdate": "session_info_update"},
            {"sessionUpdate": "usage_update", "used": 5, "size": 10},
        )
        await peer.barrier()
        assert session.modes is not None
        assert session.modes.current_mode_id == "code"
        assert session.config_options == []
        assert (session.title, session.updated_at) == ("Fix it", "2026-01-01T00:00:00Z")
        assert session.usage is not None
        assert session.usage.used == 5
        await peer.update({"sessionUpdate": "session_info_update", "title": None})
        await peer.barrier()
        assert (session.title, session.updated_at) == (None, "2026-01-01T00:00:00Z")


@pytest.mark.behaviour("I3")
async def test_a_loaded_session_has_had_its_history_when_it_is_there() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer):
        seen: list[SessionUpdate] = []

        async def serve() -> None:
            request = await peer.expect_request("session/load")
            assert request["params"] == {"sessionId": "old", "cwd": "/project", "mcpServers": []}
            await peer.update(said("one"), said("two"), session="old")
            await peer.respond(request, {"modes": MODES})

        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            session = await agent.load_session("old", "/project", on_update=seen.append)
            assert [text(update) for update in seen] == ["one", "two"]
        assert session.modes is not None
        assert agent.sessions["old"] is session


async def test_a_session_that_cannot_be_loaded_is_not_there_and_one_that_was_stays() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer):
        session = await agent.new_session("/project")

        async def refuse() -> None:
            for _ in range(2):
                await peer.refuse(await peer.expect_request("session/load"), -32000)

        async with anyio.create_task_group() as group:
            group.start_soon(refuse)
            for id in (SESSION, "old"):
                with pytest.raises(AuthRequired):
                    await agent.load_session(id, "/project")
        assert agent.sessions == {SESSION: session}


async def test_resume_list_close_delete_and_logout_say_what_they_mean() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer):
        peer.answer("session/resume", {"configOptions": [OPTION]})
        peer.answer("session/list", {"sessions": [{"sessionId": "a", "cwd": "/x"}], "nextCursor": "more"})
        for method in ("session/close", "session/delete", "authenticate", "logout"):
            peer.answer(method, {})
        session = await agent.resume_session("old", "/project")
        assert len(session.config_options) == 1
        page = await agent.list_sessions("/x", "c")
        assert [found.session_id for found in page.sessions] == ["a"]
        assert page.next_cursor == "more"
        await session.close()
        assert agent.sessions == {}
        await agent.delete_session("gone")
        await agent.authenticate("api-key")
        await agent.logout()
        sent = [(message["method"], message["params"]) for message in peer.received[1:]]
        assert sent == [
            ("session/resume", {"sessionId": "old", "cwd": "/project", "mcpServers": []}),
            ("session/list", {"cwd": "/x", "cursor": "c"}),
            ("session/close", {"sessionId": "old"}),
            ("session/delete", {"sessionId": "gone"}),
            ("authenticate", {"methodId": "api-key"}),
            ("logout", {}),
        ]


async def test_settings_are_sent_and_remembered() -> None:
    async with talking() as (agent, peer):
        peer.answer("session/new", {"sessionId": SESSION, "modes": MODES, "configOptions": [OPTION]})
        peer.answer("session/set_mode", {"_meta": {"a": 1}, "more": 2})
        fast: dict[str, Any] = {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": True}
        peer.answer("session/set_config_option", {"configOptions": [fast], "_meta": {"b": 3}})
        session = await agent.new_session("/project")
        entered = await session.set_mode("code")
        assert (entered.meta, entered.model_extra) == ({"a": 1}, {"more": 2})
        assert session.modes is not None
        assert session.modes.current_mode_id == "code"
        answer = await session.set_config_option("fast", True)
        assert answer.meta == {"b": 3}
        options = answer.config_options
        assert options == session.config_options
        assert [option.to_wire() for option in options] == [fast]
        await session.set_config_option("model", "b")
        assert [message["params"] for message in peer.all("session/set_config_option")] == [
            {"sessionId": SESSION, "configId": "fast", "type": "boolean", "value": True},
            {"sessionId": SESSION, "configId": "model", "value": "b"},
        ]


async def test_closing_a_session_cancels_its_turn_first() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer):
        session = await agent.new_session("/project")
        async with anyio.create_task_group() as group, session.prompt("hello") as turn:
            prompt = await peer.expect_request("session/prompt")
            group.start_soon(session.close)
            await peer.expect("session/cancel")
            await peer.finish(prompt, "cancelled")
            await peer.respond(await peer.expect_request("session/close"), {})
            assert (await turn.wait()).stop_reason == "cancelled"
        assert agent.sessions == {}


@pytest.mark.parametrize("method", ["close", "delete"])
async def test_a_session_that_is_closed_or_is_being_closed_takes_no_prompt(method: str) -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer), anyio.create_task_group() as group:
        session = await agent.new_session("/project")
        group.start_soon(getattr(session, method))
        request = await peer.expect_request(f"session/{method}")
        for answered in (False, True):
            if answered:
                await peer.respond(request, {})
                await peer.barrier()
            with pytest.raises(UsageError, match="being closed"):
                await session.run("hello")
        assert not peer.all("session/prompt")


async def test_a_turn_whose_session_was_deleted_under_it_does_not_look_complete() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer), anyio.create_task_group() as group:
        session = await agent.new_session("/project")
        async with session.prompt("hello") as turn:
            prompt = await peer.expect_request("session/prompt")
            group.start_soon(session.delete)
            await peer.respond(await peer.expect_request("session/delete"), {})
            await peer.update(said("not heard"))
            await peer.finish(prompt)
            with pytest.raises(MalformedResponse, match="the end of the session"):
                await turn.wait()


async def test_paths_must_be_absolute() -> None:
    async with talking(capabilities=EVERYTHING) as (agent, peer):
        for call in (
            lambda: agent.new_session("here"),
            lambda: agent.new_session("/project", additional_directories=["there"]),
            lambda: agent.load_session("s", "here"),
            lambda: agent.list_sessions("here"),
        ):
            with pytest.raises(UsageError, match="absolute"):
                await call()
        with pytest.raises(UsageError, match=r"a list, as in \['/more'\]"):
            await agent.new_session("/project", additional_directories="/more")
        assert len(peer.received) == 1


@pytest.mark.behaviour("D13")
async def test_a_connection_may_be_made_in_one_task_and_left_in_another() -> None:
    here, there = memory_pair()
    connecting = connect_agent(here)
    agents: list[RemoteAgent] = []

    async def enter() -> None:
        agents.append(await connecting.__aenter__())

    async def leave() -> None:
        await connecting.__aexit__(None, None, None)

    async with ScriptedAgent(there) as peer:
        peer.answer("initialize", {"protocolVersion": 1})
        async with anyio.create_task_group() as group:
            group.start_soon(enter)
        assert (await agents[0].initialize()).protocol_version == 1
        async with anyio.create_task_group() as group:
            group.start_soon(leave)
        with pytest.raises(ConnectionClosed):
            await agents[0].request("_anything")
