"""Which version is spoken: 2 where it is asked for and the agent has it, and else 1, on a connection that works."""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server.client import (
    AgentExited,
    Handlers,
    LocalFiles,
    LocalTerminals,
    UnsupportedVersion,
    spawn_agent,
)
from acp_server.client.v2.negotiation import offer
from acp_server.errors import CapabilityMissing, ConnectionClosed, MalformedResponse, UsageError
from acp_server.schema import ClientCapabilities, Implementation, InitializeRequest, McpServerHttp, McpServerStdio
from tests.client.processes import PATIENCE
from tests.client.talking import Scripted, talking
from tests.client.v2.talking import ANSWER, talking_2

pytestmark = pytest.mark.anyio

EDITOR = Implementation(name="editor", version="1")


async def test_version_1_is_asked_for_unless_the_program_wants_2() -> None:
    async with talking() as (agent, peer):
        (request,) = peer.all("initialize")
        assert request["params"].keys() == {"protocolVersion", "clientCapabilities", "clientInfo"}
        assert agent.link.dialect is None


def test_the_offer_has_the_form_of_both_versions() -> None:
    capabilities = ClientCapabilities.from_wire({"auth": {"terminal": True}, "elicitation": {"form": {}}})
    offered = offer(InitializeRequest(protocol_version=1, client_capabilities=capabilities, client_info=EDITOR))
    assert offered == {
        "protocolVersion": 2,
        "clientCapabilities": capabilities.to_wire(),
        "clientInfo": {"name": "editor", "version": "1"},
        "info": {"name": "editor", "version": "1"},
        "capabilities": {"auth": {"terminal": {}}, "elicitation": {"form": {}}},
    }


async def test_a_program_without_a_name_is_offered_under_that_of_this_package() -> None:
    async with talking_2() as (_, peer):
        (request,) = peer.all("initialize")
        assert request["params"]["info"]["name"] == "acp_server"
        assert request["params"]["capabilities"] == {}


async def test_what_an_agent_of_version_2_says_of_itself_is_told_as_in_version_1() -> None:
    async with talking_2() as (agent, _):
        info = agent.info
        assert info is not None
        assert info.to_wire() == {
            "protocolVersion": 2,
            "agentInfo": {"name": "a", "version": "2"},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": False, "audio": False, "embeddedContext": False},
                "mcpCapabilities": {"http": False},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
                "auth": {"logout": {}},
            },
            "authMethods": [{"type": "agent", "id": "key", "methodId": "key", "name": "Key"}],
        }


async def test_an_agent_that_answers_1_goes_on_with_1_on_the_same_connection() -> None:
    async with talking(initialize=False) as (agent, peer):
        info = await agent.initialize(version=2)
        assert (info.protocol_version, agent.link.dialect) == (1, None)
        await agent.new_session("/project")
        assert [message["method"] for message in peer.received] == ["initialize", "session/new"]


@pytest.mark.parametrize("code", [-32022, -32600, -32602, -32603])
async def test_an_agent_that_refuses_is_asked_for_1_on_the_same_connection(code: int) -> None:
    async with talking(initialize=False) as (agent, peer):
        peer.leave_unanswered("initialize")

        async def refuse() -> None:
            await peer.refuse(await peer.expect_request("initialize"), code)
            again = await peer.expect_request("initialize")
            assert again["params"].keys() == {"protocolVersion", "clientCapabilities", "clientInfo"}
            await peer.respond(again, {"protocolVersion": 1})

        async with anyio.create_task_group() as group:
            group.start_soon(refuse)
            assert (await agent.initialize(version=2)).protocol_version == 1


async def test_a_version_that_this_package_does_not_speak_is_the_mistake_of_the_program() -> None:
    async with talking(initialize=False) as (agent, peer):
        with pytest.raises(UsageError, match="the protocol version must be one of 1, 2, not 3"):
            await agent.initialize(version=3)
        assert peer.all("initialize") == []


@pytest.mark.parametrize("offered", [0, 3])
async def test_a_version_that_was_not_asked_for_is_refused(offered: int) -> None:
    async with talking(initialize=False) as (agent, peer):
        peer.answer("initialize", ANSWER | {"protocolVersion": offered})
        with pytest.raises(UnsupportedVersion, match=f"version {offered}"):
            await agent.initialize(version=2)


async def test_an_answer_that_is_not_as_version_2_has_it_is_malformed() -> None:
    async with talking(initialize=False) as (agent, peer):
        peer.answer("initialize", {"protocolVersion": 2, "info": {"name": 7}})
        with pytest.raises(MalformedResponse, match="info"):
            await agent.initialize(version=2)
        assert agent.link.dialect is None


async def test_an_agent_of_version_1_that_says_the_number_back_is_asked_for_1_on_the_same_connection() -> None:
    async with talking(initialize=False) as (agent, peer):
        peer.leave_unanswered("initialize")

        async def say_back() -> None:
            for wanted in (2, 1):
                request = await peer.expect_request("initialize")
                assert request["params"]["protocolVersion"] == wanted
                await peer.respond(request, {"protocolVersion": wanted, "agentCapabilities": {"loadSession": True}})

        async with anyio.create_task_group() as group:
            group.start_soon(say_back)
            info = await agent.initialize(version=2)
        assert (info.protocol_version, agent.link.dialect) == (1, None)
        assert info.agent_capabilities.load_session


async def test_a_stream_that_ends_cannot_be_started_anew() -> None:
    async with talking(initialize=False) as (agent, peer):
        peer.leave_unanswered("initialize")

        async def leave(peer: Scripted) -> None:
            await peer.expect_request("initialize")
            peer.stream.send_eof()

        async with anyio.create_task_group() as group:
            group.start_soon(leave, peer)
            with pytest.raises(ConnectionClosed):
                await agent.initialize(version=2)


OLD = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["params"]["protocolVersion"] != 1 or len(sys.argv) > 1:
        sys.exit(3)
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"protocolVersion": 1}}), flush=True)
"""


async def test_an_agent_that_dies_of_the_question_is_started_anew_and_asked_for_1(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text(OLD)
    with anyio.fail_after(PATIENCE):
        async with spawn_agent([sys.executable, str(tmp_path / "old.py")]) as agent:
            first = agent.process
            assert (await agent.initialize(version=2)).protocol_version == 1
            assert first is not None
            assert first.exit_code == 3
            assert agent.process is not first


async def test_an_agent_that_dies_of_every_question_is_started_twice_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text(OLD)
    with anyio.fail_after(PATIENCE):
        async with spawn_agent([sys.executable, str(tmp_path / "old.py"), "always"]) as agent:
            with pytest.raises(AgentExited, match="status 3"):
                await agent.initialize(version=2)


async def test_files_and_terminals_of_the_client_do_not_exist_on_version_2(tmp_path: Path) -> None:
    handlers = Handlers(files=LocalFiles([tmp_path]), terminals=LocalTerminals())
    async with talking_2(handlers) as (_, peer):
        for method in ("fs/read_text_file", "terminal/create"):
            id = await peer.request(method, {"sessionId": "sess_1", "path": str(tmp_path / "a")})
            response = await peer.response(id)
            assert response["error"]["code"] == -32601


async def test_what_the_agent_does_not_have_is_not_asked_of_it() -> None:
    async with talking(initialize=False) as (agent, peer):
        peer.answer("initialize", ANSWER | {"capabilities": {}, "authMethods": []})
        await agent.initialize(version=2)
        server = McpServerStdio(name="m", command="/m", args=[], env=[])
        calls: dict[str, Any] = {
            "session/new": lambda: agent.new_session("/project"),
            "session/load": lambda: agent.load_session("s", "/project"),
            "logout": agent.logout,
        }
        for method, call in calls.items():
            with pytest.raises(CapabilityMissing, match=method):
                await call()
        await peer.barrier()
        assert [message["method"] for message in peer.received if "method" in message] == ["initialize"]
    async with talking(initialize=False) as (agent, peer):
        peer.answer("initialize", ANSWER | {"capabilities": {"session": {}}})
        await agent.initialize(version=2)
        for servers in ([server], [McpServerHttp(name="m", url="http://localhost/")]):
            with pytest.raises(CapabilityMissing, match="session/new"):
                await agent.new_session("/project", mcp_servers=servers)
        session = await agent.new_session("/project")
        with pytest.raises(CapabilityMissing, match="session/set_mode"):
            await session.set_mode("ask")


@pytest.mark.parametrize(
    "message", ['[{"jsonrpc":"2.0","id":"q","method":"x"}]', '{"jsonrpc":"2.0","id":null,"method":"x"}']
)
async def test_batches_of_the_agents_and_the_id_null_are_refused(message: str) -> None:
    async with talking_2() as (_, peer):
        await peer.send_raw(message.encode() + b"\n")
        refused = await peer.expect(lambda answer: "error" in answer)
        assert (refused["id"], refused["error"]["code"]) == (None, -32600)
