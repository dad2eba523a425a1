"""A chat while its steps are kept: what comes meanwhile, and what becomes of a step that is not kept."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from acp_server.apps.gateway.live_chat import UNSTORED, LiveChat, Step
from acp_server.apps.gateway.messages import ChatMessage
from acp_server.apps.gateway.questions import Question
from acp_server.apps.gateway.records import Chat, Ids, Status, TokenUsage
from acp_server.schema import AgentMessageChunk, TextContent, ToolCall

pytestmark = pytest.mark.anyio


class Kept:
    """A chat that runs, the messages that were kept of it, and the names of the events that its client heard."""

    def __init__(self) -> None:
        chat = Chat("1", "2", "3", "4", "ada", saved=True)
        running = chat.moved(Status.IN_PROGRESS)
        assert running is not None
        self.messages: list[ChatMessage] = []
        self.begun, self.go_on = anyio.Event(), anyio.Event()
        self.go_on.set()
        self.fails = False
        self.live = LiveChat(chat, Ids(), self._keep, backlog=1 << 20)
        listener = self.live.begin(running, stream=True)
        assert listener is not None
        self._listener = listener

    async def _keep(self, step: Step) -> None:
        self.begun.set()
        await self.go_on.wait()
        if self.fails:
            raise OSError("the disk")
        self.messages += step.messages

    def hold(self) -> None:
        """Let the next step take until `go_on` is set."""
        self.begun, self.go_on = anyio.Event(), anyio.Event()

    @property
    def heard(self) -> list[str]:
        lines = b"".join(self._listener._frames).decode().split("\n")
        return [line.removeprefix("event:").rpartition(".")[2] for line in lines if line.startswith("event:")]


class Ask(Question):
    name = "choose"
    arguments: dict[str, Any] = {}  # noqa: RUF012 - as in what it stands for

    def read(self, output: str) -> str:
        return output


def said(text: str) -> AgentMessageChunk:
    return AgentMessageChunk(content=TextContent(text=text))


def used(id: str) -> ToolCall:
    """A tool that was called and has ended, which makes two messages."""
    return ToolCall(tool_call_id=id, title=id, status="completed", raw_input={})


async def through(step: Callable[[], Any]) -> None:
    while await step():
        pass


@pytest.mark.parametrize("step", ["cancel", "finish"])
async def test_what_the_agent_says_while_a_step_is_kept_is_neither_told_before_it_nor_lost(step: str) -> None:
    kept = Kept()
    kept.hold()
    async with anyio.create_task_group() as group:
        group.start_soon(kept.live.cancel if step == "cancel" else lambda: kept.live.finish(TokenUsage(), None))
        await kept.begun.wait()
        before = kept.heard
        kept.live.put(said("one"))
        kept.live.put(used("two"))
        assert kept.heard == before
        kept.go_on.set()
    if step == "cancel":
        await through(kept.live.step)
        assert [message.type for message in kept.messages] == ["answer", "function_call", "tool_response"]
        assert kept.heard[len(before) :] == ["delta", "completed", "completed", "completed"]


async def test_what_could_not_be_kept_is_not_told_when_the_chat_ends() -> None:
    kept = Kept()
    kept.fails = True
    kept.live.put(used("one"))
    with pytest.raises(OSError, match="the disk"):
        await kept.live.step()
    await kept.live.finish(TokenUsage(), None)
    assert kept.live.messages == []
    assert kept.heard == ["created", "in_progress", "failed", "done"]
    assert kept.live.chat.last_error == UNSTORED


async def test_an_end_for_which_there_is_no_time_left_is_told_as_a_failure() -> None:
    kept = Kept()
    kept.hold()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(kept.live.finish, TokenUsage(), None)
            await kept.begun.wait()
            scope.cancel()
    assert kept.live.over
    assert not kept.live.stored
    assert kept.heard[-2:] == ["failed", "done"]


async def test_a_question_that_is_withdrawn_has_the_chat_go_on() -> None:
    kept = Kept()
    question = Ask("q")
    kept.live.put(question)
    await through(kept.live.step)
    assert kept.live.chat.status is Status.REQUIRES_ACTION
    changed = kept.live.changed
    kept.live.withdraw(question)
    assert changed.is_set()
    await through(kept.live.step)
    assert kept.live.chat.status is Status.IN_PROGRESS
