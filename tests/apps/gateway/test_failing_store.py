"""A store that fails under a gateway that runs, as when a disk is full: chats end all the same, and say so."""

import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from acp_server.apps.gateway.app import make_app
from acp_server.apps.gateway.auth import one_token
from acp_server.apps.gateway.gateway import Gateway, GatewaySettings
from acp_server.apps.gateway.rows import Rows
from acp_server.apps.gateway.store import SqliteEngine
from acp_server.client import Patience

from .inside import HERE
from .serving import PATIENCE, TOKEN

pytestmark = pytest.mark.anyio


class Api:
    """A gateway in this process, and a switch for its store."""

    def __init__(self, gateway: Gateway, http: httpx.AsyncClient) -> None:
        self.gateway = gateway
        self.http = http

    @property
    def db(self) -> sqlite3.Connection:
        engine = self.gateway._engine
        assert isinstance(engine, SqliteEngine)
        return engine._db

    def fail(self, fails: bool) -> None:
        self.db.execute(f"PRAGMA query_only = {int(fails)}")

    async def begin(self, text: str, **params: str) -> dict[str, Any]:
        return (await self.http.post("/v3/chat", json=body(text), params=params)).json()

    async def retrieve(self, chat: dict[str, Any]) -> dict[str, Any]:
        return (await self.http.get("/v3/chat/retrieve", params=ids(chat))).json()["data"]

    async def until(self, chat: dict[str, Any], *statuses: str) -> dict[str, Any]:
        with anyio.fail_after(PATIENCE):
            while (chat := await self.retrieve(chat))["status"] not in statuses:  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(0.01)
        return chat

    async def idle(self) -> None:
        with anyio.fail_after(PATIENCE):
            while self.gateway.chats.statuses().total():  # noqa: ASYNC110 - it has no event for that
                await anyio.sleep(0.01)


def body(text: str, stream: bool = False) -> dict[str, Any]:
    return {"bot_id": "1", "user_id": "u", "stream": stream, "additional_messages": [{"role": "user", "content": text}]}


def ids(chat: dict[str, Any]) -> dict[str, str]:
    return {"conversation_id": chat["conversation_id"], "chat_id": chat["id"]}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    gateway = Gateway(GatewaySettings(agent=HERE, cwd=str(tmp_path), patience=Patience(closed=5)), one_token(TOKEN))
    transport = httpx.ASGITransport(make_app(gateway))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        gateway.running(),
        httpx.AsyncClient(transport=transport, base_url="http://g", headers=headers, timeout=PATIENCE) as http,
    ):
        yield Api(gateway, http)


@pytest.mark.parametrize("text", ["slowly 20", "slowly-use 20", "slowly-ask 20"])
async def test_a_chat_whose_end_cannot_be_stored_has_failed_for_everybody(api: Api, text: str) -> None:
    chat = (await api.begin(text))["data"]
    api.fail(True)
    ended = await api.until(chat, "failed", "completed")
    assert ended["last_error"] == {"code": 5000, "msg": "the gateway could not store the chat"}
    late = (await api.http.post("/v3/chat/cancel", json=ids(chat))).json()
    assert (late["code"], late["msg"]) == (4104, "the chat cannot be cancelled, it is failed")
    await api.idle()
    assert await api.retrieve(chat) == ended
    assert (await api.begin("echo x"))["code"] == 5000


async def test_outputs_that_cannot_be_stored_are_refused_and_can_be_submitted_again(api: Api) -> None:
    chat = await api.until((await api.begin("ask files"))["data"], "requires_action")
    (call,) = chat["required_action"]["submit_tool_outputs"]["tool_calls"]
    outputs = {"tool_outputs": [{"tool_call_id": call["id"], "output": "yes"}]}
    for stream in (True, False):
        api.fail(True)
        answer = await api.http.post(
            "/v3/chat/submit_tool_outputs", params=ids(chat), json={**outputs, "stream": stream}
        )
        assert answer.json()["code"] == 5000
        assert await api.retrieve(chat) == chat
        refused = (await api.http.post("/v3/chat/cancel", json=ids(chat))).json()
        assert refused["code"] == 4104
    api.fail(False)
    answer = await api.http.post("/v3/chat/submit_tool_outputs", params=ids(chat), json=outputs)
    assert answer.json()["code"] == 0
    await api.until(chat, "completed")
    said = (await api.http.get("/v3/chat/message/list", params=ids(chat))).json()["data"]
    assert [m["type"] for m in said] == ["function_call", "verbose", "tool_response", "answer", "verbose"]


async def test_a_cancel_that_cannot_be_stored_is_refused_and_the_chat_runs_on(api: Api) -> None:
    chat = (await api.begin("slowly 20"))["data"]
    api.fail(True)
    assert (await api.http.post("/v3/chat/cancel", json=ids(chat))).json()["code"] == 5000
    assert (await api.retrieve(chat))["status"] == "in_progress"
    api.fail(False)
    await api.until(chat, "completed")


async def test_a_stream_ends_with_the_failed_chat_if_its_end_cannot_be_stored(api: Api) -> None:
    answers: list[httpx.Response] = []

    async def listen() -> None:
        answers.append(await api.http.post("/v3/chat", json=body("slowly 20", stream=True)))

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            while not api.gateway.chats.statuses().total():  # noqa: ASYNC110 - it has no event for that
                await anyio.sleep(0.01)
            api.fail(True)
    *_, last, done = answers[0].text.strip().split("\n\n")
    name, data = last.split("\n")
    assert (name, done) == ("event:conversation.chat.failed", 'event:done\ndata:"[DONE]"')
    assert json.loads(data.removeprefix("data:"))["status"] == "failed"


async def test_what_could_not_be_stored_is_stored_when_the_store_works_again(api: Api) -> None:
    chat = (await api.begin("slowly 20"))["data"]
    api.fail(True)
    ended = await api.until(chat, "failed")
    await api.idle()
    api.fail(False)
    again = await api.begin("recall", conversation_id=chat["conversation_id"])
    assert again["code"] == 0
    assert [chat.id for chat in await api.gateway.store.do(Rows.chats_at, api.gateway.node.id)] == [again["data"]["id"]]
    done = await api.until(again["data"], "completed")
    assert await api.retrieve(chat) == ended
    said = (await api.http.get("/v3/chat/message/list", params=ids(done))).json()["data"][0]["content"]
    assert said == "recall"


async def test_what_cannot_be_committed_is_not_forgotten_either(api: Api) -> None:
    chat = (await api.begin("slowly 20"))["data"]
    api.fail(True)
    ended = await api.until(chat, "failed")
    await api.idle()
    api.fail(False)
    api.db.executescript(
        "PRAGMA foreign_keys = ON; CREATE TABLE t (id REFERENCES conversations (id) DEFERRABLE INITIALLY DEFERRED);"
        "CREATE TRIGGER late AFTER INSERT ON chats BEGIN INSERT INTO t VALUES ('nobody'); END"
    )
    assert (await api.begin("echo x"))["code"] == 5000
    assert await api.retrieve(chat) == ended


async def test_a_chat_that_cannot_be_stored_is_not_begun(api: Api) -> None:
    chat = (await api.begin("echo x"))["data"]
    await api.until(chat, "completed")
    api.fail(True)
    refused = await api.begin("hang", conversation_id=chat["conversation_id"])
    assert (refused["code"], refused["msg"]) == (5000, "internal error")
    assert api.gateway.chats.statuses().total() == 0
    api.fail(False)
    again = await api.begin("recall", conversation_id=chat["conversation_id"])
    assert (await api.until(again["data"], "completed", "failed"))["status"] == "completed"


async def test_a_delete_that_is_refused_has_deleted_nothing(api: Api) -> None:
    chat = (await api.begin("echo x"))["data"]
    await api.until(chat, "completed")
    conversation = chat["conversation_id"]
    db = api.db
    for table in "messages", "chats", "conversations":
        db.execute(f"CREATE TRIGGER full BEFORE DELETE ON {table} BEGIN SELECT RAISE(ABORT, 'full'); END")
        before = db.execute("SELECT * FROM conversations").fetchall()
        assert (await api.http.delete(f"/v1/conversations/{conversation}")).json()["code"] == 5000
        assert db.execute("SELECT * FROM conversations").fetchall() == before
        db.execute("DROP TRIGGER full")
    again = await api.begin("recall", conversation_id=conversation)
    assert (await api.until(again["data"], "completed"))["status"] == "completed"
    said = (await api.http.get("/v3/chat/message/list", params=ids(again["data"]))).json()["data"]
    # By the session that knows it: nobody told the agent to close it.
    assert said[0]["content"] == "echo x | recall"
    assert (await api.http.delete(f"/v1/conversations/{conversation}")).json()["code"] == 0
    assert db.execute("SELECT count(*) FROM messages").fetchone() == (0,)


async def test_a_chat_of_a_deleted_conversation_ends_also_if_nothing_can_be_stored(api: Api) -> None:
    chat = (await api.begin("hang"))["data"]
    db = api.db
    db.execute("CREATE TRIGGER full BEFORE UPDATE ON chats BEGIN SELECT RAISE(ABORT, 'full'); END")
    answer = await api.http.delete(f"/v1/conversations/{chat['conversation_id']}")
    assert answer.json()["code"] == 0
    # It is removed behind its end, in a thread.
    with anyio.fail_after(PATIENCE):
        while db.execute("SELECT count(*) FROM chats").fetchone() != (0,):  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.01)
    await api.idle()


async def test_a_deleted_conversation_of_which_something_is_left_harms_nobody(api: Api) -> None:
    chat = (await api.begin("slowly 20"))["data"]
    api.db.execute("CREATE TRIGGER t BEFORE DELETE ON messages BEGIN SELECT RAISE(ABORT, 'full'); END")
    await api.http.delete(f"/v1/conversations/{chat['conversation_id']}")
    await api.idle()
    again = await api.begin("echo x")
    assert (await api.until(again["data"], "completed", "failed"))["status"] == "completed"


async def test_a_conversation_can_be_deleted_whose_last_chat_could_not_be_stored(api: Api) -> None:
    chat = (await api.begin("slowly 20"))["data"]
    api.fail(True)
    await api.until(chat, "failed")
    await api.idle()
    api.fail(False)
    assert (await api.http.delete(f"/v1/conversations/{chat['conversation_id']}")).json()["code"] == 0
    for table in "chats", "conversations":
        assert api.db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    assert (await api.until((await api.begin("echo x"))["data"], "completed"))["status"] == "completed"
