"""The page of what agents in use need: its example says all of it on the wire."""

import re
from typing import Any

import pytest

from tests.session.editor import END_TURN, Editor, editing

from .blocks import DOCS, run

pytestmark = pytest.mark.anyio

PAGE = (DOCS / "room.md").read_text("utf-8")


def test_the_table_has_all_twenty() -> None:
    assert [int(number) for number in re.findall(r"^\| (\d+)\. ", PAGE, re.MULTILINE)] == list(range(1, 21))


async def opened(editor: Editor) -> str:
    new = await editor.client.result(
        "session/new", {"cwd": "/project", "mcpServers": [], "_meta": {"vendor/sessionId": "acp-1"}}
    )
    assert new == {"sessionId": "acp-1", "models": {"currentModelId": "small", "availableModels": []}}
    return "acp-1"


@pytest.mark.odd_shapes  # names of methods without an underscore, as some agents have them
@pytest.mark.parametrize(("name", "methods"), [("zed", 1), ("JetBrains.PyCharm", 0)])
async def test_room(name: str, methods: int) -> None:
    async with editing(run("room.md", "room")["agent"], initialize=False) as editor:
        info = {"name": name, "version": "1"}
        told = await editor.client.result("initialize", {"protocolVersion": 1, "clientInfo": info})
        assert len(told["authMethods"]) == methods
        assert told["_meta"] == {"quota": {"left": 3}}
        assert await editor.client.result("authenticate", {"methodId": "key"}) == {"_meta": {"expires": 3600}}
        session = await opened(editor)
        assert await editor.client.result("session/set_model", {"sessionId": session, "modelId": "big"}) == {}
        assert editor.client.all("vendor/modelChanged")[0]["params"] == {"modelId": "big"}
        await editor.client._wait_for(lambda: len(editor.said()) == 2, "nothing is said later")
        assert editor.said() == ["Right behind the answer.", "And later."]
        (later,) = [m["params"] for m in editor.client.received if "And later." in str(m)]
        assert (later["_meta"], later["update"]["_meta"]) == ({"beside": 2}, {"inside": 1})


@pytest.mark.parametrize(("choice", "said"), [("always_proceed", "Done."), ("made_up", "Not done.")])
async def test_its_turns_ask_with_options_of_their_own(choice: str, said: str) -> None:
    async with editing(run("room.md", "room")["agent"]) as editor:
        session = await opened(editor)
        editor.client.answer("session/request_permission", {"outcome": {"outcome": "selected", "optionId": choice}})
        answer = await editor.ask(session, "delete", messageId="m1")
        assert answer == {**END_TURN, "userMessageId": "m1"}
        assert said in editor.said()
        question = editor.client.all("session/request_permission")[0]["params"]
        assert [option["optionId"] for option in question["options"]] == ["risk_based", "always_proceed"]
        assert question["options"][0]["_meta"] == {"scope": "*"}


@pytest.mark.parametrize(
    ("text", "meta", "answer"),
    [
        ("limit", {}, {"code": -31001, "message": "Out of tokens", "data": {"provider": "p", "model": "m"}}),
        ("x", {"max_tokens": "many"}, {"code": -32602, "message": "max_tokens is a number"}),
        ("refuse", {}, {"stopReason": "refusal", "userMessageId": "m1", "_meta": {"category": "policy"}}),
    ],
)
async def test_its_turns_end_as_it_says(text: str, meta: dict[str, Any], answer: dict[str, Any]) -> None:
    async with editing(run("room.md", "room")["agent"]) as editor:
        session = await opened(editor)
        assert await editor.ask(session, text, messageId="m1", _meta=meta) == answer
