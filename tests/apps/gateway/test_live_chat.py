"""The life of a chat as a property: whatever agents and clients do, and in whatever order.

Each run is one chat. Every status that was stored and every event that anybody heard is looked at.
"""

import asyncio
import json
import re
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from acp_server.apps.gateway.bodies import ToolOutput
from acp_server.apps.gateway.conversations import ReservedSession
from acp_server.apps.gateway.errors import ApiError, Code
from acp_server.apps.gateway.limits import GatewayLimits
from acp_server.apps.gateway.live_chat import LiveChat, Step
from acp_server.apps.gateway.messages import ChatMessage, whole
from acp_server.apps.gateway.prompt_turn import PromptTurn, Waiting
from acp_server.apps.gateway.questions import Question
from acp_server.apps.gateway.records import MOVES, RUNNING, Chat, Failure, Ids, Status, TokenUsage
from acp_server.apps.gateway.steps import Taken
from acp_server.apps.gateway.update_queue import Item
from acp_server.http.events import EventQueue
from acp_server.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    SessionUpdate,
    TextContent,
    ToolCall,
    ToolCallProgress,
)

DOCUMENTED = {
    ("created", "in_progress"),
    ("created", "canceled"),
    ("in_progress", "completed"),
    ("in_progress", "failed"),
    ("in_progress", "requires_action"),
    ("in_progress", "canceled"),
    ("requires_action", "in_progress"),
}

# One letter an event, so that a stream is a word.
LETTERS = {
    "conversation.chat.created": "C",
    "conversation.chat.in_progress": "P",
    "conversation.message.delta": "d",
    "conversation.message.completed": "m",
    "conversation.chat.requires_action": "A",
    "conversation.chat.completed": "E",
    "conversation.chat.failed": "F",
    "done": ".",
}
FIRST = re.compile(r"CP[dm]*(A\.|[EF]\.)")
NEXT = re.compile(r"P[dm]*(A\.|[EF]\.)")
FIRST_SO_FAR = re.compile(r"CP[dm]*")
NEXT_SO_FAR = re.compile(r"P[dm]*")


def test_the_moves_are_the_documented_ones() -> None:
    assert {(a.value, b.value) for a, after in MOVES.items() for b in after} == DOCUMENTED


class Choice(Question):
    """A question that takes any output but `bad`."""

    name = "choose"
    arguments: dict[str, Any] = {}  # noqa: RUF012 - as in what it stands for

    def read(self, output: str) -> str:
        if output == "bad":
            raise ApiError(Code.BAD_PARAMETER, "bad")
        return output


class Stream:
    """What one client hears."""

    def __init__(self, listener: EventQueue, first: bool) -> None:
        self.listener = listener
        self.first = first
        self.left = False
        self.heard: list[tuple[str, Any]] = []

    def read(self) -> None:
        while not self.left and self.listener._frames:
            text = self.listener._frames.popleft().decode("ascii")
            match = re.fullmatch(r"event:(\S+)\ndata:(.*)\n\n", text)
            assert match, text
            self.heard.append((match[1], json.loads(match[2])))

    @property
    def word(self) -> str:
        return "".join(LETTERS[name] for name, _ in self.heard)


class Lives(RuleBasedStateMachine):
    @initialize(saved=st.booleans(), stream=st.booleans())
    def begin(self, saved: bool, stream: bool) -> None:
        self.loop = asyncio.Runner()
        self.statuses: list[Status] = [Status.CREATED]
        self.kept: list[ChatMessage] = []
        chat = Chat("1", "2", "3", "4", "ada", saved=saved)
        self.life = LiveChat(chat, Ids(), self._keep, backlog=1 << 20)
        self.questions: list[Choice] = []
        self.streams = [Stream(self.life.feed.listen(), True)] if stream or not saved else []
        self.calls = 0
        self.shown = ""
        self.never_shown: list[str] = []
        self.kept_at_the_question: int | None = None
        running = chat.moved(Status.IN_PROGRESS)
        assert running is not None
        self.statuses.append(running.status)
        self.life.begin(running)

    def teardown(self) -> None:
        self.loop.close()

    async def _keep(self, step: Step) -> None:
        await anyio.lowlevel.checkpoint()
        self.kept += step.messages if self.life.chat.saved else []
        if step.after.status is not self.statuses[-1]:
            self.statuses.append(step.after.status)

    @property
    def chat(self) -> Chat:
        return self.life.chat

    # -- on the way to the chat

    def _put(self, item: Item) -> None:
        held = bool(self.life._queue)
        self._brings(item)
        if not held:
            self._catches_up()

    def _brings(self, item: Item) -> None:
        self.life.put(item)

    def _catches_up(self) -> None:
        while self.loop.run(self.life.step()):
            pass

    def _shows(self, update: SessionUpdate) -> None:
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent) and not self.life.over:
            self.shown += whole(update.content.text)
        self._put(update)

    def _asks(self, question: Question) -> None:
        self._put(question)

    def _withdraws(self, question: Question) -> None:
        if self._is_held(question):
            self.never_shown.append(question.id)
        held = bool(self.life._queue)
        self.life.withdraw(question)
        if self.chat.status is Status.REQUIRES_ACTION or not held:
            self.loop.run(self.life.step())

    def _submits(self, outputs: list[ToolOutput], stream: bool) -> tuple[dict[str, Any], EventQueue | None]:
        return self.loop.run(self.life.submit(outputs, stream))

    def _finishes(self, usage: TokenUsage, failure: Failure | None) -> None:
        self.loop.run(self.life.finish(usage, failure))

    def _is_held(self, question: Question) -> bool:
        return question in self.life._queue.questions

    @rule()
    def catches_up_a_little(self) -> None:
        self.loop.run(self.life.step())

    # -- the agent

    @rule(text=st.text(max_size=3), id=st.sampled_from([None, "a", "b"]), thought=st.booleans())
    def says(self, text: str, id: str | None, thought: bool) -> None:
        kind = AgentThoughtChunk if thought else AgentMessageChunk
        self._shows(kind(content=TextContent(text=text), message_id=id))

    @rule(status=st.sampled_from(["pending", "in_progress", "completed", "failed"]), raw=st.sampled_from([None, {}]))
    def uses_a_tool(self, status: str, raw: Any) -> None:
        self.calls += 1
        self._shows(ToolCall(tool_call_id=f"t{self.calls}", title="Tool", status=status, raw_input=raw))

    @rule(status=st.sampled_from(["in_progress", "completed", "failed"]), back=st.integers(0, 3))
    def goes_on_with_a_tool(self, status: str, back: int) -> None:
        self._shows(ToolCallProgress(tool_call_id=f"t{self.calls - back}", status=status))

    @rule()
    def asks(self) -> None:
        question = Choice(f"q{len(self.questions)}")
        self.questions.append(question)
        self._asks(question)

    @precondition(lambda self: self.questions)
    @rule(data=st.data())
    def takes_a_question_back(self, data: st.DataObject) -> None:
        self._withdraws(data.draw(st.sampled_from(self.questions)))

    @rule(failed=st.booleans(), used=st.integers(0, 9))
    def ends_or_dies(self, failed: bool, used: int) -> None:
        over = self.life.over
        self._finishes(TokenUsage(token_count=used), Failure(5000, "why") if failed else None)
        if not over:
            assert self.chat.usage == TokenUsage(token_count=used)
            assert self.statuses[-1] in (Status.FAILED if failed else Status.COMPLETED, Status.CANCELED)

    # -- the clients

    @rule()
    def cancels(self) -> None:
        before = self.chat.status
        if before in RUNNING:
            self.loop.run(self.life.cancel())
            assert self.chat.status is Status.CANCELED
        else:
            with pytest.raises(ApiError, match="4104"):
                self.loop.run(self.life.cancel())
            assert self.chat.status is before

    @rule(outputs=st.lists(st.sampled_from(["good", "good", "bad"]), max_size=2), stream=st.booleans())
    def submits(self, outputs: list[str], stream: bool) -> None:
        before = self.chat.status
        asked = [call["id"] for call in self.chat.tool_calls]
        given = [ToolOutput(tool_call_id=id, output=o) for id, o in zip(asked, outputs, strict=False)]
        if before is not Status.REQUIRES_ACTION or len(given) < len(asked) or "bad" in outputs[: len(given)]:
            with pytest.raises(ApiError, match="4000"):
                self._submits(given, stream)
            assert self.chat.status is before
            return
        shown, listener = self._submits(given, stream)
        assert shown["status"] == "in_progress"
        if listener is not None:
            self.streams.append(Stream(listener, False))

    @precondition(lambda self: self.streams)
    @rule(data=st.data())
    def leaves(self, data: st.DataObject) -> None:
        stream = data.draw(st.sampled_from(self.streams))
        stream.read()
        stream.left = True
        stream.listener.close()

    # -- what always holds

    @invariant()
    def only_documented_moves_were_made(self) -> None:
        assert {(a.value, b.value) for a, b in zip(self.statuses, self.statuses[1:], strict=False)} <= DOCUMENTED
        assert sum(status in (Status.COMPLETED, Status.FAILED, Status.CANCELED) for status in self.statuses) <= 1
        assert self.statuses[-1] is self.chat.status

    @invariant()
    def nothing_is_produced_while_it_waits(self) -> None:
        if self.chat.status is not Status.REQUIRES_ACTION:
            self.kept_at_the_question = None
        elif self.kept_at_the_question is None:
            self.kept_at_the_question = len(self.life.messages)
        else:
            # A question that is answered or taken back may have led to the next one at once; that is produced.
            new = self.life.messages[self.kept_at_the_question :]
            assert not new or [message.type for message in new][-2:] == ["function_call", "verbose"]
            self.kept_at_the_question = len(self.life.messages)

    @invariant()
    def what_belongs_to_a_status_is_there_with_it(self) -> None:
        wire = self.chat.to_wire()
        status = self.chat.status
        assert ("required_action" in wire) == (status is Status.REQUIRES_ACTION)
        assert bool(self.chat.tool_calls) == (status is Status.REQUIRES_ACTION)
        assert ("completed_at" in wire) == (status in (Status.COMPLETED, Status.CANCELED))
        assert ("failed_at" in wire) == (status is Status.FAILED) == (wire["last_error"]["code"] > 0)

    @invariant()
    def nobody_waits_for_an_answer_that_cannot_come(self) -> None:
        open_questions = [q for q in self.questions if not q.answered.is_set() and not q.withdrawn]
        if self.life.over:
            assert not open_questions
        elif self.chat.status in (Status.IN_PROGRESS, Status.CANCELED):
            # Those that are held come to it next.
            assert all(map(self._is_held, open_questions))

    @invariant()
    def every_stream_is_in_the_documented_order_and_ends_once(self) -> None:
        for stream in self.streams:
            stream.read()
            whole, so_far = (FIRST, FIRST_SO_FAR) if stream.first else (NEXT, NEXT_SO_FAR)
            if stream.left:
                continue
            pattern = whole if stream.listener.closed else so_far
            assert pattern.fullmatch(stream.word), stream.word
            assert stream.listener.closed or not self.life.over

    @invariant()
    def an_answer_is_what_was_streamed_of_it(self) -> None:
        for stream in self.streams:
            pieces: dict[str, str] = {}
            complete: set[str] = set()
            for name, data in stream.heard:
                if name == "conversation.message.delta":
                    assert data["id"] not in complete
                    pieces[data["id"]] = pieces.get(data["id"], "") + data["content"]
                elif name == "conversation.message.completed":
                    assert data["id"] not in complete
                    complete.add(data["id"])
                    assert data["content"] == pieces.get(data["id"], data["content"])

    @invariant()
    def what_was_heard_is_kept(self) -> None:
        heard = [data["id"] for s in self.streams for name, data in s.heard if LETTERS[name] == "m"]
        kept = [message.id for message in self.kept]
        assert kept == ([message.id for message in self.life.messages] if self.chat.saved else [])
        assert set(heard) <= {message.id for message in self.life.messages}

    @invariant()
    def all_that_was_said_comes_in_order(self) -> None:
        said = "".join(
            data["content"]
            for stream in self.streams[:1]
            for name, data in stream.heard
            if name == "conversation.message.delta" and "reasoning_content" not in data
        )
        if self.streams and not self.streams[0].left:
            assert self.shown.startswith(said)
        answers = "".join(message.content for message in self.life.messages if message.type == "answer")
        assert self.shown.startswith(answers)
        if self.life.over:
            assert answers == self.shown

    @invariant()
    def a_question_that_was_taken_back_before_it_was_shown_is_not_shown(self) -> None:
        assert not {call["id"] for call in self.chat.tool_calls}.intersection(self.never_shown)

    @invariant()
    def nothing_is_left_behind(self) -> None:
        queue = self.life._queue
        assert (queue.size == 0) == (len(queue._held) == len(queue.questions))
        assert not (self.life.over and queue)


class Works(Lives):
    """The same with the turn between the agent and the chat."""

    @initialize(saved=st.booleans(), stream=st.booleans())
    def begin(self, saved: bool, stream: bool) -> None:
        super().begin(saved, stream)
        nobody: Any = None
        taken = Taken(self.life.chat, self.life.chat, ReservedSession("2", "3", "4", 0, None), None, [])

        async def make() -> PromptTurn:
            limits = GatewayLimits()
            return PromptTurn(self.life, nobody, taken, nobody, Waiting(limits), limits, meta={})

        # It makes a scope, which belongs to an event loop. It is never entered here.
        self.work = self.loop.run(make())

    def _brings(self, item: Item) -> None:
        if isinstance(item, Question):
            self.life.put(item)
        else:
            self.work._updated(item)

    def _finishes(self, usage: TokenUsage, failure: Failure | None) -> None:
        self.work._usage, self.work._failure = usage, failure
        self.work.dismiss()
        self._catches_up()
        self.loop.run(self.work._end())


Lives.TestCase.settings = Works.TestCase.settings = settings(max_examples=150, stateful_step_count=30)
TestLives = Lives.TestCase
TestWorks = Works.TestCase


def test_a_question_that_is_taken_back_while_it_is_held_is_never_shown() -> None:
    works = Works()
    works.begin(saved=True, stream=False)
    first, second = Choice("first"), Choice("second")
    works._asks(first)
    works._shows(AgentMessageChunk(content=TextContent(text="meanwhile")))
    works._asks(second)
    assert works._is_held(second)
    works._withdraws(second)
    works._withdraws(first)
    works._catches_up()
    assert works.chat.status is Status.IN_PROGRESS
    assert works.shown == "meanwhile"
    works.teardown()
