"""`--store`: where a served agent keeps its sessions, and when the file is opened."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server.apps.cli.store import UserStore, store_at
from acp_server.errors import InternalError, UsageError
from acp_server.store import sqlite_tables
from acp_server.store.memory import MemoryStore
from acp_server.store.records import SessionRecord
from acp_server.store.session_store import TurnJournal
from acp_server.store.sqlite_store import SqliteStore
from tests.agent.processes.driver import PLAIN, Driven, environment, started

COMMAND = [sys.executable, "-m", "acp_server"]
KEEPER = str(Path(__file__).parents[2] / "store" / "keeper.py")

DATA = "acp-server/sessions.db"


def served(*arguments: str, state: Path) -> Any:
    return started([*COMMAND, *arguments], env=environment(XDG_STATE_HOME=str(state)))


def open_session(agent: Driven, cwd: Path) -> str:
    agent.call(0, "initialize", protocolVersion=1)
    return agent.call(1, "session/new", cwd=str(cwd), mcpServers=[])["sessionId"]


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_built_in_agent_keeps_its_sessions_in_the_users_state_directory(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with served(state=state) as agent:
        session = open_session(agent, tmp_path)
        assert agent.finish() == 0
    assert files(state) == [DATA]
    assert os.stat(state / DATA).st_mode & 0o777 == 0o600
    with served("serve", "--backend", "asyncio", state=state) as agent:
        agent.call(0, "initialize", protocolVersion=1)
        agent.call(1, "session/resume", sessionId=session, cwd=str(tmp_path), mcpServers=[])
        assert agent.finish() == 0
        assert agent.stderr == ""


def test_in_memory_nothing_is_written(tmp_path: Path) -> None:
    with served("serve", "--store", "memory", state=tmp_path / "state") as agent:
        open_session(agent, tmp_path)
        assert agent.finish() == 0
    assert files(tmp_path) == []


def test_an_agent_of_ones_own_is_kept_as_it_is_written_unless_told_otherwise(tmp_path: Path) -> None:
    with served("serve", KEEPER, state=tmp_path / "state") as agent:
        open_session(agent, tmp_path)
        assert agent.finish() == 0
    assert files(tmp_path) == []
    with served("serve", KEEPER, "--store", str(tmp_path / "mine"), state=tmp_path / "state") as agent:
        open_session(agent, tmp_path)
        assert agent.finish() == 0
    assert files(tmp_path) == ["mine"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--store", "{tmp}"], "cannot keep sessions in {tmp}, because it is a directory"),
        (["--store", "{tmp}/no/such"], "cannot keep sessions in {tmp}/no/such, because there is no directory {tmp}/no"),
        ([f"{PLAIN}:Plain", "--store", "memory"], f"{PLAIN}:Plain is of type Plain, which does not support --store"),
    ],
)
def test_a_store_that_cannot_be_is_one_line_and_exit_code_2(
    arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [*COMMAND, "serve", *(argument.format(tmp=tmp_path) for argument in arguments)],
        stdin=subprocess.DEVNULL,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"acp-server: {complaint.format(tmp=tmp_path)}\n"


def test_what_an_editor_waits_for_opens_no_file_and_loads_nothing_for_it(tmp_path: Path) -> None:
    state = tmp_path / "state"
    request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
    program = (
        "import sys\n"
        "from acp_server.apps.cli import main\n"
        "code = main([])\n"
        "sys.stderr.write(' '.join(n for n in ('sqlite3', 'platformdirs', 'click', 'pydantic') if n in sys.modules))\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(request) + "\n",
        env=environment(XDG_STATE_HOME=str(state)),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert json.loads(done.stdout)["result"]["protocolVersion"] == 1
    assert (done.returncode, done.stderr) == (0, "")
    assert not state.exists()


def test_a_state_directory_that_cannot_be_is_in_nobodys_way_and_said_to_whoever_asks_for_an_old_session(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state"
    state.touch()
    with served(state=state) as agent:
        session = open_session(agent, tmp_path)
        agent.call(2, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "/help"}])
        agent.call(3, "session/close", sessionId=session)
        agent.call(4, "session/resume", sessionId=session, cwd=str(tmp_path), mcpServers=[])
        agent.request(5, "session/resume", sessionId="old", cwd=str(tmp_path), mcpServers=[])
        assert agent.answer(5)["error"] == {
            "code": -32603,
            "message": "The session store cannot be used: Not a directory",
        }
        assert agent.finish() == 0
        assert agent.stderr.count("sessions are kept in memory only") == 1


def test_the_names_of_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(store_at("memory"), MemoryStore)
    monkeypatch.chdir(tmp_path)
    relative = store_at("./memory")
    monkeypatch.chdir("/")
    # The folder in which it was named, wherever the program goes.
    assert getattr(relative, "path") == tmp_path / "memory"  # noqa: B009
    with pytest.raises(UsageError, match="it is a directory"):
        store_at(str(tmp_path))


@pytest.mark.anyio
@pytest.mark.parametrize("works", [True, False])
async def test_the_users_store_is_a_store_in_either_place(
    works: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    if not works:
        await anyio.Path(state).touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    store = UserStore()
    assert isinstance(store, TurnJournal)
    record = SessionRecord("s", "/p")
    await store.save(record)
    found = await store.load("s")
    assert found is not None
    assert [session.id for session in (await store.list(None, None)).sessions] == ["s"]
    await store.delete("s")
    if works:
        assert await store.load("s") is None
    else:
        with pytest.raises(InternalError, match="Not a directory"):
            await store.load("s")
    assert (await anyio.Path(state / DATA).exists()) is works
    assert store._file is not None
    store._file.close()


@pytest.mark.anyio
async def test_the_users_store_is_in_memory_only_as_long_as_another_program_has_locked_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite_tables, "BUSY", 0.05)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = tmp_path / DATA
    with SqliteStore(path) as before:
        await before.save(SessionRecord("old", "/p"))
    with closing(sqlite3.connect(path, isolation_level=None)) as locks:
        locks.execute("PRAGMA locking_mode = exclusive")
        locks.execute("BEGIN IMMEDIATE")
        locks.execute("ROLLBACK")
        store = UserStore()
        record = SessionRecord("new", "/p")
        await store.save(record)
        assert await store.load("new") is record
        # Nobody waits for it a second time.
        monkeypatch.setattr(sqlite_tables, "BUSY", 60.0)
        with anyio.fail_after(8):
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(store.save, record)
        for asked in (store.load("old"), store.list(None, None)):
            with pytest.raises(InternalError, match="another program has locked it"):
                await asked
    assert {session.id for session in (await store.list(None, None)).sessions} == {"new", "old"}
    record.title = "kept"
    await store.save(record)
    assert store._file is not None
    store._file.close()
    with SqliteStore(path) as after:
        found = await after.load("new")
        assert found is not None
        assert found.title == "kept"
    assert caplog.text.count("as long as the file is locked") == 1
    assert caplog.text.count("database is locked") == 1


@pytest.mark.anyio
async def test_agents_of_different_names_do_not_find_each_others_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    one, other = UserStore(), UserStore("acp-server-model")
    await one.save(SessionRecord("mine", "/p"))
    assert await other.load("mine") is None
    assert await UserStore().load("mine") is not None
