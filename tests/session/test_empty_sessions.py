"""Sessions in which nothing has happened: not listed, there to be resumed, and forgotten after a while."""

from pathlib import Path
from typing import Any

import pytest

from acp_server import Agent, Session, Turn, schema
from acp_server.session import catalogue
from acp_server.store.memory import MemoryStore
from acp_server.store.sqlite_store import SqliteStore
from tests.session.agents import setup
from tests.session.editor import END_TURN, Editor, editing

pytestmark = pytest.mark.anyio
STORES = pytest.mark.parametrize("kind", ["memory", "sqlite"])


def plain(store: Any, *, history: bool = True) -> tuple[Agent, list[Session]]:
    agent, sessions = Agent("plain", store=store, history=history), list[Session]()
    agent.modes(schema.SessionMode(id="ask", name="Ask"), schema.SessionMode(id="code", name="Code"))

    @agent.session
    async def prepare(session: Session) -> None:
        sessions.append(session)

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    return agent, sessions


def opened(kind: str, tmp_path: Path) -> Any:
    return MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "s.db")


async def listed(editor: Editor) -> dict[str, str | None]:
    found = (await editor.client.result("session/list", {}))["sessions"]
    return {each["sessionId"]: each.get("title") for each in found}


@STORES
async def test_a_session_in_which_nothing_has_happened_is_listed_while_it_is_open(kind: str, tmp_path: Path) -> None:
    store = opened(kind, tmp_path)
    agent, _ = plain(store)
    async with editing(agent) as editor:
        empty, used, mode = [await editor.open() for _ in range(3)]
        assert await editor.ask(used, "hello\nyou") == END_TURN
        await editor.client.result("session/set_mode", {"sessionId": mode, "modeId": "code"})
        assert (await listed(editor)).keys() == {empty, used, mode}
        await editor.client.result("session/close", {"sessionId": empty})
        # An author's agent that sets no title has one all the same.
        assert await listed(editor) == {used: "hello", mode: None}
    async with editing(agent) as editor:
        assert await listed(editor) == {used: "hello", mode: None}
        await editor.client.result("session/resume", setup(empty))
        assert empty in await listed(editor)
        assert await editor.ask(empty, "now") == END_TURN
    async with editing(agent) as editor:
        assert (await listed(editor))[empty] == "now"
    if isinstance(store, SqliteStore):
        store.close()


@STORES
async def test_it_is_forgotten_after_a_while(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(kind, tmp_path)
    agent, _ = plain(store)
    async with editing(agent) as editor:
        empty, used = await editor.open(), await editor.open()
        await editor.ask(used)
    monkeypatch.setattr(catalogue, "_FORGET", -1.0)
    async with editing(agent) as editor:
        open_now = await editor.open()
        assert (await listed(editor)).keys() == {used, open_now}
        assert await store.load(empty) is None
        assert await store.load(open_now) is not None
    if isinstance(store, SqliteStore):
        store.close()


async def test_more_empty_sessions_than_a_page_has_hide_no_other() -> None:
    agent, _ = plain(MemoryStore(page_size=2))
    async with editing(agent) as editor:
        used = await editor.open()
        await editor.ask(used)
        for _ in range(7):
            await editor.client.result("session/close", {"sessionId": await editor.open()})
        assert list(await listed(editor)) == [used]


async def test_a_session_of_an_agent_without_history_is_listed_once_it_had_a_turn() -> None:
    agent, _ = plain(None, history=False)
    async with editing(agent) as editor:
        used, _empty = await editor.open(), await editor.open()
        await editor.ask(used, "go")
    async with editing(agent) as editor:
        assert await listed(editor) == {used: "go"}
