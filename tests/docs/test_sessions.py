"""The guide to sessions: its examples run, and its tables are true."""

import json
import os
import re
from pathlib import Path

import pytest

from acp_server import Agent
from acp_server.session.state import TurnState
from acp_server.store.session_store import TurnJournal
from acp_server.store.sqlite_store import SqliteStore
from acp_server.testing import check_store
from tests.session.agents import setup
from tests.session.editor import END_TURN, editing

from .blocks import DOCS, opened, run

pytestmark = pytest.mark.anyio


def test_the_table_of_states_names_all_of_them() -> None:
    text = (DOCS / "sessions.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == [state.value for state in TurnState]


async def test_sessions_account() -> None:
    async with opened("account", "sessions.md") as (editor, session, _):
        tokens = {"inputTokens": 12, "outputTokens": 5, "totalTokens": 17}
        assert await editor.ask(session, "x") == {**END_TURN, "_meta": {"usage": tokens}}
        assert editor.said() == ["An answer to 'x'."]


async def test_sessions_context() -> None:
    async with opened("context", "sessions.md") as (editor, session, _):
        await editor.ask(session, "one")
        await editor.ask(session, "two")
        assert editor.said() == ["I was shown 1 messages.", "I was shown 3 messages."]


async def test_sessions_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session = ""
    for number in (1, 2):
        agent: Agent = run("sessions.md", "sqlite")["agent"]
        async with editing(agent) as editor:
            if session:
                await editor.client.result("session/resume", setup(session))
            else:
                session = await editor.open()
            assert await editor.ask(session) == END_TURN
            assert editor.said() == [f"That was number {number}."]
        assert isinstance(agent.store, SqliteStore)
        agent.store.close()
    assert os.listdir(tmp_path) == ["sessions.db"]


async def test_sessions_files(tmp_path: Path) -> None:
    made = run("sessions.md", "files")["FileStore"]
    store = made(tmp_path)
    await check_store(store, lambda: made(tmp_path))
    assert os.listdir(tmp_path) == []
    assert not isinstance(store, TurnJournal)


async def test_sessions_tools() -> None:
    async with opened("tools", "sessions.md") as (editor, session, _):
        await editor.ask(session, "a")
        await editor.ask(session, "b")
        told = json.loads(editor.said()[-1])
    assert [message["role"] for message in told["openai"]] == ["user", "assistant", "tool", "user"]
    assert told["openai"][2] == {"role": "tool", "tool_call_id": "call_1", "content": "a: found"}
    # What the tool found and the next message come from one side.
    assert [message["role"] for message in told["anthropic"]] == ["user", "assistant", "user"]


async def test_sessions_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with editing(run("sessions.md", "log")["agent"]) as editor:
        assert [await editor.open(), await editor.open()] == ["talk-1", "talk-2"]
        assert await editor.ask("talk-2", "hello") == END_TURN
    async with editing(run("sessions.md", "log")["agent"]) as editor:
        listed = (await editor.client.result("session/list"))["sessions"]
        assert [session["sessionId"] for session in listed] == ["talk-1", "talk-2"]
        await editor.client.result("session/load", setup("talk-2"))
        assert editor.said("talk-2", "user_message_chunk") == ["hello"]
        assert editor.said("talk-2") == ["HELLO"]
        assert await editor.ask("talk-2", "again") == END_TURN


async def test_sessions_fork() -> None:
    async with editing(run("sessions.md", "fork")["agent"]) as editor:
        first = await editor.open()
        assert await editor.ask(first, "one") == END_TURN
        forked = await editor.client.result("session/fork", {"sessionId": first, "cwd": "/project", "mcpServers": []})
        assert forked == {"sessionId": "talk-2"}
        assert await editor.ask("talk-2", "two") == END_TURN
        assert editor.said() == ["talk-1: one", "talk-2: one, two"]
