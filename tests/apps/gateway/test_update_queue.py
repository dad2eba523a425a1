"""What an agent says while its chat waits for tool outputs: held back in order, within the limits of a reply."""

import sys
from pathlib import Path
from typing import Any, Self, cast

import anyio
import anyio.lowlevel
import pytest

from acp_server.apps.gateway.bodies import ToolOutput
from acp_server.apps.gateway.conversations import ReservedSession
from acp_server.apps.gateway.limits import GatewayLimits
from acp_server.apps.gateway.live_chat import LiveChat, kept_nowhere
from acp_server.apps.gateway.prompt_turn import PromptTurn, Waiting
from acp_server.apps.gateway.questions import Question
from acp_server.apps.gateway.records import Chat, Ids, Status, TokenUsage
from acp_server.apps.gateway.steps import Taken
from acp_server.apps.gateway.update_queue import Item
from acp_server.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    Content,
    ImageContent,
    Plan,
    SessionUpdate,
    TextContent,
    ToolCall,
    ToolCallContent,
    ToolCallProgress,
)

from .inside import Api, begin, ended, ids
from .serving import PATIENCE
from .test_live_chat import Choice

pytestmark = pytest.mark.anyio


class Spied(LiveChat):
    """A chat that waits for the answer to a question, and what it has gone on with since."""

    def __init__(self) -> None:
        chat = Chat("1", "2", "3", "4", "ada")
        super().__init__(chat, Ids(), kept_nowhere, backlog=1 << 20)
        self.taken: list[Any] = []
        running = chat.moved(Status.IN_PROGRESS)
        assert running is not None
        self.begin(running)
        self.put(Choice("first"))

    def _take(self, update: SessionUpdate) -> None:
        self.taken.append(update)
        super()._take(update)

    async def _ask(self, questions: list[Question]) -> None:
        self.taken += questions
        await super()._ask(questions)


class Box:
    """Such a chat on its way to an agent."""

    def __init__(self) -> None:
        nobody: Any = None
        self.chat = Spied()
        limits = GatewayLimits()
        taken = Taken(self.chat.chat, self.chat.chat, ReservedSession("2", "3", "4", 0, None), None, [])
        self.turn = PromptTurn(self.chat, nobody, taken, nobody, Waiting(limits), limits, meta={})

    @classmethod
    async def waiting(cls) -> Self:
        """The chat waits for the answer."""
        box = cls()
        await box.step()
        box.chat.taken.clear()
        return box

    async def step(self) -> None:
        """Go on with all that is held, if the chat does not wait."""
        while await self.chat.step():
            pass

    def put(self, *items: Item) -> None:
        for item in items:
            self.chat.put(item)

    async def answer(self) -> None:
        """Answer what the chat waits for."""
        calls = [call["id"] for call in self.chat.chat.tool_calls]
        await self.chat.submit([ToolOutput(tool_call_id=id, output="yes") for id in calls], stream=False)

    async def catch_up(self) -> None:
        """Answer, and let the chat go on until it waits again, or nothing is held."""
        await self.answer()
        async with anyio.create_task_group() as group:
            group.start_soon(self.turn._catch_up)
            with anyio.fail_after(PATIENCE):
                while (self.chat._queue or self.chat._pieces) and self.chat.chat.status is Status.IN_PROGRESS:
                    await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    @property
    def taken(self) -> list[Any]:
        return self.chat.taken

    @property
    def size(self) -> int:
        return self.chat._queue.size

    @property
    def said(self) -> list[Any]:
        return [item.content.text if isinstance(item, AgentMessageChunk) else item for item in self.taken]  # pyright: ignore[reportAttributeAccessIssue]


def chunk(text: str, id: str | None = None) -> AgentMessageChunk:
    return AgentMessageChunk(content=TextContent(text=text), message_id=id)


IMAGE = {"type": "content", "content": {"type": "image", "data": "x" * 100_000, "mimeType": "image/png"}}


def tool(id: str, **fields: Any) -> ToolCall:
    return ToolCall(tool_call_id=id, title="Look", **fields)


async def test_what_is_said_goes_straight_through_while_the_chat_does_not_wait() -> None:
    box = await Box.waiting()
    await box.answer()
    items = [chunk("a"), tool("1"), Choice("q")]
    box.put(*items)
    # Questions are for the task that keeps what is asked.
    assert box.taken == items[:2]
    await box.step()
    assert box.taken == items
    assert not box.chat._queue


async def test_what_is_held_comes_in_order_and_stops_at_the_next_question() -> None:
    box = await Box.waiting()
    call, second, third, last = tool("1"), Choice("q2"), Choice("q3"), Choice("q4")
    box.put(chunk("a"), call, chunk("b"), second, third, chunk("c"), last)
    assert box.taken == []
    await box.catch_up()
    # Those that come one after the other are asked at once.
    assert box.said == ["a", call, "b", second, third]
    assert len(box.chat.chat.tool_calls) == 2
    box.put(chunk("d"))
    await box.catch_up()
    assert box.said == ["a", call, "b", second, third, "c", last]
    await box.catch_up()
    assert box.said == ["a", call, "b", second, third, "c", last, "d"]
    assert box.size == 0


async def test_what_comes_while_it_catches_up_comes_after_it() -> None:
    box = await Box.waiting()
    box.put(tool("1"), tool("2"))
    await box.answer()
    assert await box.chat.step()
    box.put(chunk("last"))
    assert len(box.taken) == 1
    await box.step()
    assert box.said[2] == "last"


async def test_pieces_of_one_message_are_held_as_one_and_those_of_two_as_two() -> None:
    box = await Box.waiting()
    box.put(*[chunk("x", "m1")] * 1000, chunk("y", "m2"))
    box.put(AgentThoughtChunk(content=TextContent(text="hm"), message_id="m2"), chunk("z"))
    assert box.size < 2000
    await box.catch_up()
    taken: list[Any] = box.taken
    came = [(item.content.text, item.message_id) for item in taken]
    assert came == [("x" * 1000, "m1"), ("y", "m2"), ("hm", "m2"), ("z", None)]


async def test_a_long_message_is_passed_on_in_pieces_between_which_others_have_their_turn() -> None:
    box = await Box.waiting()
    box.put(*[chunk("x" * 1000)] * 1000)
    turns = 0
    async with anyio.create_task_group() as group:

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await anyio.lowlevel.checkpoint()

        group.start_soon(other)
        await box.catch_up()
        group.cancel_scope.cancel()
    assert sum(map(len, box.said)) == 1_000_000
    assert max(map(len, box.said)) <= 65536
    # Which of the two begins a round is the scheduler's choice.
    assert turns + 1 >= len(box.taken) > 10


@pytest.mark.parametrize(
    ("item", "least"),
    [
        (chunk("x" * 100_000), 100_000),
        (tool("1", raw_input={"deep": [[["x" * 50_000]]], "y" * 50_000: None}), 100_000),
        (tool("1", content=[IMAGE]), 100_000),
        (tool("1", raw_output=[0] * 10_000), 100_000),
    ],
    ids=["text", "input", "image", "numbers"],
)
async def test_what_is_held_counts_with_its_size(item: Item, least: int) -> None:
    box = await Box.waiting()
    box.put(item)
    assert least <= box.size < 10 * least
    await box.chat.finish(TokenUsage(), None)
    assert box.size == 0


async def test_what_no_client_will_see_is_not_held() -> None:
    box = await Box.waiting()
    box.put(Plan(entries=[]), AgentMessageChunk(content=ImageContent(data="x" * 100_000, mime_type="image/png")))
    assert box.size == 0


async def test_what_a_tool_is_at_meanwhile_is_held_as_one_up_to_its_end() -> None:
    box = await Box.waiting()
    done = ToolCallProgress(tool_call_id="1", status="completed")
    box.put(tool("1", name="look"), chunk("a"), ToolCallProgress(tool_call_id="1", raw_input={"for": "x"}, title="No"))
    before = box.size
    for number in range(1000):
        found: list[ToolCallContent] = [Content(content=TextContent(text=f"found {number}"))]
        box.put(ToolCallProgress(tool_call_id="1", status="in_progress", content=found, raw_output=number))
    assert box.size < before + 2000
    box.put(tool("2"), done, tool("1"))
    await box.catch_up()
    first, text, second, third, fourth = cast("list[Any]", box.taken)
    assert (first.title, first.name, first.status) == ("Look", "look", "in_progress")
    assert (first.raw_input, first.raw_output, first.content[0].content.text) == ({"for": "x"}, 999, "found 999")
    assert (text.content.text, second.tool_call_id, third) == ("a", "2", done)
    assert fourth == tool("1")
    # What comes when it is caught up with is not held.
    late = ToolCallProgress(tool_call_id="2", status="in_progress")
    box.put(late)
    assert box.taken[-1] is late
    assert box.size == 0


async def test_a_question_that_is_taken_back_is_not_held_any_more() -> None:
    box = await Box.waiting()
    gone, kept = Choice("gone"), Choice("kept")
    box.put(chunk("a"), gone, chunk("b"), kept)
    box.chat.withdraw(gone)
    await box.catch_up()
    assert box.said == ["a", "b", kept]


async def test_at_the_end_all_is_passed_on_and_questions_are_dismissed() -> None:
    box = await Box.waiting()
    question = Choice("q")
    box.put(chunk("a"), question, chunk("b"))
    await box.chat.finish(TokenUsage(), None)
    assert box.said == ["a", "b"]
    assert question.answered.is_set()
    assert question.answer is None


# -- in a gateway


async def produced(http: Any, chat: dict[str, Any]) -> list[tuple[str, str]]:
    found = (await http.get("/v3/chat/message/list", params=ids(chat))).json()["data"]
    return [(message["type"], message["content"]) for message in found]


NUMBERS = "".join(f"{number} ".ljust(10_000) for number in range(20))


async def submit(http: Any, chat: dict[str, Any], output: str) -> int:
    call = chat["required_action"]["submit_tool_outputs"]["tool_calls"][0]["id"]
    body = {"tool_outputs": [{"tool_call_id": call, "output": output}]}
    return (await http.post("/v3/chat/submit_tool_outputs", params=ids(chat), json=body)).json()["code"]


async def test_what_an_agent_says_while_its_chat_waits_follows_the_outputs(api: Api, tmp_path: Path) -> None:
    async with api() as http:
        chat = await ended(http, (await begin(http, "meanwhile 20"))["data"])
        assert chat["status"] == "requires_action"
        with anyio.fail_after(PATIENCE):
            while not (tmp_path / "said").exists():  # noqa: ASYNC110 - the agent tells nobody else
                await anyio.sleep(0.01)
        before = await produced(http, chat)
        assert [kind for kind, _ in before] == ["function_call", "verbose"]
        assert await submit(http, chat, "yes") == 0
        chat = await ended(http, chat | {"status": "in_progress"})
        assert chat["status"] == "completed"
        after = (await produced(http, chat))[2:]
        assert [kind for kind, _ in after][:4] == ["tool_response", "answer", "function_call", "tool_response"]
        assert after[1][1] == NUMBERS + "Let me look. "
        assert "".join(content for _, content in after[4:-1]) == "There is it.files: yes. "


@pytest.mark.parametrize("then", ["hang", "leave hang"])
async def test_what_was_held_is_shown_while_the_agent_works_on(api: Api, tmp_path: Path, then: str) -> None:
    async with api() as http:
        chat = (await begin(http, f"meanwhile 20 {then}"))["data"]
        with anyio.fail_after(PATIENCE):
            while not (tmp_path / "said").exists():  # noqa: ASYNC110 - the agent tells nobody else
                await anyio.sleep(0.01)
            if then == "hang":
                assert await submit(http, await ended(http, chat), "yes") == 0
            while ("answer", NUMBERS + "Let me look. ") not in await produced(http, chat):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        found = (await http.get("/v3/chat/retrieve", params=ids(chat))).json()["data"]
        assert found["status"] == "in_progress"


async def test_an_agent_may_end_its_turn_and_leave_its_question_open(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    finish = LiveChat.finish

    async def spy(chat: LiveChat, usage: TokenUsage, failure: Any, also: Any) -> None:
        left.append(chat._queue.size)
        await finish(chat, usage, failure, also)

    monkeypatch.setattr(LiveChat, "finish", spy)
    async with api(agent=[sys.executable, str(Path(__file__).parent / "agents" / "hasty.py")]) as http:
        chat = await ended(http, (await begin(http, "x"))["data"])
        assert chat["status"] == "requires_action"
        (tmp_path / "go").mkdir()
        with anyio.fail_after(PATIENCE):
            while chat["status"] != "completed":
                await anyio.sleep(0.01)
                chat = (await http.get("/v3/chat/retrieve", params=ids(chat))).json()["data"]
        assert [kind for kind, _ in await produced(http, chat)] == ["function_call", "verbose", "answer", "verbose"]
        assert (await produced(http, chat))[2][1] == "".join(f"{number} ".ljust(10_000) for number in range(20))
    # It was caught up with in pieces before.
    assert left == [0]


async def test_what_an_agent_has_said_while_its_chat_waits_is_there_when_it_ends_without_an_answer(api: Api) -> None:
    async with api() as http:
        chat = (await begin(http, "meanwhile 20 leave"))["data"]
        with anyio.fail_after(PATIENCE):
            while chat["status"] != "completed":
                await anyio.sleep(0.01)
                chat = (await http.get("/v3/chat/retrieve", params=ids(chat))).json()["data"]
        said = [content for kind, content in await produced(http, chat) if kind == "answer"]
        assert said == [NUMBERS + "Let me look. ", "There is it."]


async def test_an_agent_that_says_too_much_while_its_chat_waits_is_stopped_and_its_chat_fails(api: Api) -> None:
    async with api(reply=100_000) as http:
        chat = (await begin(http, "meanwhile 20"))["data"]
        with anyio.fail_after(PATIENCE):
            while chat["status"] in ("in_progress", "requires_action"):
                await anyio.sleep(0.01)
                chat = (await http.get("/v3/chat/retrieve", params=ids(chat))).json()["data"]
        assert (chat["status"], chat["last_error"]["code"]) == ("failed", 5000)
        assert "more than a chat may have" in chat["last_error"]["msg"]
        said = sum(len(content) for _, content in await produced(http, chat))
        assert 50_000 < said <= 120_000


@pytest.mark.parametrize("size", [60_000, 40_000])
async def test_a_single_piece_that_is_too_much_fails_its_chat_too(api: Api, size: int) -> None:
    async with api(reply=50_000) as http:
        chat = await ended(http, (await begin(http, "echo " + "x" * size))["data"])
        assert chat["status"] == ("failed" if size > 50_000 else "completed")
