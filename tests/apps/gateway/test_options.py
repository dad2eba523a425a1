"""What can be chosen at the start: links that agents get, and what an elicitation is called."""

import json
from typing import Any

import pytest

from .inside import Api, begin, ended, ids, listed, say

pytestmark = pytest.mark.anyio

FILES = ["file:///etc/passwd", "FILE:/etc/passwd", "/etc/passwd", "//host/share", "ftp://x/y", " http://x", "http:/x"]


def linking(url: str) -> dict[str, Any]:
    parts = [{"type": "file", "file_url": url}, {"type": "text", "text": "echo it"}]
    return {"role": "user", "content": json.dumps(parts), "content_type": "object_string"}


@pytest.mark.parametrize("url", FILES)
async def test_a_link_to_anything_but_the_web_is_refused_wherever_it_comes_from(api: Api, url: str) -> None:
    async with api() as http:
        conversation, _ = await say(http, "echo x")
        params = {"conversation_id": conversation}
        found = (await http.post("/v1/conversation/message/list", params=params, json={})).json()
        message = {**params, "message_id": found["first_id"]}
        for answer in (
            await http.post("/v3/chat", json={"bot_id": "1", "user_id": "u", "additional_messages": [linking(url)]}),
            await http.post("/v1/conversation/create", json={"messages": [linking(url)]}),
            await http.post("/v1/conversation/message/create", params=params, json=linking(url)),
            await http.post("/v1/conversation/message/modify", params=message, json=linking(url)),
        ):
            assert answer.json()["code"] == 4005
        assert await listed(http, conversation) == ["echo x", "x"]
        assert len((await http.get("/v1/conversations")).json()["data"]["conversations"]) == 1


@pytest.mark.parametrize(("url", "allowed"), [("https://x/y", False), ("HTTP://x/y", False), (FILES[0], True)])
async def test_a_link_reaches_the_agent_if_it_may(api: Api, url: str, allowed: bool) -> None:
    async with api(file_urls=allowed) as http:
        chat = await begin(http, "", body={"additional_messages": [linking(url)]})
        assert (await ended(http, chat["data"]))["status"] == "completed"


@pytest.mark.parametrize(
    ("text", "elicitation", "expected"),
    [
        ("form", "function", "function"),
        ("form", "reply_message", "reply_message"),
        ("url", "reply_message", "reply_message"),
        ("ask files", "reply_message", "function"),
    ],
)
async def test_an_elicitation_is_the_type_of_tool_call_that_was_chosen_and_permission_is_a_function(
    api: Api, text: str, elicitation: str, expected: str
) -> None:
    async with api(elicitation=elicitation) as http:
        chat = await ended(http, (await begin(http, text))["data"])
        (call,) = chat["required_action"]["submit_tool_outputs"]["tool_calls"]
        assert call["type"] == expected
        # With its function in either case, for its arguments say what is asked.
        assert set(json.loads(call["function"]["arguments"]))
        body = {"tool_outputs": [{"tool_call_id": call["id"], "output": "cancel"}]}
        again = await http.post("/v3/chat/submit_tool_outputs", params=ids(chat), json=body)
        assert (await ended(http, again.json()["data"]))["status"] == "completed"
