"""Which version a connection speaks, and what is refused until that is settled."""

from typing import Any

import pytest

from acp_server import Agent, Call, Session, Turn, UsageError
from acp_server.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    UNSUPPORTED_VERSION,
)
from acp_server.schema import SessionMode
from acp_server.wire.codec import encode
from tests.session import editor as v1
from tests.session.v2.editor import HELLO, editing

pytestmark = pytest.mark.anyio

NEW = {"jsonrpc": "2.0", "id": 900, "method": "session/new", "params": {"cwd": "/p", "mcpServers": []}}


def reader(*versions: Any) -> tuple[Agent, list[Session]]:
    agent = Agent("reader", version="3", versions=versions)
    sessions: list[Session] = []
    agent.session(sessions.append)

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        return "hello"

    return agent, sessions


def connected(agent: Agent) -> Any:
    return v1.editing(agent, initialize=False)


@pytest.mark.parametrize("versions", [(), (3,), (1, 3), (0,)])
def test_an_agent_speaks_1_or_2_or_both(versions: Any) -> None:
    with pytest.raises(UsageError, match="1 or 2"):
        Agent("x", versions=versions)


@pytest.mark.parametrize(
    ("versions", "asked", "answered"),
    [
        ((1, 2), 1, 1),
        ((1, 2), 2, 2),
        ((1, 2), 3, 2),
        ((2, 1), 65535, 2),
        ((1, 2), "2", 1),
        ((2,), 2, 2),
        ((2,), 9, 2),
        ((1,), 0, 1),
        ((1,), 2, 1),
        ((1,), 99, 1),
    ],
)
@pytest.mark.behaviour("M12")
async def test_the_highest_version_that_both_know_is_spoken(versions: Any, asked: Any, answered: int) -> None:
    agent, _ = reader(*versions)
    async with connected(agent) as editor:
        hello = {**HELLO, "protocolVersion": asked}
        assert (await editor.client.result("initialize", hello))["protocolVersion"] == answered
        assert ("modes" if answered == 1 else "configOptions") not in await editor.client.result(
            "session/new", {"cwd": "/p", "mcpServers": []}
        )
        missing = "session/load" if answered == 2 else "tool_call/cancel"
        assert (await editor.refusal(missing, {}))["code"] == METHOD_NOT_FOUND


async def test_a_malformed_mcp_server_of_a_type_that_version_1_alone_has_is_refused_like_any_other() -> None:
    agent, _ = reader(1, 2)
    async with editing(agent) as editor:
        server = {"type": "sse", "name": "old", "headers": []}
        refused = await editor.refusal("session/new", {"cwd": "/p", "mcpServers": [server]})
        assert refused["code"] == INVALID_PARAMS
        assert refused["data"] == {"problems": [{"path": "url", "message": "Field required"}]}


@pytest.mark.parametrize("method", ["session/new", "session/resume"])
async def test_an_mcp_server_with_a_transport_that_the_agent_lacks_is_refused(method: str) -> None:
    agent, _ = reader(2)
    async with editing(agent) as editor:
        params = {"sessionId": await editor.open(), "cwd": "/p", "mcpServers": [{"type": "_own", "name": "far"}]}
        refused = await editor.refusal(method, params)
        assert refused["code"] == INVALID_PARAMS
        assert [problem["path"] for problem in refused["data"]["problems"]] == ["mcpServers[0]"]


async def test_an_mcp_server_that_is_nested_too_deep_to_be_kept_is_the_mistake_of_the_client() -> None:
    agent, _ = reader(2)
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    async with editing(agent) as editor:
        server = {"type": "_own", "name": "deep", "depth": deep}
        refused = await editor.refusal("session/new", {"cwd": "/p", "mcpServers": [server]})
        assert refused["code"] == INVALID_PARAMS
        assert [problem["path"] for problem in refused["data"]["problems"]] == ["mcpServers"]


@pytest.mark.parametrize(("versions", "asked"), [((1, 2), 0), ((2,), 0), ((2,), 1)])
@pytest.mark.behaviour("M12")
async def test_without_a_version_in_common_initialize_is_refused_and_may_be_tried_again(
    versions: Any, asked: int
) -> None:
    agent, _ = reader(*versions)
    async with connected(agent) as editor:
        refused = await editor.refusal("initialize", {**HELLO, "protocolVersion": asked})
        assert refused["code"] == UNSUPPORTED_VERSION
        assert refused["data"] == {"requested": asked, "supported": sorted(versions)}
        assert (await editor.client.result("initialize", HELLO))["protocolVersion"] == 2


@pytest.mark.parametrize(
    "params",
    [
        {"protocolVersion": 2},
        {"protocolVersion": 2, "info": {"name": "x"}},
        {"protocolVersion": 2, "info": 7},
        {"protocolVersion": 2, "clientInfo": {"name": "x", "version": "1"}},
        {"protocolVersion": 65536, "info": HELLO["info"]},
        {"protocolVersion": -1, "info": HELLO["info"]},
    ],
)
async def test_what_is_asked_of_version_2_must_fit_it(params: Any) -> None:
    agent, _ = reader(1, 2)
    async with connected(agent) as editor:
        assert (await editor.refusal("initialize", params))["code"] == INVALID_PARAMS
        # The connection has no version yet.
        assert (await editor.client.result("initialize", {"protocolVersion": 1}))["protocolVersion"] == 1


async def test_a_client_that_was_refused_version_2_has_its_sessions_in_version_1() -> None:
    agent, _ = reader(1, 2)
    agent.modes(SessionMode(id="ask", name="Ask"))
    async with connected(agent) as editor:
        assert (await editor.refusal("initialize", {"protocolVersion": 2}))["code"] == INVALID_PARAMS
        await editor.client.result("initialize", {"protocolVersion": 1})
        opened = await editor.client.result("session/new", {"cwd": "/p", "mcpServers": []})
        assert opened["modes"]["currentModeId"] == "ask"


@pytest.mark.parametrize("info", [..., 7, {"name": 3}, {"name": "later"}])
async def test_of_a_version_above_ours_what_fits_is_taken(info: Any) -> None:
    agent, sessions = reader(1, 2)
    params = {"protocolVersion": 3, "capabilities": {"elicitation": {"url": {}}, "fs": {"readTextFile": True}}}
    async with connected(agent) as editor:
        answer = await editor.client.result("initialize", params if info is ... else {**params, "info": info})
        assert answer["protocolVersion"] == 2
        await editor.open()
        announced = sessions[0].client.capabilities
        assert announced.elicitation is not None
        assert announced.elicitation.url is not None
        # Version 2 does not have it, so it is not known what it would mean.
        assert not announced.fs.read_text_file


async def test_the_answer_tells_who_the_agent_is_and_what_it_can_do() -> None:
    agent = Agent("all", version="1", title="All", versions=(2,), accepts=["image", "audio"], mcp=["http", "sse"])
    agent.terminal_login("term", name="Terminal", args=["--login"], env={"K": "v"})

    @agent.authenticate("key", name="Key", description="An API key")
    async def key(call: Call) -> None: ...

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with connected(agent) as editor:
        hello = {**HELLO, "capabilities": {"auth": {"terminal": {}}}}
        assert await editor.client.result("initialize", hello) == {
            "protocolVersion": 2,
            "info": {"name": "all", "version": "1", "title": "All"},
            "capabilities": {
                "session": {
                    "prompt": {"image": {}, "audio": {}},
                    "mcp": {"stdio": {}, "http": {}},
                    "delete": {},
                    "additionalDirectories": {},
                },
            },
            "authMethods": [
                {
                    "type": "terminal",
                    "methodId": "term",
                    "name": "Terminal",
                    "args": ["--login"],
                    "env": [{"name": "K", "value": "v"}],
                },
                {"type": "agent", "methodId": "key", "name": "Key", "description": "An API key"},
            ],
        }


@pytest.mark.parametrize("method", ["session/new", "session/prompt", "_ping", "unknown/method"])
async def test_no_request_is_taken_before_initialize_is_answered(method: str) -> None:
    agent, sessions = reader(2)
    told: list[str] = []

    @agent.method("_ping")
    async def ping(call: Call) -> str:
        return "pong"

    @agent.notification("_tell")
    def tell(connection: object) -> None:
        told.append("told")

    async with connected(agent) as editor:
        assert (await editor.refusal(method, NEW["params"]))["code"] == INVALID_REQUEST
        await editor.client.notify("_tell")
        await editor.settled()
        # Its sender cannot know yet which version is spoken. Not through the reader, which has other tasks run between.
        hello = editor.client.new_request("initialize", HELLO)
        early = editor.client.new_request(method, NEW["params"])
        for event in editor.connection.endpoint.receive(encode(hello) + encode(early)):
            editor.connection._inbound.begin(event)
            editor.connection._inbound.dispatcher.settle()
        assert await editor.code(early["id"]) == INVALID_REQUEST
        assert (await editor.answer(hello["id"]))["protocolVersion"] == 2
        assert not sessions
        assert not told
        assert await editor.client.result("_ping") == "pong"


async def test_on_version_1_requests_before_initialize_are_taken_and_then_it_stays_so() -> None:
    agent, _ = reader(1, 2)
    async with connected(agent) as editor:
        session = await editor.open()
        refused = await editor.refusal("initialize", HELLO)
        assert refused["code"] == INVALID_REQUEST
        assert (await editor.client.result("initialize", {"protocolVersion": 1}))["protocolVersion"] == 1
        assert await editor.ask(session) == v1.END_TURN


async def test_a_connection_that_speaks_version_1_stays_with_it() -> None:
    agent, _ = reader(1, 2)
    async with connected(agent) as editor:
        for asked in (1, 2, 0):
            answer = await editor.client.result("initialize", {**HELLO, "protocolVersion": asked})
            assert answer["protocolVersion"] == 1


async def test_initialize_may_be_repeated_until_another_request_was_made() -> None:
    agent, sessions = reader(1, 2)
    async with editing(agent) as editor:
        again = {**HELLO, "info": {"name": "renamed", "version": "2"}}
        assert (await editor.client.result("initialize", again))["protocolVersion"] == 2
        assert (await editor.refusal("initialize", {**HELLO, "protocolVersion": 1}))["code"] == INVALID_REQUEST
        await editor.open()
        assert sessions[0].client.profile.info is not None
        assert sessions[0].client.profile.info.name == "renamed"
        assert (await editor.refusal("initialize", again))["code"] == INVALID_REQUEST


@pytest.mark.parametrize("first", ["session/list", "_ping", "session/cancel", "session/load"])
async def test_which_requests_settle_it(first: str) -> None:
    agent, _ = reader(1, 2)

    @agent.method("_ping")
    async def ping(call: Call) -> str:
        return "pong"

    async with editing(agent) as editor:
        await editor.client.ask(first, {})
        # A method that is not there was not made.
        known = first in ("session/list", "_ping")
        answer = await editor.client.ask("initialize", HELLO)
        assert ("error" in answer) == known


async def test_an_initialize_that_is_cancelled_may_be_tried_again() -> None:
    agent, _ = reader(1, 2)
    async with connected(agent) as editor:
        hello = editor.client.new_request("initialize", HELLO)
        await editor.client.send(hello, cancelling(hello["id"]))
        assert await editor.code(hello["id"]) == REQUEST_CANCELLED
        assert (await editor.refusal("session/list"))["code"] == INVALID_REQUEST
        assert (await editor.client.result("initialize", HELLO))["protocolVersion"] == 2
        assert await editor.client.result("session/list", {}) == {"sessions": []}


def cancelling(id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": v1.CANCEL, "params": {"requestId": id}}


@pytest.mark.parametrize(
    "batch", [[], [NEW], [1], [{"jsonrpc": "2.0", "method": "session/cancel", "params": {}}], [NEW, NEW]]
)
async def test_a_batch_is_refused_as_a_whole(batch: list[Any]) -> None:
    agent, sessions = reader(1, 2)
    async with editing(agent) as editor:
        await editor.client.send(batch)
        await editor.client.barrier()
        (refused,) = [message for message in editor.client.received if message.get("id", 0) is None]
        assert refused["error"]["code"] == INVALID_REQUEST
        assert not sessions


async def test_null_is_no_id_of_a_request() -> None:
    agent, sessions = reader(1, 2)
    async with editing(agent) as editor:
        await editor.client.send({**NEW, "id": None})
        await editor.client.barrier()
        (refused,) = [message for message in editor.client.received if message.get("id", 0) is None]
        assert refused["error"]["code"] == INVALID_REQUEST
        assert not sessions


@pytest.mark.parametrize("wrap", [lambda hello: [hello], lambda hello: {**hello, "id": None}], ids=["batch", "null"])
async def test_version_2_is_not_asked_for_in_a_batch_or_without_an_id(wrap: Any) -> None:
    agent, _ = reader(1, 2)
    async with connected(agent) as editor:
        await editor.client.send(wrap(editor.client.new_request("initialize", HELLO)))
        await editor.client.barrier()
        refused = editor.client.received[1]
        refused = refused["line"][0] if "line" in refused else refused
        assert refused["error"]["code"] == INVALID_REQUEST
        assert (await editor.client.result("initialize", HELLO))["protocolVersion"] == 2


async def test_version_1_takes_batches_and_null_as_ever_beside_version_2() -> None:
    agent, _ = reader(1, 2)
    async with v1.editing(agent) as editor:
        await editor.client.send([NEW])
        (in_batch,) = (await editor.client.expect(lambda message: "line" in message))["line"]
        await editor.client.send({**NEW, "id": None})
        plain = await editor.client.response(None)
        assert "sessionId" in in_batch["result"]
        assert "sessionId" in plain["result"]
