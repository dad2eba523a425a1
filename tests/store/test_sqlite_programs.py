"""A store in a file that several programs use at once, also for the same session."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from acp_server.errors import ResourceNotFound
from acp_server.store.records import SessionRecord
from acp_server.store.sqlite_store import SqliteStore

from .files import rows, texts
from .records import shown, turn

pytestmark = pytest.mark.anyio


async def test_two_programs_with_one_session_keep_the_turns_of_both(store: SqliteStore, other: SqliteStore) -> None:
    ours = SessionRecord("s", "/p", turns=[turn("one")])
    await store.save(ours)
    theirs = await other.load("s")
    assert theirs is not None
    for number in range(3):
        ours.turns.append(turn(f"ours {number}"))
        await store.save(ours)
        theirs.turns.append(turn(f"theirs {number}"))
        await other.save(theirs)
    expected = ["one", "ours 0", "theirs 0", "ours 1", "theirs 1", "ours 2", "theirs 2"]
    assert texts(await store.load("s")) == texts(await other.load("s")) == expected


async def test_a_turn_does_not_undo_what_another_program_has_changed_of_the_session(
    store: SqliteStore, other: SqliteStore
) -> None:
    ours = SessionRecord("s", "/p", title="old", updated_at=5.0)
    await store.save(ours)
    theirs = await other.load("s")
    assert theirs is not None
    theirs.title = "new"
    theirs.updated_at = 9.0
    await other.save(theirs)
    ours.turns.append(turn())
    ours.updated_at = 7.0
    await store.save(ours)
    found = await store.load("s")
    assert found is not None
    assert (found.title, found.updated_at, len(found.turns)) == ("new", 9.0, 1)


async def test_a_program_changes_in_the_file_only_what_it_has_changed_itself(
    store: SqliteStore, other: SqliteStore
) -> None:
    ours = SessionRecord("s", "/p", title="old", mode="ask", config={"safe": True, "gone": "x"})
    await store.save(ours)
    theirs = await other.load("s")
    assert theirs is not None
    ours.config["safe"] = False
    await store.save(ours)
    theirs = replace(theirs, cwd="/q")
    theirs.title = "new"
    theirs.config["size"] = "big"
    del theirs.config["gone"]
    await other.save(theirs)
    ours.mode = "code"
    await store.save(ours)
    found = await store.load("s")
    assert found is not None
    assert (found.cwd, found.title, found.mode) == ("/q", "new", "code")
    assert found.config == {"safe": False, "size": "big"}
    assert [session.id for session in (await store.list("/q", None)).sessions] == ["s"]


async def test_what_is_chosen_anew_is_written_also_if_it_was_so_before(store: SqliteStore, other: SqliteStore) -> None:
    ours = SessionRecord("s", "/p", mode="ask")
    await store.save(ours)
    theirs = await other.load("s")
    assert theirs is not None
    theirs.mode = "code"
    await other.save(theirs)
    # As far as we know it is the mode that there is.
    ours.chosen.add(("mode",))
    await store.save(ours)
    assert not ours.chosen
    found = await store.load("s")
    assert found is not None
    assert found.mode == "ask"


async def test_what_failed_to_be_written_is_written_again_also_if_it_is_as_it_was_before(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = SessionRecord("s", "/p", config={"safe": True})
    await store.save(record)
    record.config["safe"] = False
    assert store._database is not None
    with monkeypatch.context() as patch:
        # It is written, and nobody hears of it.
        patch.setattr(store, "_perform", lambda *how: (SqliteStore._perform(store, *how), 1 / 0))
        with pytest.raises(ZeroDivisionError):
            await store.save(record)
    record.config["safe"] = True
    await store.save(record)
    found = await store.load("s")
    assert found is not None
    assert found.config == {"safe": True}


async def test_a_head_that_somebody_has_made_unreadable_is_replaced(store: SqliteStore, path: Path) -> None:
    record = SessionRecord("s", "/p")
    await store.save(record)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE sessions SET head = x'7b7d'")
        connection.commit()
    record.title = "mine"
    await store.save(record)
    assert shown(await store.load("s")) == shown(record)


async def test_a_session_that_another_program_has_deleted_does_not_come_back_in_pieces(
    store: SqliteStore, other: SqliteStore
) -> None:
    record = SessionRecord("s", "/p", turns=[turn("one")])
    await store.save(record)
    await other.delete("s")
    record.turns.append(turn("two"))
    await store.begin(record, record.turns[-1])
    with pytest.raises(ResourceNotFound, match="was deleted"):
        await store.save(record)
    assert await other.load("s") is None
    assert not rows(store.path, "SELECT * FROM turns")
    assert texts(record) == ["one", "two"]
