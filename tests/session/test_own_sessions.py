"""Sessions of an agent with a log of its own: its ids, its replay, opened and closed from code, without a history."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from acp_server import (
    Agent,
    Call,
    MemoryStore,
    Page,
    RpcError,
    Session,
    SessionRecord,
    SqliteStore,
    Turn,
    UsageError,
)
from acp_server.errors import INTERNAL_ERROR
from acp_server.schema import (
    AgentMessageChunk,
    SessionConfigSelect,
    SessionConfigSelectOption,
    SessionInfo,
    SessionMode,
    TextContent,
)
from tests.session import editor as v1
from tests.session.editor import END_TURN, Editor
from tests.session.v2 import editor as v2

Editing = Callable[[Agent], AbstractAsyncContextManager[Editor]]
BOTH = pytest.mark.parametrize("editing", [v1.editing, v2.editing], ids=["v1", "v2"])


def talker(**options: Any) -> Agent:
    agent = Agent("own", **options)

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncGenerator[str]:
        yield f"{turn.text}!"

    return agent


def forking(agent: Agent) -> None:
    @agent.method("_session/fork")
    async def fork(call: Call, sessionId: str) -> dict[str, Any]:  # noqa: N803 - as the wire has it
        source = agent.find_session(call.connection, sessionId)
        forked = await agent.open_session(call, source.cwd, fork_of=source)
        await forked.set_title("forked")
        return {"sessionId": forked.id}


@BOTH
@pytest.mark.anyio
async def test_a_new_session_has_the_id_that_the_agent_gives_it(editing: Editing) -> None:
    agent = talker()

    @agent.session_id
    def named(call: Call) -> str | None:
        return call.meta.get("id")

    async with editing(agent) as editor:
        assert await editor.open(_meta={"id": "acp-7"}) == "acp-7"
        assert (await editor.open()).startswith("sess_")
        refusal = await editor.refusal("session/new", {"cwd": "/project", "mcpServers": [], "_meta": {"id": "acp-7"}})
        assert refusal["code"] == -32603
        await editor.client.result("session/close", {"sessionId": "acp-7"})
        # It is in the store.
        refusal = await editor.refusal("session/new", {"cwd": "/project", "mcpServers": [], "_meta": {"id": "acp-7"}})
        assert refusal["code"] == -32603


@pytest.mark.anyio
async def test_an_agent_without_a_history_may_have_begun_the_log_of_a_new_session() -> None:
    class Log(MemoryStore):
        async def load(self, session_id: str, *, cwd: str | None = None) -> SessionRecord | None:
            if session_id != "mine":
                raise RpcError(f"No {session_id}", code=-32602, data={"session_id": session_id})
            return SessionRecord(session_id, cwd or "/")

    for history in (False, True):
        agent = talker(store=Log(), history=history)

        @agent.session_id
        def named(call: Call) -> str:
            return "mine"

        async with v1.editing(agent) as editor:
            setup = {"cwd": "/project", "mcpServers": []}
            if history:
                assert (await editor.refusal("session/new", setup))["code"] == INTERNAL_ERROR
                continue
            assert await editor.open() == "mine"
            assert (await editor.refusal("session/new", setup))["code"] == INTERNAL_ERROR
            refusal = await editor.refusal("session/load", {**setup, "sessionId": "other"})
            assert refusal == {"code": -32602, "message": "No other", "data": {"session_id": "other"}}


@BOTH
@pytest.mark.anyio
async def test_what_names_a_session_leaves_something_for_its_handler(editing: Editing) -> None:
    agent = talker()
    found: list[Any] = []

    @agent.session_id
    def named(call: Call) -> str:
        call.data = ["made", call.method]
        return f"talk-{len(found)}"

    @agent.session
    def opened(session: Session) -> None:
        assert session.call is not None
        found.append(session.call.data)

    @agent.method("_open")
    async def open_one(call: Call) -> dict[str, Any]:
        return (await agent.open_session(call, "/project")).opening()

    async with editing(agent) as editor:
        await editor.open()
        assert await editor.client.result("_open") == {"sessionId": "talk-1"}
    assert found == [["made", "session/new"], ["made", "_open"]]


@BOTH
@pytest.mark.anyio
@pytest.mark.odd_shapes  # it takes members out of what it has got
async def test_a_method_that_opens_a_session_answers_what_a_new_one_is_answered(editing: Editing) -> None:
    agent = talker()
    agent.modes(SessionMode(id="ask", name="Ask"))
    choices = [SessionConfigSelectOption(value="s", name="S")]
    agent.config_options(SessionConfigSelect(id="model", name="Model", current_value="s", options=choices))

    @agent.method("_open")
    async def open_one(call: Call) -> dict[str, Any]:
        return (await agent.open_session(call, "/project")).opening()

    async with editing(agent) as editor:
        new = await editor.client.result("session/new", {"cwd": "/project", "mcpServers": []})
        opened = await editor.client.result("_open")
        assert opened.pop("sessionId") != new.pop("sessionId")
        assert opened == new
        assert opened["configOptions"]


@BOTH
@pytest.mark.anyio
async def test_a_list_has_what_a_log_of_the_authors_own_says_of_its_sessions(editing: Editing) -> None:
    class Log(MemoryStore):
        async def list(self, cwd: str | None, cursor: str | None) -> Page:
            told = SessionInfo(session_id="a", cwd="/a", updated_at="2024-01-01T12:00:00Z", meta={"messages": 3})
            return Page([SessionRecord("c", "/c", ["/d"])], None, [told, SessionInfo(session_id="b", cwd="/b")])

    async with editing(talker(store=Log())) as editor:
        c, a, b = (await editor.client.result("session/list", {}))["sessions"]
        assert a == {"sessionId": "a", "cwd": "/a", "updatedAt": "2024-01-01T12:00:00Z", "_meta": {"messages": 3}}
        assert b == {"sessionId": "b", "cwd": "/b"}
        assert (c["sessionId"], c["additionalDirectories"]) == ("c", ["/d"])


@pytest.mark.anyio
@pytest.mark.parametrize("id", ["", 7, "x" * 1001])
async def test_what_cannot_be_an_id_is_refused(id: Any) -> None:
    agent = talker()

    @agent.session_id
    def named(call: Call) -> Any:
        return id

    async with v1.editing(agent) as editor:
        refusal = await editor.refusal("session/new", {"cwd": "/project", "mcpServers": []})
        assert refusal == {"code": -32603, "message": "Internal error: the agent's log says why"}


@pytest.mark.anyio
async def test_two_sessions_at_once_do_not_get_one_id() -> None:
    agent = talker()

    @agent.session_id
    def named(call: Call) -> str:
        return "one"

    async with v1.editing(agent) as editor:
        asked = [editor.client.new_request("session/new", {"cwd": "/p", "mcpServers": []}) for _ in range(3)]
        await editor.client.send(*asked)
        answers = [await editor.answer(each["id"]) for each in asked]
        assert sorted(answer.get("code", 0) for answer in answers) == [-32603, -32603, 0]


@BOTH
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "file"])
@pytest.mark.anyio
async def test_a_method_opens_a_session_that_begins_with_the_turns_of_another(
    editing: Editing, stored: bool, tmp_path: Path
) -> None:
    store = SqliteStore(tmp_path / "sessions") if stored else MemoryStore()
    agent = talker(store=store)
    forking(agent)
    origins: list[str] = []

    @agent.session
    def opened(session: Session) -> None:
        origins.append(session.origin)

    async with editing(agent) as editor:
        source = await editor.open()
        assert await editor.ask(source, "one") == END_TURN
        forked = (await editor.client.result("_session/fork", {"sessionId": source}))["sessionId"]
        # The client hears of the session behind the answer that tells it of the session.
        titles = [m for m in editor.client.received if "session_info_update" in str(m) and forked in str(m)]
        answer = next(m for m in editor.client.received if m.get("result", {}).get("sessionId") == forked)
        assert editor.client.received.index(answer) < editor.client.received.index(titles[0])
        assert await editor.ask(forked, "two") == END_TURN
        turns = [turn.prompt[0]["text"] for turn in agent.find_session(editor.connection, forked).record.turns]
        assert turns == ["one", "two"]
        assert len(agent.find_session(editor.connection, source).record.turns) == 1
        assert origins == ["new", "fork"]
    record = await store.load(forked)
    assert record is not None
    assert [turn.prompt[0]["text"] for turn in record.turns] == ["one", "two"]
    original = await store.load(source)
    assert original is not None
    assert [turn.prompt[0]["text"] for turn in original.turns] == ["one"]
    if isinstance(store, SqliteStore):
        store.close()


@BOTH
@pytest.mark.anyio
async def test_a_turn_opens_a_session_that_the_client_hears_of_at_once(editing: Editing) -> None:
    agent = Agent("parent")

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncGenerator[str]:
        if turn.text == "delegate":
            child = await agent.open_session(turn, turn.session.cwd)
            await child.update(AgentMessageChunk(content=TextContent(text="from the child")))
            yield child.id
            await agent.close_session(child)
            assert child.closed

    async with editing(agent) as editor:
        session = await editor.open()
        assert await editor.ask(session, "delegate") == END_TURN
        (told,) = [m["params"] for m in editor.client.received if "from the child" in str(m)]
        assert told["sessionId"] != session
        refusal = await editor.refusal(
            "session/prompt", {"sessionId": told["sessionId"], "prompt": [{"type": "text", "text": "x"}]}
        )
        assert refusal["code"] == -32002


@BOTH
@pytest.mark.anyio
async def test_a_session_closed_from_code_is_cancelled_closed_and_perhaps_forgotten(editing: Editing) -> None:
    agent = talker()

    @agent.method("_close")
    async def close(call: Call, id: str, delete: bool) -> None:
        await agent.close_session(agent.find_session(call.connection, id), delete=delete)

    async with editing(agent) as editor:
        kept, gone = await editor.open(), await editor.open()
        await editor.client.result("_close", {"id": kept, "delete": False})
        await editor.client.result("_close", {"id": gone, "delete": True})
        assert (await editor.refusal("_close", {"id": kept, "delete": False}))["code"] == -32002
        assert await agent.store.load(kept) is not None
        assert await agent.store.load(gone) is None


@BOTH
@pytest.mark.anyio
async def test_a_loaded_session_is_shown_by_the_agent_s_own_log(editing: Editing) -> None:
    agent = talker(history=False)
    log: dict[str, list[str]] = {}

    @agent.replay
    async def replay(session: Session) -> AsyncGenerator[Any]:
        for line in log[session.id]:
            yield {"sessionUpdate": "user_message_chunk", "messageId": line, "content": {"type": "text", "text": line}}
            yield AgentMessageChunk(content=TextContent(text=line.upper()))

    async with editing(agent) as editor:
        session = await editor.open()
        assert await editor.ask(session, "a") == END_TURN
        assert agent.find_session(editor.connection, session).record.turns == []
        log[session] = ["a", "b"]
        before = len(editor.client.received)
        known = {"sessionId": session, "cwd": "/project", "mcpServers": []}
        if editing is v1.editing:
            await editor.client.result("session/load", known)
        else:
            await editor.client.result("session/resume", {**known, "replayFrom": {"type": "start"}})
        *shown, answer = editor.client.received[before:]
        assert "result" in answer
        texts = [str(m) for m in shown if "message" in str(m["params"]["update"].get("sessionUpdate"))]
        assert ["'a'" in texts[0], "'A'" in texts[1], "'b'" in texts[2], "'B'" in texts[3]] == [True] * 4


@BOTH
@pytest.mark.anyio
async def test_a_method_sees_whether_a_turn_of_a_session_runs(editing: Editing) -> None:
    agent = Agent("a")
    running: list[Turn | None] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        running.append(turn.session.turn)
        assert turn.session.turn is turn

    async with editing(agent) as editor:
        id = await editor.open()
        session = agent.find_session(editor.connection, id)
        assert session.turn is None
        assert await editor.ask(id) == END_TURN
        assert session.turn is None
    assert len(running) == 1


def test_a_replay_handler_has_to_yield() -> None:
    async def not_a_generator(session: Session) -> None: ...

    with pytest.raises(UsageError, match="a replay handler must be `async def` and yield"):
        Agent("a").replay(not_a_generator)


@pytest.mark.anyio
async def test_without_history_nothing_is_kept_and_keeping_is_refused() -> None:
    agent = Agent("a", history=False)

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncGenerator[str]:
        yield "x" * 1000
        assert turn.record.size == 0
        assert [message.text for message in turn.context()] == [turn.text]
        with pytest.raises(UsageError, match="history=False"):
            turn.keep("mine", {})

    async with v1.editing(agent) as editor:
        session = await editor.open()
        assert await editor.ask(session, "a") == END_TURN
        assert await editor.ask(session, "b") == END_TURN


@BOTH
@pytest.mark.anyio
async def test_a_store_has_one_name_for_a_folder_whatever_it_is_asked(editing: Editing, tmp_path: Path) -> None:
    asked: list[tuple[str, str | None]] = []
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)

    class Store(MemoryStore):
        async def load(self, session_id: str, *, cwd: str | None = None) -> Any:
            asked.append(("load", cwd))
            return await super().load(session_id, cwd=cwd)

        async def list(self, cwd: str | None, cursor: str | None) -> Page:
            asked.append(("list", cwd))
            return await super().list(cwd, cursor)

    agent = talker(store=Store())
    spelled: list[str] = []
    agent.session(lambda session: spelled.append(session.cwd))

    @agent.session_id
    def named(call: Call) -> str:
        return "own"

    async with editing(agent) as editor:
        link = f"{tmp_path}/link"
        session = await editor.open(link)
        await editor.client.result("session/resume", {"sessionId": session, "cwd": link, "mcpServers": []})
        await editor.client.result("session/list", {"cwd": link})
    place = str((tmp_path / "real").resolve())
    assert asked == [("load", place), ("load", place), ("list", place)]
    assert spelled == [link, link]


class Log(MemoryStore):
    """Reads more of a session than is kept."""

    async def load(self, session_id: str, *, cwd: str | None = None) -> SessionRecord | None:
        if session_id != "logged":
            return await super().load(session_id)
        return SessionRecord(session_id, cwd or "/", data=["what was read"])


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_what_a_store_has_read_is_there_for_the_session_handler(method: str) -> None:
    agent = talker(store=Log(), history=False)
    found: list[Any] = []
    forking(agent)

    @agent.session
    def opened(session: Session) -> None:
        found.append((session.origin, session.record.data))

    async with v1.editing(agent) as editor:
        await editor.open()
        await editor.client.result(method, {"sessionId": "logged", "cwd": "/other", "mcpServers": []})
        await editor.client.result("_session/fork", {"sessionId": "logged"})
    assert found == [("new", None), (method.partition("/")[2], ["what was read"]), ("fork", ["what was read"])]
