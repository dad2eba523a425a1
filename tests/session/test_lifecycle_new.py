"""Making a session, and what is left of it when that fails or is cancelled: nothing."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server import Agent, Limits, MemoryStore, RpcError, Session, SessionClosed, Turn
from acp_server.errors import INTERNAL_ERROR, INVALID_PARAMS, REQUEST_CANCELLED, RESOURCE_NOT_FOUND
from acp_server.schema.session import McpServerStdio, UnknownMcpServer
from acp_server.store.records import SessionRecord
from tests.session.agents import setup, talker
from tests.session.editor import END_TURN, QUICK, editing
from tests.store.stores import TestStore

pytestmark = pytest.mark.anyio

SETUPS = pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume"])


@pytest.mark.behaviour("I7", "I9")
async def test_a_new_session_is_announced_by_its_answer_before_anything_is_said_of_it() -> None:
    agent, sessions = talker()
    async with editing(agent) as editor:
        session = await editor.open()
        (prepared,) = sessions
        assert prepared.id == session
        await editor.settled()
        answer, update = editor.client.received[-3:-1]
        assert answer["result"] == {"sessionId": session}
        assert update["params"]["update"]["sessionUpdate"] == "available_commands_update"
        assert await editor.open() != session


@SETUPS
@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"cwd": "relative"}, "cwd"),
        ({"cwd": ""}, "cwd"),
        ({"cwd": "/a\0b"}, "cwd"),
        ({"cwd": None}, "cwd"),
        ({"additionalDirectories": ["/a", "b"]}, "additionalDirectories[1]"),
        ({"additionalDirectories": "/a"}, "additionalDirectories"),
        ({"mcpServers": 7}, "mcpServers"),
        ({"mcpServers": [{"name": "a"}]}, "mcpServers[0].command"),
    ],
)
async def test_a_session_needs_absolute_paths_and_well_formed_servers(
    method: str, wrong: dict[str, Any], path: str
) -> None:
    agent, _ = talker()
    async with editing(agent) as editor:
        session = await editor.open()
        params = setup(None if method == "session/new" else session, **wrong)
        refused = await editor.refusal(method, params)
        assert refused["code"] == INVALID_PARAMS
        assert refused["data"]["problems"][0]["path"] == path
        assert await editor.ask(session) == END_TURN


@pytest.mark.parametrize("cwd", ["/project", "C:\\project", "C:/project", "\\\\server\\share\\project"])
async def test_paths_of_every_system_are_absolute(cwd: str) -> None:
    agent, sessions = talker()
    async with editing(agent) as editor:
        await editor.open(cwd, additionalDirectories=["/more"])
        assert (sessions[0].cwd, sessions[0].roots) == (cwd, [cwd, "/more"])


SERVERS = [
    {"name": "a", "command": "/bin/a", "args": [], "env": []},
    {"type": "stdio", "name": "b", "command": "/bin/b", "args": ["-x"], "env": [{"name": "K", "value": "v"}]},
    {"type": "http", "name": "c", "url": "https://a", "headers": []},
    {"type": "sse", "name": "d", "url": "https://a", "headers": [{"name": "K", "value": "v"}]},
    {"type": "carrier-pigeon", "name": "e"},
]


@pytest.mark.parametrize(
    ("mcp", "names", "left_out"),
    [
        ((), "ab", "['carrier-pigeon', 'http', 'sse']"),
        (("http",), "abc", "['carrier-pigeon', 'sse']"),
        (("http", "sse"), "abcd", "['carrier-pigeon']"),
    ],
)
async def test_a_session_sees_the_mcp_servers_of_the_kinds_that_were_announced(
    mcp: Any, names: str, left_out: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent("mcp", mcp=mcp)
    seen: list[Any] = []

    @agent.session
    def prepare(session: Session) -> None:
        seen.extend(session.mcp_servers)

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(agent) as editor:
        await editor.open(mcpServers=SERVERS)
        assert "".join(server.name for server in seen) == names
        assert seen[1].to_wire() == SERVERS[1]
    (entry,) = [record.getMessage() for record in caplog.records if "left out" in record.msg]
    assert entry == f"MCP servers of types that the agent does not announce were left out: {left_out}"


async def test_very_many_mcp_servers_are_looked_at_once_each(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(_one: object, _other: object) -> bool:
        raise AssertionError("one server was compared with another")

    monkeypatch.setattr(UnknownMcpServer, "__eq__", compare)
    monkeypatch.setattr(McpServerStdio, "__eq__", compare)
    agent, sessions = talker()
    async with editing(agent) as editor:
        await editor.open(mcpServers=[{"type": f"type {number}"} for number in range(100)] + [SERVERS[0]] * 100)
    assert len(sessions[0].mcp_servers) == 100
    assert len([record for record in caplog.records if "left out" in record.msg]) == 1
    assert len(caplog.messages[-1]) < 300


@SETUPS
@pytest.mark.behaviour("B18", "K6")
async def test_a_session_handler_that_fails_leaves_no_session_and_closes_what_it_opened(method: str) -> None:
    store = TestStore()
    agent = Agent("fails", store=store)
    closed: list[str] = []
    error: Exception | None = None

    @agent.session
    def open_things(session: Session) -> None:
        session.on_close(lambda: closed.append("things"))

    @agent.session
    async def prepare(session: Session) -> None:
        if error is not None:
            raise error

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(agent) as editor:
        session = await editor.open()
        await editor.client.ask("session/close", {"sessionId": session})
        before = set(store.ids)
        closed.clear()
        error = ValueError("secret")
        params = setup(None if method == "session/new" else session)
        assert await editor.refusal(method, params) == {
            "code": INTERNAL_ERROR,
            "message": "Internal error: the agent's log says why",
        }
        error = RpcError("no server", code=-31000)
        assert await editor.refusal(method, params) == {"code": -31000, "message": "no server"}
        assert closed == ["things"] * 2
        assert store.ids == before
        assert (await editor.ask(session))["code"] == RESOURCE_NOT_FOUND


@SETUPS
@pytest.mark.parametrize("swallows", [False, True])
@pytest.mark.behaviour("B18", "K6", "I7")
async def test_a_cancelled_setup_is_answered_so_and_leaves_nothing_half_made(method: str, swallows: bool) -> None:
    store = TestStore()
    agent = Agent("hangs", store=store)
    sessions: list[Session] = []
    closed: list[str] = []
    hang = False
    begun = anyio.Event()

    @agent.session
    async def prepare(session: Session) -> None:
        sessions.append(session)
        session.on_close(lambda: closed.append(session.id))
        await session.set_title("half made")
        if hang:
            begun.set()
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                if not swallows:
                    raise

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(agent) as editor:
        session = await editor.open()
        await editor.client.ask("session/close", {"sessionId": session})
        await editor.settled()
        before, updates = set(store.ids), len(editor.client.updates())
        hang = True
        id = await editor.client.request(method, setup(None if method == "session/new" else session))
        await begun.wait()
        await editor.withdraw(id)
        assert await editor.code(id) == REQUEST_CANCELLED
        await editor.settled()
        assert closed == [session, sessions[-1].id]
        assert len(editor.client.updates()) == updates
        assert {s["sessionId"] for s in (await editor.client.result("session/list", {}))["sessions"]} == before
        with pytest.raises(SessionClosed):
            await sessions[-1].set_commands([])


@SETUPS
@pytest.mark.behaviour("B18", "B2")
async def test_a_setup_that_is_cancelled_while_it_is_saved_is_complete_and_says_so(method: str) -> None:
    store = TestStore()
    agent, _ = talker(store)
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.client.ask("session/close", {"sessionId": session})
        store.waits["save"] = anyio.Event()
        id = await editor.client.request(method, setup(None if method == "session/new" else session))
        await store.reached.wait()
        await editor.withdraw(id)
        await editor.settled()
        store.waits.pop("save").set()
        answer = await editor.answer(id)
        assert "code" not in answer
        assert await editor.ask(answer.get("sessionId", session)) == END_TURN


@SETUPS
@pytest.mark.parametrize("how", ["fails", "hangs"])
@pytest.mark.behaviour("K6")
async def test_a_session_that_cannot_be_saved_is_not_there(method: str, how: str) -> None:
    store = TestStore()
    agent, sessions = talker(store)
    async with editing(agent, QUICK) as editor:
        session = await editor.open()
        await editor.client.ask("session/close", {"sessionId": session})
        if how == "fails":
            store.fails.add("save")
            told = {"code": INTERNAL_ERROR, "message": "Internal error: the agent's log says why"}
        else:
            store.waits["save"] = anyio.Event()
            told = {"code": REQUEST_CANCELLED, "message": "Request cancelled"}
        assert await editor.refusal(method, setup(None if method == "session/new" else session)) == told
        assert sessions[-1].closed
        store.fails.clear()
        store.waits.clear()
        assert (await editor.ask(sessions[-1].id))["code"] == RESOURCE_NOT_FOUND


class Late(TestStore):
    """Keeps a session at once, and says so late."""

    async def save(self, record: SessionRecord) -> None:
        MemoryStore.save(self, record)
        await super().save(record)


@pytest.mark.behaviour("B18")
@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_session_whose_client_was_told_that_there_is_none_is_not_kept(cancelled: bool) -> None:
    store = Late()
    agent, sessions = talker(store)
    async with editing(agent, Limits(drain=0.05, grace=0)) as editor:
        store.waits["save"] = anyio.Event()
        id = await editor.client.request("session/new", setup(None))
        await store.reached.wait()
        if cancelled:
            await editor.withdraw(id)
        assert (await editor.answer(id))["code"] == REQUEST_CANCELLED
        await editor.settled()
        assert (await editor.client.result("session/list", {}))["sessions"] == []
        assert store.ids == set()
        assert sessions[0].closed
