"""`check_store`: the contract test of a `SessionStore`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Final
from uuid import uuid4

import anyio

from acp_server.agent.app import Agent
from acp_server.errors import InvalidParams, ResourceNotFound
from acp_server.session.turn import Turn
from acp_server.store.encoding import encode_session
from acp_server.store.records import SessionRecord, TurnError, TurnRecord, Usage
from acp_server.store.session_store import Page, SessionStore, TurnJournal, listed, loaded
from acp_server.testing.talking import talk

_MANY: Final = 120
"""The number of sessions in the check of pages. It is more than two pages of the stores of this package."""

_STRANGE_IDS: Final = ("", "..", "../../etc/passwd", "a/b", "a\0b", "%00", "'; --", "\ud800", "\N{SNOWMAN}", "x" * 4096)
"""Unknown ids. A client may request any text."""


async def check_store(store: SessionStore, reopen: Callable[[], SessionStore] | None = None) -> None:
    """Check `store` against the contract of `SessionStore`, directly and through an agent in memory.

    Other sessions may be in the store; the sessions of the check are in folders and have ids of their own, and are
    deleted at its end unless it fails. `reopen`: return a new store with the same sessions, as after a restart of the
    program; by default sessions are read from `store` itself.

    Raises AssertionError, which says what is wrong, and exceptions of the store.
    """
    check = _Check(store, reopen or (lambda: store))
    await check.unknown_sessions()
    await check.contents()
    await check.order()
    await check.pages()
    await check.deleted_sessions()
    await check.concurrent_use()
    if isinstance(store, TurnJournal):
        await check.journal(store)
    await check.conversation()


class _Check:
    """The sessions of one check."""

    def __init__(self, store: SessionStore, reopen: Callable[[], SessionStore]) -> None:
        self._store = store
        self._reopen = reopen
        self._root = f"/check-{uuid4().hex}"

    async def unknown_sessions(self) -> None:
        for id in _STRANGE_IDS:
            name = ascii(id[:20])
            _expect(await loaded(self._store, id) is None, f"load({name}), an unknown id, must return None")
            await self._store.delete(id)
        page = await listed(self._store, f"{self._root}/unused", None)
        _expect(not page.sessions and page.next_cursor is None, "list of a folder without sessions must be empty")
        for cursor in ("", "no cursor", "\ud800"):
            try:
                await self._store.list(None, cursor)
            except InvalidParams:
                continue
            raise AssertionError(f"list must raise InvalidParams for {cursor!a}, a cursor that it did not return")

    async def contents(self) -> None:
        record = _session(f"{self._root}/contents")
        await self._save(record)
        await self._same(record, "a new session")
        for status in ("completed", "failed", "canceled"):
            record.turns.append(_turn(status))
            record.unused, record.updated_at = False, record.updated_at + 1
            await self._save(record)
            await self._same(record, f"a session after a turn that {status}")
        record.title, record.mode, record.config = "Another title \N{SNOWMAN}", None, {"model": "b", "fast": True}
        record.chosen |= {("mode",), ("config", "model"), ("config", "fast")}
        record.archived, record.cost, record.named = True, (0.25, "USD"), True
        await self._save(record)
        await self._same(record, "a session with other settings")
        # A store that is opened again gives a session that can be saved again.
        store = self._reopen()
        again = await _found(store, record.id)
        again.turns.append(_turn("completed"))
        await _saved(store, again)
        await self._same(again, "a session that was loaded and saved again")
        await self._delete(again)

    async def order(self) -> None:
        here, there = f"{self._root}/here", f"{self._root}/there"
        records = [_session(cwd, used) for cwd, used in ((here, 3.0), (there, 2.0), (here, 1.0))]
        for record in records:
            await self._save(record)
        first, other, last = (record.id for record in records)
        _expect(await self._ids(here) == [first, last], "list must have the most recently used session first")
        _expect(await self._ids(there) == [other], "list must have the sessions of the requested folder alone")
        ids = [id for id in await self._ids(None) if id in (first, other, last)]
        _expect(ids == [first, other, last], "list without a folder must have the sessions of all folders, in order")
        records[2].updated_at = 4.0
        await self._save(records[2])
        _expect(await self._ids(here) == [last, first], "a session must move to the head of the list when it was used")
        for record in records:
            await self._delete(record)

    async def pages(self) -> None:
        cwd = f"{self._root}/pages"
        # Two sessions each have the same time.
        records = [_session(cwd, float(number // 2)) for number in range(_MANY)]
        for record in records:
            await self._save(record)
        ids = await self._ids(cwd)
        _expect(len(ids) == len(set(ids)), "the pages of list must have each session once")
        _expect(set(ids) == {record.id for record in records}, "the pages of list must have all sessions")
        page = await listed(self._store, cwd, None)
        if page.next_cursor is not None:
            # The session at the end of the page goes; the others of the next page stay where they are.
            await self._store.delete(page.sessions[-1].id)
            rest = await self._ids(cwd, page.next_cursor)
            _expect(rest == ids[len(page.sessions) :], "a deleted session must not change the next page of list")
        for record in records:
            await self._delete(record)

    async def deleted_sessions(self) -> None:
        cwd = f"{self._root}/deleted"
        record = _session(cwd)
        await self._save(record)
        await self._delete(record)
        await self._store.delete(record.id)
        try:
            await self._save(record)
        except ResourceNotFound:
            pass
        else:
            raise AssertionError("save must raise ResourceNotFound for a session that was deleted after it was saved")
        _expect(await loaded(self._reopen(), record.id) is None, "a deleted session must stay deleted")
        _expect(await self._ids(cwd) == [], "a deleted session must not be listed")

    async def concurrent_use(self) -> None:
        cwd = f"{self._root}/concurrent"
        records = [_session(cwd, float(number)) for number in range(20)]

        async def use(record: SessionRecord) -> None:
            await self._save(record)
            record.turns.append(_turn("completed"))
            await self._save(record)
            await self._same(record, "a session that is saved while others are")

        async with anyio.create_task_group() as tasks:
            for record in records:
                tasks.start_soon(use, record)
        ids = [record.id for record in reversed(records)]
        _expect(await self._ids(cwd) == ids, "concurrent saves must all be listed")
        async with anyio.create_task_group() as tasks:
            for record in records:
                tasks.start_soon(self._store.delete, record.id)
        _expect(await self._ids(cwd) == [], "concurrent deletes must all have an effect")

    async def journal(self, store: TurnJournal) -> None:
        record = _session(f"{self._root}/journal")
        await self._save(record)
        record.turns.append(TurnRecord([{"type": "text", "text": "hello"}]))
        record.turns[-1].status = "in_progress"
        await store.begin(record, record.turns[-1])
        found = await loaded(self._reopen(), record.id)
        texts = [] if found is None else [turn.text for turn in found.turns]
        _expect(texts == ["hello"], "a turn must be stored when it begins")
        _end(record.turns[-1], "completed")
        await self._save(record)
        await store.begin(record, record.turns[-1])
        await self._same(record, "a turn whose begin comes after the save of its end")
        await self._delete(record)

    async def conversation(self) -> None:
        cwd = f"{self._root}/conversation"
        agent = Agent("checked", store=self._store)
        agent.prompt(_answer)
        async with talk(agent, cwd=cwd) as session:
            _expect(await session.ask("hello") == "You said hello.", "an agent must be able to use the store")
        _expect(await self._texts(session.id) == ["hello"], "the turns of a session must be stored")
        agent.store = self._reopen()
        async with talk(agent, cwd=cwd, load=session.id) as again:
            await again.ask("bye")
        _expect(await self._texts(session.id) == ["hello", "bye"], "the turns of a loaded session must be stored")
        async with talk(agent, cwd=cwd) as other:
            await other.agent.delete_session(session.id)
        _expect(await loaded(agent.store, session.id) is None, "session/delete must delete the session")
        await agent.store.delete(other.id)

    # -- helpers

    async def _save(self, record: SessionRecord) -> None:
        await _saved(self._store, record)

    async def _delete(self, record: SessionRecord) -> None:
        await self._store.delete(record.id)
        _expect(await loaded(self._reopen(), record.id) is None, "load must return None after delete")

    async def _stored(self, id: str) -> SessionRecord:
        return await _found(self._reopen(), id)

    async def _texts(self, id: str) -> list[str]:
        return [turn.text for turn in (await self._stored(id)).turns]

    async def _same(self, record: SessionRecord, what: str) -> None:
        """Compare the stored session with `record`."""
        found = await self._stored(record.id)
        mine, stored = encode_session(record), encode_session(found)
        _expect(mine == stored, f"load must return {what} as it was saved; saved {mine!r}, loaded {stored!r}")

    async def _ids(self, cwd: str | None, cursor: str | None = None) -> list[str]:
        """The ids of all pages."""
        ids: list[str] = []
        cursors: set[str] = set()
        store = self._reopen()
        while True:
            page: Page = await listed(store, cwd, cursor)
            ids += [record.id for record in page.sessions]
            cursor = page.next_cursor
            if cursor is None:
                return ids
            _expect(cursor not in cursors, "list must not return the same cursor twice")
            cursors.add(cursor)


def _expect(holds: bool, rule: str) -> None:
    if not holds:
        raise AssertionError(rule)


async def _found(store: SessionStore, id: str) -> SessionRecord:
    record = await loaded(store, id)
    if record is None:
        raise AssertionError("load must return a session that was saved")
    return record


async def _saved(store: SessionStore, record: SessionRecord) -> None:
    made: Awaitable[None] | None = store.save(record)
    if isawaitable(made):
        await made


def _session(cwd: str, updated_at: float = 1.0) -> SessionRecord:
    """A session with a value in every member."""
    return SessionRecord(
        f"sess_{uuid4().hex}",
        cwd,
        additional_directories=[f"{cwd}/more", f"{cwd}/\N{SNOWMAN}"],
        title='A "title"\nof two lines',
        created_at=0.5,
        updated_at=updated_at,
        mode="ask",
        config={"model": "a", "fast": False},
        spelled=f"{cwd}/.",
        unused=True,
        begins="hello",
        cost=(0.125, "EUR"),
    )


def _turn(status: str) -> TurnRecord:
    image = {"type": "image", "data": "", "mimeType": "image/png"}
    turn = TurnRecord([{"type": "text", "text": "hello \N{SNOWMAN}"}, image])
    turn.add({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Half of a pair: \ud83d"}})
    turn.add({"sessionUpdate": "tool_call", "toolCallId": "call_1", "title": "Work", "status": "completed"})
    turn.usage = Usage(10, 5, 15, thought=1)
    turn.meta_data = {"note": "kept"}
    if status == "failed":
        turn.last_error = TurnError(-32603, "Internal error")
    _end(turn, status)
    return turn


def _end(turn: TurnRecord, status: str) -> None:
    turn.status = status
    turn.stop_reason = {"completed": "end_turn", "canceled": "cancelled"}.get(status)
    turn.ended_at = turn.created_at + 1
    turn.pack()


async def _answer(turn: Turn) -> str:
    return f"You said {turn.text}."
