"""Sessions of one folder are found however a client spells it, and are told of as their clients spell it."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server import Agent, Page, Session, SessionRecord, Turn
from acp_server.session import place
from acp_server.store.memory import MemoryStore
from acp_server.store.sqlite_store import SqliteStore
from tests.session.editor import Editor, editing

pytestmark = pytest.mark.anyio


class FourMethods:
    """A store of an author's, which compares what it is given."""

    def __init__(self) -> None:
        self.records: dict[str, SessionRecord] = {}

    def save(self, record: SessionRecord) -> None:
        self.records[record.id] = record

    async def load(self, session_id: str, *, cwd: str | None = None) -> SessionRecord | None:
        return self.records.get(session_id)

    async def list(self, cwd: str | None, cursor: str | None) -> Page:
        return Page([record for record in self.records.values() if cwd in (None, record.cwd)], None)

    async def delete(self, session_id: str) -> None:
        self.records.pop(session_id, None)


def titled(store: Any) -> Agent:
    agent = Agent("titled", store=store)

    @agent.session
    async def prepare(session: Session) -> None:
        session.record.title = "here"

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    return agent


async def listed(editor: Editor, cwd: str) -> list[str]:
    return [each["cwd"] for each in (await editor.client.result("session/list", {"cwd": cwd}))["sessions"]]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "four methods"])
@pytest.mark.parametrize("exists", [True, False])
async def test_a_list_finds_the_sessions_of_a_folder_however_it_is_spelled(
    tmp_path: Path, kind: str, exists: bool
) -> None:
    stores = {"memory": MemoryStore, "sqlite": lambda: SqliteStore(tmp_path / "s.db"), "four methods": FourMethods}
    store = stores[kind]()
    if exists:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    root = f"{tmp_path}/real"
    spellings = [root, f"{root}/", f"{root}/.", f"{tmp_path}//real", f"{tmp_path}/x/../real", f"/{root}"]
    spellings = [spelling for spelling in spellings if not exists or "/x/" not in spelling]
    spellings += [f"{tmp_path}/link"] if exists else []
    async with editing(titled(store)) as editor:
        for spelling in spellings:
            await editor.open(spelling)
        for spelling in spellings:
            assert sorted(await listed(editor, spelling)) == sorted(spellings)
        assert await listed(editor, str(tmp_path)) == []
    if isinstance(store, SqliteStore):
        store.close()


async def test_a_session_that_is_loaded_elsewhere_is_found_there(tmp_path: Path) -> None:
    async with editing(titled(None)) as editor:
        session = await editor.open(f"{tmp_path}/")
        (tmp_path / "other").mkdir()
        setup = {"sessionId": session, "cwd": f"{tmp_path}/other/.", "mcpServers": []}
        await editor.client.result("session/load", setup)
        assert await listed(editor, f"{tmp_path}/other") == [f"{tmp_path}/other/."]
        assert await listed(editor, str(tmp_path)) == []


async def test_a_list_looks_at_no_folder_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    inner = place._place
    monkeypatch.setattr(place, "_place", lambda cwd: (looked.append(cwd), inner(cwd))[1])
    async with editing(titled(None)) as editor:
        await editor.open(str(tmp_path))
        for _ in range(3):
            assert await listed(editor, f"{tmp_path}/")
        assert looked == [str(tmp_path), f"{tmp_path}/"]
    await anyio.lowlevel.checkpoint()
