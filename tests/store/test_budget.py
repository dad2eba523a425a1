"""How much of what was said is in memory: a bound, and what becomes of the rest in either store."""

import sqlite3
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from acp_server import Agent, ResourceNotFound, Turn
from acp_server.errors import InternalError
from acp_server.store.memory import MemoryStore
from acp_server.store.records import SessionRecord, TurnRecord
from acp_server.store.sqlite_store import Budget, SqliteStore
from tests.session.editor import END_TURN, editing

from .records import turn

KIB = 1024


def texts(record: SessionRecord) -> list[str]:
    return [one.prompt[0]["text"].rstrip(".") for one in record.turns]


def large(name: str) -> TurnRecord:
    """A turn of a little more than a KiB."""
    return turn(name.ljust(KIB, "."))


# -- the budget


def test_the_turns_that_were_added_first_are_let_go() -> None:
    let_go: list[tuple[TurnRecord, str]] = []
    budget = Budget(3 * KIB, lambda turn, id: let_go.append((turn, id)))
    turns = [large(str(number)) for number in range(4)]
    for one in turns:
        budget.add(one, "s")
        budget.add(one, "s")
    assert let_go == [(turns[0], "s"), (turns[1], "s")]
    assert budget.size == turns[2].size + turns[3].size


def test_a_turn_that_is_gone_leaves_room() -> None:
    budget = Budget(3 * KIB, lambda turn, id: pytest.fail("there is room"))
    for number in range(10):
        one = large(str(number))
        budget.add(one, "s")
        # Its last reference: it is gone at once, for it is in no cycle.
        del one
    assert budget.size == 0


# -- in memory


async def save(store: MemoryStore, record: SessionRecord, *names: str) -> None:
    for name in names:
        record.turns.append(large(name))
        record.updated_at += 1
        store.save(record)


@pytest.mark.anyio
async def test_of_too_much_history_in_memory_the_earliest_turns_are_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore(history=4 * KIB)
    record = SessionRecord("s", "/p", updated_at=0)
    await save(store, record, "0", "1", "2")
    assert not caplog.records
    await save(store, record, "3", "4", "5")
    assert texts(record) == ["3", "4", "5"]
    (said,) = caplog.messages
    assert "the oldest turns are dropped" in said
    assert store._size == sum(one.size for one in record.turns)


@pytest.mark.anyio
async def test_the_session_that_was_used_longest_ago_loses_its_turns_first() -> None:
    store = MemoryStore(history=5 * KIB)
    a, b = SessionRecord("a", "/p", updated_at=0), SessionRecord("b", "/p", updated_at=100)
    await save(store, a, "a0", "a1")
    await save(store, b, "b0", "b1")
    await save(store, b, "b2")
    assert (texts(a), texts(b)) == (["a1"], ["b0", "b1", "b2"])
    await save(store, a, "a2")
    assert (texts(a), texts(b)) == (["a1", "a2"], ["b1", "b2"])
    await store.delete("b")
    await save(store, a, "a3", "a4")
    assert texts(a) == ["a1", "a2", "a3", "a4"]


@pytest.mark.anyio
async def test_a_turn_that_runs_is_not_counted_and_not_forgotten() -> None:
    store = MemoryStore(history=2 * KIB)
    record = SessionRecord("s", "/p")
    record.turns.append(running := TurnRecord([{"type": "text", "text": "now".ljust(3 * KIB)}]))
    store.save(record)
    assert record.turns == [running]
    running.pack()
    running.status = "completed"
    store.save(record)
    assert record.turns == []
    assert store._size == 0


@pytest.mark.anyio
async def test_of_too_many_sessions_in_memory_those_used_longest_ago_are_forgotten() -> None:
    store = MemoryStore(sessions=2)
    records = [SessionRecord(f"s{number}", "/p", updated_at=number) for number in range(3)]
    for record in records:
        store.save(record)
    assert [record.id for record in (await store.list(None, None)).sessions] == ["s2", "s1"]
    assert await store.load("s0") is None
    # It is open somewhere, and was used again. Nobody has deleted it.
    records[0].updated_at = 9
    store.save(records[0])
    assert [record.id for record in (await store.list(None, None)).sessions] == ["s0", "s2"]
    await store.delete("s2")
    with pytest.raises(ResourceNotFound):
        store.save(records[2])


# -- in a file


async def stored(path: Path, count: int) -> None:
    with SqliteStore(path) as store:
        record = SessionRecord("s", "/p")
        record.turns += [large(str(number)) for number in range(count)]
        await store.save(record)


@pytest.mark.anyio
async def test_what_was_said_first_goes_to_the_file_and_is_read_from_there(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "s.db", history=3 * KIB) as store:
        record = SessionRecord("s", "/p")
        for number in range(5):
            record.turns.append(large(str(number)))
            await store.save(record)
        assert [one.is_here for one in record.turns] == [False, False, False, True, True]
        assert sum(one.size for one in record.turns) <= 3 * KIB
        assert texts(record) == ["0", "1", "2", "3", "4"]
        assert [len(list(one.replay())) for one in record.turns] == [2] * 5


@pytest.mark.anyio
async def test_of_a_session_that_is_loaded_only_the_last_turns_are_in_memory(tmp_path: Path) -> None:
    await stored(tmp_path / "s.db", 5)
    with SqliteStore(tmp_path / "s.db", history=3 * KIB) as store:
        record = await store.load("s")
        assert record is not None
        assert [one.is_here for one in record.turns] == [False, False, False, True, True]
        assert texts(record) == ["0", "1", "2", "3", "4"]
    with SqliteStore(tmp_path / "s.db", history=0) as store:
        record = await store.load("s")
        assert record is not None
        assert [one.is_here for one in record.turns] == [False] * 5
        assert texts(record) == ["0", "1", "2", "3", "4"]


@pytest.mark.anyio
async def test_a_turn_is_read_while_the_store_waits_for_another_program(tmp_path: Path) -> None:
    await stored(tmp_path / "s.db", 2)
    with SqliteStore(tmp_path / "s.db", history=0) as store:
        record = await store.load("s")
        assert record is not None
        other = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            async with anyio.create_task_group() as group:
                record.title = "new"
                group.start_soon(store.save, record)
                while not store._lock.locked():
                    await anyio.lowlevel.checkpoint()
                # Its writer waits, and this does not.
                assert texts(record) == ["0", "1"]
                other.execute("ROLLBACK")
        finally:
            other.close()


@pytest.mark.anyio
async def test_what_is_not_there_any_more_is_said_to_be_deleted(tmp_path: Path) -> None:
    await stored(tmp_path / "s.db", 1)
    with SqliteStore(tmp_path / "s.db", history=0) as store:
        record = await store.load("s")
        assert record is not None
        await store.delete("s")
        with pytest.raises(ResourceNotFound):
            record.turns[0].messages()
    with pytest.raises(InternalError, match="closed"):
        record.turns[0].messages()


@pytest.mark.anyio
async def test_a_file_that_cannot_be_read_is_an_error_that_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await stored(tmp_path / "s.db", 1)
    with SqliteStore(tmp_path / "s.db", history=0) as store:
        record = await store.load("s")
        assert record is not None
        with sqlite3.connect(tmp_path / "s.db") as other:
            other.execute("ALTER TABLE turns RENAME TO lost")
        other.close()
        with pytest.raises(InternalError, match="cannot be used"):
            record.turns[0].messages()
    assert "no such table" in caplog.text


@pytest.mark.anyio
async def test_a_session_is_replayed_and_is_context_whether_or_not_it_is_in_memory(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "s.db", history=0) as store:
        agent = Agent("keeper", store=store)

        @agent.prompt
        async def prompt(turn: Turn) -> None:
            await turn.say(f"{[message.text for message in turn.context()]}")

        async with editing(agent) as editor:
            session = await editor.open()
            assert await editor.ask(session, "one") == END_TURN
            assert await editor.ask(session, "two") == END_TURN
            first, second = editor.said()
            assert second == str(["one", first, "two"])
            await editor.client.result("session/load", {"sessionId": session, "cwd": "/p", "mcpServers": []})
            assert editor.said() == [first, second] * 2
            assert editor.said(kind="user_message_chunk") == ["one", "two"]
