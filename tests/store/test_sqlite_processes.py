"""The store in a file, in real processes: some are killed, at any moment, and some have it at the same time."""

import os
import random
import signal
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server.store import sqlite_tables
from acp_server.store.encoding import INTERRUPTED
from acp_server.store.records import SessionRecord
from acp_server.store.sqlite_store import SqliteStore
from acp_server.store.sqlite_tables import Database
from tests.agent.processes.driver import Driven, started

KEEPER = str(Path(__file__).with_name("keeper.py"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


class Keeper:
    """A process with the agent, and what a client says to it."""

    def __init__(self, agent: Driven) -> None:
        self.agent = agent
        self._id = 0
        self.call("initialize", protocolVersion=1)

    def call(self, method: str, **params: Any) -> Any:
        self._id += 1
        return self.agent.call(self._id, method, **params)

    def open(self, session: str | None = None, how: str = "resume") -> str:
        """A new session, or an old one; its id."""
        if session is None:
            return self.call("session/new", cwd="/p", mcpServers=[])["sessionId"]
        self.call(f"session/{how}", sessionId=session, cwd="/p", mcpServers=[])
        return session

    def ask(self, session: str, text: str) -> None:
        """Come back when it is answered."""
        blocks = [{"type": "text", "text": text}]
        assert self.call("session/prompt", sessionId=session, prompt=blocks) == {"stopReason": "end_turn"}

    def hang(self, session: str) -> None:
        """Leave a turn running, of which the store has heard."""
        self._id += 1
        blocks = [{"type": "text", "text": "hang"}]
        self.agent.request(self._id, "session/prompt", sessionId=session, prompt=blocks)
        assert self.agent.next()["method"] == "session/update"
        # What it asks of the store is done in the order in which it is asked.
        self.call("session/list")

    def kill(self) -> None:
        self.agent.process.send_signal(signal.SIGKILL)
        assert self.agent.process.wait(20) == -signal.SIGKILL


@contextmanager
def keeping(path: Path, backend: str = "asyncio") -> Iterator[Keeper]:
    command = [sys.executable, "-m", "acp_server", "serve", KEEPER, "--store", str(path), "--backend", backend]
    with started(command) as agent:
        yield Keeper(agent)


def found(path: Path, session: str) -> SessionRecord:
    """What another program finds."""

    async def load() -> SessionRecord | None:
        with SqliteStore(path) as store:
            return await store.load(session)

    record = anyio.run(load)
    assert record is not None
    return record


def told(record: SessionRecord) -> list[tuple[str, str]]:
    return [(turn.prompt[0]["text"], turn.status) for turn in record.turns]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_next_process_goes_on_where_the_last_one_ended(path: Path, backend: str) -> None:
    with keeping(path, backend) as first:
        session = first.open()
        first.ask(session, "one")
        assert first.agent.finish() == 0
        assert first.agent.stderr == ""
    assert os.listdir(path.parent) == [path.name]
    with keeping(path, backend) as second:
        assert [listed["sessionId"] for listed in second.call("session/list")["sessions"]] == [session]
        second.open(session)
        second.agent.request(100, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "before"}])
        assert second.agent.next()["params"]["update"]["content"]["text"] == "one, before"
        assert second.agent.answer(100)["result"] == {"stopReason": "end_turn"}
        second.call("session/delete", sessionId=session)
        assert second.call("session/list")["sessions"] == []
        assert second.agent.finish() == 0


@pytest.mark.parametrize("seed", range(5))
def test_no_turn_that_was_answered_is_lost_when_its_process_is_killed_at_any_moment(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with keeping(path) as keeper:
        session = keeper.open()
        answered: list[str] = []
        timer = threading.Timer(chance.uniform(0, 0.08), keeper.agent.process.kill)
        timer.start()
        try:
            for number in range(10_000):
                keeper.ask(session, str(number))
                answered.append(str(number))
        except (EOFError, BrokenPipeError):
            pass
        finally:
            timer.join()
        assert keeper.agent.process.wait(20) == -signal.SIGKILL
    record = found(path, session)
    turns = told(record)
    assert turns[: len(answered)] == [(text, "completed") for text in answered]
    # Of one more there may be all, or that it was begun, or nothing.
    rest = turns[len(answered) :]
    assert rest in ([], [(str(len(answered)), "completed")], [(str(len(answered)), "failed")])
    if rest and rest[0][1] == "failed":
        assert record.turns[-1].last_error == INTERRUPTED
    with keeping(path) as next_one:
        next_one.open(session, "load")
        next_one.ask(session, "and on")
        assert next_one.agent.finish() == 0
    assert told(found(path, session)) == [*turns, ("and on", "completed")]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_turn_is_running_as_long_as_its_process_lives_and_failed_from_then_on(path: Path, backend: str) -> None:
    with keeping(path, backend) as keeper, keeping(path, backend) as bystander:
        session, other = keeper.open(), bystander.open()
        keeper.ask(session, "one")
        keeper.hang(session)
        bystander.hang(other)
        assert told(found(path, session)) == [("one", "completed"), ("hang", "in_progress")]
        keeper.kill()
        record = found(path, session)
        assert told(record) == [("one", "completed"), ("hang", "failed")]
        assert record.turns[1].last_error == INTERRUPTED
        # The one that runs in a process which lives is none of that.
        assert told(found(path, other)) == [("hang", "in_progress")]
        with keeping(path, backend) as heir:
            heir._id += 1
            heir.agent.request(heir._id, "session/load", sessionId=session, cwd="/p", mcpServers=[])
            replayed = [heir.agent.next()["params"]["update"] for _ in range(3)]
            assert [update["sessionUpdate"] for update in replayed] == [
                "user_message_chunk",
                "agent_message_chunk",
                "user_message_chunk",
            ]
            error = {"code": INTERRUPTED.code, "message": INTERRUPTED.message}
            mark = {"acp_server/turn": {"id": record.turns[1].id, "status": "failed", "error": error}}
            assert [update.get("_meta") for update in replayed] == [None, None, mark]
            assert heir.agent.answer(heir._id)["result"] == {}
            assert heir.agent.finish() == 0
        bystander.kill()
    assert told(found(path, other)) == [("hang", "failed")]


def test_a_turn_that_is_cut_because_its_process_is_told_to_end_is_kept_with_the_reason(path: Path) -> None:
    with keeping(path) as keeper:
        session = keeper.open()
        keeper.hang(session)
        keeper.agent.signal(signal.SIGTERM)
        assert keeper.agent.exit_code() == 128 + signal.SIGTERM
    (turn,) = found(path, session).turns
    assert turn.status == "failed"
    assert turn.last_error == (-32800, "Request cancelled")
    assert turn.events[0]["content"]["text"] == "re: hang"


def test_processes_that_have_one_session_at_the_same_time_lose_no_turn_of_each_other(path: Path) -> None:
    with ExitStack() as stack:
        keepers = [stack.enter_context(keeping(path)) for _ in range(2)]
        session = keepers[0].open()
        keepers[1].open(session)
        problems: list[BaseException] = []

        def talk(who: int) -> None:
            try:
                for number in range(15):
                    keepers[who].ask(session, f"{who}.{number}")
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=talk, args=(who,)) for who in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not problems
        assert [keeper.agent.finish() for keeper in keepers] == [0, 0]
        assert [keeper.agent.stderr for keeper in keepers] == ["", ""]
    turns = told(found(path, session))
    assert {status for _, status in turns} == {"completed"}
    for who in range(2):
        theirs = [text for text, _ in turns if text.startswith(f"{who}.")]
        assert theirs == [f"{who}.{number}" for number in range(15)]
    assert len(turns) == 30


@pytest.mark.anyio
async def test_whoever_makes_the_file_first_all_others_can_use_it(path: Path) -> None:
    with ExitStack() as stack:
        stores = [stack.enter_context(SqliteStore(path)) for _ in range(8)]
        async with anyio.create_task_group() as tasks:
            for number, store in enumerate(stores):
                tasks.start_soon(store.save, SessionRecord(f"s{number}", "/p"))
        assert len((await stores[0].list(None, None)).sessions) == 8


@pytest.mark.parametrize("look", [1, 2])
def test_a_file_that_another_program_is_just_making_is_no_stranger(
    path: Path, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    """The other one makes its tables in the middle of one of the looks at the file, if it can."""
    others: list[threading.Thread] = []
    looks = count(1)

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            cursor = super().execute(sql, *parameters)
            if sql == "PRAGMA application_id" and next(looks) == look:
                monkeypatch.undo()
                others.append(threading.Thread(target=lambda: Database(path).close()))
                others[0].start()
                # It has to wait for us, if all is well.
                others[0].join(0.2)
            return cursor

    def connect(path: Path, _patience: float) -> sqlite3.Connection:
        return sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False, factory=Connection)

    monkeypatch.setattr(sqlite_tables, "_connect", connect)
    Database(path).close()
    others[0].join(5)
    assert not others[0].is_alive()
