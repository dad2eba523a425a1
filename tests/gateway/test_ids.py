"""Ids are new whatever the clock says, and a row never takes the place of another one."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_server.gateway import ids
from acp_server.gateway.ids import Ids, is_id
from acp_server.gateway.messages import Message
from acp_server.gateway.records import Chat, Conversation
from acp_server.gateway.store import Store

from .inside import Api, listed, say
from .serving import OTHER_TOKEN, TOKEN

EPOCH, YEAR_2010, YEAR_2050, YEAR_2300 = 0, 1_262_304_000, 2_524_608_000, 10_413_792_000

Clock = Callable[[float], None]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Sets the clock that ids are made from, where it then stands still."""

    def at(seconds: float) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: int(seconds * 1_000_000_000))

    return at


def conversation(id: str, owner: str = "ada") -> Conversation:
    return Conversation(id, owner, "1", 0, 0)


@pytest.mark.parametrize("now", [EPOCH, YEAR_2010, YEAR_2050, YEAR_2300])
def test_ids_rise_and_can_be_read_as_integers_of_64_bits_whatever_the_clock_says(clock: Clock, now: float) -> None:
    clock(now)
    made = Ids()
    numbers = [int(made.new()) for _ in range(1000)]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] < 1 << 63
    assert all(is_id(str(number)) for number in numbers)


def test_ids_rise_while_the_clock_is_set_back(clock: Clock) -> None:
    made = Ids()
    numbers: list[int] = []
    for now in (YEAR_2050, EPOCH, YEAR_2010, YEAR_2300, YEAR_2010 + 1):
        clock(now)
        numbers += [int(made.new()) for _ in range(10)]
    assert numbers == sorted(set(numbers))


def test_two_runs_that_know_nothing_of_each_other_make_other_ids_with_a_clock_that_stands(clock: Clock) -> None:
    clock(EPOCH)
    first, second = Ids(), Ids()
    assert not {first.new() for _ in range(100)} & {second.new() for _ in range(100)}


def test_ids_go_on_from_the_highest_in_the_store(tmp_path: Path) -> None:
    path = tmp_path / "store"
    for number, add in enumerate(
        (
            lambda store, id: store.add_conversation(conversation(id)),
            lambda store, id: store.add_chat(Chat(id, "1", "1", "1", "ada")),
            lambda store, id: store.add_message(Message(id, "1", "1", "user", "question", "x")),
        )
    ):
        highest = 10 ** (number + 15) + number
        store = Store(path)
        add(store, str(highest))
        add(store, str(99 + number))
        store.close()
        store = Store(path)
        assert store.highest_id() == highest
        store.close()


def test_the_ids_of_what_was_purged_are_not_given_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    assert store.highest_id() == 0
    for id in ("5", "1000"):
        store.add_conversation(conversation(id))
        store.add_message(Message(f"{id}1", id, "1", "user", "question", "x"))
    store.purge("1000")
    store.purge("5")
    assert store.highest_id() == 10001
    store.close()


def test_a_row_with_an_id_that_there_is_already_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    ada = conversation("1")
    chat = Chat("2", "1", "1", "1", "ada")
    store.add_conversation(ada)
    store.add_chat(chat)
    with pytest.raises(sqlite3.IntegrityError):
        store.add_conversation(conversation("1", "bob"))
    with pytest.raises(sqlite3.IntegrityError):
        store.add_chat(Chat("2", "1", "1", "1", "bob"))
    assert (store.conversation("1"), store.chat("2")) == (ada, chat)
    store.close()


def test_a_store_of_the_first_version_gets_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = Store(path)
    store.add_conversation(conversation("7"))
    store._db.executescript("DROP TABLE purged; PRAGMA user_version = 1")
    store.close()
    store = Store(path)
    store.purge("7")
    assert store.highest_id() == 7
    store.close()


@pytest.mark.anyio
async def test_nobody_gets_the_conversation_of_somebody_else_when_the_clock_starts_anew(
    api: Api, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As at a start before the machine has asked for the time, and with the same luck each time.
    monkeypatch.setattr(ids.secrets, "randbits", lambda _bits: 3)
    found: list[str] = []
    for text, token in ("echo my secret", TOKEN), ("echo hello", OTHER_TOKEN), ("echo again", OTHER_TOKEN):
        clock(EPOCH + 1)
        async with api(store=tmp_path / "store") as http:
            found.append((await say(http, text, token))[0])
            assert await listed(http, found[-1]) == [text, text.removeprefix("echo ")]
    assert len(set(found)) == 3
    async with api(store=tmp_path / "store") as http:
        assert await listed(http, found[0]) == ["echo my secret", "my secret"]
