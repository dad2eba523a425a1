"""Loading and resuming sessions: what is replayed, and what becomes of the one that was open."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server import Agent, Session, Turn, schema
from acp_server.errors import INVALID_REQUEST, REQUEST_CANCELLED, RESOURCE_NOT_FOUND
from tests.session.agents import setup, talker
from tests.session.editor import CALM, CANCELLED, END_TURN, editing
from tests.store.stores import TestStore

pytestmark = pytest.mark.anyio

REOPENS = pytest.mark.parametrize("method", ["session/load", "session/resume"])


@pytest.mark.behaviour("I8")
async def test_load_replays_the_conversation_before_its_answer_and_what_is_new_behind_it() -> None:
    agent = Agent("talker", accepts=["image"])
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    sessions: list[Session] = []

    @agent.session
    async def prepare(session: Session) -> None:
        sessions.append(session)
        await session.set_title("fresh")

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[Any]:
        if turn.text == "fail":
            yield "before"
            yield schema.ToolCall(tool_call_id="a", title="try", status="in_progress")
            yield schema.ToolCall(tool_call_id="b", title="done", status="completed")
            yield schema.ToolCall(tool_call_id="c", title="not yet")
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

        records = sessions[0].record.turns

        def user(block: dict[str, Any], turn: int, status: str | None = None) -> dict[str, Any]:
            said = {"sessionUpdate": "user_message_chunk", "content": block}
            mark: dict[str, Any] = {"id": records[turn].id, "status": status}
            if status == "failed":
                mark["error"] = {"code": -32603, "message": "Internal error: the agent's log says why"}
            return said if status is None else {**said, "_meta": {"acp_server/turn": mark}}

        def call(id: str, title: str, status: str) -> dict[str, Any]:
            return {"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "status": status}

        def agent_text(text: str, kind: str = "agent_message_chunk") -> dict[str, Any]:
            return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}

        turn = [
            agent_text("hm", "agent_thought_chunk"),
            agent_text("one two"),
            {"sessionUpdate": "plan", "entries": [{"content": "new", "priority": "low", "status": "pending"}]},
            call("c", "look", "completed"),
            {"sessionUpdate": "usage_update", "used": 2, "size": 9},
        ]
        failed = [
            user({"type": "text", "text": "fail"}, 1, "failed"),
            agent_text("before"),
            # Of what did not come to its end, nothing is shown as if it still ran.
            call("a", "try", "failed"),
            call("b", "done", "completed"),
            call("c", "not yet", "failed"),
            agent_text("[failed: Internal error: the agent's log says why]"),
        ]
        hung = [user({"type": "text", "text": "hang"}, 2, "canceled"), *turn, agent_text("[stopped]")]
        expected = [user(prompt_blocks[0], 0), user(image, 0), *turn, *failed, *hung]
        shown = [message["params"]["update"] for message in replayed[: len(expected)]]
        ids = [update.pop("messageId") for update in shown if update["sessionUpdate"].endswith("_chunk")]
        assert shown == expected
        # Those of the first message's two blocks are one message; all others are messages of their own.
        assert ids[0] == ids[1]
        assert len({*ids}) == len(ids) - 1
        told, answer, *behind = replayed[len(expected) :]
        assert told["params"]["update"]["title"] == "fresh"
        assert answer == {"jsonrpc": "2.0", "id": load, "result": {}}
        (fresh,) = [m for m in behind if m.get("method") == "session/update"]
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
async def test_a_session_that_fails_to_open_again_is_kept_as_it_was(method: str) -> None:
    agent, _ = talker()
    fails = False

    @agent.session
    def prepare(session: Session) -> None:
        if fails:
            raise ValueError

    async with editing(agent) as editor:
        session = await editor.open("/old", additionalDirectories=["/more"])
        assert await editor.ask(session, "one") == END_TURN
        fails = True
        await editor.refusal(method, setup(session, cwd="/new"))
        (listed,) = (await editor.client.result("session/list", {}))["sessions"]
        assert (listed["cwd"], listed["additionalDirectories"]) == ("/old", ["/more"])


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


@REOPENS
@pytest.mark.behaviour("K6")
async def test_a_session_that_is_opened_takes_no_prompt_while_a_request_waits_to_open_it_again(method: str) -> None:
    store = TestStore()
    agent, _ = talker(store)
    async with editing(agent, replace(CALM, running=1)) as editor:
        session, other = await editor.open(), await editor.open()
        store.waits["load"] = anyio.Event()
        first = await editor.client.request(method, setup(session))
        await store.reached.wait()
        hanging = await editor.prompt(other, "hang")
        second = await editor.client.request("session/resume", setup(session))
        store.waits["load"].set()
        assert await editor.answer(first) == {}
        assert (await editor.ask(session))["code"] == INVALID_REQUEST
        await editor.cancel(other)
        assert await editor.answer(hanging) == CANCELLED
        assert await editor.answer(second) == {}
        assert await editor.ask(session) == END_TURN


async def test_a_prompt_in_a_session_that_is_kept_and_not_open_says_what_to_do() -> None:
    agent, _ = talker()
    async with editing(agent) as editor:
        session = await editor.open()
    async with editing(agent) as editor:
        assert await editor.ask(session) == {
            "code": RESOURCE_NOT_FOUND,
            "message": "Session not open: load or resume it first",
            "data": {"sessionId": session},
        }
        unknown = await editor.ask("nosuch")
        assert (unknown["code"], "resume" in unknown["message"]) == (RESOURCE_NOT_FOUND, False)


async def test_a_prompt_for_an_unknown_session_that_is_cancelled_at_once_is_answered_as_cancelled() -> None:
    agent = Agent("a")

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(agent) as editor:
        message = editor.prompting("unknown")
        withdrawal = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": message["id"]}}
        await editor.client.send(message, withdrawal)
        assert await editor.answer(message["id"]) == {"stopReason": "cancelled"}
