"""The steps of a chat while the store takes its time, fails, or is first asked by somebody else."""

import anyio
import pytest

from acp_server.apps.gateway.bodies import ToolOutput
from acp_server.apps.gateway.errors import ApiError
from acp_server.apps.gateway.live_chat import UNSTORED, LiveChat, Step
from acp_server.apps.gateway.records import Chat, Ids, Status, TokenUsage
from acp_server.schema import AgentMessageChunk, TextContent, ToolCall

from .test_live_chat import Choice

pytestmark = pytest.mark.anyio


class Choices:
    """A chat whose store can be told to fail, or to take its time."""

    def __init__(self) -> None:
        chat = Chat("1", "2", "3", "4", "ada")
        self.full = False
        self.slow: anyio.Event | None = None
        self.kept: list[Status | str] = []
        self.life = LiveChat(chat, Ids(), self._keep, backlog=1 << 20)
        running = chat.moved(Status.IN_PROGRESS)
        assert running is not None
        self.life.begin(running)

    async def _keep(self, step: Step) -> None:
        if self.full:
            raise OSError("disk full")
        if self.slow is not None:
            await self.slow.wait()
        self.kept += [message.content for message in step.messages if message.type == "answer"]
        self.kept += [step.after.status] if step.after is not step.before else []

    async def asked(self) -> Choice:
        question = Choice("q")
        self.life.put(question)
        assert await self.life.step()
        assert self.life.chat.status is Status.REQUIRES_ACTION
        return question


async def test_a_chat_that_cannot_be_stored_does_not_move() -> None:
    chats = Choices()
    life = chats.life
    chats.full = True
    before = life.chat
    with pytest.raises(OSError, match="disk full"):
        await life.cancel()
    assert life.chat is before
    chats.full = False
    question = await chats.asked()
    chats.full = True
    before = life.chat
    with pytest.raises(OSError, match="disk full"):
        await life.submit([ToolOutput(tool_call_id="q", output="good")], False)
    assert (life.chat, question.answered.is_set()) == (before, False)


async def test_outputs_for_a_question_that_was_dismissed_are_refused() -> None:
    chats = Choices()
    question = await chats.asked()
    chats.life.dismiss()
    with pytest.raises(ApiError, match="it is in_progress"):
        await chats.life.submit([ToolOutput(tool_call_id="q", output="good")], False)
    assert (chats.life.chat.status, question.answer) == (Status.IN_PROGRESS, None)


async def test_of_a_cancel_and_an_end_the_one_that_is_kept_first_wins() -> None:
    chats = Choices()
    life = chats.life
    chats.slow = anyio.Event()
    late: list[ApiError] = []

    async def cancel() -> None:
        with pytest.raises(ApiError, match="it is completed") as refused:
            await life.cancel()
        late.append(refused.value)

    async with anyio.create_task_group() as group:
        group.start_soon(life.finish, TokenUsage(), None)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(cancel)
        await anyio.wait_all_tasks_blocked()
        assert life.chat.status is Status.IN_PROGRESS
        chats.slow.set()
    assert len(late) == 1
    assert chats.kept == [Status.COMPLETED]


async def test_what_is_said_while_a_step_is_kept_waits_for_it() -> None:
    chats = Choices()
    life = chats.life
    listener = life.feed.listen()
    chats.slow = anyio.Event()
    tool = ToolCall(tool_call_id="t", title="Tool", status="in_progress")
    async with anyio.create_task_group() as group:
        life.put(tool)
        group.start_soon(life.step)
        await anyio.wait_all_tasks_blocked()
        life.put(AgentMessageChunk(content=TextContent(text="behind")))
        assert not listener._frames
        chats.slow.set()
    while await life.step():
        pass
    assert [frame.split(b"\n")[0] for frame in listener._frames] == [
        b"event:conversation.message.completed",
        b"event:conversation.message.delta",
    ]


async def test_a_chat_whose_end_is_cut_has_failed_for_its_client() -> None:
    chats = Choices()
    listener = chats.life.feed.listen()
    chats.slow = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(chats.life.finish, TokenUsage(), None)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert (chats.life.chat.status, chats.life.chat.last_error) == (Status.FAILED, UNSTORED)
    assert chats.life.over
    assert listener.closed
    assert not chats.life.stored
