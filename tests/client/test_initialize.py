"""The handshake: what is announced, what an agent may answer, and what is not sent to one that has not announced it."""

from typing import Any

import anyio
import pytest

from acp_server import __version__
from acp_server.client import (
    Handlers,
    LocalFiles,
    LocalReader,
    LocalTerminals,
    RemoteAgent,
    UnsupportedVersion,
    connect_agent,
)
from acp_server.errors import CapabilityMissing, MalformedResponse, MethodNotFound, RequestTimeout
from acp_server.schema import (
    ClientCapabilities,
    ClientSessionCapabilities,
    CreateElicitationResponse,
    ElicitationDeclineAction,
    Implementation,
    McpServerHttp,
    NoticeCapabilities,
)
from acp_server.testing import memory_pair
from tests.client.talking import SESSION, talking

pytestmark = pytest.mark.anyio


async def decline(_request: Any) -> CreateElicitationResponse:
    return ElicitationDeclineAction()


class WriteOnly:
    async def write_text_file(self, _request: Any, /) -> None: ...


FILES = {"readTextFile": False, "writeTextFile": False}


@pytest.mark.parametrize(
    ("handlers", "announced"),
    [
        (Handlers(), {"fs": FILES, "terminal": False}),
        (Handlers(files=LocalReader([])), {"fs": FILES | {"readTextFile": True}, "terminal": False}),
        (Handlers(files=WriteOnly()), {"fs": FILES | {"writeTextFile": True}, "terminal": False}),
        (
            Handlers(files=LocalFiles([]), terminals=LocalTerminals()),
            {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True},
        ),
        (Handlers(form=decline), {"fs": FILES, "terminal": False, "elicitation": {"form": {}}}),
        (Handlers(form=decline, url=decline), {"fs": FILES, "terminal": False, "elicitation": {"form": {}, "url": {}}}),
    ],
    ids=["nothing", "reader", "writer", "files and terminals", "form", "form and url"],
)
async def test_what_is_announced_follows_from_the_handlers(handlers: Handlers, announced: dict[str, Any]) -> None:
    async with talking(handlers) as (_, peer):
        (request,) = peer.all("initialize")
        own = {"name": "acp_server", "version": __version__}
        assert request["params"] == {"protocolVersion": 1, "clientCapabilities": announced, "clientInfo": own}


async def test_what_has_no_handler_is_announced_by_the_program() -> None:
    async with talking(Handlers(files=LocalReader([])), initialize=False) as (agent, peer):
        session = ClientSessionCapabilities(notices=NoticeCapabilities())
        info = Implementation(name="editor", version="1")
        await agent.initialize(
            client_info=info, capabilities=ClientCapabilities(session=session, terminal=True), meta={"a": 1}
        )
        (request,) = peer.all("initialize")
        assert request["params"] == {
            "protocolVersion": 1,
            # A terminal without a handler would be a promise that is not kept.
            "clientCapabilities": {
                "fs": FILES | {"readTextFile": True},
                "terminal": False,
                "session": {"notices": {}},
            },
            "clientInfo": {"name": "editor", "version": "1"},
            "_meta": {"a": 1},
        }


async def test_what_the_agent_says_of_itself_is_kept() -> None:
    async with talking(initialize=False) as (agent, peer):
        assert agent.info is None
        peer.answer(
            "initialize",
            {
                "protocolVersion": 1,
                "agentInfo": {"name": "a", "version": "2", "planet": "mars"},
                "agentCapabilities": {"loadSession": True, "telepathy": {"range": 3}, "promptCapabilities": 7},
                "authMethods": [{"id": "key", "name": "Key"}, {"id": "x", "name": "X", "type": "retina"}, 5],
                "weather": "fine",
            },
        )
        info = await agent.initialize()
        assert info is agent.info
        assert info.agent_info is not None
        assert info.agent_info.name == "a"
        assert info.agent_capabilities.load_session
        assert not info.agent_capabilities.prompt_capabilities.image
        assert [method.to_wire()["id"] for method in info.auth_methods] == ["key", "x"]


async def test_an_agent_of_another_version_is_refused() -> None:
    async with talking(initialize=False) as (agent, peer):
        peer.answer("initialize", {"protocolVersion": 2})
        with pytest.raises(UnsupportedVersion, match="version 2"):
            await agent.initialize()
        assert agent.info is None


@pytest.mark.parametrize("answer", [None, [], "1", {"protocolVersion": "one"}, {"protocolVersion": 1.5}])
async def test_an_answer_that_is_none_is_a_malformed_response(answer: Any) -> None:
    async with talking(initialize=False) as (agent, peer):
        peer.answer("initialize", answer)
        with pytest.raises(MalformedResponse, match="initialize"):
            await agent.initialize()


@pytest.mark.behaviour("C6")
async def test_an_agent_that_never_answers_is_not_waited_for_for_ever() -> None:
    async with talking(initialize=False) as (agent, peer):
        peer.leave_unanswered("initialize")
        with pytest.raises(RequestTimeout, match="initialize"):
            await agent.initialize(timeout=0.5)
        request = await peer.expect_request("initialize")
        assert (await peer.expect("$/cancel_request"))["params"] == {"requestId": request["id"]}
        # It may be asked again.
        peer.answer("initialize", {"protocolVersion": 1})
        await agent.initialize()


async def test_what_the_agent_has_not_announced_is_not_asked_of_it() -> None:
    async with talking() as (agent, peer):
        session = await agent.new_session("/project")
        calls: dict[str, Any] = {
            "agentCapabilities.loadSession": lambda: agent.load_session("s", "/project"),
            "agentCapabilities.sessionCapabilities.resume": lambda: agent.resume_session("s", "/project"),
            "agentCapabilities.sessionCapabilities.list": agent.list_sessions,
            "agentCapabilities.sessionCapabilities.close": session.close,
            "agentCapabilities.sessionCapabilities.delete": lambda: agent.delete_session("s"),
            "agentCapabilities.auth.logout": agent.logout,
            "agentCapabilities.sessionCapabilities.additionalDirectories": lambda: agent.new_session(
                "/project", additional_directories=["/more"]
            ),
            "agentCapabilities.mcpCapabilities.http": lambda: agent.new_session(
                "/project", mcp_servers=[McpServerHttp(name="m", url="http://localhost/")]
            ),
        }
        for capability, call in calls.items():
            with pytest.raises(CapabilityMissing) as missing:
                await call()
            assert missing.value.capability == capability
        await peer.barrier()
        assert len(peer.received) == 3
        assert agent.sessions == {SESSION: session}


async def test_extensions_pass_as_they_are() -> None:
    async with talking() as (agent, peer):
        peer.answer("_x/ask", [1, None, "é"])
        assert await agent.request("_x/ask", {"deep": [1]}) == [1, None, "é"]
        agent.notify("_x/tell", {"a": 1})
        assert (await peer.expect("_x/tell"))["params"] == {"a": 1}


async def test_requests_may_be_in_flight_together_and_are_answered_in_any_order() -> None:
    async with talking() as (agent, peer):
        results: dict[str, Any] = {}

        async def ask(agent: RemoteAgent, name: str) -> None:
            results[name] = await agent.request(name)

        async with anyio.create_task_group() as group:
            for name in ("_a", "_b", "_c"):
                group.start_soon(ask, agent, name)
            received = [await peer.expect(lambda message: message["method"][0] == "_") for _ in range(3)]
            requests = {request["method"]: request for request in received}
            for name in ("_c", "_a", "_b"):
                await peer.respond(requests[name], name.upper())
        assert results == {"_a": "_A", "_b": "_B", "_c": "_C"}


@pytest.mark.parametrize("version", [1, 2])
async def test_a_program_that_sends_back_what_it_is_sent_is_named_as_that(version: Any) -> None:
    here, there = memory_pair()

    async def echo() -> None:
        while data := await there.receive():
            await there.send(data)

    async with anyio.create_task_group() as group:
        group.start_soon(echo)
        async with connect_agent(here) as agent:
            with pytest.raises(MethodNotFound, match="echoes its input, so it is not an agent"):
                await agent.initialize(version=version)
