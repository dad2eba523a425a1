"""What is wrong with a file, and who gets to know it: a clear error for whoever asked, the rest in the log."""

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from acp_server import Agent, Turn
from acp_server.errors import INTERNAL_ERROR, InternalError
from acp_server.store.records import SessionRecord
from acp_server.store.sqlite_store import SqliteStore
from tests.session.agents import setup
from tests.session.editor import END_TURN, editing

from .records import shown, turn

pytestmark = pytest.mark.anyio

as_nobody = pytest.mark.skipif(os.name != "nt" and os.geteuid() == 0, reason="nothing is forbidden to root")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long for another program."""
    monkeypatch.setattr("acp_server.store.sqlite_tables.BUSY", 0.05)


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def echo(store: SqliteStore) -> Agent:
    agent = Agent("echo", store=store)

    @agent.prompt
    async def prompt(turn: Turn) -> AsyncIterator[str]:
        yield f"re: {turn.text}"

    return agent


async def refused(store: SqliteStore, why: str, caplog: pytest.LogCaptureFixture) -> None:
    """Every question is answered with an error that says why, without the path, which is in the log."""
    caplog.clear()
    for question in (store.load("s"), store.list(None, None), store.delete("s"), store.save(SessionRecord("s", "/p"))):
        with pytest.raises(InternalError, match=why) as raised:
            await question
        assert str(store.path) not in str(raised.value)
        assert raised.value.data is None
    assert caplog.text.count(f"the session store {store.path} failed: ") == 4


@pytest.mark.parametrize("content", [b"x" * 5000, b"{}\n" * 3, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(
    store: SqliteStore, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store.path.write_bytes(content)
    await refused(store, "damaged|cannot be", caplog)
    assert store.path.read_bytes() == content


def content(path: Path) -> bytes:
    return path.read_bytes()


async def test_the_database_of_another_program_is_refused_and_left_as_it_is(
    store: SqliteStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change(path, "CREATE TABLE mine (x)")
    before = content(path)
    await refused(store, "another program", caplog)
    assert content(path) == before


async def test_the_file_of_a_newer_version_is_refused_and_left_as_it_is(
    store: SqliteStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with SqliteStore(path) as newer:
        await newer.save(SessionRecord("s", "/p"))
    change(path, "PRAGMA user_version = 2")
    before = content(path)
    await refused(store, r"newer version of this program \(its format is 2, this version reads 1\)", caplog)
    assert content(path) == before


async def test_a_file_that_is_broken_off_in_its_making_is_made_anew(store: SqliteStore, path: Path) -> None:
    open(path, "w").close()  # noqa: ASYNC230
    await store.save(SessionRecord("s", "/p"))
    assert await store.load("s") is not None


async def test_a_folder_in_the_place_of_the_file_is_refused(
    store: SqliteStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkdir(path)
    await refused(store, "cannot be opened", caplog)


async def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    with SqliteStore(tmp_path / "file" / "sessions.db") as store:
        await refused(store, "Not a directory|File exists", caplog)


@as_nobody
async def test_a_folder_that_cannot_be_written_to_is_refused(  # pragma: no cover
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.chmod(tmp_path, 0o500)
    with SqliteStore(tmp_path / "sessions.db") as store:
        await refused(store, "Permission denied", caplog)


async def test_a_store_that_another_program_keeps_locked_says_so_and_is_fine_afterwards(
    store: SqliteStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = SessionRecord("s", "/p")
    await store.save(record)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        record.turns.append(turn("one"))
        with pytest.raises(InternalError, match="another program has locked it"):
            await store.save(record)
        # Reading is not in the way of writing.
        assert await store.load("s") is not None
        other.execute("ROLLBACK")
    record.turns.append(turn("two"))
    await store.save(record)
    assert shown(await store.load("s")) == shown(record)


async def test_what_finds_no_room_on_the_disk_is_saved_with_the_next_turn(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    async with editing(echo(store)) as editor:
        session = await editor.open()
        assert store._database is not None
        connection = store._database._connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        # The turn is what it was asked to be.
        assert await editor.ask(session, "large " * 10_000) == END_TURN
        assert "was not saved" in caplog.text
        assert "is full" in caplog.text
        refusal = await editor.refusal("session/new", setup(cwd="/" + "large" * 6_000))
        assert (refusal["code"], refusal["message"]) == (
            INTERNAL_ERROR,
            "The session store cannot be used: the disk is full",
        )
        connection.execute("PRAGMA max_page_count = 1000000")
        assert await editor.ask(session, "small") == END_TURN
    found = await store.load(session)
    assert found is not None
    assert [turn.prompt[0]["text"][:6] for turn in found.turns] == ["large ", "small"]
    assert [turn.status for turn in found.turns] == ["completed", "completed"]


async def test_a_file_that_becomes_unreadable_costs_no_turn_its_answer(
    store: SqliteStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with editing(echo(store)) as editor:
        session = await editor.open()
        assert store._database is not None
        store._database._connection.execute("DROP TABLE turns")
        assert await editor.ask(session, "one") == END_TURN
        assert await editor.ask(session, "two") == END_TURN
        assert editor.said() == ["re: one", "re: two"]
    # At the end of each turn, and at the end of the connection.
    assert caplog.text.count("was not saved") == 3


@pytest.mark.parametrize("change_to", ["x'7b7d'", "x''", "'{'", "x'ff'"])
async def test_a_session_that_cannot_be_read_is_an_error_of_its_own_and_the_others_are_there(
    store: SqliteStore, path: Path, change_to: str, caplog: pytest.LogCaptureFixture
) -> None:
    for id in ("a", "b", "c"):
        await store.save(SessionRecord(id, "/p", turns=[turn()]))
    change(path, f"UPDATE sessions SET head = {change_to} WHERE id = 'a'")
    change(path, f"UPDATE turns SET head = {change_to} WHERE session_id = 'b'")
    for id in ("a", "b"):
        with pytest.raises(InternalError, match="cannot be read"):
            await store.load(id)
    assert await store.load("c") is not None
    assert {record.id for record in (await store.list(None, None)).sessions} == {"b", "c"}
    assert "session a in" in caplog.text


async def test_a_running_turn_of_the_dead_that_cannot_be_read_is_in_nobodys_way(store: SqliteStore, path: Path) -> None:
    with SqliteStore(path) as dead:
        await dead.save(SessionRecord("a", "/p", turns=[turn("x", "in_progress")]))
        await dead.save(SessionRecord("b", "/p", turns=[turn("y", "in_progress")]))
        change(path, "UPDATE turns SET head = x'7b' WHERE session_id = 'a'")
    found = await store.load("b")
    assert found is not None
    assert found.turns[0].status == "failed"


async def test_a_sign_of_life_that_is_none_is_in_nobodys_way(store: SqliteStore, path: Path) -> None:
    sign = path.with_name(f"{path.name}-owner-{'a' * 16}")
    sign.write_bytes(b"something else " * 100)
    await store.save(SessionRecord("s", "/p", turns=[turn("x", "in_progress")]))
    change(path, f"UPDATE turns SET owner = '{'a' * 16}'")
    found = await store.load("s")
    assert found is not None
    assert found.turns[0].status == "failed"
