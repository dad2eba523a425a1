"""`initialize`: versions, what the client announces, and what the agent does."""

from typing import Any

import pytest

from acp_server import Agent, Call, Session, Turn, UsageError
from acp_server.errors import INVALID_PARAMS, METHOD_NOT_FOUND
from tests.session.editor import EVERYTHING, editing
from tests.session.v2.editor import HELLO

pytestmark = pytest.mark.anyio


def reader(**options: Any) -> tuple[Agent, list[Session]]:
    agent = Agent("reader", version="2.1", title="The Reader", **options)
    sessions: list[Session] = []

    @agent.session
    def prepare(session: Session) -> None:
        sessions.append(session)

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    return agent, sessions


@pytest.mark.parametrize("version", [0, 1, 2, 99, 65535, "1", "99"])
async def test_whatever_version_the_client_speaks_an_agent_of_version_1_answers_with_that(version: Any) -> None:
    agent, _ = reader(versions=[1])
    async with editing(agent, initialize=False) as editor:
        assert (await editor.client.result("initialize", {"protocolVersion": version}))["protocolVersion"] == 1


@pytest.mark.parametrize("version", [..., None, -1, 65536, 1.5, True, "2025-01-01", [1]])
async def test_what_is_no_version_is_refused_and_initialize_may_be_tried_again(version: Any) -> None:
    agent, _ = reader()
    params = {} if version is ... else {"protocolVersion": version}
    async with editing(agent, initialize=False) as editor:
        refused = await editor.refusal("initialize", params)
        assert refused["code"] == INVALID_PARAMS
        assert refused["data"]["problems"][0]["path"] == "protocolVersion"
        assert (await editor.client.result("initialize", {"protocolVersion": 1}))["protocolVersion"] == 1


async def test_the_answer_tells_who_the_agent_is_and_what_it_can_do() -> None:
    agent, _ = reader()
    async with editing(agent, initialize=False) as editor:
        assert await editor.client.result("initialize", {"protocolVersion": 1}) == {
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": True,
                "sessionCapabilities": {
                    "list": {},
                    "delete": {},
                    "additionalDirectories": {},
                    "resume": {},
                    "close": {},
                },
                # Its sessions may have tools.
                "_meta": {"_tool_call/cancel": {}},
            },
            "authMethods": [],
            "agentInfo": {"name": "reader", "version": "2.1", "title": "The Reader"},
        }


async def test_what_is_not_registered_is_neither_announced_nor_there() -> None:
    agent = Agent("methods only")

    @agent.method("_ping")
    async def ping(call: Call) -> str:
        return "pong"

    async with editing(agent, initialize=False) as editor:
        answer = await editor.client.result("initialize", {"protocolVersion": 1})
        assert answer["agentCapabilities"] == {}
        for method in ("session/new", "session/prompt", "session/list", "session/load", "authenticate", "logout"):
            assert (await editor.refusal(method, {}))["code"] == METHOD_NOT_FOUND
        assert await editor.client.result("_ping") == "pong"


async def test_everything_registered_is_announced() -> None:
    agent = Agent("all", accepts=["image", "audio", "embedded_context"], mcp=["http", "sse"])

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    @agent.authenticate("key", name="Key", description="An API key")
    async def key(call: Call) -> None: ...

    @agent.logout
    async def logout(call: Call) -> None: ...

    async with editing(agent, initialize=False) as editor:
        answer = await editor.client.result("initialize", {"protocolVersion": 1})
        capabilities = answer["agentCapabilities"]
        assert capabilities["promptCapabilities"] == {"image": True, "audio": True, "embeddedContext": True}
        assert capabilities["mcpCapabilities"] == {"http": True, "sse": True}
        assert capabilities["auth"] == {"logout": {}}
        assert answer["authMethods"] == [{"id": "key", "name": "Key", "description": "An API key"}]


@pytest.mark.parametrize(
    "capabilities",
    [
        None,
        {},
        7,
        [],
        "all",
        {"fs": None, "terminal": None},
        {"fs": 7, "terminal": "yes", "session": [], "elicitation": 1, "auth": "x"},
        {"fs": {"readTextFile": "true", "writeTextFile": 1}, "terminal": 1},
        {"session": {"configOptions": {"boolean": False}}, "elicitation": {"form": True}},
        {"_meta": 7, "unknown": {"a": 1}},
    ],
)
async def test_junk_in_the_capabilities_announces_nothing_and_costs_nothing(capabilities: Any) -> None:
    agent, sessions = reader()
    async with editing(agent, initialize=False) as editor:
        params = {"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": capabilities}
        await editor.client.result("initialize", params)
        await editor.open()
        found = sessions[0].client.capabilities
        assert (found.fs.read_text_file, found.fs.write_text_file, found.terminal) == (False, False, False)
        elicitation = found.elicitation
        assert elicitation is None or elicitation.form is None
        options = found.session.config_options if found.session else None
        assert options is None or options.boolean is None
        assert sessions[0].client.profile.info is None


async def test_junk_beside_a_good_capability_leaves_it_alone() -> None:
    agent, sessions = reader()
    async with editing(agent, initialize=False) as editor:
        capabilities = {"fs": {"readTextFile": True, "writeTextFile": "x"}, "terminal": True, "session": 7}
        params = {"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": {"name": "e", "version": "1"}}
        await editor.client.result("initialize", params)
        await editor.open()
        found = sessions[0].client.capabilities
        assert (found.fs.read_text_file, found.fs.write_text_file, found.terminal) == (True, False, True)
        info = sessions[0].client.profile.info
        assert info is not None
        assert info.name == "e"


async def test_a_client_that_says_capabilities_instead_is_understood() -> None:
    agent, sessions = reader()
    async with editing(agent, initialize=False) as editor:
        await editor.client.result("initialize", {"protocolVersion": 1, "capabilities": {"terminal": True}})
        await editor.open()
        assert sessions[0].client.capabilities.terminal


async def test_what_initialize_announces_holds_for_the_message_behind_it() -> None:
    agent, sessions = reader()
    async with editing(agent, initialize=False) as editor:
        new = editor.client.new_request("session/new", {"cwd": "/p", "mcpServers": []})
        initialize = {"protocolVersion": 1, "clientCapabilities": EVERYTHING}
        await editor.client.send(editor.client.new_request("initialize", initialize), new)
        await editor.client.response(new["id"])
        assert sessions[0].client.capabilities.terminal


async def test_a_second_initialize_takes_the_place_of_the_first_also_for_open_sessions() -> None:
    agent, sessions = reader()
    async with editing(agent, capabilities={}) as editor:
        await editor.open()
        assert not sessions[0].client.capabilities.terminal
        await editor.initialize({"terminal": True})
        assert sessions[0].client.capabilities.terminal


async def test_a_client_that_skips_initialize_has_announced_nothing() -> None:
    agent, sessions = reader()
    async with editing(agent, initialize=False) as editor:
        await editor.open()
        assert not sessions[0].client.capabilities.terminal


@pytest.mark.behaviour("B18")
async def test_a_cancelled_initialize_is_answered_once_and_may_be_tried_again() -> None:
    agent, _ = reader()
    async with editing(agent, initialize=False) as editor:
        request = editor.client.new_request("initialize", {"protocolVersion": 1})
        cancel = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": request["id"]}}
        await editor.client.send(request, cancel)
        answer = await editor.answer(request["id"])
        assert answer == {"code": -32800, "message": "Request cancelled"}
        assert (await editor.initialize())["protocolVersion"] == 1


ALL = ("load", "resume", "list", "close", "delete", "additional_directories")


@pytest.mark.parametrize("left_out", ALL)
async def test_what_an_author_leaves_out_is_not_announced_and_refused(left_out: str) -> None:
    agent = Agent("few", sessions=[name for name in ALL if name != left_out])

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(agent, initialize=False) as editor:
        told = (await editor.initialize())["agentCapabilities"]
        announced = {*told["sessionCapabilities"], *(["load"] if "loadSession" in told else ())}
        wire = "additionalDirectories" if left_out == "additional_directories" else left_out
        assert announced == {"load", "resume", "list", "close", "delete", "additionalDirectories"} - {wire}
        session = await editor.open()
        if wire != left_out:
            setup = {"cwd": "/a", "mcpServers": [], "additionalDirectories": ["/b"]}
            for method, params in (("session/new", setup), ("session/resume", {**setup, "sessionId": session})):
                refused = await editor.refusal(method, params)
                assert refused["data"]["problems"][0]["path"] == "additionalDirectories"
        else:
            params = {"sessionId": session, "cwd": "/a", "mcpServers": []}
            refused = await editor.refusal(f"session/{left_out}", params)
            assert refused["code"] == METHOD_NOT_FOUND


async def test_version_2_leaves_out_what_it_does_not_require() -> None:
    agent = Agent("few", sessions=[])

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(agent, initialize=False) as editor:
        told = await editor.client.result("initialize", HELLO)
        assert told["capabilities"]["session"].keys() == {"mcp"}
        session = await editor.open()
        assert (await editor.refusal("session/delete", {"sessionId": session}))["code"] == METHOD_NOT_FOUND
        await editor.client.result("session/resume", {"sessionId": session, "cwd": "/a"})
        refused = await editor.refusal("session/new", {"cwd": "/a", "additionalDirectories": ["/b"]})
        assert refused["data"]["problems"][0]["path"] == "additionalDirectories"


async def test_sessions_have_no_more_than_what_clients_can_do_with_them() -> None:
    with pytest.raises(UsageError, match="the features of sessions are load, resume"):
        Agent("few", sessions=["fork"])  # pyright: ignore[reportArgumentType]
