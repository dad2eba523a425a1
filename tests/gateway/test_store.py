"""The file that conversations are kept in: whose it is, and what becomes of what cannot be written."""

import sqlite3
from pathlib import Path

import pytest

from acp_server.errors import UsageError
from acp_server.gateway.auth import one_token
from acp_server.gateway.gateway import Gateway, Settings
from acp_server.gateway.messages import Message
from acp_server.gateway.records import Chat, Conversation, Status
from acp_server.gateway.store import Store


def conversation(id: str) -> Conversation:
    return Conversation(id, "ada", "1", 0, 0)


def test_a_store_is_used_by_one_gateway_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "store"
    first = Store(path)
    with pytest.raises(UsageError, match="another program has locked it"):
        Store(path)
    first.close()
    Store(path).close()


def test_a_store_of_a_later_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = Store(path)
    store._db.execute("PRAGMA user_version = 99")
    store.close()
    before = path.read_bytes()
    with pytest.raises(UsageError, match="format 99"):
        Store(path)
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
        Store(path)
    assert path.read_bytes() == before


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("something else, and long enough to be looked at as a file of that kind " * 20)
    for path, why in (
        (tmp_path / "text", "it is damaged, or something else altogether"),
        (tmp_path, "it cannot be opened"),
        (tmp_path / "a" / "b", "No such file"),
    ):
        with pytest.raises(UsageError, match=why):
            Store(path)


def test_chats_of_the_last_run_that_cannot_be_ended_are_a_mistake_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = Store(path)
    store.add_chat(Chat("1", "2", "3", "4", "ada"))
    store._db.execute("CREATE TRIGGER t BEFORE UPDATE ON chats BEGIN SELECT RAISE(ABORT, 'no room'); END")
    store.close()
    settings = Settings(cwd=str(tmp_path), store=path)
    for _ in range(2):
        with pytest.raises(UsageError, match="no room"):
            Gateway(settings, one_token("x"))


def test_what_is_left_of_a_deleted_conversation_is_removed_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = Store(path)
    store.add_conversation(Conversation("1", "ada", "2", 0, 0, deleted=True))
    store.add_chat(Chat("3", "1", "2", "4", "ada"))
    store.add_message(Message("5", "1", "2", "user", "question", "secret", chat_id="3"))
    store.add_conversation(conversation("6"))
    store.close()
    gateway = Gateway(Settings(cwd=str(tmp_path), store=path), one_token("x"))
    left = {
        table: [id for (id,) in gateway._store._db.execute(f"SELECT id FROM {table}")]
        for table in ("conversations", "chats", "messages")
    }
    gateway._store.close()
    assert left == {"conversations": ["6"], "chats": [], "messages": []}


def test_nothing_is_left_of_a_deleted_message_but_its_place(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    store.add_conversation(conversation("1"))
    store.add_chat(Chat("3", "1", "2", "4", "ada", status=Status.COMPLETED))
    for id, chat in ("5", "3"), ("6", None), ("7", "3"):
        store.add_message(Message(id, "1", "2", "assistant", "answer", f"secret {id}", chat_id=chat))
    store.delete_message("5")
    store.delete_message("6")
    everything = {"descending": False, "chat_id": "", "before": "", "limit": 9, "most": 99_999}
    assert [m.id for m in store.listed("1", after="", **everything)[0]] == ["7"]
    assert [m.id for m in store.listed("1", after="5", **everything)[0]] == ["7"]
    assert [m.id for m in store.context("1", "2", most=99_999)[1]] == ["7"]
    assert [m.id for m in store.produced("3")] == ["7"]
    assert (store.message("1", "5"), store.has_place("1", "5"), store.has_place("9", "5")) == (None, True, False)
    rows = store._db.execute("SELECT * FROM messages WHERE id < 7").fetchall()
    assert "secret" not in repr(rows)
    store.purge("1")
    assert not store.has_place("1", "5")
    store.close()


@pytest.mark.parametrize("most", [0, 1500, 99_999])
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("towards", ["after", "before"])
def test_a_page_of_large_messages_is_shorter_and_nothing_is_lost_between_pages(
    tmp_path: Path, most: int, descending: bool, towards: str
) -> None:
    store = Store(tmp_path / "store")
    ids = [str(number) for number in range(10, 19)]
    for id in ids:
        store.add_message(Message(id, "1", "2", "user", "question", "x" * (1000 if id == "14" else 100)))
    order = ids[::-1] if descending else ids
    steps = order if towards == "after" else order[::-1]
    seen: list[str] = [steps[0]]
    more = True
    while more:
        place = {"before": "", "after": "", towards: seen[-1]}
        page, more = store.listed("1", descending=descending, chat_id="", **place, limit=3, most=most)
        assert page
        assert len(page) <= {0: 1, 1500: 3, 99_999: 3}[most]
        found = [message.id for message in page]
        seen += found if towards == "after" else found[::-1]
    assert seen == steps
    store.close()


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "store").touch()
    Store(tmp_path / "store").close()


def test_what_was_said_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    store.add_conversation(conversation("1"))
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    store.close()
    assert modes == {"store": 0o600, "store-wal": 0o600}


def test_a_transaction_that_cannot_be_committed_does_not_swallow_the_next_ones(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = Store(path)
    store._db.execute("CREATE TABLE strict (id REFERENCES conversations (id) DEFERRABLE INITIALLY DEFERRED)")
    store._db.execute("PRAGMA foreign_keys = ON")

    def fail() -> None:
        with store.transaction():
            store.add_conversation(conversation("1"))
            # Found out at the very end.
            store._db.execute("INSERT INTO strict VALUES ('nobody')")

    with pytest.raises(sqlite3.IntegrityError):
        fail()
    with store.transaction():
        store.add_conversation(conversation("2"))
    store.close()
    store = Store(path)
    assert (store.conversation("1"), store.conversation("2")) == (None, conversation("2"))
    store.close()
