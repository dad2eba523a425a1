"""Which messages belong to a conversation: those that are listed, and those that the next chat builds on."""

from pathlib import Path
from typing import Any

import pytest

from acp_server.apps.gateway.records import Chat, Status
from acp_server.apps.gateway.store import SqliteEngine

from .inside import Api, Counting, begin, ended, ids, listed, say
from .serving import BUSY

pytestmark = pytest.mark.anyio


async def test_a_thought_belongs_to_the_answer_that_follows_whatever_its_id(api: Api, agent: Counting) -> None:
    async with api(agent=agent.command()) as http:
        chat = await ended(http, (await begin(http, "think"))["data"])
        found = (await http.get("/v3/chat/message/list", params=ids(chat))).json()["data"]
        answers = [(m["content"], m["reasoning_content"]) for m in found if m["type"] == "answer"]
        assert answers == [("[1] think", "hm")]
        assert await listed(http, chat["conversation_id"]) == ["think", "[1] think"]


async def test_an_answer_that_is_only_thought_is_not_listed_and_no_context(api: Api, agent: Counting) -> None:
    async with api(agent=agent.command()) as http:
        conversation, answer = await say(http, "think only")
        assert answer == ""
        assert await listed(http, conversation) == ["think only"]
        await http.post(f"/v1/conversations/{conversation}/clear")
        # Of a section of its own, so that it is context for the next chat.
        await say(http, "think only", conversation_id=conversation)
        await say(http, "die", conversation_id=conversation)
        _, after = await say(http, "go on", conversation_id=conversation)
        assert after == (
            "[1] Earlier in this conversation:\n\nuser: think only\n\nThe message to reply to now follows. | go on"
        )


@pytest.mark.parametrize("text", ["\0", "\0x", '"content":""', " "])
async def test_a_message_that_says_anything_is_listed(api: Api, text: str) -> None:
    async with api() as http:
        conversation = (await http.post("/v1/conversation/create")).json()["data"]["id"]
        where = {"conversation_id": conversation}
        made = await http.post("/v1/conversation/message/create", params=where, json={"role": "user", "content": text})
        assert await listed(http, conversation) == [made.json()["data"]["content"]]


async def test_what_was_said_in_a_chat_that_failed_is_listed_and_no_context(api: Api) -> None:
    async with api(agent=BUSY) as http:
        conversation, _ = await say(http, "echo kept")
        failed = await ended(http, (await begin(http, "die", conversation_id=conversation))["data"])
        assert failed["status"] == "failed"
        assert await listed(http, conversation) == ["echo kept", "kept", "die", "last words"]
        where: dict[str, Any] = {"conversation_id": conversation}
        found = (await http.post("/v1/conversation/message/list", params=where, json={"chat_id": failed["id"]})).json()
        for message in found["data"]:
            params = {**where, "message_id": message["id"]}
            assert (await http.get("/v1/conversation/message/retrieve", params=params)).json()["data"] == message
        _, after = await say(http, "recall", conversation_id=conversation)
        assert "echo kept" in after
        assert "die" not in after
        assert "last words" not in after


async def test_the_query_of_a_chat_that_was_killed_with_its_gateway_is_there_afterwards(
    api: Api, tmp_path: Path
) -> None:
    async with api(store=tmp_path / "store") as http:
        chat = (await begin(http, "hang"))["data"]
    engine = SqliteEngine(tmp_path / "store")
    # As it is in the file of one that was killed.
    killed = Chat(chat["id"], chat["conversation_id"], chat["section_id"], "1", "ada", status=Status.IN_PROGRESS)
    engine.transact(lambda rows: rows.overwrite_chat(killed))
    engine.close()
    async with api(store=tmp_path / "store") as http:
        assert "hang" in await listed(http, chat["conversation_id"])


async def test_what_was_said_in_a_chat_that_was_cancelled_is_not_listed(api: Api) -> None:
    async with api() as http:
        conversation, _ = await say(http, "echo kept")
        chat = (await begin(http, "hang", conversation_id=conversation))["data"]
        assert (await http.post("/v3/chat/cancel", json=ids(chat))).json()["data"]["status"] == "canceled"
        assert await listed(http, conversation) == ["echo kept", "kept"]
