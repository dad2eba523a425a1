"""The store in memory: order, pages, cursors."""

import pytest

from acp_server.errors import InvalidParams
from acp_server.store.memory import MemoryStore
from acp_server.store.records import SessionRecord
from acp_server.store.session_store import decode_cursor, encode_cursor

pytestmark = pytest.mark.anyio


def record(id: str, used: float, cwd: str = "/p") -> SessionRecord:
    return SessionRecord(id, cwd, updated_at=used)


async def test_what_is_saved_is_loaded_and_what_is_deleted_is_not() -> None:
    store = MemoryStore()
    assert await store.load("a") is None
    kept = record("a", 1.0)
    store.save(kept)
    assert await store.load("a") is kept
    await store.delete("a")
    await store.delete("a")
    assert await store.load("a") is None


async def test_pages_join_without_a_gap_or_a_double_also_for_equal_times() -> None:
    store = MemoryStore(page_size=3)
    for number in range(10):
        store.save(record(f"s{number}", float(number // 4)))
    found: list[str] = []
    cursor = None
    while True:
        page = await store.list(None, cursor)
        found += [session.id for session in page.sessions]
        cursor = page.next_cursor
        if cursor is None:
            break
        assert len(page.sessions) == 3
    assert found == ["s9", "s8", "s7", "s6", "s5", "s4", "s3", "s2", "s1", "s0"]


async def test_a_full_last_page_has_no_cursor() -> None:
    store = MemoryStore(page_size=2)
    store.save(record("a", 1.0))
    store.save(record("b", 2.0))
    assert (await store.list(None, None)).next_cursor is None


async def test_a_cursor_holds_although_its_session_is_gone() -> None:
    store = MemoryStore(page_size=1)
    for name, used in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
        store.save(record(name, used))
    page = await store.list(None, None)
    await store.delete("c")
    page = await store.list(None, page.next_cursor)
    assert [session.id for session in page.sessions] == ["b"]


async def test_only_sessions_of_a_directory_are_listed_if_one_is_given() -> None:
    store = MemoryStore()
    store.save(record("a", 1.0, "/a"))
    store.save(record("b", 2.0, "/b"))
    assert [session.id for session in (await store.list("/a", None)).sessions] == ["a"]
    assert (await store.list("/a/", None)).sessions == []


@pytest.mark.parametrize("used", [0.0, 1e-9, 1763716800.123456789, 1e300, -5.5])
async def test_a_cursor_keeps_its_place_exactly(used: float) -> None:
    assert decode_cursor(encode_cursor(used, "sess_ä\n7")) == (used, "sess_ä\n7")


@pytest.mark.parametrize("cursor", ["", "x", "MQ==", "MQo=", "bmFuCng=", "aW5mCng=", "\ud800", "MQph\n"])
async def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidParams, match="unknown cursor"):
        decode_cursor(cursor)


async def test_the_directories_of_sessions_are_bounded_together() -> None:
    store = MemoryStore(history=10_000)
    for number in range(100):
        one = record(f"s{number}", float(number))
        one.additional_directories = ["/" + "x" * 998, "/"]
        store.save(one)
        store.save(one)
    assert [await store.load(f"s{number}") is not None for number in (0, 90, 91, 99)] == [False, False, True, True]
    await store.delete("s99")
    store.save(record("more", 100.0, "/" * 500))
    assert await store.load("s91") is not None
