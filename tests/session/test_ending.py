"""What ends a session, or opens it anew, takes effect in the order of arrival, and in full or not at all."""

from typing import Any

import anyio
import pytest

from acp_server import Agent, MemoryStore, Session, Turn
from acp_server.errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, REQUEST_CANCELLED, RESOURCE_NOT_FOUND
from acp_server.session.live_session import LiveSession
from acp_server.store.records import SessionRecord
from tests.session.agents import listener, setup, talker
from tests.session.editor import CANCELLED, END_TURN, QUICK, Editor, editing
from tests.store.stores import TestStore

pytestmark = pytest.mark.anyio

METHODS = ["session/close", "session/delete", "session/load", "session/resume"]


def opens(method: str) -> bool:
    return method in ("session/load", "session/resume")


def ending(editor: Editor, method: str, session: str) -> dict[str, Any]:
    """A request that ends a session or opens it anew, not sent."""
    return editor.client.new_request(method, setup(session) if opens(method) else {"sessionId": session})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.behaviour("F18")
async def test_a_prompt_in_the_same_chunk_before_it_is_cancelled_before_its_handler_begins(method: str) -> None:
    agent, seen, _ = listener()
    async with editing(agent) as editor:
        session = await editor.open()
        prompt, end = editor.prompting(session), ending(editor, method, session)
        await editor.client.send(prompt, end)
        assert await editor.answer(prompt["id"]) == CANCELLED
        assert "code" not in await editor.answer(end["id"])
    assert not seen


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.behaviour("F18", "E3")
async def test_an_answer_behind_it_in_the_same_chunk_is_too_late(method: str) -> None:
    agent = Agent("asks")
    effects: list[str] = []

    @agent.tool(approval=True)
    async def act() -> None:
        effects.append("acted")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        await turn.run_tool("act")

    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session)
        question = await editor.client.expect("session/request_permission")
        yes = {"outcome": {"outcome": "selected", "optionId": question["params"]["options"][0]["optionId"]}}
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": yes}
        end = ending(editor, method, session)
        await editor.client.send(end, answer)
        assert await editor.answer(id) == CANCELLED
        assert "code" not in await editor.answer(end["id"])
    assert not effects


@pytest.mark.parametrize("method", METHODS)
async def test_a_prompt_behind_it_is_refused_until_it_is_answered(method: str) -> None:
    agent, seen, _ = listener()
    async with editing(agent) as editor:
        session = await editor.open()
        end, prompt = ending(editor, method, session), editor.prompting(session)
        await editor.client.send(end, prompt)
        assert await editor.code(prompt["id"]) == INVALID_REQUEST
        assert "code" not in await editor.answer(end["id"])
        again = await editor.ask(session)
        if opens(method):
            assert again == END_TURN
        else:
            assert again["code"] == RESOURCE_NOT_FOUND
    assert len(seen) == opens(method)


@pytest.mark.parametrize("method", METHODS)
async def test_one_that_is_malformed_leaves_the_turn_alone(method: str) -> None:
    agent, _, turns = listener()
    async with editing(agent) as editor:
        session = await editor.open()
        id = await editor.prompt(session, "hang")
        await editor.client.expect("session/update")
        wrong = setup(session, cwd="relative") if opens(method) else {"sessionId": [session]}
        refused = await editor.refusal(method, wrong)
        assert refused["code"] == INVALID_PARAMS
        assert not turns[0].is_cancelled
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED


@pytest.mark.parametrize("how", ["fails", "hangs"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.behaviour("K6")
async def test_a_session_stays_open_if_its_store_does_not_take_part(method: str, how: str) -> None:
    store = TestStore()
    agent, sessions = talker(store)
    async with editing(agent, QUICK) as editor:
        session = await editor.open()
        call = "delete" if method == "session/delete" else "save"
        store.fails.add(call)
        code = INTERNAL_ERROR
        if how == "hangs" and call == "save":
            store.fails.clear()
            store.waits[call] = anyio.Event()
            code = REQUEST_CANCELLED
        end = ending(editor, method, session)
        await editor.client.send(end)
        assert await editor.code(end["id"]) == code
        assert not sessions[0].closed
        store.fails.clear()
        store.waits.clear()
        assert await editor.ask(session) == END_TURN
        assert len(sessions) == 1


@pytest.mark.parametrize("is_left_alone", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.behaviour("B18")
async def test_a_session_stays_open_if_its_ending_is_cancelled_while_its_turn_cleans_up(
    method: str, is_left_alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(cwd: str, *, anew: bool = False) -> str:
        return cwd

    # A thread looks at the folder: the cancel could come before the turn is waited for.
    monkeypatch.setattr("acp_server.session.lifecycle.place_of", at_once)
    store = TestStore()
    agent, sessions = talker(store)
    async with editing(agent) as editor:
        session = await editor.open()
        sessions[0].data = through = anyio.Event()
        first = await editor.prompt(session, "outstay")
        await editor.client.expect(lambda message: "re: outstay" in str(message))
        end = ending(editor, method, session)
        await editor.client.send(end)
        # It has begun when the cancel comes.
        await anyio.wait_all_tasks_blocked()
        await editor.withdraw(end["id"])
        await editor.settled()
        # Until the turn is through, the session is not what it was before.
        assert all("method" in message for message in editor.client.received if message.get("id") == end["id"])
        if is_left_alone:
            # As at the end of a connection, where its time is over in the moment in which it leaves its shield.
            editor.connection.tree.stop_cancelling()
        through.set()
        assert await editor.answer(first) == CANCELLED
        assert await editor.code(end["id"]) == REQUEST_CANCELLED
        assert await editor.ask(session) == END_TURN
        assert len(sessions) == 1


@pytest.mark.behaviour("K6")
async def test_a_load_that_finds_nothing_leaves_an_open_session_as_it_was() -> None:
    store = TestStore()
    agent, sessions = talker(store)
    async with editing(agent) as editor:
        session = await editor.open()
        await MemoryStore.delete(store, session)
        store.fails.add("save")
        assert (await editor.refusal("session/load", setup(session)))["code"] == INTERNAL_ERROR
        store.fails.clear()
        assert await editor.ask(session) == END_TURN
        assert not sessions[0].closed


# What could not be saved


def kept(store: TestStore, session: str) -> list[str]:
    record = store._records[session]
    return [turn.prompt[0]["text"] for turn in record.turns]


@pytest.mark.parametrize("method", ["session/close", "session/load", "session/resume", "end of input"])
@pytest.mark.behaviour("F2")
async def test_a_turn_that_was_answered_and_not_saved_is_saved_when_its_session_ends(method: str) -> None:
    store = TestStore()
    agent, _ = talker(store)
    async with editing(agent) as editor:
        session = await editor.open()
        store.fails.add("save")
        assert await editor.ask(session, "keep me") == END_TURN
        assert kept(store, session) == []
        store.fails.clear()
        if method != "end of input":
            end = ending(editor, method, session)
            await editor.client.send(end)
            assert "code" not in await editor.answer(end["id"])
            assert kept(store, session) == ["keep me"]
    assert kept(store, session) == ["keep me"]


async def test_a_save_that_fails_behind_a_later_one_that_did_not_leaves_nothing_unsaved() -> None:
    store = TestStore()
    agent, sessions = talker(store)
    async with editing(agent) as editor:
        await editor.open()
        (session,) = sessions
        assert isinstance(session, LiveSession)
        assert not session.unsaved
        store.waits["save"] = hangs = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(saving_in_vain, session)
            await store.reached.wait()
            del store.waits["save"]
            assert session.unsaved
            await session.save()
            store.fails.add("save")
            hangs.set()
        assert not session.unsaved
        with pytest.raises(OSError, match="secret"):
            await session.save()
        assert session.unsaved
        store.fails.clear()


async def saving_in_vain(session: Session) -> None:
    with pytest.raises(OSError, match="secret"):
        await session.save()


# What was deleted


async def test_a_session_that_another_connection_deletes_does_not_come_back() -> None:
    agent, _ = talker()
    async with editing(agent) as ours, editing(agent) as theirs:
        session = await ours.open()
        assert "code" not in await theirs.client.ask("session/resume", setup(session))
        assert await ours.client.result("session/delete", {"sessionId": session}) == {}
        await theirs.ask(session)
        assert (await ours.client.result("session/list", {}))["sessions"] == []
        assert (await theirs.refusal("session/load", setup(session)))["code"] == RESOURCE_NOT_FOUND
        assert await theirs.client.result("session/close", {"sessionId": session}) == {}
        assert (await ours.client.result("session/list", {}))["sessions"] == []


async def test_a_session_that_was_deleted_can_be_kept_by_another_store() -> None:
    one, other = MemoryStore(), MemoryStore()
    record = SessionRecord("s", "/p")
    one.save(record)
    other.save(record)
    await one.delete("s")
    assert await other.load("s") is record


async def test_a_list_is_of_an_absolute_directory() -> None:
    agent, _ = talker()
    async with editing(agent) as editor:
        for cwd in ("relative", ""):
            assert (await editor.refusal("session/list", {"cwd": cwd}))["code"] == INVALID_PARAMS
