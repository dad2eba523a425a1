"""Which session of an agent a chat gets: never one of somebody else, and none is left that nobody needs."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server.apps.gateway.messages import is_command
from acp_server.schema import AvailableCommand, ResourceLink, TextContent

from .inside import Api, Counting, begin, ended, say
from .serving import OTHER_TOKEN, PATIENCE

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("capabilities", [[], ["load"]], ids=str)
async def test_a_session_is_not_mistaken_for_one_of_a_later_run_of_the_agent(
    api: Api, agent: Counting, capabilities: list[str]
) -> None:
    async with api(agent=agent.command(*capabilities)) as http:
        ada, first = await say(http, "I am ada")
        assert first == "[1] I am ada"
        await say(http, "die", OTHER_TOKEN)
        bob, secret = await say(http, "a secret", OTHER_TOKEN)
        assert secret == "[1] a secret"
        _, after = await say(http, "what is known?", conversation_id=ada)
        assert after.startswith("[2] Earlier in this conversation:\n\nuser: I am ada")
        assert "secret" not in after
        _, bobs = await say(http, "go on", OTHER_TOKEN, conversation_id=bob)
        assert bobs == "[1] a secret | go on"


@pytest.mark.parametrize("capabilities", [[], ["load"]], ids=str)
async def test_a_session_is_not_mistaken_for_one_of_a_later_run_of_the_gateway(
    api: Api, agent: Counting, tmp_path: Path, capabilities: list[str]
) -> None:
    options: dict[str, Any] = {"agent": agent.command(*capabilities), "store": tmp_path / "store"}
    async with api(**options) as http:
        ada, _ = await say(http, "I am ada")
    async with api(**options) as http:
        await say(http, "a secret", OTHER_TOKEN)
        _, after = await say(http, "what is known?", conversation_id=ada)
        assert after.startswith("[2] Earlier in this conversation:\n\nuser: I am ada")
        assert "secret" not in after


@pytest.mark.parametrize(
    ("capabilities", "ends"),
    [(["close"], ["close"]), (["delete"], ["delete"]), (["delete", "close"], ["close", "delete"])],
    ids=str,
)
@pytest.mark.parametrize("why", ["deleted", "cleared", "changed", "another bot", "not saved"])
async def test_a_session_that_nobody_needs_is_closed_and_deleted(
    api: Api, agent: Counting, capabilities: list[str], ends: list[str], why: str
) -> None:
    bots = {"1": agent.command(*capabilities), "2": agent.command()}
    async with api(agent=None, bots=bots) as http:
        if why == "not saved":
            query = {"role": "user", "content": "x"}
            body = {"bot_id": "1", "user_id": "u", "additional_messages": [query], "auto_save_history": False}
            await http.post("/v3/chat", json={**body, "stream": True})
        else:
            conversation, _ = await say(http, "x")
            params = {"conversation_id": conversation}
            path = f"/v1/conversations/{conversation}"
        if why == "deleted":
            await http.delete(path)
        elif why == "cleared":
            await http.post(f"{path}/clear")
        elif why == "changed":
            listed = (await http.post("/v1/conversation/message/list", params=params, json={})).json()
            message = {"message_id": listed["first_id"]}
            await http.post("/v1/conversation/message/delete", params={**params, **message})
        elif why == "another bot":
            await say(http, "y", bot="2", **params)
        with anyio.fail_after(PATIENCE):
            while len([line for line in agent.asked() if line.endswith("e 1")]) < len(ends):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert [line for line in agent.asked() if line.endswith("e 1")] == [f"session/{end} 1" for end in ends]


async def test_a_session_of_a_conversation_that_is_deleted_after_a_restart_is_deleted_where_it_is_kept(
    api: Api, agent: Counting, tmp_path: Path
) -> None:
    for capabilities, expected in (["delete"], []), (["delete", "load"], ["session/delete 1"]):
        options: dict[str, Any] = {"agent": agent.command(*capabilities), "store": tmp_path / "store"}
        async with api(**options) as http:
            conversation, _ = await say(http, "x")
        async with api(**options) as http:
            await http.delete(f"/v1/conversations/{conversation}")
            # Answered behind whatever that has led to.
            await say(http, "y")
        assert agent.asked("session/delete") == expected


async def test_a_session_that_is_used_is_left_alone(api: Api, agent: Counting) -> None:
    async with api(agent=agent.command("close", "delete")) as http:
        conversation, _ = await say(http, "x")
        assert (await say(http, "y", conversation_id=conversation))[1] == "[1] x | y"
        other, _ = await say(http, "z")
        await http.delete(f"/v1/conversations/{other}")
        await agent.until("session/close 2", "session/delete 2")
        assert (await say(http, "w", conversation_id=conversation))[1] == "[1] x | y | w"


async def test_a_command_is_sent_alone_and_what_was_said_before_is_told_with_the_next_query(
    api: Api, agent: Counting
) -> None:
    async with api(agent=agent.command()) as http:
        conversation, _ = await say(http, "one")
        params = {"conversation_id": conversation}
        taken_back = {"role": "user", "content": "a mistake"}
        made = await http.post("/v1/conversation/message/create", params=params, json=taken_back)
        message = {"message_id": made.json()["data"]["id"]}
        await http.post("/v1/conversation/message/delete", params={**params, **message})
        assert (await say(http, "/read a.txt", conversation_id=conversation))[1] == "[2] /read a.txt"
        note = {"role": "user", "content": "a note"}
        await http.post("/v1/conversation/message/create", params={"conversation_id": conversation}, json=note)
        messages = [{"role": "user", "content": "brought"}, {"role": "user", "content": "/now"}]
        answer = await begin(http, "", body={"additional_messages": messages}, conversation_id=conversation)
        await ended(http, answer["data"])
        _, after = await say(http, "go on", conversation_id=conversation)
        assert after == (
            "[2] /read a.txt | /now | Earlier in this conversation:\n\nuser: one\n\nassistant: [1] one\n\n"
            "user: a note\n\nuser: brought\n\nThe message to reply to now follows. | go on"
        )
        # All of it was told, and once.
        assert (await say(http, "end", conversation_id=conversation))[1] == f"{after} | end"


async def test_a_new_session_is_told_as_much_as_fits_the_newest_first_and_the_rest_never(
    api: Api, agent: Counting, caplog: pytest.LogCaptureFixture
) -> None:
    told = "user: bbb\n\nuser: \u00e9\u00e9"
    messages = [{"role": "user", "content": text} for text in ("aaa", "bbb", "\u00e9\u00e9")]
    # Told in bytes, and without what stands between: "user: bbb" has 9 and the next one 10.
    async with api(agent=agent.command(), context_bytes=19) as http:
        made = await http.post("/v1/conversation/create", json={"messages": messages})
        conversation = made.json()["data"]["id"]
        _, first = await say(http, "one", conversation_id=conversation)
        assert first == (
            f"[1] Earlier in this conversation, of which the beginning is left out:\n\n{told}\n\n"
            "The message to reply to now follows. | one"
        )
        assert "the agent does not get 1 earlier messages, because the history may have 19 bytes" in caplog.text
        assert "aaa" not in caplog.text
        # Nor is what was left out told later, out of its order.
        assert (await say(http, "two", conversation_id=conversation))[1] == f"{first} | two"


async def test_what_a_request_brings_itself_is_told_before_what_the_conversation_has(api: Api, agent: Counting) -> None:
    messages = [{"role": "user", "content": text} for text in ("c1", "c2")]
    async with api(agent=agent.command(), context_bytes=16) as http:
        made = await http.post("/v1/conversation/create", json={"messages": messages})
        brought = [{"role": "user", "content": text} for text in ("b1", "b2", "b3", "query")]
        body = {"additional_messages": brought}
        params = {"conversation_id": made.json()["data"]["id"]}
        chat = await ended(http, (await begin(http, "", body=body, **params))["data"])
        said = (await http.get("/v3/chat/message/list", params={**params, "chat_id": chat["id"]})).json()["data"]
        assert "left out:\n\nuser: b2\n\nuser: b3\n\nThe message" in said[0]["content"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/read a.txt", True),
        ("/compact", True),
        ("/mcp/ask x", True),
        ("/etc/hosts is wrong", False),
        ("/", False),
        ("/ x", False),
        ("read /etc", False),
        ("", False),
    ],
)
def test_a_command_is_told_from_a_path(text: str, expected: bool) -> None:
    commands = [AvailableCommand(name="mcp/ask", description="")]
    assert is_command([TextContent(text=text)], commands) == expected
    assert not is_command([ResourceLink.from_wire({"type": "resource_link", "name": "x", "uri": text})], commands)
