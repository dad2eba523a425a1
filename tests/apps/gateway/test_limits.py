"""The gateway's own limits, in this process and on both backends: how many chats, how slow a body, how long a wait."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from .inside import HERE, Api, begin, ended, ids
from .serving import BUSY, OTHER_TOKEN, PATIENCE, TOKEN

AGENTS = Path(__file__).parent / "agents"

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("limits", "code"), [({"chats": 2}, 4009), ({"chats_of_one": 2}, 4013)])
async def test_one_chat_too_many_is_refused_until_another_has_ended(
    api: Api, limits: dict[str, int], code: int
) -> None:
    async with api(**limits) as http:
        chats = [(await begin(http, "hang"))["data"] for _ in range(2)]
        assert (await begin(http, "echo x"))["code"] == code
        http.headers["Authorization"] = f"Bearer {OTHER_TOKEN}"
        other = await begin(http, "echo x")
        # What one token may have at once is no matter of the others'.
        assert other["code"] == (0 if code == 4013 else code)
        if other["code"] == 0:
            await ended(http, other["data"])
        http.headers["Authorization"] = f"Bearer {TOKEN}"
        ids = {"conversation_id": chats[0]["conversation_id"], "chat_id": chats[0]["id"]}
        assert (await http.post("/v3/chat/cancel", json=ids)).json()["code"] == 0
        last = await begin(http, "echo x")
        assert last["code"] == 0
        assert (await ended(http, last["data"]))["status"] == "completed"


async def test_a_chat_that_waits_for_tool_outputs_does_not_count_as_running(api: Api) -> None:
    async with api(chats=1, chats_of_one=1) as http:
        waiting = [await ended(http, (await begin(http, "ask files"))["data"]) for _ in range(3)]
        assert {chat["status"] for chat in waiting} == {"requires_action"}
        assert (await begin(http, "hang"))["code"] == 0
        assert (await begin(http, "echo x"))["code"] == 4009


@pytest.mark.parametrize(
    ("limits", "tokens", "left"),
    [
        ({"waiting_of_one": 2}, [TOKEN, TOKEN, OTHER_TOKEN, TOKEN], [1, 2, 3]),
        # Of everybody together, and still nobody loses a question by somebody else.
        ({"waiting": 2}, [OTHER_TOKEN, TOKEN, TOKEN], [0, 2]),
    ],
    ids=["of one", "of all"],
)
async def test_of_too_many_chats_that_wait_the_one_of_the_token_that_has_waited_longest_goes_on(
    api: Api, limits: dict[str, int], tokens: list[str], left: list[int]
) -> None:
    async with api(**limits) as http:
        chats: list[dict[str, Any]] = []
        for token in tokens:
            http.headers["Authorization"] = f"Bearer {token}"
            chats.append(await ended(http, (await begin(http, "ask files"))["data"]))
        going_on = [number for number in range(len(chats)) if number not in left]
        # When those that go on are through, the others still wait.
        for number in (*going_on, *left):
            http.headers["Authorization"] = f"Bearer {tokens[number]}"
            status = "requires_action" if number in left else "completed"
            with anyio.fail_after(PATIENCE):
                while (now := (await http.get("/v3/chat/retrieve", params=ids(chats[number]))).json()["data"]) and (
                    now["status"] != status
                ):
                    assert number not in left
                    await anyio.sleep(0.01)
        http.headers["Authorization"] = f"Bearer {tokens[-1]}"
        said = (await http.get("/v3/chat/message/list", params=ids(chats[-1]))).json()["data"]
        assert [message["type"] for message in said] == ["function_call", "verbose"]


async def test_a_chat_whose_question_was_answered_waits_no_more(api: Api) -> None:
    async with api(waiting_of_one=2) as http:
        first, answered = [await ended(http, (await begin(http, "ask files"))["data"]) for _ in range(2)]
        (call,) = answered["required_action"]["submit_tool_outputs"]["tool_calls"]
        body = {"tool_outputs": [{"tool_call_id": call["id"], "output": "yes"}]}
        again = await http.post("/v3/chat/submit_tool_outputs", params=ids(answered), json=body)
        assert (await ended(http, again.json()["data"]))["status"] == "completed"
        for chat in (await ended(http, (await begin(http, "ask files"))["data"])), first:
            now = (await http.get("/v3/chat/retrieve", params=ids(chat))).json()["data"]
            assert now["status"] == "requires_action"


async def test_a_body_that_does_not_arrive_is_refused(api: Api) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"{"
        await anyio.sleep_forever()

    async with api(body_seconds=0.05) as http:
        answer = (await http.post("/v3/chat", content=body())).json()
        assert answer["code"] == 4000
        assert "did not arrive" in answer["msg"]


async def test_a_question_that_nobody_answers_is_dismissed_in_the_end(api: Api) -> None:
    async with api(answer_seconds=0.3) as http:
        chat = await ended(http, (await begin(http, "ask files"))["data"])
        assert chat["status"] == "requires_action"
        with anyio.fail_after(PATIENCE):
            while chat["status"] == "requires_action":
                await anyio.sleep(0.02)
                params = {"conversation_id": chat["conversation_id"], "chat_id": chat["id"]}
                chat = (await http.get("/v3/chat/retrieve", params=params)).json()["data"]
        assert (await ended(http, chat))["status"] == "completed"


@pytest.mark.parametrize("what", ["flood", "flood-tools"])
async def test_an_agent_that_says_too_much_is_stopped_and_its_chat_fails(api: Api, what: str) -> None:
    async with api(reply=50_000) as http:
        chat = await ended(http, (await begin(http, what))["data"])
        assert chat["status"] == "failed"
        ids = {"conversation_id": chat["conversation_id"], "chat_id": chat["id"]}
        said = (await http.get("/v3/chat/message/list", params=ids)).json()["data"]
        assert sum(len(message["content"]) for message in said) < 500_000


async def test_each_bot_has_its_agent_and_others_do_not_exist(api: Api) -> None:
    async with api(agent=None, bots={"a": HERE, "b": ["false"]}) as http:
        assert (await ended(http, (await begin(http, "echo x", "a"))["data"]))["status"] == "completed"
        failed = await ended(http, (await begin(http, "echo x", "b"))["data"])
        assert (failed["status"], failed["last_error"]["code"]) == ("failed", 5000)
        assert (await begin(http, "echo x", "c"))["code"] == 4200


@pytest.mark.parametrize("agent", [[sys.executable, "-c", "import sys; sys.stdin.read()"], [*BUSY, "mute"]])
async def test_an_agent_that_does_not_answer_at_its_start_fails_its_chats(api: Api, agent: list[str]) -> None:
    async with api(agent=agent, start_seconds=0.5 if len(agent) == 3 else 3) as http:
        for _ in range(2):
            chat = await ended(http, (await begin(http, "echo x"))["data"])
            assert (chat["status"], chat["last_error"]["msg"]) == ("failed", "the agent does not answer")


async def test_an_agent_that_dies_before_it_has_said_anything_is_started_once_more(api: Api, tmp_path: Path) -> None:
    async with api(agent=[*BUSY, "stumble", str(tmp_path / "mark")]) as http:
        assert (await ended(http, (await begin(http, "echo x"))["data"]))["status"] == "completed"
        assert (tmp_path / "mark").exists()


async def test_every_chat_of_an_agent_that_dies_says_how_it_ended(api: Api) -> None:
    async with api(agent=BUSY) as http:
        chats = [(await begin(http, "hang"))["data"] for _ in range(20)]
        # One after the other, so all of them are at work by then.
        chats.append((await begin(http, "die"))["data"])
        for chat in chats:
            failed = await ended(http, chat)
            assert (failed["status"], failed["last_error"]["msg"][:26]) == ("failed", "the agent was ended by sig")


async def test_an_agent_that_does_not_stop_holds_up_a_cancel_only_so_long(api: Api) -> None:
    async with api(agent=[sys.executable, str(AGENTS / "stubborn.py")], settle_seconds=0.2, chats=1) as http:
        chat = (await begin(http, "x"))["data"]
        # So that it works already.
        await anyio.sleep(1)
        ids = {"conversation_id": chat["conversation_id"], "chat_id": chat["id"]}
        chat = (await http.post("/v3/chat/cancel", json=ids)).json()["data"]
        assert chat["status"] == "canceled"
        assert chat["usage"]["token_count"] == 0
        # There is room for one chat only, so it is over.
        again = await begin(http, "x", conversation_id=chat["conversation_id"])
        assert again["code"] == 0


async def test_a_session_that_the_agent_has_kept_is_taken_up_again_after_its_end(api: Api, tmp_path: Path) -> None:
    agent = [sys.executable, str(AGENTS / "keeper.py"), str(tmp_path / "sessions")]
    said: list[str] = []
    chat: dict[str, Any] = {}
    for text in ("one", "two"):
        async with api(agent=agent, store=tmp_path / "store") as http:
            params = {"conversation_id": chat["conversation_id"]} if chat else {}
            chat = await ended(http, (await begin(http, text, **params))["data"])
            ids = {"conversation_id": chat["conversation_id"], "chat_id": chat["id"]}
            said.append((await http.get("/v3/chat/message/list", params=ids)).json()["data"][0]["content"])
    assert said == ["one", "one | two"]


async def test_a_cancel_right_behind_the_chat_leaves_no_session_at_work(api: Api) -> None:
    async with api() as http:
        for _ in range(5):
            chat = (await begin(http, "hang"))["data"]
            ids = {"conversation_id": chat["conversation_id"], "chat_id": chat["id"]}
            answer = (await http.post("/v3/chat/cancel", json=ids)).json()
            assert answer["data"]["status"] == "canceled"
            after = await begin(http, "recall", conversation_id=chat["conversation_id"])
            assert (await ended(http, after["data"]))["status"] == "completed"


async def test_chats_fail_when_the_gateway_ends_under_them_and_stay_failed(api: Api, tmp_path: Path) -> None:
    async with api(store=tmp_path / "store") as http:
        chats = [(await begin(http, text))["data"] for text in ("hang", "ask files", "hang")]
    async with api(store=tmp_path / "store") as http:
        for chat in chats:
            params = {"conversation_id": chat["conversation_id"], "chat_id": chat["id"]}
            found = (await http.get("/v3/chat/retrieve", params=params)).json()["data"]
            assert (found["status"], found["last_error"]["msg"]) == ("failed", "the gateway was stopped")


async def test_an_agent_that_hangs_behind_a_drained_cancel_is_stopped_in_the_end(api: Api) -> None:
    async with api(cancel="drain", linger_seconds=0.2, chats_of_one=1) as http:
        chat = (await begin(http, "hang"))["data"]
        assert (await http.post("/v3/chat/cancel", json=ids(chat))).json()["data"]["status"] == "canceled"
        with anyio.fail_after(PATIENCE):
            while (again := await begin(http, "echo x"))["code"] == 4013:  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(0.02)
        assert (await ended(http, again["data"]))["status"] == "completed"
        assert (await http.get("/v3/chat/retrieve", params=ids(chat))).json()["data"]["status"] == "canceled"
