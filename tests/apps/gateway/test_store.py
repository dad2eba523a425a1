"""The file that conversations are kept in: whose it is, and what becomes of what cannot be written."""

import sqlite3
from pathlib import Path

import pytest

from acp_server.apps.gateway.auth import one_token
from acp_server.apps.gateway.gateway import Gateway, GatewaySettings
from acp_server.apps.gateway.messages import ChatMessage
from acp_server.apps.gateway.records import Chat, Conversation
from acp_server.apps.gateway.rows import Rows
from acp_server.apps.gateway.store import SqliteEngine
from acp_server.errors import UsageError


def conversation(id: str) -> Conversation:
    return Conversation(id, "ada", "1", 0, 0)


def test_a_store_is_used_by_one_gateway_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "store"
    first = SqliteEngine(path)
    with pytest.raises(UsageError, match="another program has locked it"):
        SqliteEngine(path)
    first.close()
    SqliteEngine(path).close()


def test_a_store_of_a_later_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "store"
    engine = SqliteEngine(path)
    engine._db.execute("PRAGMA user_version = 99")
    engine.close()
    before = path.read_bytes()
    with pytest.raises(UsageError, match="format is 99"):
        SqliteEngine(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "script", ["CREATE TABLE t (a)", "PRAGMA user_version = 1", "PRAGMA application_id = 1094930515"]
)
def test_the_database_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path, script: str) -> None:
    path = tmp_path / "other"
    with sqlite3.connect(path) as db:
        db.execute(script)
    db.close()
    before = path.read_bytes()
    with pytest.raises(UsageError, match="another program"):
        SqliteEngine(path)
    assert path.read_bytes() == before


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("something else, and long enough to be looked at as a file of that kind " * 20)
    for path, why in (
        (tmp_path / "text", "it is damaged, or something else altogether"),
        (tmp_path, "it cannot be opened"),
        (tmp_path / "a" / "b", "No such file"),
    ):
        with pytest.raises(UsageError, match=why):
            SqliteEngine(path)


def test_chats_of_the_last_run_that_cannot_be_ended_are_a_mistake_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "store"
    engine = SqliteEngine(path)
    engine.transact(lambda rows: rows.add_chat(Chat("1", "2", "3", "4", "ada")))
    engine._db.execute("CREATE TRIGGER t BEFORE UPDATE ON chats BEGIN SELECT RAISE(ABORT, 'no room'); END")
    engine.close()
    settings = GatewaySettings(cwd=str(tmp_path), store=path)
    for _ in range(2):
        with pytest.raises(UsageError, match="no room"):
            Gateway(settings, one_token("x"))


def test_what_is_left_of_a_deleted_conversation_is_removed_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "store"
    engine = SqliteEngine(path)
    engine.transact(lambda rows: rows.add_conversation(Conversation("1", "ada", "2", 0, 0, deleted=True)))
    engine.transact(lambda rows: rows.add_chat(Chat("3", "1", "2", "4", "ada")))
    engine.transact(
        lambda rows: rows.add_message(ChatMessage("5", "1", "2", "user", "question", "secret", chat_id="3"))
    )
    engine.transact(lambda rows: rows.add_conversation(conversation("6")))
    engine.close()
    engine = Gateway(GatewaySettings(cwd=str(tmp_path), store=path), one_token("x"))._engine
    assert isinstance(engine, SqliteEngine)
    left = {
        table: [id for (id,) in engine._db.execute(f"SELECT id FROM {table}")]
        for table in ("conversations", "chats", "messages")
    }
    engine.close()
    assert left == {"conversations": ["6"], "chats": [], "messages": []}


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "store").touch()
    SqliteEngine(tmp_path / "store").close()


def test_what_was_said_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path / "store")
    engine.transact(lambda rows: rows.add_conversation(conversation("1")))
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    engine.close()
    assert modes == {"store": 0o600, "store-wal": 0o600}


def test_a_transaction_that_cannot_be_committed_does_not_swallow_the_next_ones(tmp_path: Path) -> None:
    path = tmp_path / "store"
    engine = SqliteEngine(path)
    engine._db.execute("CREATE TABLE strict (id REFERENCES conversations (id) DEFERRABLE INITIALLY DEFERRED)")
    engine._db.execute("PRAGMA foreign_keys = ON")

    def fail(rows: Rows) -> None:
        rows.add_conversation(conversation("1"))
        # Found out at the very end.
        engine._db.execute("INSERT INTO strict VALUES ('nobody')")

    with pytest.raises(sqlite3.IntegrityError):
        engine.transact(fail)
    engine.transact(lambda rows: rows.add_conversation(conversation("2")))
    engine.close()
    engine = SqliteEngine(path)
    assert engine.transact(lambda rows: (rows.conversation("1"), rows.conversation("2"))) == (None, conversation("2"))
    engine.close()
