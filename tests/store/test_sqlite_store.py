"""The store in a file: what it keeps."""

import os
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_server.errors import InternalError, InvalidParams
from acp_server.store.memory import MemoryStore
from acp_server.store.records import SessionRecord
from acp_server.store.session_store import TurnJournal, encode_cursor
from acp_server.store.sqlite_store import SqliteStore

from .files import rows, texts
from .records import SESSIONS, end, say, shown, turn

pytestmark = pytest.mark.anyio


# What it keeps


@settings(max_examples=40)
@given(record=SESSIONS)
async def test_a_session_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, record: SessionRecord) -> None:
    path = tmp_path_factory.mktemp("round") / "sessions.db"
    with SqliteStore(path) as store:
        await store.save(record)
        assert shown(await store.load(record.id)) == shown(record)
    with SqliteStore(path) as store:
        assert shown(await store.load(record.id)) == shown(record)
        (listed,) = (await store.list(record.cwd, None)).sessions
        assert shown(listed) == shown(replace(record, turns=[]))
        await store.delete(record.id)
        assert await store.load(record.id) is None


async def test_what_was_never_there_is_not_found_and_can_be_deleted(store: SqliteStore) -> None:
    for id in ("nothing", "", "\ud800"):
        assert await store.load(id) is None
        await store.delete(id)
    assert (await store.list(None, None)).sessions == []
    assert (await store.list("\ud800", encode_cursor(0.0, "z"))).sessions == []


async def test_an_id_that_has_no_form_in_the_file_is_refused(store: SqliteStore) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        await store.save(SessionRecord("\ud800", "/p"))


async def test_a_turn_more_is_one_row_more_and_touches_no_other(store: SqliteStore, path: Path) -> None:
    record = SessionRecord("s", "/p", turns=[turn(str(number)) for number in range(5)])
    await store.save(record)
    before = rows(path, "SELECT * FROM turns ORDER BY seq")
    with closing(sqlite3.connect(path)) as connection:
        # Whoever wrote them again would fail.
        connection.execute("CREATE TRIGGER t BEFORE UPDATE ON turns BEGIN SELECT RAISE(ABORT, 'written again'); END")
        connection.execute("CREATE TRIGGER h BEFORE UPDATE OF head ON sessions BEGIN SELECT RAISE(ABORT, 'head'); END")
    record.turns.append(turn("new"))
    record.updated_at += 1
    await store.save(record)
    after = rows(path, "SELECT * FROM turns ORDER BY seq")
    assert after[:5] == before
    assert len(after) == 6
    loaded = await store.load("s")
    assert loaded is not None
    assert loaded.updated_at == record.updated_at
    # A copy, as `session/load` makes one, knows what is there as well.
    copy = replace(loaded, turns=loaded.turns)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER h")
    copy.turns.append(turn("newer"))
    await store.save(copy)
    assert texts(await store.load("s")) == ["0", "1", "2", "3", "4", "new", "newer"]


async def test_a_session_that_shares_its_past_with_another_has_all_of_it(store: SqliteStore) -> None:
    record = SessionRecord("s", "/p", turns=[turn("one"), turn("two")])
    await store.save(record)
    fork = replace(record, id="fork", turns=[*record.turns, turn("three")])
    await store.save(fork)
    record.turns.append(turn("other three"))
    await store.save(record)
    assert texts(await store.load("fork")) == ["one", "two", "three"]
    assert texts(await store.load("s")) == ["one", "two", "other three"]


async def test_many_saves_at_once_are_all_there(store: SqliteStore) -> None:
    records = [SessionRecord(f"s{number}", "/p", turns=[turn(str(number))]) for number in range(12)]
    async with anyio.create_task_group() as tasks:
        for record in records:
            tasks.start_soon(store.save, record)
            tasks.start_soon(store.save, record)
    for number, record in enumerate(records):
        assert texts(await store.load(record.id)) == [str(number)]


async def test_the_file_and_its_folder_are_for_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "sessions #1?%20.db"
    with SqliteStore(path) as store:
        record = SessionRecord("s", "/p", turns=[turn("hi", "in_progress")])
        await store.save(record)
        names = os.listdir(path.parent)
        assert len(names) == 4
        assert {stat.S_IMODE(os.stat(path.parent / name).st_mode) for name in names} == {0o600}
        assert {stat.S_IMODE(os.stat(folder).st_mode) for folder in (path.parent, path.parent.parent)} == {0o700}


async def test_a_file_that_others_may_read_is_tightened_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "sessions.db"
    with SqliteStore(path) as store:
        await store.save(SessionRecord("a", "/"))
        for name in os.listdir(tmp_path):
            os.chmod(tmp_path / name, 0o664)
        with SqliteStore(path) as other:
            assert await other.load("a")
            names = [name for name in os.listdir(tmp_path) if "-owner-" not in name]
            assert sorted(names) == ["sessions.db", "sessions.db-shm", "sessions.db-wal"]
            assert {stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in names} == {0o600}
    assert f"the permissions of {path} were 664; now only the owner may read the file" in caplog.text


async def test_the_rights_of_a_file_that_is_another_programs_stay(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with closing(sqlite3.connect(path)) as foreign:
        foreign.execute("CREATE TABLE theirs (a)")
    os.chmod(path, 0o664)
    with SqliteStore(path) as store, pytest.raises(InternalError):
        await store.load("a")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o664


async def test_rights_that_cannot_be_changed_are_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sessions.db"
    with SqliteStore(path) as store:
        await store.save(SessionRecord("a", "/"))
    os.chmod(path, 0o664)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", refuse)
    with SqliteStore(path) as store:
        assert await store.load("a")
    warning = f"other users may be able to read {path}, because its permissions cannot be changed"
    assert f"{warning}: Operation not permitted" in caplog.text
    # Nothing is left beside it.
    assert os.listdir(path.parent) == [path.name]


async def test_a_store_that_is_not_used_makes_no_file(path: Path) -> None:
    with SqliteStore(path):
        pass
    assert os.listdir(path.parent) == []


async def test_a_closed_store_says_so(store: SqliteStore) -> None:
    await store.save(SessionRecord("s", "/p"))
    store.close()
    store.close()
    with pytest.raises(InternalError, match="closed"):
        await store.load("s")


async def test_it_wants_to_know_of_turns_that_begin(store: SqliteStore) -> None:
    assert isinstance(store, TurnJournal)
    assert not isinstance(MemoryStore(), TurnJournal)


# Pages


async def test_pages_join_without_a_gap_or_a_double_although_sessions_come_and_go(
    store: SqliteStore, other: SqliteStore
) -> None:
    for number in range(10):
        await store.save(SessionRecord(f"s{number}", "/p", updated_at=float(number // 4)))
    first = await store.list(None, None)
    await other.save(SessionRecord("new", "/p", updated_at=100.0))
    await other.delete("s9")
    await other.delete("s7")
    second = await store.list(None, first.next_cursor)
    third = await store.list(None, second.next_cursor)
    found = [session.id for page in (first, second, third) for session in page.sessions]
    assert found == ["s9", "s8", "s7", "s6", "s5", "s4", "s3", "s2", "s1"]
    assert third.next_cursor is not None
    fourth = await store.list(None, third.next_cursor)
    assert ([session.id for session in fourth.sessions], fourth.next_cursor) == (["s0"], None)


LISTED = st.builds(
    SessionRecord,
    id=st.text("aé😀z\0", min_size=1, max_size=2),
    cwd=st.sampled_from(["/a", "/b"]),
    updated_at=st.sampled_from([0.0, 1.0, 1.5, 1e9 + 1e-6]),
)


@settings(max_examples=30)
@given(
    records=st.lists(LISTED, unique_by=lambda record: record.id, max_size=9),
    where=st.sampled_from([None, "/a", "/c"]),
    size=st.integers(1, 4),
)
async def test_it_lists_as_the_memory_store_does(
    tmp_path_factory: pytest.TempPathFactory, records: list[SessionRecord], where: str | None, size: int
) -> None:
    memory = MemoryStore(size)
    with SqliteStore(tmp_path_factory.mktemp("list") / "s", size) as store:
        for record in records:
            memory.save(record)
            await store.save(record)
        cursor = None
        while True:
            ours, theirs = await store.list(where, cursor), await memory.list(where, cursor)
            assert [shown(record) for record in ours.sessions] == [shown(record) for record in theirs.sessions]
            assert ours.next_cursor == theirs.next_cursor
            cursor = ours.next_cursor
            if cursor is None:
                break


async def test_what_is_no_cursor_is_refused(store: SqliteStore) -> None:
    with pytest.raises(InvalidParams, match="unknown cursor"):
        await store.list(None, "nonsense")


# Turns that run


async def test_a_turn_that_runs_in_a_living_program_is_running_for_all_of_them(
    store: SqliteStore, other: SqliteStore
) -> None:
    record = SessionRecord("s", "/p")
    await store.save(record)
    record.turns.append(running := turn("now", "in_progress"))
    await store.begin(record, running)
    for one in (store, other):
        found = await one.load("s")
        assert found is not None
        assert [turn.status for turn in found.turns] == ["in_progress"]
        assert found.context() == []
    theirs = await other.load("s")
    assert theirs is not None
    theirs.turns.append(turn("meanwhile"))
    await other.save(theirs)
    say(running, "agent_message_chunk", ", and more")
    end(running)
    await store.save(record)
    found = await other.load("s")
    assert [shown(found)[-1][0]] == [shown(record)[-1][0]]
    assert texts(found) == ["now", "meanwhile"]


async def test_a_turn_that_was_saved_while_it_ran_is_saved_again_when_it_has_ended(
    store: SqliteStore, other: SqliteStore
) -> None:
    record = SessionRecord("s", "/p", turns=[turn("long", "in_progress")])
    # As when the user changes a setting meanwhile.
    await store.save(record)
    end(record.turns[0])
    await store.save(record)
    assert shown(await other.load("s")) == shown(record)


async def test_a_beginning_that_comes_behind_the_end_changes_nothing(store: SqliteStore) -> None:
    record = SessionRecord("s", "/p", turns=[turn("quick", "in_progress")])
    early = replace(record, turns=[turn("quick", "in_progress")])
    early.turns[0]._id = record.turns[0].id
    await store.save(replace(record, turns=[]))
    end(record.turns[0])
    await store.save(record)
    await store.begin(early, early.turns[0])
    await store.save(early)
    assert shown(await store.load("s"))[-1] == shown(record)[-1]


async def test_the_running_turns_of_a_closed_store_are_found_as_failed_with_the_reason(
    store: SqliteStore, other: SqliteStore
) -> None:
    record = SessionRecord("s", "/p", turns=[turn("done"), turn("asking", "requires_action")])
    await store.save(record)
    store.close()
    found = await other.load("s")
    assert found is not None
    done, failed = found.turns
    assert (done.status, done.last_error) == ("completed", None)
    assert failed.status == "failed"
    assert failed.last_error == (-32603, "The program ended while this turn was running")
    assert failed.ended_at is not None
    assert failed.prompt == [{"type": "text", "text": "asking"}]
    assert shown(await other.load("s")) == shown(found)


# Threads


async def test_whoever_is_cancelled_does_not_wait_for_the_file(store: SqliteStore) -> None:
    await store.open()
    store._lock.acquire()
    try:
        with anyio.move_on_after(0.05) as scope:
            await store.save(SessionRecord("s", "/p"))
        assert scope.cancelled_caught
    finally:
        store._lock.release()
    # What was begun goes on, and what comes behind it is served.
    record = SessionRecord("t", "/p")
    await store.save(record)
    assert shown(await store.load("t")) == shown(record)


async def test_a_file_that_does_not_answer_is_an_error_in_the_end(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await store.open()
    monkeypatch.setattr("acp_server.store.sqlite_tables.BUSY", 0.05)
    with store._lock, pytest.raises(InternalError, match="does not answer"):
        await store.load("s")
    assert "does not answer" in caplog.text
