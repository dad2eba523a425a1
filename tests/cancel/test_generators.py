"""A prompt handler that yields what it says is cancelled between any two steps. The `finally` of its author runs, once
and to its end, and what it catches decides what the turn is answered with."""

import json
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acp_server import Agent, Limits, Turn, grace
from acp_server.errors import RpcError
from acp_server.session.setup import is_ready, load_for_prompts
from tests.cancel import stepper
from tests.cancel.life import Life, late, line, some_steps
from tests.cancel.stepper import Steps, tasks

PROMPT = 3
LARGE = "x" * 100_000
"""More than may wait to be written: the turn that says it waits."""
Answer = AsyncGenerator[str, None]


@dataclass
class Story(Life):
    """One run of one handler."""

    handler: "Callable[[Story, Turn], Answer]"
    session: str = ""

    def agent(self) -> Agent:
        agent = Agent("story")

        agent.prompt(partial(self.handler, self))
        return agent

    def tell(self, **message: Any) -> None:
        """The client writes a message."""
        self.say(line(**message))

    def answers(self, id: int) -> list[Any]:
        frames = [frame for frame in self.sent if frame.get("id") == id and "method" not in frame]
        return [frame.get("result", frame.get("error")) for frame in frames]

    async def until_answered(self, id: int) -> None:
        while not self.answers(id) and not self.connection._closed.is_set():
            await anyio.lowlevel.checkpoint()
        await some_steps()

    @property
    def text(self) -> str:
        updates = [frame["params"]["update"] for frame in self.sent if frame.get("method") == "session/update"]
        return "".join(one["content"]["text"] for one in updates if one["sessionUpdate"] == "agent_message_chunk")

    async def take(self) -> None:
        """The client reads what there is."""
        while await self.stream.receive():
            pass


async def plain(story: Story, _turn: Turn) -> Answer:
    """Says three pieces, and cleans up behind a shield."""
    story.did.append("begin")
    try:
        yield "one "
        await anyio.lowlevel.checkpoint()
        yield "two "
        yield "three"
        story.did.append("end")
    finally:
        with grace():
            await anyio.lowlevel.checkpoint()
        story.did.append("clean")


async def last_words(story: Story, _turn: Turn) -> Answer:
    """Catches its cancel, says one more piece, and goes on being cancelled."""
    story.did.append("begin")
    try:
        yield "one "
        await anyio.lowlevel.checkpoint()
        yield LARGE
        story.did.append("end")
    except BaseException:
        story.did.append("caught")
        with grace():
            yield "sorry"
        raise
    finally:
        story.did.append("clean")


async def fails(story: Story, _turn: Turn) -> Answer:
    """Its cleanup fails."""
    story.did.append("begin")
    try:
        yield "one "
        await anyio.lowlevel.checkpoint()
        yield "two "
        story.did.append("end")
    finally:
        story.did.append("clean")
        if "end" not in story.did:
            raise RpcError("the cleanup failed")


async def catches_all(story: Story, _turn: Turn) -> Answer:
    """Takes no notice of a cancel while it has something to say."""
    story.did.append("begin")
    for piece in ("one ", "two ", "three "):
        try:
            await anyio.lowlevel.checkpoint()
            yield piece
        except GeneratorExit:
            raise
        except BaseException:
            story.did.append("ignored")
    story.did.append("clean")


async def tell(steps: Steps, backend: str, story: Story) -> int:
    if not is_ready():
        await load_for_prompts()
    before = tasks(backend)
    story.connection = story.agent().connect(story.meet(), Limits())
    with story.noting_log(), anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(story.run)
            group.start_soon(story.take)
            story.tell(id=1, method="initialize", params={"protocolVersion": 1})
            await story.until_answered(1)
            story.tell(id=2, method="session/new", params={"cwd": "/p", "mcpServers": []})
            await story.until_answered(2)
            story.session = story.answers(2)[0]["sessionId"]
            steps.start()
            content = [{"type": "text", "text": "hello"}]
            story.tell(id=PROMPT, method="session/prompt", params={"sessionId": story.session, "prompt": content})
            steps.watch(backend)
            await story.until_answered(PROMPT)
            await late(steps)
            await some_steps()
            steps.stop()
            story.send_eof()
    assert tasks(backend) == before
    return steps.count


def by_session_cancel(story: Story) -> None:
    story.tell(method="session/cancel", params={"sessionId": story.session})


def by_request(story: Story) -> None:
    story.tell(method="$/cancel_request", params={"requestId": PROMPT})


def by_eof(story: Story) -> None:
    story.send_eof()


def by_close(story: Story) -> None:
    story.connection.close()


def by_scope(story: Story) -> None:
    story.around.cancel()


Way = Callable[[Story], None]


@pytest.mark.behaviour("A1", "B1", "B2", "E11")
@pytest.mark.parametrize("way", [by_session_cancel, by_request, by_eof, by_close, by_scope])
@pytest.mark.parametrize("handler", [plain, last_words, fails, catches_all])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_generator_that_is_cancelled_at_any_step_cleans_up_once_and_is_answered_once(
    backend: str, handler: Callable[[Story, Turn], Answer], way: Way
) -> None:
    def live(cut: int) -> tuple[Story, int]:
        story = Story(handler)

        def before(step: int) -> None:
            if step == cut:
                way(story)

        return story, stepper.run(backend, lambda steps: tell(steps, backend, story), before)

    whole, steps = live(0)
    assert whole.answers(PROMPT) == [{"stopReason": "end_turn"}]
    assert whole.did == (["begin", "clean"] if handler is catches_all else ["begin", "end", "clean"])
    seen: set[str] = set()
    apologies = 0
    for cut in range(1, steps + 1):
        story, _ = live(cut)
        try:
            (answer,) = story.answers(PROMPT)
            seen.add(json.dumps(answer))
            assert whole.text.startswith(story.text.removesuffix("sorry"))
            if story.did:
                assert (story.did[0], story.did[-1]) == ("begin", "clean")
                assert story.did.count("clean") == 1
            assert story.text.endswith("sorry") == ("caught" in story.did)
            apologies += "caught" in story.did
            assert story.connection.tree.size == 0
            assert story.connection.leaked == 0
            assert [record.getMessage() for record in story.logged if record.levelno >= logging.ERROR] == []
        except (AssertionError, ValueError) as error:
            error.add_note(f"cut before {cut} of {steps}: {story.did} {str(story.sent)[:1500]}")
            raise
    # The steps were not all alike.
    assert '{"stopReason": "end_turn"}' in seen
    if way in (by_session_cancel, by_request):
        assert '{"stopReason": "cancelled"}' in seen
        assert apologies or handler is not last_words
    elif way is not by_eof:
        assert any("-32800" in answer for answer in seen)
