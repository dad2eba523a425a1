"""A gateway on PostgreSQL: its tables, its transactions, and chats when the server or the gateway ends."""

import os
import signal
import threading
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from acp_server.apps.gateway.cluster import _add
from acp_server.apps.gateway.nodes import _remove
from acp_server.apps.gateway.records import Conversation
from acp_server.apps.gateway.rows import Rows
from acp_server.apps.gateway.store import Unsure, open_engine
from acp_server.errors import UsageError

from .postgres import Server, postgres
from .serving import PATIENCE, TOKEN, ask, client, cozepy, serving, until

psycopg: Any = pytest.importorskip("psycopg", reason="the extra postgres is not installed")

Status = cozepy.ChatStatus


@pytest.fixture
def url(postgresql: Server) -> str:
    return postgresql.database()


def cut(url: str) -> None:
    """Cut all connections to the database, and wait until the server has noticed."""
    with psycopg.connect(url, autocommit=True) as admin:
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        admin.execute(f"SELECT pg_terminate_backend(pid, 10000) {others}")
        assert admin.execute(f"SELECT count(*) {others} AND backend_type = 'client backend'").fetchone() == (0,)


def conversation(id: str) -> Conversation:
    return Conversation(id, "ada", "1", 0, 0)


# -- the tables


def test_gateways_that_start_at_once_make_the_tables_once(url: str) -> None:
    barrier, opened = threading.Barrier(5), list[Any]()

    def start() -> None:
        barrier.wait(10)
        opened.append(open_engine(url))

    threads = [threading.Thread(target=start) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    opened[0].transact(lambda rows: rows.add_conversation(conversation("1")))
    assert [engine.transact(lambda rows: rows.conversation("1")) for engine in opened] == [conversation("1")] * 5
    for engine in opened:
        engine.close()
    with psycopg.connect(url) as admin:
        assert admin.execute("SELECT version FROM acp_gateway").fetchall() == [(3,)]
        assert admin.execute("SELECT count(*) FROM purged").fetchone() == (1,)


def test_a_gateway_that_was_cut_goes_on(url: str) -> None:
    engine = open_engine(url)
    cut(url)
    engine.transact(lambda rows: rows.add_conversation(conversation("1")))
    engine.close()


def test_tables_of_a_later_version_are_refused_and_left_as_they_are(url: str) -> None:
    open_engine(url).close()
    with psycopg.connect(url) as admin:
        admin.execute("UPDATE acp_gateway SET version = 99")
    with pytest.raises(UsageError, match="format 99"):
        open_engine(url)
    with psycopg.connect(url) as admin:
        assert admin.execute("SELECT version FROM acp_gateway").fetchall() == [(99,)]


def test_what_is_no_database_is_refused_without_its_password() -> None:
    for place, why in (
        ("postgresql://ada:secret@/x?host=/nowhere", "cannot be used: connection"),
        ("postgresql://ada:secret@/x?nothing=1", "not a database URL"),
    ):
        with pytest.raises(UsageError, match=why) as refused:
            open_engine(place)
        assert "secret" not in str(refused.value)


def test_the_password_of_the_environment_is_used_and_not_left_to_agents(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    conninfo_to_dict: Any = pytest.importorskip("psycopg.conninfo").conninfo_to_dict
    asked: list[object] = []
    connect = psycopg.Connection.connect

    def connecting(conninfo: str, **options: Any) -> Any:
        asked.append(conninfo_to_dict(conninfo).get("password"))
        return connect(conninfo, **options)

    monkeypatch.setattr(psycopg.Connection, "connect", connecting)
    for place, wanted in ((url, "secret"), (url.replace("gateway@", "gateway:other@"), "other")):
        monkeypatch.setenv("PGPASSWORD", "secret")
        engine = open_engine(place)
        engine.transact(lambda rows: rows.conversation("1"))
        engine.close()
        assert "PGPASSWORD" not in os.environ
        assert set(asked) == {wanted}
        asked.clear()


# -- transactions


def test_a_transaction_whose_connection_is_cut_is_done_again_and_counts_once(url: str) -> None:
    engine = open_engine(url)
    cuts = [url, url]

    def work(rows: Rows) -> None:
        rows.add_conversation(conversation("1"))
        if cuts:
            cut(cuts.pop())
        rows.add_conversation(conversation("2"))

    engine.transact(work)
    found = engine.transact(lambda rows: rows.conversations("ada", None, 0, 9))
    assert [each.id for each in found] == ["2", "1"]
    engine.close()


def test_a_commit_that_is_cut_is_not_done_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_engine(url)
    runs: list[int] = []
    execute = psycopg.Connection.execute

    def cutting(connection: Any, query: Any, *args: Any) -> Any:
        if query == b"COMMIT":
            cut(url)
        return execute(connection, query, *args)

    def work(rows: Rows) -> None:
        runs.append(1)
        rows.add_conversation(conversation("1"))

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", cutting)
        with pytest.raises(Unsure):
            engine.transact(work)
    assert runs == [1]
    assert engine.transact(lambda rows: rows.conversation("1")) is None
    engine.close()


@pytest.mark.parametrize("removed", ["the node that is asked", "the node that asks"])
def test_a_command_that_comes_while_a_node_is_removed_leaves_no_row(url: str, removed: str) -> None:
    engine = open_engine(url)
    join = "INSERT INTO nodes (slot, url, channel, ends) VALUES (?, '', 'none', 0) RETURNING id"

    def joined(rows: Rows) -> list[int]:
        return [rows.execute(join, (slot,)).fetchone()[0] for slot in (0, 1)]

    asked, asker = engine.transact(joined)
    commands = [{"what": "cancel"}]

    def remove(rows: Rows) -> None:
        # From here on this transaction does not see what others do.
        assert rows.execute("SELECT count(*) FROM nodes", ()).fetchone() == (2,)
        if commands:
            assert engine.transact(partial(_add, node=asked, asker=asker, command=commands.pop())) is not None
        _remove(rows, asked if removed == "the node that is asked" else asker)

    engine.transact(remove)
    assert engine.transact(lambda rows: list(rows.execute("SELECT doc FROM commands", ()))) == []
    assert engine.transact(partial(_add, node=asked, asker=asker, command={})) is None
    engine.close()


def test_commands_that_an_earlier_version_has_left_behind_are_removed(url: str) -> None:
    open_engine(url).close()
    with psycopg.connect(url) as admin:
        for name in ("node", "asker"):
            admin.execute(f"ALTER TABLE commands DROP CONSTRAINT commands_{name}_fkey")
        admin.execute("UPDATE acp_gateway SET version = 2")
        admin.execute("INSERT INTO commands (node, asker, doc) VALUES (7, 8, '{}')")
    open_engine(url).close()
    with psycopg.connect(url) as admin:
        assert admin.execute("SELECT count(*) FROM commands").fetchone() == (0,)


# -- a gateway


def test_a_gateway_goes_on_where_the_one_that_was_killed_has_stopped(url: str, tmp_path: Path) -> None:
    with serving(tmp_path / "1", "--store", url, "--lease-seconds", "4") as server, client(server) as coze:
        done = coze.chat.create_and_poll(**ask("echo one")).chat
        running = coze.chat.create(**ask("hang"))
        server.kill()
    with serving(tmp_path / "2", "--store", url, "--lease-seconds", "4") as server, client(server) as coze:
        ids = {"conversation_id": running.conversation_id, "chat_id": running.id}
        until(lambda: coze.chat.retrieve(**ids).status == Status.FAILED)
        failed = coze.chat.retrieve(conversation_id=running.conversation_id, chat_id=running.id)
        assert failed.last_error == cozepy.ChatError(code=5000, msg="the gateway ended before the chat did")
        poll: Any = coze.chat.create_and_poll(**ask("recall"), conversation_id=done.conversation_id)
        assert "user: echo one\n\nassistant: one" in poll.messages[0].content


def test_chats_go_on_when_the_server_was_started_anew(tmp_path: Path) -> None:
    with (
        postgres() as server,
        serving(tmp_path, "--store", server.database()) as gateway,
        client(gateway) as coze,
    ):
        waits = coze.chat.create_and_poll(**ask("ask files")).chat
        action: Any = waits.required_action
        server.stop()
        server.start()
        (call,) = action.submit_tool_outputs.tool_calls
        ids = {"conversation_id": waits.conversation_id, "chat_id": waits.id}
        outputs = [cozepy.ToolOutput(tool_call_id=call.id, output="yes")]
        coze.chat.submit_tool_outputs(**ids, tool_outputs=outputs, stream=False)
        assert coze.chat.create_and_poll(**ask("echo again")).chat.status == Status.COMPLETED
        until(lambda: coze.chat.retrieve(**ids).status == Status.COMPLETED)


def test_an_idle_gateway_is_not_ready_for_a_while_before_it_ends_and_a_second_signal_ends_it(
    url: str, tmp_path: Path
) -> None:
    body = {"bot_id": "1", "user_id": "u", "additional_messages": [{"role": "user", "content": "echo x"}]}
    with serving(tmp_path, "--store", url, "--drain", "60") as server, httpx.Client(base_url=server.url) as http:
        assert http.get("/readyz").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        until(lambda: http.get("/readyz").status_code == 503)
        refused = http.post("/v3/chat", json=body, headers={"Authorization": f"Bearer {TOKEN}"})
        assert (refused.status_code, refused.json()["code"]) == (503, 4009)
        server.process.send_signal(signal.SIGTERM)
        server.killed = True
        assert server.process.wait(PATIENCE) == -signal.SIGTERM
