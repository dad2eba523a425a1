"""`check_store`: the stores that it accepts, and the broken rules that it notices."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from acp_server import InvalidParams, MemoryStore, Page, ResourceNotFound, SessionRecord, SqliteStore, TurnRecord
from acp_server.store.encoding import decode_session, encode_session
from acp_server.testing import check_store

pytestmark = pytest.mark.anyio


class OfBytes:
    """A store of four methods, with pages of 50."""

    def __init__(self, kept: dict[str, bytes] | None = None) -> None:
        self.kept: dict[str, bytes] = {} if kept is None else kept

    async def save(self, record: SessionRecord) -> None:
        if record.stored and record.id not in self.kept:
            raise ResourceNotFound("deleted")
        record.stored = True
        self.kept[record.id] = encode_session(record)

    async def load(self, session_id: str, *, cwd: str | None = None) -> SessionRecord | None:
        if session_id not in self.kept:
            return None
        record = decode_session(self.kept[session_id])
        record.stored = True
        return record

    async def list(self, cwd: str | None, cursor: str | None) -> Page:
        try:
            start = 0 if cursor is None else int(cursor)
        except ValueError:
            raise InvalidParams("unknown cursor") from None
        found = [record for record in map(decode_session, self.kept.values()) if cwd in (None, record.cwd)]
        found.sort(key=lambda record: -record.updated_at)
        return self.page(found, start)

    def page(self, found: Sequence[SessionRecord], start: int) -> Page:
        return Page([*found[start : start + 200]], str(start + 200) if len(found) > start + 200 else None)

    async def delete(self, session_id: str) -> None:
        self.kept.pop(session_id, None)


class RaisesForUnknown(OfBytes):
    async def load(self, session_id: str, *, cwd: str | None = None) -> SessionRecord | None:
        return decode_session(self.kept[session_id])


class DeletesOnce(OfBytes):
    async def delete(self, session_id: str) -> None:
        del self.kept[session_id]


class TakesAnyCursor(OfBytes):
    async def list(self, cwd: str | None, cursor: str | None) -> Page:
        return await super().list(cwd, cursor if cursor is not None and cursor.isdecimal() else None)


class ForgetsTitles(OfBytes):
    async def save(self, record: SessionRecord) -> None:
        await super().save(record)
        kept = decode_session(self.kept[record.id])
        kept.title = None
        self.kept[record.id] = encode_session(kept)


class KeepsTheFirst(OfBytes):
    async def save(self, record: SessionRecord) -> None:
        if record.id not in self.kept:
            await super().save(record)


class OldestFirst(OfBytes):
    def page(self, found: Sequence[SessionRecord], start: int) -> Page:
        return super().page(found[::-1], start)


class ListsAllFolders(OfBytes):
    async def list(self, cwd: str | None, cursor: str | None) -> Page:
        return await super().list(None, cursor)


class ListsOnePage(OfBytes):
    def page(self, found: Sequence[SessionRecord], start: int) -> Page:
        return Page([*found[:50]], None)


class TurnsInCircles(OfBytes):
    def page(self, found: Sequence[SessionRecord], start: int) -> Page:
        return Page([*found[:50]], "0") if len(found) > 50 else Page([*found], None)


class PagesByNumber(OfBytes):
    """As the base does, but with pages that are shorter than the list."""

    def page(self, found: Sequence[SessionRecord], start: int) -> Page:
        return Page([*found[start : start + 50]], str(start + 50) if len(found) > start + 50 else None)


class BringsBack(OfBytes):
    async def save(self, record: SessionRecord) -> None:
        record.stored = False
        await super().save(record)


class HidesDeleted(OfBytes):
    """A deleted session is not loaded, and is listed all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.gone: set[str] = set()

    async def delete(self, session_id: str) -> None:
        self.gone.add(session_id)

    async def load(self, session_id: str, *, cwd: str | None = None) -> SessionRecord | None:
        return None if session_id in self.gone else await super().load(session_id)


class ForgetsTheBegun(OfBytes):
    async def begin(self, record: SessionRecord, turn: TurnRecord) -> None:
        pass


class BeginsAnew(OfBytes):
    """The late begin of a turn that has ended makes it a running one again."""

    async def begin(self, record: SessionRecord, turn: TurnRecord) -> None:
        kept = decode_session(encode_session(record))
        kept.turns[-1].status = "in_progress"
        self.kept[record.id] = encode_session(kept)


async def test_a_store_in_memory_keeps_the_contract() -> None:
    await check_store(MemoryStore())


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_store_in_a_file_keeps_the_contract(tmp_path: Path, restarts: bool) -> None:
    path = tmp_path / "sessions.db"
    await check_store(SqliteStore(path), (lambda: SqliteStore(path)) if restarts else None)


async def test_a_store_of_four_methods_keeps_the_contract_and_is_empty_again() -> None:
    store = OfBytes()
    await check_store(store, lambda: OfBytes(store.kept))
    assert store.kept == {}


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (RaisesForUnknown, None),
        (DeletesOnce, None),
        (TakesAnyCursor, "a cursor that it did not return"),
        (ForgetsTitles, "load must return a new session as it was saved"),
        (KeepsTheFirst, "load must return a session after a turn that completed as it was saved"),
        (OldestFirst, "the most recently used session first"),
        (ListsAllFolders, "of a folder without sessions must be empty"),
        (ListsOnePage, "must have all sessions"),
        (TurnsInCircles, "the same cursor twice"),
        (PagesByNumber, "must not change the next page"),
        (BringsBack, "must raise ResourceNotFound"),
        (HidesDeleted, "must raise ResourceNotFound"),
        (ForgetsTheBegun, "must be stored when it begins"),
        (BeginsAnew, "after the save of its end"),
    ],
)
async def test_a_broken_rule_is_named(make: Callable[[], OfBytes], rule: str | None) -> None:
    store = make()
    # A store in which something is stored already, as that of an author may be.
    await OfBytes.save(store, SessionRecord("sess_1", "/elsewhere"))
    with pytest.raises(KeyError if rule is None else AssertionError, match=rule):
        await check_store(store)


async def test_a_store_that_forgets_at_a_restart_is_noticed() -> None:
    with pytest.raises(AssertionError, match="must return a session that was saved"):
        await check_store(OfBytes(), OfBytes)
