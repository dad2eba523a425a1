"""Ids are new whatever the clock says, and a row never takes the place of another one."""

import secrets
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from acp_server.apps.gateway.records import Conversation, Ids, is_id
from acp_server.apps.gateway.rows import Rows
from acp_server.apps.gateway.store import SqliteEngine

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


def test_a_store_of_the_first_version_gets_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "store"
    engine = SqliteEngine(path)
    engine.transact(lambda rows: rows.add_conversation(Conversation("7", "ada", "1", 0, 0)))
    engine._db.executescript(
        "DROP TABLE purged; DROP TABLE nodes; DROP TABLE commands; DROP INDEX running_in; DROP INDEX chats_at;"
        "DROP INDEX busy_of; ALTER TABLE chats DROP COLUMN node; ALTER TABLE chats DROP COLUMN owner;"
        "PRAGMA user_version = 1"
    )
    engine.close()
    engine = SqliteEngine(path)
    engine.transact(lambda rows: rows.purge("7"))
    assert engine.transact(Rows.highest_id) == 7
    engine.close()


def test_threads_that_make_ids_at_the_same_time_make_no_id_twice() -> None:
    made = Ids(1 << 62)
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            all_ids = list(pool.map(lambda _: made.new(), range(20_000)))
    finally:
        sys.setswitchinterval(switch)
    assert len(set(all_ids)) == len(all_ids)


@pytest.mark.anyio
async def test_nobody_gets_the_conversation_of_somebody_else_when_the_clock_starts_anew(
    api: Api, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As at a start before the machine has asked for the time, and with the same luck each time.
    monkeypatch.setattr(secrets, "randbits", lambda _bits: 3)
    found: list[str] = []
    for text, token in ("echo my secret", TOKEN), ("echo hello", OTHER_TOKEN), ("echo again", OTHER_TOKEN):
        clock(EPOCH + 1)
        async with api(store=tmp_path / "store") as http:
            found.append((await say(http, text, token))[0])
            assert await listed(http, found[-1]) == [text, text.removeprefix("echo ")]
    assert len(set(found)) == 3
    async with api(store=tmp_path / "store") as http:
        assert await listed(http, found[0]) == ["echo my secret", "my secret"]
