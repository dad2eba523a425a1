"""Sessions are made, loaded, resumed, listed, closed and deleted, also when the client changes its mind on the way."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server import Agent, Limits, RpcError, Session, SessionClosed, Turn, grace, schema
from acp_server.errors import INTERNAL_ERROR, INVALID_PARAMS, REQUEST_CANCELLED, RESOURCE_NOT_FOUND
from tests.session.editor import CANCELLED, END_TURN, QUICK, editing
from tests.session.stores import TestStore

pytestmark = pytest.mark.anyio

SETUPS = pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume"])
REOPENS = pytest.mark.parametrize("method", ["session/load", "session/resume"])


def talker(store: TestStore | None = None) -> tuple[Agent, list[Session]]:
    """An agent that echoes, hangs if told so, and the sessions it was asked to prepare."""
    agent = Agent("talker", store=store)
    sessions: list[Session] = []

    @agent.session
    async def prepare(session: Session) -> None:
        sessions.append(session)
        await session.set_commands([schema.AvailableCommand(name="x", description="y")])

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[Any]:
        yield f"re: {turn.text}"
        if turn.text == "hang":
            await anyio.sleep_forever()
        if turn.text == "outstay":
            try:
                await anyio.sleep_forever()
            finally:
                with grace(60):
                    await turn.session.data.wait()

    return agent, sessions


def setup(session: str | None = None, **params: Any) -> dict[str, Any]:
    return {"cwd": "/project", "mcpServers": [], **({"sessionId": session} if session else {}), **params}


# session/new


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


@pytest.mark.parametrize(("mcp", "names"), [((), "ab"), (("http",), "abc"), (("http", "sse"), "abcd")])
async def test_a_session_sees_the_mcp_servers_of_the_kinds_that_were_announced(
    mcp: Any, names: str, caplog: pytest.LogCaptureFixture
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
    assert caplog.text.count("is left out") == len(SERVERS) - len(names)


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
        assert await editor.refusal(method, params) == {"code": INTERNAL_ERROR, "message": "Internal error"}
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
        store.waits["save"] = anyio.Event()
        id = await editor.client.request(method, setup(None if method == "session/new" else session))
        await store.reached.wait()
        await editor.withdraw(id)
        await editor.settled()
        store.waits.pop("save").set()
        answer = await editor.answer(id)
        assert await editor.ask(answer.get("sessionId", session)) == END_TURN


@SETUPS
@pytest.mark.parametrize("how", ["fails", "hangs"])
@pytest.mark.behaviour("K6")
async def test_a_session_that_cannot_be_saved_is_not_there(method: str, how: str) -> None:
    store = TestStore()
    agent, sessions = talker(store)
    async with editing(agent, QUICK) as editor:
        session = await editor.open()
        if how == "fails":
            store.fails.add("save")
        else:
            store.waits["save"] = anyio.Event()
        refused = await editor.refusal(method, setup(None if method == "session/new" else session))
        assert refused == {"code": INTERNAL_ERROR, "message": "Internal error"}
        assert sessions[-1].closed
        store.fails.clear()
        store.waits.clear()
        assert (await editor.ask(sessions[-1].id))["code"] == RESOURCE_NOT_FOUND


# session/load and resume


@pytest.mark.behaviour("I8")
async def test_load_replays_the_conversation_before_its_answer_and_what_is_new_behind_it() -> None:
    agent = Agent("talker", accepts=["image"])
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}

    @agent.session
    async def prepare(session: Session) -> None:
        await session.set_title("fresh")

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[Any]:
        if turn.text == "fail":
            yield "before"
            raise ValueError
        await turn.think("hm")
        yield "one "
        yield "two"
        await turn.plan([schema.PlanEntry(content="old", priority="low", status="pending")])
        await turn.plan([schema.PlanEntry(content="new", priority="low", status="pending")])
        yield schema.ToolCall(tool_call_id="c", title="look", status="pending")
        yield schema.ToolCallProgress(tool_call_id="c", status="completed")
        yield schema.Notice(severity="info", title="not history")
        yield schema.CurrentModeUpdate(current_mode_id="not history")
        yield schema.UsageUpdate(used=1, size=9)
        yield schema.UsageUpdate(used=2, size=9)
        if turn.text == "hang":
            await anyio.sleep_forever()

    async with editing(agent) as editor:
        session = await editor.open()
        prompt_blocks = [{"type": "text", "text": "look", "_meta": {"k": 1}}, image]
        assert await editor.ask(session, prompt=prompt_blocks) == END_TURN
        await editor.ask(session, "fail")
        id = await editor.prompt(session, "hang")
        await editor.client.expect(lambda message: editor.said().count("two") == 2 and "'used': 2" in str(message))
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        await editor.client.ask("session/close", {"sessionId": session})
        begin = len(editor.client.received)
        load = await editor.client.request("session/load", setup(session))
        assert await editor.answer(load) == {}
        await editor.settled()
        replayed = editor.client.received[begin:]

        def user(block: dict[str, Any]) -> dict[str, Any]:
            return {"sessionUpdate": "user_message_chunk", "content": block}

        def agent_text(text: str, kind: str = "agent_message_chunk") -> dict[str, Any]:
            return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}

        turn = [
            agent_text("hm", "agent_thought_chunk"),
            agent_text("one two"),
            {"sessionUpdate": "plan", "entries": [{"content": "new", "priority": "low", "status": "pending"}]},
            {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "look", "status": "completed"},
            {"sessionUpdate": "usage_update", "used": 2, "size": 9},
        ]
        failed = [user({"type": "text", "text": "fail"}), agent_text("before")]
        hung = [user({"type": "text", "text": "hang"}), *turn]
        expected = [user(prompt_blocks[0]), user(image), *turn, *failed, *hung]
        assert [message["params"]["update"] for message in replayed[: len(expected)]] == expected
        assert replayed[len(expected)] == {"jsonrpc": "2.0", "id": load, "result": {}}
        (fresh,) = [m for m in replayed[len(expected) + 1 :] if m.get("method") == "session/update"]
        assert fresh["params"]["update"]["title"] == "fresh"


@pytest.mark.behaviour("I8")
async def test_resume_replays_nothing_and_the_session_goes_on() -> None:
    agent, sessions = talker()
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.ask(session, "one")
        await editor.client.ask("session/close", {"sessionId": session})
        begin = len(editor.client.received)
        assert await editor.client.result("session/resume", setup(session)) == {}
        await editor.settled()
        kinds = [m["params"]["update"]["sessionUpdate"] for m in editor.client.received[begin:] if "method" in m]
        assert kinds == ["available_commands_update"]
        await editor.ask(session, "two")
        assert [turn.prompt[0]["text"] for turn in sessions[-1].record.context()] == ["one", "two"]


async def test_a_cancelled_turn_is_history_but_no_context_for_the_next_one() -> None:
    agent, sessions = talker()
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.ask(session, "one")
        id = await editor.prompt(session, "hang")
        await editor.client.expect(lambda message: "re: hang" in str(message))
        await editor.cancel(session)
        await editor.answer(id)
        turns = sessions[0].record.turns
        assert [(turn.status, turn.stop_reason) for turn in turns] == [
            ("completed", "end_turn"),
            ("canceled", "cancelled"),
        ]
        assert sessions[0].record.context() == turns[:1]


@REOPENS
async def test_an_unknown_session_cannot_be_opened_again(method: str) -> None:
    agent, _ = talker()
    async with editing(agent) as editor:
        refused = await editor.refusal(method, setup("nobody"))
        assert (refused["code"], refused["data"]) == (RESOURCE_NOT_FOUND, {"sessionId": "nobody"})


@REOPENS
async def test_sessions_outlive_their_connection(method: str) -> None:
    agent, sessions = talker(TestStore())
    async with editing(agent) as editor:
        session = await editor.open("/old", additionalDirectories=["/more"])
        await editor.ask(session, "one")
    assert sessions[0].closed
    async with editing(agent) as editor:
        await editor.client.result(method, setup(session, cwd="/new"))
        assert sessions[-1].roots == ["/new"]
        assert await editor.ask(session, "two") == END_TURN
        (listed,) = (await editor.client.result("session/list", {}))["sessions"]
        assert (listed["cwd"], listed.get("additionalDirectories")) == ("/new", None)


@REOPENS
@pytest.mark.behaviour("F18", "F5")
async def test_opening_a_session_again_ends_its_running_turn_first(method: str) -> None:
    agent, sessions = talker()
    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session, "hang")
        await editor.client.expect(lambda message: "re: hang" in str(message))
        opened = await editor.client.request(method, setup(session))
        assert await editor.answer(opened) == {}
        order = [message.get("id") for message in editor.client.received if "result" in message]
        assert order[-2:] == [id, opened]
        assert await editor.answer(id) == CANCELLED
        assert sessions[0].closed
        assert not sessions[1].closed
        assert await editor.ask(session) == END_TURN


@pytest.mark.behaviour("F21", "B18", "K6")
async def test_a_cancel_stops_the_replay_of_a_load_and_the_session_is_not_open() -> None:
    agent, sessions = talker()
    async with editing(agent) as editor:
        session = await editor.open()
        for _ in range(3):
            await editor.ask(session, "x" * 100_000)
        await editor.client.ask("session/close", {"sessionId": session})
        editor.stream.stall_sending()
        load = await editor.client.request("session/load", setup(session))
        await editor.stream.stalled.wait()
        await editor.withdraw(load)
        await anyio.wait_all_tasks_blocked()
        editor.stream.release()
        assert await editor.code(load) == REQUEST_CANCELLED
        await editor.settled()
        assert editor.client.received[-2]["id"] == load
        assert len(editor.said(session, "user_message_chunk")) < 3
        assert sessions[-1].closed
        assert (await editor.ask(session))["code"] == RESOURCE_NOT_FOUND


@pytest.mark.behaviour("K6")
async def test_a_session_that_is_opened_twice_at_once_is_there_once() -> None:
    agent, sessions = talker(TestStore())
    async with editing(agent) as editor:
        session = await editor.open()
        ids = [await editor.client.request(m, setup(session)) for m in ("session/load", "session/resume")]
        assert [await editor.answer(id) for id in ids] == [{}, {}]
        assert [opened.closed for opened in sessions] == [True, True, False]
        assert await editor.ask(session) == END_TURN


@pytest.mark.parametrize("end", ["session/close", "session/delete"])
@pytest.mark.behaviour("K6", "F18", "F19")
async def test_a_session_that_is_ended_while_it_is_loaded_is_not_open_afterwards(end: str) -> None:
    store = TestStore()
    agent, sessions = talker(store)
    async with editing(agent) as editor:
        session = await editor.open()
        store.waits["load"] = anyio.Event()
        load = await editor.client.request("session/load", setup(session))
        await store.reached.wait()
        ended = await editor.client.request(end, {"sessionId": session})
        await editor.settled()
        store.waits["load"].set()
        assert await editor.answer(load) == {}
        assert await editor.answer(ended) == {}
        assert all(opened.closed for opened in sessions)
        assert (await editor.ask(session))["code"] == RESOURCE_NOT_FOUND
        assert (session in store.ids) is (end == "session/close")


# session/list


async def test_sessions_are_listed_with_the_one_used_last_first_and_page_by_page() -> None:
    agent, sessions = talker(TestStore(page_size=2))
    async with editing(agent) as editor:
        ids = [await editor.open(cwd) for cwd in ("/a", "/b", "/a", "/b", "/a")]
        await sessions[0].set_title("the first")
        page = await editor.client.result("session/list", {})
        assert page["sessions"][0]["title"] == "the first"
        assert page["sessions"][0]["updatedAt"].endswith("Z")
        found = [entry["sessionId"] for entry in page["sessions"]]
        while "nextCursor" in page:
            assert len(page["sessions"]) == 2
            page = await editor.client.result("session/list", {"cursor": page["nextCursor"]})
            found += [entry["sessionId"] for entry in page["sessions"]]
        assert found == [ids[0], *reversed(ids[1:])]
        page = await editor.client.result("session/list", {"cwd": "/b"})
        assert [entry["sessionId"] for entry in page["sessions"]] == [ids[3], ids[1]]
        assert "nextCursor" not in page
        assert (await editor.client.result("session/list", {"cwd": "/nowhere"})) == {"sessions": []}


@pytest.mark.parametrize("cursor", ["", "x", "!!!!", "ä", "YQ==", "YQpi", "bmFuCng=", 7, {}])
async def test_a_cursor_that_we_never_gave_is_refused(cursor: Any) -> None:
    agent, _ = talker()
    async with editing(agent) as editor:
        await editor.open()
        assert (await editor.refusal("session/list", {"cursor": cursor}))["code"] == INVALID_PARAMS


# session/close and delete


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
@pytest.mark.behaviour("F18", "F19", "K6")
async def test_ending_a_session_cancels_its_turn_frees_it_and_then_answers(method: str) -> None:
    store = TestStore()
    agent, sessions = talker(store)
    async with editing(agent) as editor:
        session = await editor.open()
        order: list[str] = []
        sessions[0].on_close(lambda: order.append("first opened"))
        sessions[0].on_close(lambda: order.append("last opened"))
        id = await editor.prompt(session, "hang")
        await editor.client.expect(lambda message: "re: hang" in str(message))
        ended = await editor.client.request(method, {"sessionId": session})
        assert await editor.answer(ended) == {}
        assert await editor.answer(id) == CANCELLED
        assert [message["id"] for message in editor.client.received[-2:]] == [id, ended]
        assert order == ["last opened", "first opened"]
        assert (session in store.ids) is (method == "session/close")
        # Nothing more of it, in either direction.
        with pytest.raises(SessionClosed):
            await sessions[0].set_commands([])
        for refused in (
            await editor.ask(session),
            await editor.answer(await editor.client.request("session/prompt", {"sessionId": session, "prompt": []})),
        ):
            assert refused["code"] == RESOURCE_NOT_FOUND
        await editor.cancel(session)
        assert await editor.client.result(method, {"sessionId": session}) == {}
        assert not editor.connection.tree.size


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
@pytest.mark.behaviour("F19", "F20")
async def test_ending_an_unknown_session_succeeds_and_malformed_parameters_do_not(method: str) -> None:
    agent, _ = talker()
    async with editing(agent) as editor:
        assert await editor.client.result(method, {"sessionId": "nobody"}) == {}
        assert (await editor.refusal(method, {"sessionId": 7}))["code"] == INVALID_PARAMS
        assert (await editor.refusal(method))["code"] == INVALID_PARAMS


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
@pytest.mark.behaviour("F18", "F22")
async def test_a_turn_that_outstays_and_one_that_waits_behind_it_are_answered_before_the_close(method: str) -> None:
    store = TestStore()
    agent, sessions = talker(store)
    async with editing(agent, QUICK) as editor:
        session = await editor.open()
        sessions[0].data = through = anyio.Event()
        first = await editor.prompt(session, "outstay")
        await editor.client.expect(lambda message: "re: outstay" in str(message))
        await editor.cancel(session)
        waiting = await editor.prompt(session, "waits")
        await editor.settled()
        ended = await editor.client.request(method, {"sessionId": session})
        assert await editor.answer(ended) == {}
        assert [message["id"] for message in editor.client.received[-3:]] == [waiting, first, ended]
        assert await editor.answer(first) == await editor.answer(waiting) == CANCELLED
        through.set()
        await anyio.wait_all_tasks_blocked()
        # What came of it late does not bring a deleted session back.
        assert (session in store.ids) is (method == "session/close")


@pytest.mark.behaviour("K6", "D6")
async def test_every_closer_is_called_whatever_the_others_do(caplog: pytest.LogCaptureFixture) -> None:
    agent, sessions = talker()
    called: list[str] = []

    async def waits() -> None:
        await anyio.lowlevel.checkpoint()
        called.append("waits")

    def fails() -> None:
        called.append("fails")
        raise ValueError("of the closer")

    async def hangs() -> None:
        called.append("hangs")
        await anyio.sleep_forever()

    async with editing(agent, QUICK) as editor:
        session = await editor.open()
        sessions[0].on_close(lambda: called.append("plain"))
        for closer in (hangs, fails, waits):
            sessions[0].on_close(closer)
        assert await editor.client.result("session/close", {"sessionId": session}) == {}
        assert called == ["waits", "fails", "hangs", "plain"]
    assert "ValueError: of the closer" in caplog.text
    assert "was cut short" in caplog.text


@pytest.mark.behaviour("K6")
async def test_the_end_of_the_connection_closes_all_sessions_at_once() -> None:
    agent, sessions = talker()
    closed: list[str] = []

    async def hangs() -> None:
        await anyio.sleep_forever()

    async with editing(agent, Limits(grace=0.3, drain=0.05)) as editor:
        for _ in range(10):
            await editor.open()
        for session in sessions:
            session.on_close(lambda: closed.append("closed"))
            session.on_close(hangs)
    assert len(closed) == 10


@pytest.mark.behaviour("K6")
async def test_a_closed_session_is_forgotten_by_its_connection() -> None:
    agent, sessions = talker()
    async with editing(agent) as editor:
        for _ in range(3):
            session = await editor.open()
            await editor.ask(session)
            await editor.client.ask("session/close", {"sessionId": session})
        (service,) = agent._services.values()  # pyright: ignore[reportPrivateUsage]
        assert not service._lifecycle.sessions  # pyright: ignore[reportPrivateUsage]
        assert not service._lifecycle._locks  # pyright: ignore[reportPrivateUsage]
        assert not any(session.turns for session in sessions)
    assert not agent._services  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("by", ["session/close", "session/delete", "session/list", "session/set_mode"])
@pytest.mark.behaviour("B18")
async def test_the_other_session_methods_can_be_cancelled_too(by: str) -> None:
    hung = anyio.Event()

    class Hangs(TestStore):
        async def list(self, cwd: str | None, cursor: str | None) -> Any:
            hung.set()
            await anyio.sleep_forever()

        async def delete(self, session_id: str) -> None:
            hung.set()
            await anyio.sleep_forever()

    agent, sessions = talker(Hangs())
    agent.modes(schema.SessionMode(id="a", name="A"))

    @agent.set_mode
    async def set_mode(session: Session, mode: str) -> None:
        hung.set()
        await anyio.sleep_forever()

    async def hangs() -> None:
        hung.set()
        await released.wait()

    released = anyio.Event()
    async with editing(agent) as editor:
        session = await editor.open()
        sessions[0].on_close(hangs)
        id = await editor.client.request(by, {"sessionId": session, "modeId": "a"})
        await hung.wait()
        await editor.withdraw(id)
        await editor.settled()
        released.set()
        # Half a closed session would be none, so closing goes on to its end.
        assert await editor.answer(id) == (
            {} if by == "session/close" else {"code": REQUEST_CANCELLED, "message": "Request cancelled"}
        )
        if by == "session/set_mode":
            assert sessions[0].mode == "a"
