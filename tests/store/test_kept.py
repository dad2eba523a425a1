"""What frameworks keep with the turns of a session, in every store; and files from before there was any."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server import Agent, Limits, MemoryStore, SessionStore, SqliteStore, Turn, UsageError
from acp_server.errors import EncodeError, TurnEnded
from acp_server.store.encoding import decode_session, encode_session
from acp_server.store.records import SessionRecord, TurnRecord
from tests.session.agents import setup
from tests.session.editor import CANCELLED, END_TURN, editing
from tests.store.records import say

pytestmark = pytest.mark.anyio


def keeping(store: SessionStore, seen: list[list[Any]]) -> Agent:
    """An agent that keeps each message, and notes what it finds of those before."""
    agent = Agent("keeps", store=store)

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        seen.append([past.kept("f", 2) for past in turn.session.record.context() if past is not turn.record])
        turn.keep("f", {"text": turn.text}, version=2)
        turn.keep("f", {"text": [turn.text]}, version=2)
        turn.keep("g", turn.text.encode())
        await turn.say("said")
        if turn.text == "fail":
            raise ValueError
        if turn.text == "hang":
            turn.session.cancel()
            await anyio.sleep_forever()

    return agent


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_it_is_there_with_the_turns_that_count_also_for_another_program(kind: str, tmp_path: Path) -> None:
    @contextmanager
    def opened() -> Generator[SessionStore]:
        if kind == "memory":
            yield memory
        else:
            with SqliteStore(tmp_path / "s.db", history=10) as store:
                yield store

    memory = MemoryStore()
    seen: list[list[Any]] = []
    with opened() as store:
        async with editing(keeping(store, seen)) as editor:
            session = await editor.open()
            assert await editor.ask(session, "one") == END_TURN
            assert "code" in await editor.ask(session, "fail")
            assert await editor.ask(session, "hang") == CANCELLED
            assert await editor.ask(session, "two") == END_TURN
    with opened() as store:
        async with editing(keeping(store, seen)) as editor:
            await editor.client.result("session/load", setup(session))
            assert [words for words in editor.said() if not words.startswith("[")] == ["said"] * 4
            assert await editor.ask(session, "three") == END_TURN
        assert seen[-1] == [{"text": ["one"]}, {"text": ["two"]}]
        record = await store.load(session)
        assert record is not None
        assert [turn.kept("g", 1) for turn in record.turns] == [b"one", None, None, b"two", b"three"]
        assert record.turns[0].kept("f", 1) is None
        assert record.turns[0].kept("h", 1) is None
        again = decode_session(encode_session(record))
        assert [turn.kept("g", 1) for turn in again.turns] == [b"one", None, None, b"two", b"three"]


async def test_a_file_from_before_is_read_and_goes_on(tmp_path: Path) -> None:
    seen: list[list[Any]] = []
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        async with editing(keeping(store, seen)) as editor:
            session = await editor.open()
            assert await editor.ask(session, "old") == END_TURN
    with sqlite3.connect(path) as file:
        # As it was written before there was anything to keep.
        file.execute(
            "UPDATE turns SET contents = json_array(json_extract(contents, '$[0]'), json_extract(contents, '$[1]'))"
        )
    file.close()
    with SqliteStore(path) as store:
        async with editing(keeping(store, seen)) as editor:
            await editor.client.result("session/load", setup(session))
            for text in ("new", "newer"):
                assert await editor.ask(session, text) == END_TURN
    assert seen == [[], [None], [None, {"text": ["new"]}]]


async def test_what_cannot_be_kept_is_refused_and_nothing_changes() -> None:
    raised: list[type[Exception]] = []
    turns: list[Turn] = []
    agent = Agent("keeps")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turns.append(turn)
        turn.keep("f", "fits")
        for value in ("x" * 2000, object()):
            try:
                turn.keep("f", value)
            except (UsageError, EncodeError) as error:
                raised.append(type(error))

    async with editing(agent, Limits(drain=0.05, turn=1000)) as editor:
        assert await editor.ask(await editor.open()) == END_TURN
    assert raised == [UsageError, EncodeError]
    assert turns[0].record.kept("f", 1) == "fits"
    with pytest.raises(TurnEnded):
        turns[0].keep("f", "late")


def test_a_turn_without_anything_kept_is_written_as_before() -> None:
    record = TurnRecord([{"type": "text", "text": "hi"}])
    say(record, "agent_message_chunk", "here")
    record.status = "completed"
    record.pack()
    assert record.contents.startswith(b"[[")
    assert len(decode_session(encode_session(SessionRecord("s", "/p", turns=[record]))).turns) == 1
    assert record.kept("f", 1) is None
